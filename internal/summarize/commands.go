package summarize

import (
	"regexp"
	"strings"
)

var plainWord = regexp.MustCompile(`^[-+.,:=@%/_A-Za-z0-9]+$`)

// ShellWord returns a text as one word of a POSIX shell, for a command to copy.
func ShellWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
