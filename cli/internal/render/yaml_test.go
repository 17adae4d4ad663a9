package render

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	goyaml "go.yaml.in/yaml/v3"
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
