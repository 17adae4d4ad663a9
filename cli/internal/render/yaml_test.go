package render

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	goyaml "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// TestYAMLLineEnds: text that ends with a line end of YAML 1.1 only does not hide the key after it from readers of YAML 1.2.
func TestYAMLLineEnds(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"\u0085", "\u2028", "\u2029"} {
		object, err := json.Marshal(map[string]any{"a": "\n" + end, "b": "c"})
		require.NoError(t, err)
		for name, encode := range map[string]func() ([]byte, error){
			"YAML":     func() ([]byte, error) { return YAML(object) },
			"Editable": func() ([]byte, error) { return Editable(object, nil) },
		} {
			text, err := encode()
			require.NoError(t, err)
			require.False(t, strings.ContainsAny(string(text), lineEnds), "%s: %q", name, text)
			var got map[string]string
			require.NoError(t, goyaml.Unmarshal(text, &got))
			require.Equal(t, map[string]string{"a": "\n" + end, "b": "c"}, got, name)
		}
	}
}

// TestYAMLMergeKey: the key << is a key as any other.
func TestYAMLMergeKey(t *testing.T) {
	t.Parallel()
	object, err := json.Marshal(map[string]any{"a": []any{map[string]any{"<<": map[string]any{"b": "c"}}}, "text": "x\n<<: y\n"})
	require.NoError(t, err)
	for name, encode := range map[string]func() ([]byte, error){
		"YAML":     func() ([]byte, error) { return YAML(object) },
		"Editable": func() ([]byte, error) { return Editable(object, nil) },
	} {
		text, err := encode()
		require.NoError(t, err)
		for library, unmarshal := range map[string]func([]byte, any) error{
			"v3": goyaml.Unmarshal, "sigs": func(text []byte, v any) error { return yaml.Unmarshal(text, v) },
		} {
			var got map[string]any
			require.NoError(t, unmarshal(text, &got))
			converted, err := json.Marshal(got)
			require.NoError(t, err)
			require.JSONEq(t, string(object), string(converted), "%s %s\n%s", name, library, text)
		}
	}
}
