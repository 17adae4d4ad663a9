package redact

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
)

// secretName matches names of fields that may hold a secret.
var secretName = regexp.MustCompile(`(?i)passw|passphrase|passcode|secret|token|credential|private|bearer|jwt|cookie|dsn|connection_?string|webhook|` +
	`(^|[^a-z])(pass|pwd|creds?|pat|auth)([^a-z]|$)|key$|key([^a-z]|$)`)

// objectName matches fields that hold the name of a Secret, which is no secret.
var objectName = regexp.MustCompile(`(?i)(secret_?ref|existing_?secret|secret_?name)$|^(kind|name)$`)

// secretText matches a secret within a text: an argument, or a line of YAML.
var secretText = regexp.MustCompile(`(?i)((?:passw\w*|passphrase|secret\w*|token|credentials?|api[-_]?key)["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,;"']+)`)

// ValueMask replaces a value.
const ValueMask = "••••••"

// JSON replaces the values that may be secrets in a JSON text, by the names of fields and by the name of the value itself, and
// reports whether it replaced any. Other text it masks as Text does, or as a whole if its name is that of a secret. reveal: the text
// is returned as it is.
func JSON(name, value string, reveal bool) (text string, hidden bool) {
	if reveal || value == "" {
		return value, false
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(value)))
	decoder.UseNumber()
	var decoded any
	if decoder.Decode(&decoded) != nil || decoder.More() {
		if text = Text(value); IsSecret(name) {
			text = ValueMask
		}
		return text, text != value
	}
	out := Value(decoded, IsSecret(name), &hidden)
	if !hidden {
		return value, false
	}
	if out == ValueMask {
		return ValueMask, true
	}
	return Display(out), true
}

// Text replaces secrets that follow their names in a text.
func Text(text string) string { return secretText.ReplaceAllString(text, "${1}"+ValueMask) }

// MentionsSecret reports whether a text contains a name of secrets.
func MentionsSecret(text string) bool { return secretName.MatchString(text) }

// IsSecret reports whether the value of a field with this name may be a secret.
func IsSecret(name string) bool { return secretName.MatchString(name) && !objectName.MatchString(name) }

// Value returns a copy of a decoded JSON value in which the leaves that may be secrets are replaced; all others stay in their place.
// secret: the value belongs to a field that may hold a secret. It sets hidden when it replaces a leaf.
func Value(value any, secret bool, hidden *bool) any {
	switch value := value.(type) {
	case map[string]any:
		out := map[string]any{}
		called, _ := value["name"].(string) // of an environment variable: its value is beside it
		for _, name := range slices.Sorted(maps.Keys(value)) {
			out[name] = Value(value[name], secret && !objectName.MatchString(name) || IsSecret(name) || name == "value" && IsSecret(called), hidden)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, inner := range value {
			out[i] = Value(inner, secret, hidden)
		}
		return out
	case string:
		switch {
		case value == "":
		case secret:
			*hidden = true
			return ValueMask
		default:
			if text := Text(value); text != value {
				*hidden = true
				return text
			}
		}
	case json.Number:
		if secret {
			*hidden = true
			return ValueMask
		}
	}
	return value
}

// Display returns a decoded JSON value as text. It does not escape < and &, because the page does that.
func Display(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil { // impossible: it was decoded from JSON
		return ValueMask
	}
	return string(bytes.TrimSpace(out.Bytes()))
}
