package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReleasesStayApart: no change of the catalog, on any way, makes two components of a cluster one Helm release, which each of them
// would then uninstall and upgrade in place of the other.
func TestReleasesStayApart(t *testing.T) {
	t.Parallel()
	component := func(id, more string) string {
		return `{"id":"` + id + `","component_path":"app","oci_url":"oci://charts.example.com/app"` + more + `}`
	}
	world := func(t *testing.T) *world {
		t.Helper()
		return newWorld(t,
			"platform_component", component("a", `,"type":"helm"`), "platform_component", component("b", `,"type":"helm"`),
			"platform_component", component("elsewhere", `,"release_name":"a","type":"helm"`),
			"platform_component", component("plain", `,"release_name":"a","type":"kustomize"`),
			"layer", `{"id":"l","priority":1,"selector":"id=k","platform_components":[{"id":"b","enabled":true}]}`,
			"cluster", `{"id":"k","cluster_dns":"k.example.com","environment":"dev","platform_components":[{"id":"a","enabled":true},{"id":"plain","enabled":true}]}`,
			"cluster", `{"id":"other","cluster_dns":"other.example.com","environment":"dev","platform_components":[{"id":"b","enabled":true}]}`)
	}
	for name, change := range map[string]func(*Tx) error{
		"its name":         patch(KindComponent, "b", `{"release_name":"a"}`),
		"its type":         patch(KindComponent, "plain", `{"type":"helm"}`),
		"the other's name": patch(KindComponent, "a", `{"release_name":"b"}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world(t)
			refused := w.refused(CodeInvalid, change)
			require.Contains(t, refused.Error(), "are the same Helm release")
			require.Contains(t, refused.Error(), `"k"`)
			w.must(patch(KindLayer, "l", `{"platform_components":[]}`))
			if name != "its type" {
				w.must(change) // no cluster has both now
			}
		})
	}
	t.Run("a stage of a rollout", func(t *testing.T) {
		t.Parallel()
		w := world(t)
		err := func() error {
			if _, err := w.try(rollOut(w, "r", []RolloutStage{{Name: "k", Selector: "id=k"}}, patchOp(KindComponent, "b", `{"release_name":"a"}`))); err != nil {
				return err
			}
			w.must(rollOut(w, "r", []RolloutStage{{Name: "k", Selector: "id=k"}}, patchOp(KindComponent, "b", `{"release_name":"a"}`)))
			_, err := w.try(act("r", "start"))
			return err
		}()
		require.ErrorContains(t, err, "are the same Helm release")
	})
}
