package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestSecretValuesRefused: with the rule, no change brings a patch that looks like a secret, in whatever document and way. What was
// stored before is served, and refuses no change that leaves it as it is.
func TestSecretValuesRefused(t *testing.T) {
	t.Parallel()
	const secret = `"auth.password":"old"`
	w := newWorld(t,
		string(KindComponent), `{"id":"app","type":"helm","component_path":"p","oci_url":"https://charts.example.com","patches":{`+secret+`}}`,
		string(KindComponent), `{"id":"tree","component_path":"p","oci_url":"oci://r.example.com/x"}`,
		string(KindLayer), `{"id":"l","priority":1,"all":true,"patches":{"app":{`+secret+`}}}`,
		string(KindCluster), `{"id":"c","cluster_dns":"c.example.com","environment":"dev","platform_components":[{"id":"app"},{"id":"tree"}],"patches":{"app":{`+secret+`}}}`,
	)
	w.must(patch(KindCluster, "c", `{"patches":{"app":{"gone.token":"n3w"}}}`))
	w.must(patch(KindCluster, "c", `{"patches":{"app":{"gone.token":null}}}`))
	removal := int64(w.state.Revision())
	fresh := api.Operation{Op: "patch", Kind: "layer", ID: "l", Patch: []byte(`{"patches":{"app":{"db.token":"new"}}}`)}
	w.must(rollOut(w, "before", []RolloutStage{{Name: "all", All: true}}, fresh))
	w.state.rules.RefuseSecrets = true

	const value = `"db.password":"n3w"`
	for name, change := range map[string]func(*Tx) error{
		"catalog":         patch(KindComponent, "app", `{"patches":{`+value+`}}`),
		"new component":   create(KindComponent, `{"id":"more","type":"helm","component_path":"p","oci_url":"https://charts.example.com","patches":{`+value+`}}`),
		"layer":           patch(KindLayer, "l", `{"patches":{"app":{`+value+`}}}`),
		"new layer":       create(KindLayer, `{"id":"l2","priority":2,"all":true,"patches":{"app":{`+value+`}}}`),
		"cluster":         patch(KindCluster, "c", `{"patches":{"app":{`+value+`}}}`),
		"new cluster":     create(KindCluster, `{"id":"c2","cluster_dns":"c2.example.com","environment":"dev","platform_components":[{"id":"app"}],"patches":{"app":{`+value+`}}}`),
		"changed value":   patch(KindCluster, "c", `{"patches":{"app":{"auth.password":"n3w"}}}`),
		"another place":   patch(KindCluster, "c", `{"patches":{"tree":{"PASSWORD":"old"}}}`),
		"within a value":  patch(KindCluster, "c", `{"patches":{"app":{"db":{"password":"n3w"}}}}`),
		"variable":        patch(KindCluster, "c", `{"variables":{"db_password":"n3w"}}`),
		"layer variable":  patch(KindLayer, "l", `{"variables":{"db_password":"n3w"}}`),
		"batch":           batch(`{"op":"patch","kind":"layer","id":"l","patch":{"patches":{"app":{` + value + `}}}}`),
		"revert":          revert(w, api.Operation{Revision: removal}),
		"rollout variant": rollOut(w, "after", []RolloutStage{{Name: "all", All: true}}, api.Operation{Op: "patch", Kind: "layer", ID: "l", Patch: []byte(`{"patches":{"app":{` + value + `}}}`)}),
	} {
		t.Run(name, func(t *testing.T) {
			err := w.refused(CodeSecretValue, change)
			require.Len(t, err.Problems, 1)
			require.NotContains(t, err.Detail, "n3w")
			require.Contains(t, err.Detail, "Secret on the cluster")
		})
	}
	for _, change := range []func(*Tx) error{
		patch(KindComponent, "app", `{"component_version":"2.0"}`),
		patch(KindLayer, "l", `{"priority":3}`),
		patch(KindCluster, "c", `{"labels":{"a":"b"},"patches":{"app":{"db.existingSecret":"x",`+secret+`}}}`),
		act("before", "start"), act("before", "complete"),
		patch(KindCluster, "c", `{"patches":{"app":{"auth.password":null}}}`),
	} {
		w.must(change)
	}
	require.Equal(t, "new", component(t, w.state, "c.example.com", "app")["patches"].(map[string]any)["db.token"])
}
