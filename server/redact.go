package server

import (
	"net/url"
	"regexp"
	"strconv"
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

// withoutSecrets is redact, and masks this server's own tokens too.
func (s *Server) withoutSecrets(text string) string {
	text = redact(text)
	for _, token := range s.cfg.Tokens.long() {
		text = strings.ReplaceAll(text, token, "***")
		if quoted := strings.Trim(strconv.Quote(token), `"`); quoted != token { // as messages quote what was sent
			text = strings.ReplaceAll(text, quoted, "***")
		}
	}
	return text
}

// pathWithoutSecrets is a path as it was sent; escaped anew when there is a secret in it, which may have been escaped in any way.
func (s *Server) pathWithoutSecrets(u *url.URL) string {
	if masked := s.withoutSecrets(u.Path); masked != u.Path {
		return strings.ReplaceAll((&url.URL{Path: masked}).EscapedPath(), "%2A", "*") // which is no letter of a path's syntax
	}
	return s.withoutSecrets(u.EscapedPath())
}

// masked takes what is known to be a secret out of text that clusters send and people read: this server's tokens, and what is a
// secret by its looks. Helm's failures quote what they were given.
func (s *Server) masked(text string) string {
	for _, token := range s.cfg.Tokens.long() {
		text = strings.ReplaceAll(text, token, "***")
	}
	text = redact(text)
	for _, secret := range secretLooks {
		text = secret.look.ReplaceAllString(text, "***")
	}
	return text
}
