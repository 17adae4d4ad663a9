package ui_test

import (
	"encoding/json"
	"html"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// TestCompareClusters: the differences of what two clusters are served come first, and secrets are masked.
func TestCompareClusters(t *testing.T) {
	t.Parallel()
	env := setup(t, 12)
	env.signIn(readToken)
	page := env.get("/ui/compare?left=cluster-0001&right=cluster-0003").body
	require.Contains(t, page, "Components › grafana › component_version")
	require.Contains(t, page, "Components › grafana › values › replicas")
	require.NotContains(t, page, "› patches ›", "the same values in another form")
	require.Regexp(t, `Namespaces › team-red</th><td class="was" data-label="[^"]*"><span class="faint">not set</span></td><td class="is" data-label="[^"]*"><ins>assigned</ins>`, page, "from a layer")
	require.NotContains(t, page, "hunter2")
	require.Contains(t, page, "<del>&#34;eu-1&#34;</del>")
	require.NotContains(t, page, "cluster_dns")
	require.Less(t, strings.Index(page, "Components › grafana"), strings.Index(page, "All values"))
	require.Contains(t, env.get("/ui/compare?left=cluster-0001&right=cluster-0003&reveal=true").body, "hunter2")
	require.Contains(t, env.get("/ui/compare?left=cluster-0001&right=cluster-0001").body, "No differences.")
	require.Contains(t, env.get("/ui/compare?left=cluster-0001&right=nobody").body, "there is no cluster &#34;nobody&#34;")
	require.Contains(t, env.get("/ui/clusters/cluster-0001").body, `href="/ui/compare?left=cluster-0001"`)
}

// TestCompareRevisions: what a cluster is served is compared with what it was served, whichever document changed.
func TestCompareRevisions(t *testing.T) {
	t.Parallel()
	env := setup(t, 12)
	env.signIn(readToken)
	env.edit(updatePodinfo)
	page := env.get("/ui/compare?left=cluster-0001&left_revision=2").body
	require.Contains(t, page, "cluster-0001 at revision 2")
	require.Contains(t, page, "<ins>&#34;9.0.0&#34;</ins>")
	require.Contains(t, page, "<ins>&#34;6.9.1&#34;</ins>", "the catalog changed")
	page = env.get("/ui/compare?left=cluster-0001&left_revision=2&right_revision=3").body
	require.Contains(t, page, "<ins>&#34;9.0.0&#34;</ins>")
	require.NotContains(t, page, "6.9.1")
	require.Contains(t, env.get("/ui/compare?left=cluster-0001&left_revision=1").body, "there was no cluster &#34;cluster-0001&#34; at revision 1")
	require.Contains(t, env.get("/ui/compare?left=cluster-0001&left_revision=x").body, "there is no revision &#34;x&#34;")
	require.Contains(t, env.get("/ui/compare?left=cluster-0001&left_revision=99").body, "there is no revision 99")
}

// TestCompareWithLayer: only values that override the layer's are shown.
func TestCompareWithLayer(t *testing.T) {
	t.Parallel()
	env := setup(t, 12)
	env.signIn(readToken)
	env.edit(func(tx *fleet.Tx) error {
		if _, err := tx.Patch(fleet.KindLayer, "gold", []byte(`{"overrides":{"grafana":{"component_version":"8.2.0"}},"patches":{"podinfo":{"replicas":"2"}}}`)); err != nil {
			return err
		}
		_, err := tx.Patch(fleet.KindCluster, "cluster-0000", []byte(`{"platform_components":[{"id":"podinfo"},{"id":"grafana","component_version":"9.0.0"}]}`))
		return err
	})
	page := env.get("/ui/compare?left=cluster-0000&layer=gold").body
	require.Contains(t, page, "Components › grafana › /component_version")
	require.Contains(t, page, "<del>&#34;8.2.0&#34;</del>")
	require.Contains(t, page, "<ins>&#34;9.0.0&#34;</ins>")
	require.NotContains(t, page, "podinfo › /values/replicas")
	require.Contains(t, env.get("/ui/compare?left=cluster-0003&layer=gold").body, "No differences.")
}

// TestYAMLIsWhatIsServed: the YAML to copy has the same values as the inputs that the cluster polls, with any text in it.
func TestYAMLIsWhatIsServed(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	env.signIn(readToken)
	env.edit(func(tx *fleet.Tx) error {
		_, err := tx.Patch(fleet.KindCluster, "cluster-0001", []byte(`{"patches":{"podinfo":{"yes":"a: b\n# \"c\"","no":true,"list":"[1,{\"a\":[]}]","a b":"<i>","n":1.50,"l[0].0":"x"}}}`))
		return err
	})
	page := env.get("/ui/compare?left=cluster-0001&right=cluster-0001&reveal=true").body
	_, text, _ := strings.Cut(page, `<pre class="yaml">`)
	text, _, _ = strings.Cut(text, "</pre>")
	text = html.UnescapeString(text)
	var got map[string]map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &got), text)
	require.Equal(t, map[string]any{"region": "eu-1", "tier": "silver"}, got["cluster"]["labels"])
	var polled struct{ Inputs []map[string]any }
	require.NoError(t, json.Unmarshal(env.call("GET", "/api/v2/flux/clusters/cluster-0001.k8s.example.com/platform-components", "").Body.Bytes(), &polled))
	want := map[string]any{}
	for _, in := range polled.Inputs {
		id, _ := in["id"].(string)
		for _, other := range []string{"id", "cluster", "receipt"} {
			require.Contains(t, in, other)
			delete(in, other)
		}
		want[id] = in
	}
	require.Equal(t, want, got["platform-components"])
}
