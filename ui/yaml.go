package ui

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/internal/redact"
)

// plainKey matches keys that need no quotes in YAML, except reservedKey.
var (
	plainKey    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./-]*$`)
	reservedKey = regexp.MustCompile(`(?i)^(y|n|yes|no|on|off|true|false|null)$`)
)

// maskSecrets returns a value with its secrets masked, unless reveal is set.
func maskSecrets(value any, reveal bool) any {
	if reveal {
		return value
	}
	hidden := false
	return redact.Value(value, false, &hidden)
}

// yamlText returns a value as YAML.
func yamlText(value any) string {
	var out strings.Builder
	writeYAML(&out, value, "")
	return strings.TrimPrefix(out.String(), "\n")
}

// writeYAML writes a value behind a key or a dash. Scalars are JSON, which is YAML.
func writeYAML(out *strings.Builder, value any, indent string) {
	switch value := value.(type) {
	case map[string]any:
		if len(value) == 0 {
			out.WriteString(" {}\n")
			return
		}
		out.WriteByte('\n')
		for _, key := range slices.Sorted(maps.Keys(value)) {
			name := key
			if !plainKey.MatchString(key) || reservedKey.MatchString(key) {
				name = redact.Display(key)
			}
			out.WriteString(indent + name + ":")
			writeYAML(out, value[key], indent+"  ")
		}
	case []any:
		if len(value) == 0 {
			out.WriteString(" []\n")
			return
		}
		out.WriteByte('\n')
		for _, entry := range value {
			out.WriteString(indent + "-")
			writeYAML(out, entry, indent+"  ")
		}
	default:
		out.WriteString(" " + redact.Display(value) + "\n")
	}
}
