package ui

import (
	"bytes"
	"encoding/json"
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

// yamlOf returns a document as YAML without its metadata. Values that may be secrets are masked, unless reveal is set.
func yamlOf(document json.RawMessage, reveal bool) (string, error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		return "", err
	}
	maps.DeleteFunc(fields, func(name string, _ any) bool { return metadataFields[name] })
	var value any = fields
	if !reveal {
		hidden := false
		value = redact.Value(value, false, &hidden)
	}
	var out strings.Builder
	writeYAML(&out, value, "")
	return strings.TrimPrefix(out.String(), "\n"), nil
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
