package summarize

import (
	"regexp"
	"strings"
	"unicode"
)

// helmPrefix repeats the reason and names the release, before the cause.
var helmPrefix = regexp.MustCompile(`^Helm (?:install|upgrade|rollback|uninstall|test) failed(?: for release \S+(?: with chart \S+)?)?: `)

// helmLogs begins the logs that are appended after the cause, and often are longer than everything else.
const helmLogs = "Last Helm logs:"

// OneLine returns the message of a failure as one line of at most limit characters, beginning with its cause. Controllers wrap errors, so
// the end of a message is the most specific part: a message that is still too long loses its middle.
func OneLine(message string, limit int) string {
	message = strings.Join(strings.Fields(withoutLogs(message)), " ")
	return shorten(helmPrefix.ReplaceAllString(message, ""), limit)
}

// Message returns the message of a failure without the logs that follow it, shortened in its middle to limit characters.
func Message(message string, limit int) string { return shorten(withoutLogs(message), limit) }

func withoutLogs(message string) string {
	if text, _, found := strings.Cut(message, helmLogs); found {
		return strings.TrimRightFunc(text, unicode.IsSpace)
	}
	return message
}

// shorten removes the middle of a text that has more than limit characters, and keeps two thirds of the rest at its end.
func shorten(text string, limit int) string {
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	head := (limit - 1) / 3
	return string(runes[:head]) + "…" + string(runes[len(runes)-(limit-1-head):])
}
