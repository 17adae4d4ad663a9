package ui_test

import (
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
	require.Contains(t, page, `<p class="empty">None</p>`, "entries without settings are in the facts")
	env.call("PATCH", "/layers/gold", `{"platform_components":[{"id":"grafana","component_version":"8.3.0"}],"overrides":{"podinfo":{"oci_tag":"v7"}},
		"patches":{"podinfo":{"ui.color":"#123456","admin.password":"hunter2"}}}`)
	page = env.get("/ui/layers/gold").body
	for field, value := range map[string]string{
		"platform_components › grafana › component_version": "8.3.0", "overrides › podinfo › oci_tag": "v7", "patches › podinfo › ui.color": "#123456",
	} {
		require.Contains(t, page, `<th scope="row">`+field+`</th><td><code>&#34;`+value+`&#34;</code></td>`)
	}
	require.NotContains(t, page, "hunter2")
	require.Contains(t, page, "Values that may be secrets are masked")
	require.NotContains(t, page, `<th scope="row">selector</th>`)
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
