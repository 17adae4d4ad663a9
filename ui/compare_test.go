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

// TestCompareClusters: the differences of two clusters come first, and secrets are masked.
func TestCompareClusters(t *testing.T) {
	t.Parallel()
	env := setup(t, 12)
	env.signIn(readToken)
	page := env.get("/ui/compare?left=cluster-0001&right=cluster-0004").body
	require.Contains(t, page, "platform_components › grafana › component_version")
	require.Contains(t, page, "patches › grafana › replicas")
	require.NotContains(t, page, "hunter2")
	require.Contains(t, page, "<del>&#34;eu-1&#34;</del>")
	require.Less(t, strings.Index(page, "platform_components › grafana"), strings.Index(page, "All settings"))
	require.Contains(t, env.get("/ui/compare?left=cluster-0001&right=cluster-0004&reveal=true").body, "hunter2")
	require.Contains(t, env.get("/ui/compare?left=cluster-0001&right=cluster-0001").body, "No differences.")
	require.Contains(t, env.get("/ui/compare?left=cluster-0001&right=nobody").body, "There is no cluster nobody.")
	require.Contains(t, env.get("/ui/clusters/cluster-0001").body, `href="/ui/compare?left=cluster-0001"`)
}

// TestCompareRevisions: a cluster is compared with an earlier revision of its document.
func TestCompareRevisions(t *testing.T) {
	t.Parallel()
	env := setup(t, 12)
	env.signIn(readToken)
	page := env.get("/ui/compare?left=cluster-0001&left_revision=2").body
	require.Contains(t, page, "cluster-0001 at revision 2")
	require.Contains(t, page, "<ins>&#34;9.0.0&#34;</ins>")
	require.Contains(t, env.get("/ui/compare?left=cluster-0001&left_revision=1").body, "There is no cluster cluster-0001 at revision 1.")
	require.Equal(t, 200, env.get("/ui/compare?left=cluster-0001&left_revision=x").status)
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

// TestYAMLIsTheDocument: the YAML to copy has the same values as the document, with any text in it.
func TestYAMLIsTheDocument(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	env.signIn(readToken)
	env.edit(func(tx *fleet.Tx) error {
		_, err := tx.Patch(fleet.KindCluster, "cluster-0001", []byte(`{"patches":{"podinfo":{"yes":"a: b\n# \"c\"","no":true,"list":"[1,{\"a\":[]}]","a b":"<i>","n":1.50}}}`))
		return err
	})
	page := env.get("/ui/compare?left=cluster-0001&right=cluster-0001&reveal=true").body
	_, text, _ := strings.Cut(page, `<pre class="yaml">`)
	text, _, _ = strings.Cut(text, "</pre>")
	text = html.UnescapeString(text)
	var got, want map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &got), text)
	require.NoError(t, json.Unmarshal(env.call("GET", "/clusters/cluster-0001?view=effective", "").Body.Bytes(), &want))
	for _, metadata := range []string{"revision", "created_at", "updated_at"} {
		delete(want, metadata)
	}
	require.Equal(t, want, got)
}
