package ui_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// TestEqualChangesShownOnce: a revision that changes 60 clusters alike shows the change once, and each cluster in a list.
func TestEqualChangesShownOnce(t *testing.T) {
	t.Parallel()
	env := setup(t, 60)
	env.signIn(readToken)
	env.edit(func(tx *fleet.Tx) error {
		for i := range 60 {
			if _, err := tx.Patch(fleet.KindCluster, clusterID(i), fmt.Appendf(nil, `{"labels":{"wave":"two","number":"n%d"}}`, i%20)); err != nil {
				return err
			}
		}
		return nil
	})
	page := env.get("/ui/changes/4").body
	require.Equal(t, 1, strings.Count(page, `<table class="diff stacked labeled">`))
	require.Contains(t, page, "60 clusters")
	require.Contains(t, page, "20 different values")
	require.Contains(t, page, "two")
	for i := range 60 {
		require.Contains(t, page, `<li><a href="/ui/clusters/`+clusterID(i)+`">`)
	}
	require.Less(t, len(page), 64<<10)
}

// TestPlanShowsEffectFirst: a plan shows its effect on clusters before the documents, worded as on the command line.
func TestPlanShowsEffectFirst(t *testing.T) {
	t.Parallel()
	env := setup(t, 8)
	env.signIn(readToken)
	page := env.get("/ui/components/grafana/delete?cascade=true").body
	require.Contains(t, page, "platform-component grafana")
	require.Contains(t, page, "REMOVED: Flux uninstalls it")
	require.Contains(t, page, "Flux would uninstall 8 things.")
	require.Less(t, strings.Index(page, "Effect on clusters"), strings.Index(page, "9 documents would change"))
	require.Contains(t, page, "8 clusters")
	require.Equal(t, 1, strings.Count(page, "REMOVED: "), "clusters to which the same happens are one group")
}

// TestUndoneRevisionMarked: a reverted revision is marked on its page and in the list.
func TestUndoneRevisionMarked(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	env.signIn(readToken)
	require.NotContains(t, env.get("/ui/changes/3").body, "Undone by")
	env.call(http.MethodPost, "/revisions/3/revert", "")
	require.Contains(t, env.get("/ui/changes/3").body, `Undone by <a href="/ui/changes/4">revision 4</a>`)
	require.Equal(t, 1, strings.Count(env.get("/ui/changes").body, "undone by revision 4"))
	require.NotContains(t, env.get("/ui/changes/2").body, "Undone by")
	require.NotContains(t, env.get("/ui/changes/4").body, "Undone by")
}

// The history of a cluster and of a component names the inputs and fields that each revision changed.
func TestHistoryNamesFields(t *testing.T) {
	t.Parallel()
	w := setup(t, 3)
	w.signIn(readToken)
	w.call(http.MethodPatch, "/platform_components/grafana", `{"component_version":"9.9.9"}`)
	for _, path := range []string{"/ui/clusters/cluster-0002", "/ui/changes?kind=cluster&id=cluster-0002"} {
		require.Contains(t, w.get(path).body, "platform-components/grafana: /component_version", path)
	}
	for _, path := range []string{"/ui/components/grafana", "/ui/changes?kind=platform_component&id=grafana"} {
		require.Contains(t, w.get(path).body, "on 2 clusters: platform-components/grafana: /component_version", path)
	}
	require.Contains(t, w.get("/ui/changes").body, "(UTC)</h2>", "days are those of a time zone")
}
