package ui

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
)

// secretName is how values are called that may be secrets.
var secretName = regexp.MustCompile(`(?i)passw|passphrase|passcode|secret|token|credential|private|bearer|jwt|cookie|dsn|connection_?string|webhook|` +
	`(^|[^a-z])(pass|pwd|creds?|pat|auth)([^a-z]|$)|key$|key([^a-z]|$)`)

// objectName is how fields are called that name a Secret, which is none.
var objectName = regexp.MustCompile(`(?i)(secret_?ref|existing_?secret|secret_?name)$|^(kind|name)$`)

// secretText is a secret within a text: an argument, or a line of YAML.
var secretText = regexp.MustCompile(`(?i)((?:passw\w*|passphrase|secret\w*|token|credentials?|api[-_]?key)["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,;"']+)`)

const masked = "••••••"

// maskJSON hides whatever may be a secret in a JSON value, by the names of fields and by the name of the value itself, and tells
// whether it hid anything. Text that is no JSON is masked as text.
func maskJSON(name, value string, reveal bool) (text string, hidden bool) {
	if reveal || value == "" {
		return value, false
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(value)))
	decoder.UseNumber()
	var decoded any
	if decoder.Decode(&decoded) != nil {
		text = maskText(value)
		return text, text != value
	}
	out := hide(decoded, named(name), &hidden)
	if !hidden {
		return value, false
	}
	if out == masked {
		return masked, true
	}
	return marshal(out), true
}

func maskText(text string) string { return secretText.ReplaceAllString(text, "${1}"+masked) }

func named(name string) bool { return secretName.MatchString(name) && !objectName.MatchString(name) }

// hide is a value without its secrets. The shape stays: every leaf is where it was.
func hide(value any, secret bool, hidden *bool) any {
	switch value := value.(type) {
	case map[string]any:
		out := map[string]any{}
		called, _ := value["name"].(string) // as of an environment variable: the value is beside its name
		for _, name := range slices.Sorted(maps.Keys(value)) {
			out[name] = hide(value[name], secret && !objectName.MatchString(name) || named(name) || name == "value" && named(called), hidden)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, inner := range value {
			out[i] = hide(inner, secret, hidden)
		}
		return out
	case string:
		switch {
		case value == "":
		case secret:
			*hidden = true
			return masked
		default:
			if text := maskText(value); text != value {
				*hidden = true
				return text
			}
		}
	case json.Number:
		if secret {
			*hidden = true
			return masked
		}
	}
	return value
}

// marshal is JSON for people: < and & are not escaped, since the page does that.
func marshal(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil { // of what was JSON
		return masked
	}
	return string(bytes.TrimSpace(out.Bytes()))
}
