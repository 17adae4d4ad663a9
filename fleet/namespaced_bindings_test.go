package fleet

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// bindingWorld has a binding "editors" with a namespace, and one without, on two clusters.
func bindingWorld(t *testing.T) *world {
	t.Helper()
	return newWorld(t,
		"rolebinding", `{"id":"editors","role":"edit","namespace":"web","labels":{"of":"${cluster.id}"},"subjects":[{"kind":"Group","name":"web"}]}`,
		"rolebinding", `{"id":"viewers","role":"view","labels":{},"annotations":null,"namespace":"","subjects":[]}`,
		"cluster", `{"id":"a","cluster_dns":"a.example.com","environment":"dev","rolebindings":[{"id":"editors"},{"id":"viewers"}]}`,
		"cluster", `{"id":"b","cluster_dns":"b.example.com","environment":"dev","rolebindings":[{"id":"editors"}]}`)
}

// A template that knows no namespace fails on the input of a namespaced binding, rather than grant the role in the whole cluster.
func TestNamespacedBinding(t *testing.T) {
	t.Parallel()
	w := bindingWorld(t)
	inputs := inputsOf(t, w.state, "a.example.com", KindRoleBinding)
	require.NotContains(t, inputs[0], "role")
	require.Equal(t, "edit", inputs[0]["namespace_role"])
	require.Equal(t, "web", inputs[0]["namespace"])
	require.Equal(t, map[string]any{"of": "a"}, inputs[0]["labels"])
	for _, field := range []string{"namespace", "namespace_role", "labels", "annotations"} {
		require.NotContains(t, inputs[1], field, "inputs without the fields are as before")
	}
	for body, want := range map[string]string{
		`{"namespace":"a.b"}`: "/namespace",
		`{"labels":{"fluxcd.controlplane.io/force":"disabled"}}`:                                    "/labels/fluxcd.controlplane.io~1force",
		`{"annotations":{"fluxcd.controlplane.io/prune":"disabled"}}`:                               "/annotations/fluxcd.controlplane.io~1prune",
		`{"namespace":"${cluster.id}"}`:                                                             "/namespace",
		`{"labels":{"a":"no label value!"}}`:                                                        "/labels/a",
		`{"namespace":null,"subjects":[{"kind":"Group","name":"${x}"}],"labels":{"a":"${vars.x}"}}`: "${vars.x}",
	} {
		_, err := w.try(patch(KindRoleBinding, "editors", body))
		refused, ok := errors.AsType[*Error](err)
		require.True(t, ok, "%s: %v", body, err)
		require.Contains(t, fmt.Sprint(refused.Detail, refused.Problems), want, body)
	}
}

// Another namespace is another object: Flux takes the rights away in the old one, on each cluster, and a protected cluster refuses it.
func TestNamespaceOfBindingIsIdentity(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"another": `{"namespace":"shop"}`, "none": `{"namespace":null}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := bindingWorld(t)
			w.state.rules.MaxRemovals = 1
			change := patch(KindRoleBinding, "editors", body)
			plan := w.plan(change)
			require.Equal(t, 2, plan.Totals.Removals)
			require.True(t, plan.Groups[0].Effect["rolebindings"].Changed[0].Removal)
			w.refused(CodeConfirm, change)
			w.must(confirmed(plan.PlanHash, change))
		})
	}
	w := bindingWorld(t)
	w.must(patch(KindCluster, "b", `{"deletion_protection":true}`))
	w.refused(CodeProtected, patch(KindRoleBinding, "editors", `{"namespace":"shop"}`))
	w.must(patch(KindRoleBinding, "editors", `{"annotations":{"a":"b"},"role":"admin"}`))
	require.Zero(t, w.plan(patch(KindRoleBinding, "editors", `{"labels":null}`)).Totals.Removals)
}

// A definition of a resource type that makes the same object is a conflict in this namespace only.
func TestNamespacedBindingSharesItsObject(t *testing.T) {
	t.Parallel()
	w := bindingWorld(t)
	const template = "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: editors, namespace: << inputs.name | quote >>}\n"
	w.must(create(KindResourceType, typeWith(t, "bindings", template, map[string]any{"overridable": []string{"name"}})))
	made := ResourceKind("bindings")
	w.must(create(made, `{"id":"same","spec":{"name":"web"}}`))
	w.must(create(made, `{"id":"other","spec":{"name":"shop"}}`))
	w.must(assign("a", made, "other", ""))
	require.Contains(t, w.refused(CodeObjectConflict, assign("a", made, "same", "")).Detail, "RoleBinding web/editors")
	require.Contains(t, w.refused(CodeObjectConflict, patch(KindRoleBinding, "editors", `{"namespace":"shop"}`)).Detail, "RoleBinding shop/editors")
}
