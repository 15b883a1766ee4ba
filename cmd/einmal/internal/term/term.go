// Package term writes for people: colours where they are wanted, tables, times with their age, and nothing that a stranger's bytes could do to a terminal.
package term

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Out is where a command writes for people.
type Out struct {
	io.Writer
	Colour   bool
	Terminal bool
	Width    int // columns; 0: as wide as it gets
}

// New looks at what f is. Colours are for terminals only, and never with NO_COLOR (no-color.org) or TERM=dumb. COLUMNS overrides the width.
func New(f *os.File) Out {
	width, terminal := size(f)
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns > 0 {
		width = columns
	}
	return Out{
		Writer: f, Terminal: terminal, Width: width,
		Colour: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
	}
}

// Printf writes; there is nobody to tell when a terminal cannot be written to.
func (o Out) Printf(format string, args ...any) { _, _ = fmt.Fprintf(o, format, args...) }

// Paragraph writes a text in as many lines as it needs, each behind the indent.
func (o Out) Paragraph(indent, text string) {
	width := 0
	if o.Width > 0 {
		width = max(20, o.Width-Width(indent))
	}
	for _, line := range Wrap(text, width) {
		o.Printf("%s%s\n", indent, line)
	}
}

// Bold, Dim, Green, Red and Yellow mark text where colours are on.
func (o Out) Bold(s string) string   { return o.sgr("1", s) }
func (o Out) Dim(s string) string    { return o.sgr("2", s) }
func (o Out) Green(s string) string  { return o.sgr("32", s) }
func (o Out) Red(s string) string    { return o.sgr("31", s) }
func (o Out) Yellow(s string) string { return o.sgr("33", s) }

func (o Out) sgr(code, s string) string {
	if !o.Colour || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Width is how many columns a text takes that Safe has made harmless.
func Width(s string) int { return utf8.RuneCountInString(s) }

// Pad fills a text with spaces on the right.
func Pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-Width(s)))
}

// PadLeft fills a text with spaces on the left.
func PadLeft(s string, width int) string {
	return strings.Repeat(" ", max(0, width-Width(s))) + s
}

// Safe writes everything that does not simply print, line ends and escape sequences above all, as Go would in a string literal.
func Safe(s string) string {
	clean := true
	for _, r := range s {
		clean = clean && r != utf8.RuneError && strconv.IsPrint(r)
	}
	if clean {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// SafeLines is Safe for each line of a text that may have many.
func SafeLines(s string) []string {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	for i := range lines {
		lines[i] = Safe(strings.TrimSuffix(lines[i], "\r"))
	}
	return lines
}

// Wrap breaks a text at spaces so that no line is wider, except for words that are.
func Wrap(s string, width int) []string {
	if width <= 0 {
		return []string{s}
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		if line != "" && Width(line)+1+Width(word) > width {
			lines, line = append(lines, line), word
			continue
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
