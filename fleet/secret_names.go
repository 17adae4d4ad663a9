package fleet

import (
	"encoding/json"
	"slices"
	"strings"
)

// separators are removed from names before they are compared.
var separators = strings.NewReplacer("_", "", "-", "")

// secretLike reports whether a value is probably a secret: by the last name of its path, and by the names within the value. Booleans,
// numbers, null and the empty string are not secrets.
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

// secretWithin reports whether a list or an object has a string under the name of a secret.
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

// secretName reports whether a name is one that secrets have. Package redact masks more names, because a value masked by mistake does
// little harm, while one refused by mistake blocks a change.
func secretName(name string) bool {
	name = strings.ToLower(separators.Replace(name))
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
