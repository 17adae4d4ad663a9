package docs_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const maxWords = 40 // in a sentence; at more, readers start it again

// TestSentencesAreShort: no sentence of the pages is longer than maxWords. Code blocks are not prose; a cell of a table and an item of a
// list begin a sentence of their own.
func TestSentencesAreShort(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		for _, sentence := range sentences(read(t, page)) {
			if n := words(sentence); n > maxWords {
				t.Errorf("%s: a sentence of %d words; make two of it, or a list: %s", page, n, sentence)
			}
		}
	}
}

func TestSentences(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"A page.", "It has `a. B` and v1.2 of it, see a.md.", "`b` follows (in parentheses).", "Next",
		"an item that goes on", "another; with two parts: one.", "first", "a", "b, or c.", "D \"quoted.\"", "Last?",
	}, sentences("# Not a sentence\n\nA page. It has `a. B` and v1.2\nof it, see a.md. `b` follows (in parentheses). Next\n\n```sh\nno. Prose.\n```\n\n"+
		"- an item that\n  goes on\n- another; with two parts: one.\n1. first\n\n| a | b, or c. |\n|---|---|\n| | D \"quoted.\" Last? |\n\n    flux-resourceset-cli code\n"))
	require.Equal(t, 3, words("`a b` – [two](words.md)"))
}

var (
	comment       = regexp.MustCompile(`(?s)<!--.*?-->`)
	listItem      = regexp.MustCompile(`^(?:[-*]|[0-9]+\.) +`)
	cellBorder    = regexp.MustCompile(`\|`)
	linkTarget    = regexp.MustCompile(`\]\([^)\s]+\)`)
	codeSpan      = regexp.MustCompile("`[^`]*`")
	endOfSentence = regexp.MustCompile(`[.!?][)"”*]*\s+[^\sa-z]`)
	wordCharacter = regexp.MustCompile(`[\p{L}\p{N}]`)
)

func words(sentence string) (n int) {
	for word := range strings.FieldsSeq(linkTarget.ReplaceAllString(sentence, "]")) {
		if wordCharacter.MatchString(word) {
			n++
		}
	}
	return n
}

func sentences(page string) (found []string) {
	var paragraph []string
	finish := func() {
		found = append(found, split(strings.Join(paragraph, " "))...)
		paragraph = nil
	}
	for line := range strings.Lines(comment.ReplaceAllString(fence.ReplaceAllString(page, ""), "")) {
		text := strings.TrimSpace(line)
		switch {
		case text == "", strings.HasPrefix(text, "#"), strings.HasPrefix(line, "    ") && len(paragraph) == 0:
			finish()
		case strings.HasPrefix(text, "|"):
			finish()
			hidden := codeSpan.ReplaceAllStringFunc(text, func(code string) string { return strings.ReplaceAll(code, "|", "\x00") })
			for _, cell := range cellBorder.Split(strings.ReplaceAll(hidden, `\|`, "\x00"), -1) {
				found = append(found, split(strings.ReplaceAll(cell, "\x00", "|"))...)
			}
		default:
			if item := listItem.FindString(text); item != "" {
				finish()
				text = strings.TrimPrefix(text, item)
			}
			paragraph = append(paragraph, text)
		}
	}
	finish()
	return found
}

// split makes sentences of a paragraph. One ends before a word that begins with anything but a lower-case letter.
func split(paragraph string) (found []string) {
	hidden := codeSpan.ReplaceAllStringFunc(paragraph, func(code string) string {
		return strings.NewReplacer(".", "\x01", "?", "\x02", "!", "\x03").Replace(code)
	})
	add := func(sentence string) {
		sentence = strings.TrimSpace(strings.NewReplacer("\x01", ".", "\x02", "?", "\x03", "!").Replace(sentence))
		if strings.Trim(sentence, "-: ") != "" {
			found = append(found, sentence)
		}
	}
	start := 0
	for _, at := range endOfSentence.FindAllStringIndex(hidden, -1) {
		add(hidden[start : at[1]-1])
		start = at[1] - 1
	}
	add(hidden[start:])
	return found
}
