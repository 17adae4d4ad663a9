package ui_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLayerShowsItsSettings: what a layer sets, value by value, with masked secrets, and not only the names of the components.
func TestLayerShowsItsSettings(t *testing.T) {
	t.Parallel()
	env := setup(t, 8)
	env.signIn(readToken)
	page := env.get("/ui/layers/gold").body
	require.Contains(t, page, `<h2>Settings</h2>`)
	require.Contains(t, page, `<p class="none">None</p>`, "entries without settings are in the facts")
	env.call("PATCH", "/layers/gold", `{"platform_components":[{"id":"grafana","component_version":"8.3.0"}],"overrides":{"podinfo":{"oci_tag":"v7"}},
		"patches":{"podinfo":{"ui.color":"#123456","admin.password":"hunter2"}},"variables":{"domain":"${cluster.labels.tier}.example.com"}}`)
	page = env.get("/ui/layers/gold").body
	for field, value := range map[string]string{
		"platform_components › grafana › component_version": "8.3.0", "overrides › podinfo › oci_tag": "v7", "patches › podinfo › ui.color": "#123456",
		"variables › domain": "${cluster.labels.tier}.example.com",
	} {
		require.Contains(t, page, `<th scope="row">`+field+`</th><td><code>&#34;`+value+`&#34;</code></td>`)
	}
	require.NotContains(t, page, "hunter2")
	require.Contains(t, page, "Values that may be secrets are masked")
	require.NotContains(t, page, `<th scope="row">selector</th>`)
}

// TestClusterShowsItsVariables: its own and those of its layers, with masked secrets.
func TestClusterShowsItsVariables(t *testing.T) {
	t.Parallel()
	env := setup(t, 8)
	env.signIn(readToken)
	var gold []struct{ ID string }
	require.NoError(t, json.Unmarshal(env.call("GET", "/clusters?selector=tier%3Dgold", "").Body.Bytes(), &gold))
	at := "/ui/clusters/" + gold[0].ID
	require.NotContains(t, env.get(at).body, "<dt>Variables</dt>")
	env.call("PATCH", "/layers/gold", `{"variables":{"domain":"example.com","password":"hunter2"}}`)
	env.call("PATCH", "/clusters/"+gold[0].ID, `{"variables":{"replicas":3}}`)
	page := env.get(at).body
	require.Contains(t, page, `<span class="chip">domain=example.com</span>`)
	require.Contains(t, page, `<span class="chip">replicas=3</span>`)
	require.NotContains(t, page, "hunter2")
}

// TestComponentShowsItsRollouts: the open ones that change it, and no others.
func TestComponentShowsItsRollouts(t *testing.T) {
	t.Parallel()
	env := setup(t, 8)
	env.signIn(readToken)
	require.NotContains(t, env.get("/ui/components/grafana").body, "/ui/rollouts/grafana-8.2")
	env.call("POST", "/rollouts", `{"id":"grafana-8.2","operations":[{"op":"patch","kind":"platform_component","id":"grafana","patch":{"component_version":"8.2.0"}}],"stages":[{"name":"dev","selector":"environment=dev"}]}`)
	require.Contains(t, env.get("/ui/components/grafana").body, `href="/ui/rollouts/grafana-8.2"`)
	require.NotContains(t, env.get("/ui/components/podinfo").body, "/ui/rollouts/grafana-8.2")
}

// TestLayersCountClusters: the list of layers has the number of clusters and of variables of each, and a layer leads to the form that changes
// its components, which visitors without the right do not see.
func TestLayersCountClusters(t *testing.T) {
	t.Parallel()
	env := setup(t, 8)
	env.enableChanges()
	env.signIn(writeToken)
	env.call("PATCH", "/layers/gold", `{"variables":{"a":"b"},"platform_components":[{"id":"grafana","component_version":"8.3.0"}],"overrides":{"podinfo":{"component_version":"7.0.0"}}}`)
	env.call("POST", "/layers", `{"id":"nobody","priority":1,"selector":"tier=none"}`)
	list := env.get("/ui/layers").body
	require.Regexp(t, `gold</a></th><td class="right" data-label="Priority">10</td><td class="selector" data-label="Selector"><code>tier=gold</code></td><td class="right" data-label="Clusters">3</td><td class="right" data-label="Components">1</td><td class="right" data-label="Overrides">1</td><td class="right" data-label="Variables">1</td>`, list)
	require.Regexp(t, `nobody</a></th><td class="right" data-label="[A-Z][a-z]*">1</td><td class="selector" data-label="Selector"><code>tier=none</code></td><td class="right" data-label="[A-Z][a-z]*">0</td>`, list)
	page := env.get("/ui/layers/gold").body
	require.Contains(t, page, `<h2>Clusters <span class="faint">3</span>`)
	require.Regexp(t, `grafana</a></th><td class="fill">8.3.0 <a class="more" href="/ui/components/grafana/version\?layer=gold"`, page)
	require.Regexp(t, `podinfo</a></th><td class="fill">7.0.0 <a class="more" href="/ui/components/podinfo/version\?layer=gold"`, page)
	require.Contains(t, env.get("/ui/components/podinfo/version?layer=gold").body, `<option value="layer/gold" selected>`, "an override, too")
	require.Contains(t, env.get("/ui/clusters/cluster-0002").body, `href="/ui/components/podinfo/version?cluster=cluster-0002"`)
	env.signIn(readToken)
	require.NotContains(t, env.get("/ui/layers/gold").body, "/version?layer")
	require.NotContains(t, env.get("/ui/clusters/cluster-0002").body, "/version?cluster")
	require.Regexp(t, `(?s)>dev \d+<.*>qa \d+<.*>uat \d+<.*>prod \d+<`, env.get("/ui/components/podinfo").body, "in promotion order")
}
