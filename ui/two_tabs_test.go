package ui_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// workForms are the forms with which people change versions, rollouts and clusters; those with values are in version_form_test.go.
var workForms = map[string]string{
	"version":              "/ui/components/podinfo/version?version=6.10.0",
	"version in a layer":   "/ui/components/podinfo/version?version=6.10.0&layer=dev-apps",
	"version on a cluster": "/ui/components/podinfo/version?version=6.10.0&cluster=cluster-0002",
	"rollout of a version": "/ui/components/podinfo/version?version=6.10.0&strategy=waves",
	"start of a stage":     "/ui/rollouts/grafana-8.2/start?stage=canary",
	"approval of a stage":  "/ui/rollouts/gated/approve?stage=one",
	"end of a rollout":     "/ui/rollouts/grafana-8.2/abort",
	"cluster":              "/ui/add/cluster?id=new-01&dns=new-01.k8s.example.com&environment=dev",
	"cluster with labels":  "/ui/add/cluster?id=new-01&dns=new-01.k8s.example.com&environment=dev&labels=tier%3Dgold",
}

// setupWorkForms returns a fleet in which each of them makes a change.
func setupWorkForms(t *testing.T) *testEnv {
	t.Helper()
	env := setupChangeForms(t, writeToken)
	env.edit(layerWithPodinfo)
	env.edit(func(tx *fleet.Tx) error {
		_, err := tx.Create(fleet.KindComponent, []byte(`{"id":"loki","component_path":"charts/loki","oci_url":"https://charts.example.com","component_version":"3.0.0"}`))
		return err
	})
	env.edit(patched(fleet.KindLayer, "gold", `{"platform_components":[{"id":"loki"}]}`))
	env.createRollout("grafana-8.2")
	env.call(http.MethodPost, "/rollouts", `{"id":"gated","operations":[{"op":"patch","kind":"platform_component","id":"loki","patch":{"component_version":"9"}}],"stages":[{"name":"one","selector":"environment=dev","approval":true}]}`)
	return env
}

// TestTwoTabs: of a form that is open in two tabs, the second submission changes nothing and says why.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	for name, path := range workForms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := setupWorkForms(t)
			first, second := env.planHash(path), env.planHash(path)
			done := env.send(env.client, http.MethodPost, path, changeForm{}.form(first))
			require.Equal(t, http.StatusSeeOther, done.status, done.body)
			env.unchanged(func() {
				late := env.send(env.client, http.MethodPost, path, changeForm{}.form(second))
				require.Contains(t, []int{http.StatusPreconditionFailed, http.StatusConflict}, late.status)
				require.Contains(t, late.body, `role="alert"`)
				require.Contains(t, late.body, "</html>")
			})
		})
	}
}

// TestRightsWithdrawn: rights that end between the plan and its submission permit nothing.
func TestRightsWithdrawn(t *testing.T) {
	t.Parallel()
	env := setupWorkForms(t)
	token := env.issueToken("ann", "scoped")
	env.call(http.MethodPost, "/access", `{"id":"reads","subjects":[{"token":"ann"}],"may":["read"]}`)
	env.call(http.MethodPost, "/access", `{"id":"writes","subjects":[{"token":"ann"}],"may":["write","approve"]}`)
	require.Equal(t, http.StatusSeeOther, env.signIn(token).status)
	hashes := map[string]string{}
	for name, path := range workForms {
		hashes[name] = env.planHash(path)
	}
	env.call(http.MethodDelete, "/access/writes", "")
	env.unchanged(func() {
		for name, path := range workForms {
			require.Equal(t, http.StatusForbidden, env.send(env.client, http.MethodPost, path, changeForm{}.form(hashes[name])).status, name)
			require.NotContains(t, env.get(path).body, `name="plan_hash"`, name)
		}
	})
}
