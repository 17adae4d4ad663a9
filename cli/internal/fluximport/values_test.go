package fluximport

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluxdump"
	"github.com/flux-resourceset/flux-resourceset/offline"
)

// TestValues: the rendered release has exactly the values of the dump, whatever they are and however clusters differ, or it is disabled.
// The comparison is independent of that of the check.
func TestValues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()
		want := map[string]any{}
		for i, host := range []string{"berlin", "paris", "rome"}[:rapid.IntRange(1, 3).Draw(rt, "clusters")] {
			values, err := json.Marshal(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c.d"}), values(2), 0, 3).Draw(rt, host))
			require.NoError(rt, err)
			var decoded any
			require.NoError(rt, json.Unmarshal(values, &decoded))
			want[host] = decoded
			text := fmt.Sprintf(`{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"HelmRepository","metadata":{"name":"charts","namespace":"flux-system","uid":"a"},"spec":{"url":"https://charts.example.com"}},
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"a","uid":"b"},"data":{"DOMAIN":"%s.example.com","N":"%d"}},
{"apiVersion":"helm.toolkit.fluxcd.io/v2","kind":"HelmRelease","metadata":{"name":"x","namespace":"apps","uid":"c"},"spec":{"interval":"10m","chart":{"spec":{"chart":"app","version":"1.0.0","sourceRef":{"kind":"HelmRepository","name":"charts","namespace":"flux-system"}}},"values":%s}}]}
`, host, i+1, values)
			require.NoError(rt, os.WriteFile(filepath.Join(dir, host+".json"), []byte(text), 0o600))
		}
		clusters, err := fluxdump.Read([]string{dir})
		require.NoError(rt, err)
		result, err := Import(clusters, newFleet, Options{Environment: "prod", DNSSuffix: "example.com", Settings: []string{"settings"}})
		require.NoError(rt, err)
		fleet := new(offline.Fleet)
		differences, _, err := result.Check(fleet, result.Documents)
		require.NoError(rt, err)
		require.Empty(rt, differences)
		for host, values := range want {
			objects, err := fleet.Render(host)
			require.NoError(rt, err)
			enabled := false
			for _, raw := range objects {
				var object struct {
					Kind string
					Spec struct{ Values map[string]any }
				}
				require.NoError(rt, json.Unmarshal(raw, &object))
				if object.Kind == "HelmRelease" {
					enabled = true
					got := object.Spec.Values
					if got == nil {
						got = map[string]any{}
					}
					require.Equal(rt, values, any(got))
				}
			}
			require.True(rt, enabled || result.Report.Totals()[left] > 0)
		}
	})
}

// values returns values of Helm that are difficult to keep: texts that look like numbers or references, names that a path has to escape.
func values(depth int) *rapid.Generator[any] {
	texts := rapid.OneOf(
		rapid.SampledFrom([]string{"", "true", "null", "12", "1e6", "0x1F", "${vars.X}", "$${vars.X}", "$$${cluster.id}", "${FOO}", `"q"`, "'q'", "{x}", "a\nb", "berlin.example.com", "x.paris.example.com", "3", "\u0085", "~", "yes", "{{ .x }}", "<< x >>"}),
		rapid.StringMatching(`[${}vars."'\\a-c0-9 \[\],:=-]{0,8}`))
	leaf := rapid.OneOf(rapid.Map(texts, func(s string) any { return s }),
		rapid.SampledFrom([]any{nil, true, false, 0.0, 1.0, 3.0, -5.0, 1.5, 1e6, 1e21, []any{}, map[string]any{}}))
	if depth == 0 {
		return leaf
	}
	names := rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "a.b", "x/y", "k[0]", "0", "", "a=b", `b\`, "~1", "${vars.X}", "a b"}), rapid.StringMatching(`[a-c.\[\]\\=,0-2]{0,4}`))
	return rapid.OneOf(leaf,
		rapid.Map(rapid.MapOfN(names, values(depth-1), 0, 4), func(m map[string]any) any { return m }),
		rapid.Map(rapid.SliceOfN(values(depth-1), 0, 3), func(l []any) any { return l }))
}
