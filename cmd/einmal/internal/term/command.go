package term

import (
	"strings"
)

// Quote writes a word so that a shell takes it as it is. A word that no shell would change stays bare.
func Quote(word string) string {
	bare := word != "" && !strings.HasPrefix(word, "~") && strings.IndexFunc(word, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !strings.ContainsRune("-_./:=@%+,~…", r)
	}) < 0
	if bare {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// CommandLine writes a command as one would type it, in lines that are no wider than they must be. The program is written as it is.
// Options stay on a line with their values. Width 0 is one line.
func CommandLine(width int, program string, words ...string) string {
	line, lines := program, []string(nil)
	for i := 0; i < len(words); i++ {
		next := Quote(words[i])
		if strings.HasPrefix(words[i], "--") && i+1 < len(words) && !strings.HasPrefix(words[i+1], "--") {
			i++
			next += " " + Quote(words[i])
		}
		if width > 0 && Width(line)+1+Width(next)+len(` \`) > width {
			lines, line = append(lines, line+` \`), "   "
		}
		line += " " + next
	}
	return strings.Join(append(lines, line), "\n")
}
