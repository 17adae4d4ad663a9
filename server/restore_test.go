package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func (w *world) restore(revision int, body, query string) *answer {
	w.t.Helper()
	return w.post(fmt.Sprintf("/revisions/%d/restore%s", revision, query), body)
}

// A restore removes documents that did not exist then, and is guarded as any change that removes.
func TestRestoreGuarded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	before := w.revision()
	w.clusters(60, "qa")
	op := fmt.Sprintf(`{"op":"restore","revision":%d}`, before)
	w.unchanged(func() {
		w.restore(before, "", "").problem(409, "confirmation_required")
		w.batch(op).problem(409, "confirmation_required")
		w.restore(before, "", "?plan_hash=0000").problem(412, "stale")
	})
	plan := w.plan(op)
	require.Equal(t, true, plan["confirmation_required"])
	require.EqualValues(t, 120, plan["totals"].(map[string]any)["removals"])
	hash := "?plan_hash=" + plan["plan_hash"].(string)
	w.patch("/clusters/qa-00", `{"labels":{"a":"b"}}`).want(200)
	w.unchanged(func() { w.restore(before, "", hash).problem(412, "stale") })
	hash = "?plan_hash=" + w.plan(op)["plan_hash"].(string)
	w.restore(before, "", hash).want(200)
	require.Empty(t, w.poll("/api/v2/flux/clusters/qa-00.example.com/platform-components").want(200).ids(), "decommissioned: Flux uninstalls")
	// And that, too, can be taken back.
	w.restore(before+1, "", "").want(200)
	require.Equal(t, []string{"podinfo"}, w.poll("/api/v2/flux/clusters/qa-00.example.com/platform-components").ids())
}

// An impossible restore is an error and changes no document.
func TestRestoreImpossible(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(2, "qa")
	made := w.revision()
	one := `{"kind":"cluster","id":"qa-00"}`
	w.delete("/clusters/qa-00?mode=orphan").want(200)
	heir := `{"id":"heir","cluster_dns":"qa-00.example.com","environment":"qa"}`
	plan := w.plan(`{"op":"create","kind":"cluster","document":` + heir + `}`)
	w.post("/clusters?plan_hash="+plan["plan_hash"].(string), heir).want(201)
	w.unchanged(func() {
		p := w.restore(made, one, "").problem(400, "validation_error")
		require.Contains(t, string(p.body), `\"qa-00.example.com\" is the cluster_dns of cluster \"heir\"`)
	})
	w.delete("/clusters/heir?mode=orphan").want(200)
	w.restore(made, one, "").want(200)

	w.patch("/clusters/qa-00", `{"deletion_protection":true}`).want(200)
	w.unchanged(func() {
		p := w.restore(made-1, one, "").problem(409, "protected")
		require.Contains(t, string(p.body), "deletion_protection")
	})
}

// Values, their owners and the type of a component are restored together.
func TestRestoreKeepsManagers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	path := demoCluster + "/patches/podinfo"
	w.patch(path+"?field_manager=ci", `{"image.tag":"1"}`).want(200)
	owned, revision := string(w.get(path).body), w.revision()
	w.patch(path+"?field_manager=ann&force=true", `{"image.tag":"2"}`).want(200)
	before := at(w.get(fmt.Sprintf("/revisions/%d", revision+1)).want(200).json(), "changes", 0)
	require.Equal(t, []any{"image.tag"}, at(before, "before", "patch_owners", "podinfo", "ci"), "history shows who owned it")
	require.Equal(t, []any{"image.tag"}, at(before, "after", "patch_owners", "podinfo", "ann"))
	w.delete(demoCluster + "/platform_components/podinfo").want(200)
	plan := w.plan(fmt.Sprintf(`{"op":"restore","revision":%d,"kind":"cluster","id":"demo-cluster-01"}`, revision))
	require.Equal(t, []any{map[string]any{
		"clusters": []any{"demo-cluster-01"}, "component_id": "podinfo", "path": "image.tag", "before": []any{}, "after": []any{"ci"},
	}}, plan["ownership"])
	w.restore(revision, `{"kind":"cluster","id":"demo-cluster-01"}`, "").want(200)
	require.JSONEq(t, owned, string(w.get(path).body))
	w.patch(path+"?field_manager=ann", `{"image.tag":"2"}`).problem(409, "field_conflict")
}

// Removed revisions are reported as such; kept ones can be restored as a whole, although others were removed.
func TestRestoreAndRetention(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(3, "qa")
	polls := func() string {
		return string(w.poll("/api/v2/flux/clusters/qa-01.example.com/platform-components").body) + string(w.poll(demoPolls+"/platform-components").body)
	}
	w.clock.advance(time.Hour)
	w.patch("/platform_components/podinfo", `{"component_version":"6.9.0"}`).want(200)
	kept, was := w.revision(), polls()
	w.patch("/platform_components/podinfo", `{"component_version":"6.9.1"}`).want(200)
	w.delete("/clusters/qa-01").want(200)
	oldest, _, err := w.store.Compact(t.Context(), start.Add(time.Hour))
	require.NoError(t, err)
	require.EqualValues(t, kept, oldest)
	w.unchanged(func() {
		for _, gone := range []*answer{
			w.restore(1, "", ""), w.restore(1, `{"kind":"cluster","id":"demo-cluster-01"}`, ""), w.get("/revisions/1"),
			w.get(demoCluster + "?revision=1"), w.batch(`{"op":"restore","revision":1}`),
		} {
			require.Contains(t, gone.problem(404, "not_found").json()["detail"], "HISTORY_RETENTION")
		}
	})
	w.restore(kept, "", "").want(200)
	require.Equal(t, was, polls())
}
