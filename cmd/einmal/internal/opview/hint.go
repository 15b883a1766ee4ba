package opview

import (
	"github.com/einmal-dev/einmal/cmd/einmal/internal/term"
)

// Hint is how a person calls this program again.
type Hint struct {
	Program string
	Store   []string // the words that name the store, where the environment does not
}

// Line is a command to type next.
func (h Hint) Line(words ...string) string {
	return term.CommandLine(0, h.Program, append(words, h.Store...)...)
}

const hintWidth = 80

// write shows a command to type next, in lines that a narrow terminal does not break.
func (h Hint) write(o term.Out, words ...string) {
	width := hintWidth
	if o.Width > 0 {
		width = min(width, o.Width)
	}
	o.Printf("  %s\n", term.CommandLine(width-len("  "), h.Program, append(words, h.Store...)...))
}
