package fleet

import (
	"encoding/json"
	"slices"
	"strings"
)

var joiners = strings.NewReplacer("_", "", "-", "")

// secretLike reports whether a value is probably a secret. It guesses from the last name of a value path, and from the names within the value. Booleans, numbers, null and an empty
// text are no secrets.
func secretLike(path string, raw json.RawMessage) bool {
	value := string(raw)
	structured := strings.HasPrefix(value, "{") || strings.HasPrefix(value, "[")
	if !structured && !strings.HasPrefix(value, `"`) || slices.Contains([]string{`""`, `"true"`, `"false"`, "{}", "[]"}, value) {
		return false
	}
	if secretName(path[strings.LastIndexByte(path, '.')+1:]) {
		return true
	}
	var content any
	return structured && json.Unmarshal(raw, &content) == nil && secretWithin(content)
}

// secretWithin reports whether a structure has a text under the name of a secret.
func secretWithin(content any) bool {
	switch content := content.(type) {
	case []any:
		return slices.ContainsFunc(content, secretWithin)
	case map[string]any:
		for name, value := range content {
			text, _ := value.(string)
			if text != "" && text != "true" && text != "false" && secretName(name) || secretWithin(value) {
				return true
			}
		}
	}
	return false
}

// secretName reports whether a name of a value is one that secrets have. Package redact masks more names: a value that is masked for
// no reason harms nobody, but one that is refused does.
func secretName(name string) bool {
	name = strings.ToLower(joiners.Replace(name))
	if strings.HasPrefix(name, "existing") {
		return false
	}
	for _, word := range []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "privatekey", "secretkey", "accesskey", "credentials"} {
		if strings.HasSuffix(name, word) {
			return true
		}
	}
	return false
}
