package fleet

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// takeoverWorld has the types "settings", whose objects Flux deletes, and "kept", whose objects stay; both make ConfigMap ns/NAME.
func takeoverWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.must(create(KindResourceType, typeWith(t, "settings", configMap, map[string]any{"overridable": []string{"name"}})))
	w.must(create(KindResourceType, typeWith(t, "kept", keptConfigMap, keep)))
	for _, kind := range []string{"settings", "kept"} {
		w.must(create(ResourceKind(kind), `{"id":"a"}`))
		w.must(create(ResourceKind(kind), `{"id":"b","spec":{"name":"other"}}`))
	}
	w.must(create(KindCluster, `{"id":"k","cluster_dns":"k.example.com","environment":"dev"}`))
	w.must(create(KindCluster, `{"id":"k2","cluster_dns":"k2.example.com","environment":"dev"}`))
	return w
}

// TestPlanNamesTakeovers: a plan names each object that a definition of a resource type newly renders on a cluster, and its
// fate if it exists already.
func TestPlanNamesTakeovers(t *testing.T) {
	t.Parallel()
	settings, kept := ResourceKind("settings"), ResourceKind("kept")
	for name, c := range map[string]struct {
		before, edit func(*Tx) error
		want         []string
		not          string
	}{
		"deleted later": {nil, assign("k", settings, "a", ""), []string{`settings resource "a" begins to make ConfigMap ns/x`, "takes over", "deletes ConfigMap ns/x"}, "keeps"},
		"kept later":    {nil, assign("k", kept, "a", ""), []string{`kept resource "a" begins to make ConfigMap ns/x`, "takes over", "keeps"}, "deletes"},
		"by an override": {
			assign("k", settings, "a", ""), assign("k", settings, "a", `{"overrides":{"name":"theirs"}}`),
			[]string{"begins to make ConfigMap ns/theirs:"},
			"ns/x",
		},
		"by a changed definition": {assign("k", settings, "a", ""), patch(settings, "a", `{"spec":{"name":"theirs"}}`), []string{"begins to make ConfigMap ns/theirs:"}, "ns/x"},
		"by a layer":              {nil, create(KindLayer, `{"id":"l","priority":1,"selector":"environment=dev","resources":{"settings":[{"id":"a"}]}}`), []string{"ConfigMap ns/x"}, ""},
		"from another definition": {
			assign("k", kept, "a", ""), put(KindCluster, "k", `{"resources":{"settings":[{"id":"a"}]}}`),
			[]string{`ConfigMap ns/x (made by the kept resource "a" until now)`},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := takeoverWorld(t)
			if c.before != nil {
				w.must(c.before)
			}
			warnings := strings.Join(w.plan(c.edit).Warnings, "\n")
			for _, want := range c.want {
				require.Contains(t, warnings, want)
			}
			if c.not != "" {
				require.NotContains(t, warnings, c.not)
			}
		})
	}
}

// TestPlanNamesTakeoversOnce: the same on many clusters is one warning, and objects that a cluster has already cause none.
func TestPlanNamesTakeoversOnce(t *testing.T) {
	t.Parallel()
	w := takeoverWorld(t)
	plan := w.plan(both(assign("k", ResourceKind("settings"), "a", ""), assign("k2", ResourceKind("settings"), "a", "")))
	require.Len(t, plan.Warnings, 1)
	w.must(assign("k", ResourceKind("settings"), "a", ""))
	require.Empty(t, w.plan(patch(ResourceKind("settings"), "a", `{"spec":{"list":["x"]}}`)).Warnings)
	require.Empty(t, w.plan(patch(KindCluster, "k", `{"resources":null}`)).Warnings)
	require.Len(t, w.plan(assign("k", ResourceKind("settings"), "b", "")).Warnings, 1)
}

// TestPlanKnowsGuardedObjects: a patch that waits for an object without other field managers takes over no object; one that
// creates it does.
func TestPlanKnowsGuardedObjects(t *testing.T) {
	t.Parallel()
	w := patchedWorld(t)
	require.Empty(t, w.plan(assign("k", kindPatch, "a", "")).Warnings)
	w.must(patch(kindPatch, "a", `{"spec":{"mode":"ensure"}}`))
	require.Contains(t, strings.Join(w.plan(assign("k", kindPatch, "a", "")).Warnings, "\n"), "begins to make ConfigMap shared/settings")
}
