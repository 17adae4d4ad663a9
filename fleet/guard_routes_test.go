package fleet

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// identitiesOn returns what identifies the objects of each component and role binding that the cluster which polls by a name is served.
func identitiesOn(t require.TestingT, s *State, name string) map[string]string {
	if _, ok := s.ByDNS(name); !ok {
		return nil
	}
	out := map[string]string{}
	for _, one := range inputsOf(t, s, name, KindComponent) {
		if enabled, _ := one["enabled"].(bool); !enabled {
			continue
		}
		flux, _ := one["flux"].(map[string]any)
		namespace := one["target_namespace"]
		if overridden, _ := one["override_namespace"].(bool); one["type"] == typeKustomize && !overridden {
			namespace = ""
		}
		if flux["targetNamespace"] != nil {
			namespace = flux["targetNamespace"]
		}
		parts := []any{one["type"], namespace, one["release_name"], one["component_path"]}
		for _, setting := range [][2]string{{"storageNamespace", "flux-system"}, {"prune", "true"}, {"components", "[]"}} {
			if value := fmt.Sprint(flux[setting[0]]); value != setting[1] && flux[setting[0]] != nil {
				parts = append(parts, setting[0]+value)
			}
		}
		out[fmt.Sprint("component ", one["id"])] = fmt.Sprint(append(parts, flux["namePrefix"], flux["nameSuffix"])...)
	}
	for _, one := range inputsOf(t, s, name, KindRoleBinding) {
		out[fmt.Sprint("binding ", one["id"])] = fmt.Sprint(one["namespace"])
	}
	return out
}

// TestIdentityIsGuardedOnEveryRoute: whatever changes the identity of what a cluster has, or takes it off the cluster, needs a confirmation:
// a write of any document, another layer or name of a cluster, the end of a pin, a stage of a rollout, a restore or a revert.
func TestIdentityIsGuardedOnEveryRoute(t *testing.T) {
	t.Parallel()
	settings := map[string][]string{
		"app":  {`{"storageNamespace":"a"}`, `{"storageNamespace":"flux-system"}`, `{"storageNamespace":null}`, `{"timeout":"2m"}`, `null`},
		"tree": {`{"prune":false}`, `{"prune":true}`, `{"namePrefix":"x"}`, `{"namePrefix":null,"nameSuffix":"y"}`, `{"components":["c"]}`, `{"components":[]}`, `{"targetNamespace":"a"}`, `null`},
	}
	rapid.Check(t, func(rt *rapid.T) {
		w := newFluxFleet(t)
		w.must(both(create(KindRoleBinding, `{"id":"editors","role":"edit","namespace":"web","subjects":[]}`), batch(`{"op":"assign_rolebinding","layers":["base"],"rolebinding_id":"editors"}`)))
		w.state.rules.MaxRemovals = 0
		pick := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(rt, name) }
		for n := range rapid.IntRange(1, 10).Draw(rt, "changes") {
			w.now = w.now.Add(time.Hour)
			component, cluster, layer := pick("component", "app", "tree"), pick("cluster", "dev", "prod"), pick("layer", "base", "prod")
			flux := `{"flux":` + pick("settings", settings[component]...) + `}`
			entry := `{"platform_components":[{"id":"` + component + `",` + flux[1:] + `]}`
			staged := rapid.SampledFrom([]api.Operation{patchOp(KindComponent, component, flux), patchOp(KindLayer, layer, `{"overrides":{"`+component+`":`+flux+`}}`)}).Draw(rt, "staged")
			revision := int64(rapid.IntRange(1, int(w.state.Revision())).Draw(rt, "revision"))
			// A rollout asks for a confirmation of all its stages when it is created.
			open, asked := "", false
			for _, id := range sortedKeys(w.state.docs[KindRollout]) {
				open, asked = id, w.state.docs[KindRollout][id].rollout().ConfirmedRemovals > 0
			}
			routes := []func(*Tx) error{
				patch(KindComponent, component, flux),
				patch(KindComponent, component, pick("namespace", `{"target_namespace":"a"}`, `{"target_namespace":null}`)),
				patch(KindComponent, "app", pick("type", `{"type":"kustomize","oci_url":"oci://registry.example.com/app","flux":{"storageNamespace":null,"prune":false}}`, `{"type":"helm","flux":{"prune":null}}`)),
				patch(KindLayer, layer, entry),
				patch(KindLayer, layer, `{"overrides":{"`+component+`":`+flux+`}}`),
				patch(KindLayer, "prod", pick("selector", `{"selector":"tier=prod"}`, `{"selector":"tier=x"}`, `{"priority":5}`, `{"priority":20}`)),
				remove(KindLayer, "prod", DeleteOptions{}),
				patch(KindCluster, cluster, pick("labels", `{"labels":{"tier":"prod"}}`, `{"labels":{"tier":null}}`)),
				patch(KindCluster, cluster, entry),
				assign(cluster, KindComponent, component, flux),
				patch(KindRoleBinding, "editors", pick("binding", `{"namespace":"web"}`, `{"namespace":null}`, `{"labels":{"a":"b"}}`)),
				both(patch(KindCluster, "dev", `{"cluster_dns":"tmp.example.com"}`), patch(KindCluster, "prod", `{"cluster_dns":"dev.example.com"}`), patch(KindCluster, "dev", `{"cluster_dns":"prod.example.com"}`)),
				both(remove(KindCluster, cluster, DeleteOptions{Orphan: true}), create(KindCluster, fmt.Sprintf(`{"id":"new%d","cluster_dns":"%s.example.com","environment":"dev"}`, n, cluster))),
				pinAll(cluster), unpinAll(cluster),
				batch(`{"op":"adopt","layers":["base"]}`),
				operations(w, api.Operation{Op: "restore", Revision: revision}),
				operations(w, api.Operation{Op: "revert", Revision: revision}),
				rollOut(w, fmt.Sprint("r", n), []RolloutStage{{Name: "first", Selector: "id=" + cluster}}, staged),
				act(open, RolloutBack), act(open, RolloutAbort), act(open, RolloutStart),
			}
			route := rapid.IntRange(0, len(routes)-1).Draw(rt, "route")
			edit, planned, confirmedBefore := routes[route], routes[route], asked && route == len(routes)-1
			if route == len(routes)-4 {
				planned = operations(w, staged)
			}
			before := w.state
			res, err := w.try(edit)
			if refused, ok := errors.AsType[*Error](err); ok && refused.Code == CodeConfirm {
				plan := w.plan(planned)
				require.Positive(rt, plan.Totals.Removals)
				res, err = w.try(confirmed(plan.PlanHash, edit))
				confirmedBefore = true
			}
			if err != nil {
				continue
			}
			w.keep(res)
			for _, name := range []string{"dev.example.com", "prod.example.com"} {
				is := identitiesOn(rt, w.state, name)
				for id, was := range identitiesOn(rt, before, name) {
					require.True(rt, confirmedBefore || is == nil || is[id] == was, "route %d, %s, %s: %q, before %q", route, name, id, is[id], was)
				}
			}
		}
	})
}
