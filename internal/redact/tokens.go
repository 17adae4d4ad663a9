package redact

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Mask replaces a secret in text.
const Mask = "***"

// minToken is the length of the shortest static token that is looked for in text: shorter ones occur in words.
const minToken = 8

// credential matches the secret of a managed token, also a truncated one, the token of a session, and a JSON web token.
var credential = regexp.MustCompile(`(frs_)[0-9A-Za-z]{8,}|(frss_)[0-9A-Za-z_-]{8,}|(eyJ)[0-9A-Za-z_-]{10,}\.eyJ[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]*`)

// formats are the secrets that can be recognized by their format.
var formats = []struct {
	name    string
	pattern *regexp.Regexp
}{
	{"a token of this service", regexp.MustCompile(`frs_[0-9A-Za-z]{49}`)},
	{"the token of a session", regexp.MustCompile(`frss_[0-9A-Za-z_-]{40,}`)},
	{"a private key", regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY(?s:.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$))?`)},
	{"a JSON web token", regexp.MustCompile(`eyJ[0-9A-Za-z_-]{10,}\.eyJ[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]*`)},
	{"a key of AWS", regexp.MustCompile(`\b(AKIA|ASIA)[0-9A-Z]{16}\b`)},
	{"a token of GitHub", regexp.MustCompile(`\b(gh[pousr]_[0-9A-Za-z]{36}|github_pat_[0-9A-Za-z_]{50,})`)},
	{"a token of GitLab", regexp.MustCompile(`\bglpat-[0-9A-Za-z_-]{20}`)},
}

// Credentials replaces what the service accepts of every client, by "frs_***" (managed tokens), "frss_***" (sessions) and "eyJ***" (ID
// tokens).
func Credentials(text string) string {
	if !strings.Contains(text, "frs_") && !strings.Contains(text, "frss_") && !strings.Contains(text, "eyJ") {
		return text
	}
	return credential.ReplaceAllString(text, "${1}${2}${3}"+Mask)
}

// Masker replaces secrets in text. The zero value knows no static tokens.
type Masker struct {
	static []string // the longest first: one may contain another
}

// NewMasker returns a Masker that also knows static tokens. Tokens below minToken bytes are ignored.
func NewMasker(static ...string) *Masker {
	m := &Masker{}
	for _, token := range static {
		if len(token) < minToken {
			continue
		}
		m.static = append(m.static, token)
		if quoted := strings.Trim(strconv.Quote(token), `"`); quoted != token { // the form in error messages
			m.static = append(m.static, quoted)
		}
	}
	slices.SortStableFunc(m.static, func(a, b string) int { return len(b) - len(a) })
	return m
}

// Tokens replaces what the service accepts: see [Credentials], and static tokens.
func (m *Masker) Tokens(text string) string {
	text = Credentials(text)
	for _, token := range m.static {
		text = strings.ReplaceAll(text, token, Mask)
	}
	return text
}

// All replaces all secrets that can be recognized: the tokens of this service, and values in a known format.
func (m *Masker) All(text string) string {
	text = m.Tokens(text)
	for _, format := range formats {
		text = format.pattern.ReplaceAllString(text, Mask)
	}
	return text
}

// Find describes the first secret in a text, such as "a private key"; empty when it finds none.
func (m *Masker) Find(text string) string {
	if text == "" {
		return ""
	}
	for _, token := range m.static {
		if strings.Contains(text, token) {
			return "a token of this server's configuration"
		}
	}
	for _, format := range formats {
		if format.pattern.MatchString(text) {
			return format.name
		}
	}
	return ""
}

// Path returns the escaped path of a URL without tokens. If it has one, the path is escaped again, because its own escaping may
// hide the token.
func (m *Masker) Path(u *url.URL) string {
	if masked := m.Tokens(u.Path); masked != u.Path {
		return strings.ReplaceAll((&url.URL{Path: masked}).EscapedPath(), "%2A", "*") // "*" needs no escape in a path
	}
	return m.Tokens(u.EscapedPath())
}
