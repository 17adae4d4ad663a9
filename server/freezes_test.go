package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFreezeRoutes runs a freeze from its creation to its deletion: refused changes name the clusters, an override is
// recorded, and polls stay the same.
func TestFreezeRoutes(t *testing.T) {
	t.Parallel()
	w := rolloutWorld(t)
	before := w.polls()
	require.Empty(t, w.get("/freezes").want(200).list())
	year := `{"id":"year-end","selector":"id=wave-1","until":"2999-01-01T00:00:00Z","reason":"CHG-9"}`
	w.unchanged(func() { w.post("/freezes?dry_run=true", year).want(200) })
	made := w.post("/freezes", year).want(201)
	require.Equal(t, "/freezes/year-end", made.header.Get("Location"))
	require.Equal(t, "active", made.json()["state"])
	require.Equal(t, 1.0, made.json()["clusters"])
	w.post("/freezes", year).problem(409, "conflict")
	require.Equal(t, made.etag(), w.get("/freezes/year-end").want(200).etag())
	require.Len(t, w.get("/freezes").want(200).list(), 1)

	set := `{"op":"set_component","component_id":"podinfo","cluster_ids":["wave-1"],"component_version":"6.9.9"}`
	var refused *answer
	w.unchanged(func() {
		refused = w.patch("/platform_components/podinfo", `{"component_version":"6.9.9"}`).problem(409, "frozen")
		w.batch(set).problem(409, "frozen")
		w.delete("/clusters/wave-1").problem(409, "frozen")
		w.do("DELETE", "/clusters/wave-1?mode=orphan", "").problem(409, "frozen")
		w.do("POST", "/revisions/1/restore", "").problem(409, "frozen")
		w.patch("/clusters/wave-1", `{"cluster_dns":"elsewhere.example.com"}`).problem(409, "frozen")
	})
	require.Contains(t, refused.json()["detail"], `freeze "year-end" (CHG-9) forbids until 2999-01-01T00:00:00Z: wave-1`)
	require.Equal(t, "wave-1", at(refused.json(), "errors", 0, "id"))
	require.Equal(t, before, w.polls())
	plan := w.post("/plan", `{"operations":[`+bump+`]}`).want(200).json()
	require.Equal(t, []any{map[string]any{"freeze": "year-end", "reason": "CHG-9", "until": "2999-01-01T00:00:00Z", "cluster_ids": []any{"wave-1"}}}, plan["frozen"])
	w.do("PATCH", "/platform_components/podinfo?plan_hash="+plan["plan_hash"].(string), `{"component_version":"6.9.9"}`, "Content-Type", "application/merge-patch+json").problem(409, "frozen")

	// A rollout may be created; its stage with the cluster cannot start.
	w.post("/rollouts", bumpRollout).want(201)
	w.do("POST", "/rollouts/podinfo-6.9.9/start", "").problem(409, "frozen")
	w.do("POST", "/rollouts/podinfo-6.9.9/abort", "").want(200)

	// An override names the freeze and has a reason.
	override := []string{"X-Fleet-Override-Freeze", "year-end"}
	w.do("POST", "/batch", `{"operations":[`+set+`]}`, override...).problem(400, "validation_error")
	w.do("POST", "/revisions/1/restore", "", override...).problem(400, "validation_error")
	w.do("POST", "/batch", `{"operations":[`+set+`],"reason":"CHG-10"}`, "X-Fleet-Override-Freeze", "other").problem(409, "frozen")
	w.do("POST", "/batch", `{"operations":[`+set+`],"reason":"CHG-10"}`, override...).want(200)
	revision := w.get(fmt.Sprint("/revisions/", w.get("/revisions?limit=1").want(200).list()[0]["revision"])).want(200).json()
	require.Equal(t, "override", at(revision, "operations", 0, "op"))
	require.Equal(t, "year-end", at(revision, "operations", 0, "id"))
	require.Contains(t, revision["summary"], "override freeze/year-end")

	ended := w.do("PATCH", "/freezes/year-end", `{"until":"2001-01-01T00:00:00Z"}`, "Content-Type", "application/merge-patch+json").want(200)
	require.Equal(t, "ended", ended.json()["state"])
	w.batch(`{"op":"set_component","component_id":"podinfo","cluster_ids":["wave-1"],"component_version":"6.9.10"}`).want(200)
	w.delete("/freezes/year-end").want(200)
	w.get("/freezes/year-end").problem(404, "not_found")
	bad := w.post("/freezes", `{"id":"Bad","selector":"x in (y","all":true,"from":"2999-01-01T00:00:00Z","until":"2998-01-01T00:00:00Z","reason":"r"}`).problem(400, "validation_error")
	require.NotEmpty(t, bad.pointers())
	w.post("/freezes", `{"id":"all","all":true,"from":"2999-01-01T00:00:00Z","until":"2998-01-01T00:00:00Z","reason":"r"}`).problem(400, "validation_error")
}

// TestSnapshotFreezeRoutes runs a pin from its creation to its end, which is planned like a change.
func TestSnapshotFreezeRoutes(t *testing.T) {
	t.Parallel()
	w := rolloutWorld(t)
	before := w.polls()
	made := w.post("/freezes", `{"id":"keep","mode":"pin","selector":"id=wave-1","until":"2999-01-01T00:00:00Z","reason":"INC-7"}`).want(201).json()
	require.Equal(t, "pin", made["mode"])
	require.Equal(t, []any{"wave-1"}, made["cluster_ids"])
	require.NotContains(t, made, "snapshot", "the stored inputs are no part of the view")
	require.NotContains(t, made, "pending_cluster_ids")
	newest := w.get("/revisions?limit=1").want(200).list()[0]
	created := w.get(fmt.Sprintf("/revisions/%v", at(newest, "revision"))).want(200).json()
	require.Equal(t, "INC-7", at(created, "changes", 0, "after", "reason"))
	require.NotContains(t, at(created, "changes", 0, "after"), "snapshot")
	require.Equal(t, before, w.polls())
	w.post("/freezes", `{"id":"none","mode":"pin","selector":"id=nobody","reason":"INC-7"}`).problem(400, "validation_error")
	w.post("/freezes", `{"id":"later","mode":"pin","all":true,"from":"2998-01-01T00:00:00Z","reason":"INC-7"}`).problem(400, "validation_error")

	plan := w.post("/plan", `{"operations":[`+bump+`]}`).want(200).json()
	require.Equal(t, "keep", at(plan, "pending", 0, "freeze"))
	require.Equal(t, []any{"wave-1"}, at(plan, "pending", 0, "cluster_ids"))
	require.Empty(t, plan["frozen"])
	w.patch("/platform_components/podinfo", `{"component_version":"6.9.9"}`).want(200)
	after := w.polls()
	require.NotEqual(t, before, after, "other clusters are served the change")
	require.Equal(t, []any{"wave-1"}, w.get("/freezes/keep").want(200).json()["pending_cluster_ids"])
	require.Equal(t, []any{"wave-1"}, w.get("/freezes").want(200).list()[0]["cluster_ids"])
	require.Equal(t, "keep", w.get("/clusters/wave-1/explain").want(200).json()["freeze"])
	w.do("DELETE", "/clusters/wave-1", "", "X-Fleet-Override-Freeze", "keep", "X-Change-Reason", "CHG-1").problem(409, "frozen")

	w.post("/plan", `{"freeze":"keep","rollout":"x"}`).problem(400, "validation_error")
	end := w.post("/plan", `{"freeze":"keep"}`).want(200).json()
	require.Equal(t, []any{"wave-1"}, at(end, "groups", 0, "clusters"))
	w.delete("/freezes/keep?plan_hash=0123456789abcdef").problem(412, "stale")
	w.post("/freezes", `{"id":"other","mode":"pin","selector":"id=wave-2","reason":"INC-8"}`).want(201)
	ended := w.delete("/freezes/keep?plan_hash=" + end["plan_hash"].(string)).want(200)
	require.NotContains(t, ended.json(), "pending_cluster_ids")
	require.NotEqual(t, after, w.polls())
}

// TestSnapshotFreezeEnds: no clock changes an answer, and a commit ends a freeze when its time is over.
func TestSnapshotFreezeEnds(t *testing.T) {
	t.Parallel()
	w, runners := autoRollout(t, 2, "")
	w.patch("/clusters/wave-1", `{"cluster_name":"kept"}`).want(200) // so that no input of it is confirmed
	until := w.clock.Now().Add(time.Hour).Format(time.RFC3339)
	w.post("/freezes", `{"id":"keep","mode":"pin","selector":"id=wave-1","until":"`+until+`","reason":"INC-7"}`).want(201)
	w.patch("/clusters/wave-1", `{"cluster_name":"renamed","platform_components":[]}`).want(200)
	w.patch("/platform_components/podinfo", `{"oci_tag":"v7"}`).want(200)
	w.confirm("wave-1.example.com")
	require.Equal(t, "confirmed", at(w.status("wave-1"), "state"), "receipts of the kept inputs count")
	kept := w.polls()
	runners[0].AdvanceRollouts(t.Context())
	w.get("/freezes/keep").want(200)
	w.clock.advance(2 * time.Hour)
	require.Equal(t, kept, w.polls())
	w.patch("/clusters/wave-1", `{"deletion_protection":true}`).want(200)
	w.confirm("wave-1.example.com")
	require.Equal(t, "confirmed", w.input("wave-1", "platform-components", "podinfo")["state"], "the kept inputs are expected")
	runners[0].AdvanceRollouts(t.Context())
	w.get("/freezes/keep").want(200)
	require.Equal(t, kept, w.polls(), "the guard applies to the end by time: it would remove from a protected cluster")
	w.patch("/clusters/wave-1", `{"deletion_protection":null}`).want(200)
	for _, r := range runners {
		r.AdvanceRollouts(t.Context())
	}
	w.get("/freezes/keep").problem(404, "not_found")
	require.NotEqual(t, kept, w.polls())
	newest := w.get("/revisions?limit=1").want(200).list()[0]
	require.Equal(t, "the time of the pin is over", at(newest, "reason"))
}

// TestSnapshotFreezeEndRemoves: the end by time is not committed if it removes more than a change may without a plan.
func TestSnapshotFreezeEndRemoves(t *testing.T) {
	t.Parallel()
	w, runners := autoRollout(t, 1, "")
	var namespaces []string
	for i := range rules.MaxRemovals + 1 {
		w.create("/namespaces", fmt.Sprintf(`{"id":"n%d"}`, i))
		namespaces = append(namespaces, fmt.Sprintf(`{"id":"n%d"}`, i))
	}
	w.patch("/clusters/wave-2", `{"namespaces":[`+strings.Join(namespaces, ",")+`]}`).want(200)
	until := w.clock.Now().Add(time.Hour).Format(time.RFC3339)
	w.post("/freezes", `{"id":"keep","mode":"pin","selector":"id=wave-2","until":"`+until+`","reason":"INC-7"}`).want(201)
	w.patch("/clusters/wave-2", `{"namespaces":[]}`).want(200)
	w.clock.advance(2 * time.Hour)
	kept := w.polls()
	runners[0].AdvanceRollouts(t.Context())
	runners[0].AdvanceRollouts(t.Context())
	require.Equal(t, kept, w.polls())
	require.Equal(t, 1, strings.Count(w.logs.String(), "a pin cannot end"), "it is logged once")
	view := w.get("/freezes/keep").want(200).json()
	require.Equal(t, "active", view["state"])
	require.Contains(t, view["end_refused"], "would be removed")
	require.Equal(t, view["end_refused"], at(w.get("/freezes").want(200).list()[0], "end_refused"))
	require.Contains(t, string(w.get("/metrics").want(200).body), `flux_resourceset_freeze_overdue_seconds{freeze="keep"} 3600`)
	end := w.post("/plan", `{"freeze":"keep"}`).want(200).json()
	w.delete("/freezes/keep?plan_hash=" + end["plan_hash"].(string)).want(200)
	require.NotEqual(t, kept, w.polls())
}

// TestSnapshotFreezeHoldsRollout: a rollout waits while a freeze keeps its change from a cluster of a started stage, and not for
// other changes that a freeze keeps.
func TestSnapshotFreezeHoldsRollout(t *testing.T) {
	t.Parallel()
	w, runners := autoRollout(t, 1, "")
	w.do("POST", autoPath+"/start", "").want(200)
	w.post("/freezes", `{"id":"keep","mode":"pin","selector":"id=wave-1","reason":"INC-7"}`).want(201)
	w.patch("/clusters/wave-1", `{"cluster_name":"renamed"}`).want(200)
	w.confirmAll()
	pass := func() {
		w.clock.advance(40 * time.Minute)
		w.confirmAll()
		runners[0].AdvanceRollouts(t.Context())
	}
	for range 3 {
		pass()
		require.Equal(t, "running1", w.rolloutState(), "the inputs of the rollout have the name of the cluster")
	}
	require.Equal(t, "freeze", at(w.get(autoPath).want(200).json(), "waiting", "reason"))
	w.patch("/clusters/wave-1", `{"cluster_name":null}`).want(200)
	w.create("/namespaces", `{"id":"other"}`)
	w.patch("/clusters/wave-1", `{"namespaces":[{"id":"other"}]}`).want(200)
	require.Equal(t, []any{"wave-1"}, w.get("/freezes/keep").want(200).json()["pending_cluster_ids"])
	pass()
	require.Equal(t, "running2", w.rolloutState())
}
