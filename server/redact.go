package server

import (
	"regexp"
	"strings"
)

// redact takes secrets of tokens out of text that somebody sent and that is logged or sent back: people paste them where
// a name belongs, or into an address.
func redact(text string) string {
	if !strings.Contains(text, "frs_") {
		return text
	}
	return secretText.ReplaceAllString(text, "frs_***")
}

// secretText is the secret's form, also cut off.
var secretText = regexp.MustCompile(`frs_[0-9A-Za-z]{8,}`)
