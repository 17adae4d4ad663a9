package helmvalues

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// A patch with the string "null" is typed as by `helm --set`: Helm receives null and removes the default of the chart. It is stored as a
// string because null in a merge patch removes the patch itself.

// NormalizeNulls converts the nulls in the patches of a document to their stored form.
func NormalizeNulls(patches map[string]any) {
	for path, value := range patches {
		if value == nil {
			patches[path] = "null"
		}
	}
}

// MayHaveNull reports whether the values of patches can contain null, without expanding them.
func MayHaveNull(patches map[string]json.RawMessage) bool {
	for _, raw := range patches {
		if len(raw) >= len(`null`) && strings.Contains(strings.ToLower(string(raw)), "null") {
			return true
		}
	}
	return false
}

// WithNulls returns expanded values as JSON text if a field of an object in them is null, else the empty string. Flux Operator stores
// inputs with a JSON merge patch, which removes such fields; null in a list stays.
func WithNulls(values map[string]any) (string, error) {
	text, err := jsontext.Canonical(values)
	if err != nil {
		return "", err
	}
	parsed, problems := jsontext.Parse(text)
	if len(problems) > 0 || !hasNullField(parsed) {
		return "", nil
	}
	return string(text), nil
}

func hasNullField(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, value := range v {
			if value == nil || hasNullField(value) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasNullField)
	}
	return false
}
