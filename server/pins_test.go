package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pin sets the pin of a cluster; null: it unpins it.
func (w *world) pin(cluster, pin string) {
	w.t.Helper()
	w.patch("/clusters/"+cluster, `{"pinned":`+pin+`}`).want(200)
}

// TestPinRoutes runs a pin from its beginning to its end, which is planned like any change.
func TestPinRoutes(t *testing.T) {
	t.Parallel()
	w := rolloutWorld(t)
	before := w.polls()
	require.NotContains(t, w.get("/clusters/wave-1").want(200).json(), "pinned")
	made := w.patch("/clusters/wave-1", `{"pinned":{"until":"2999-01-01T00:00:00Z","reason":"INC-7"}}`).want(200).json()
	pinned := map[string]any{"reason": "INC-7", "until": "2999-01-01T00:00:00Z"}
	require.Equal(t, pinned, made["pinned"])
	newest := w.get("/revisions?limit=1").want(200).list()[0]
	created := w.get(fmt.Sprintf("/revisions/%v", at(newest, "revision"))).want(200)
	require.Equal(t, pinned, at(created.json(), "changes", 0, "after", "pinned"))
	require.NotContains(t, string(created.body), "settings", "what the cluster is served is no part of the history")
	require.Equal(t, before, w.polls())
	w.patch("/clusters/wave-2", `{"pinned":{}}`).problem(400, "validation_error")
	w.patch("/clusters/wave-2", `{"pinned":{"reason":"x","other":1}}`).problem(400, "validation_error")
	w.post("/clusters", `{"id":"new","cluster_dns":"new.example.com","environment":"dev","pinned":{"reason":"x"}}`).problem(400, "validation_error")

	plan := w.post("/plan", `{"operations":[`+bump+`]}`).want(200).json()
	require.Equal(t, []any{"wave-1"}, plan["pending"])
	require.Empty(t, plan["frozen"])
	w.patch("/platform_components/podinfo", `{"component_version":"6.9.9"}`).want(200)
	after := w.polls()
	require.NotEqual(t, before, after, "other clusters are served the change")
	require.Equal(t, true, w.get("/clusters/wave-1/explain").want(200).json()["pinned"])
	refused := w.do("DELETE", "/clusters/wave-1", "", "X-Fleet-Override-Freeze", "wave-1", "X-Change-Reason", "CHG-1").problem(409, "pinned")
	require.Equal(t, "wave-1", at(refused.json(), "errors", 0, "id"))
	w.put("/clusters/wave-1", `{"labels":{"a":"b"}}`).want(200)
	for _, c := range w.get("/clusters").want(200).list() {
		require.Equal(t, c["id"] == "wave-1", c["pinned"] != nil)
	}

	unpin := `"operations":[{"op":"patch","kind":"cluster","id":"wave-1","patch":{"pinned":null}}]`
	end := w.post("/plan", `{`+unpin+`}`).want(200).json()
	require.Equal(t, []any{"wave-1"}, at(end, "groups", 0, "clusters"))
	w.post("/batch", `{`+unpin+`,"plan_hash":"0123456789abcdef"}`).problem(412, "stale")
	w.pin("wave-2", `{"reason":"INC-8"}`)
	w.post("/batch", `{`+unpin+`,"plan_hash":"`+end["plan_hash"].(string)+`"}`).want(200)
	require.NotContains(t, w.get("/clusters/wave-1").want(200).json(), "pinned")
	require.NotEqual(t, after, w.polls())
}

// TestPinEnds: no clock changes an answer, and a commit unpins a cluster when the time is over.
func TestPinEnds(t *testing.T) {
	t.Parallel()
	w, runners := autoRollout(t, 2, "")
	w.patch("/clusters/wave-1", `{"cluster_name":"kept"}`).want(200) // so that no input of it is confirmed
	until := w.clock.Now().Add(time.Hour).Format(time.RFC3339)
	w.pin("wave-1", `{"until":"`+until+`","reason":"INC-7"}`)
	w.patch("/clusters/wave-1", `{"cluster_name":"renamed","platform_components":[]}`).want(200)
	w.patch("/platform_components/podinfo", `{"oci_tag":"v7"}`).want(200)
	w.confirm("wave-1.example.com")
	require.Equal(t, "confirmed", at(w.status("wave-1"), "state"), "receipts of the kept inputs count")
	kept := w.polls()
	runners[0].AdvanceRollouts(t.Context())
	require.Contains(t, w.get("/clusters/wave-1").want(200).json(), "pinned")
	w.clock.advance(2 * time.Hour)
	require.Equal(t, kept, w.polls())
	w.patch("/clusters/wave-1", `{"deletion_protection":true}`).want(200)
	w.confirm("wave-1.example.com")
	require.Equal(t, "confirmed", w.input("wave-1", "platform-components", "podinfo")["state"], "the kept inputs are expected")
	runners[0].AdvanceRollouts(t.Context())
	require.Contains(t, w.get("/clusters/wave-1").want(200).json(), "pinned")
	require.Equal(t, kept, w.polls(), "the guard applies to the end by time: it would remove from a protected cluster")
	w.patch("/clusters/wave-1", `{"deletion_protection":null}`).want(200)
	for _, r := range runners {
		r.AdvanceRollouts(t.Context())
	}
	require.NotContains(t, w.get("/clusters/wave-1").want(200).json(), "pinned")
	require.NotEqual(t, kept, w.polls())
	newest := w.get("/revisions?limit=1").want(200).list()[0]
	require.Equal(t, "the time of the pin is over", at(newest, "reason"))
}

// TestPinEndRemoves: the end by time is not committed if it removes more than a change may without a plan.
func TestPinEndRemoves(t *testing.T) {
	t.Parallel()
	w, runners := autoRollout(t, 1, "")
	var namespaces []string
	for i := range rules.MaxRemovals + 1 {
		w.create("/namespaces", fmt.Sprintf(`{"id":"n%d"}`, i))
		namespaces = append(namespaces, fmt.Sprintf(`{"id":"n%d"}`, i))
	}
	w.patch("/clusters/wave-2", `{"namespaces":[`+strings.Join(namespaces, ",")+`]}`).want(200)
	until := w.clock.Now().Add(time.Hour).Format(time.RFC3339)
	w.pin("wave-2", `{"until":"`+until+`","reason":"INC-7"}`)
	w.patch("/clusters/wave-2", `{"namespaces":[]}`).want(200)
	w.clock.advance(2 * time.Hour)
	kept := w.polls()
	runners[0].AdvanceRollouts(t.Context())
	runners[0].AdvanceRollouts(t.Context())
	require.Equal(t, kept, w.polls())
	require.Equal(t, 1, strings.Count(w.logs.String(), "a pin cannot end"), "it is logged once")
	require.Contains(t, w.get("/clusters/wave-2").want(200).json(), "pinned")
	require.Contains(t, string(w.get("/metrics").want(200).body), `flux_resourceset_pin_overdue_seconds{cluster="wave-2"} 3600`)
	unpin := `"operations":[{"op":"patch","kind":"cluster","id":"wave-2","patch":{"pinned":null}}]`
	end := w.post("/plan", `{`+unpin+`}`).want(200).json()
	w.post("/batch", `{`+unpin+`,"plan_hash":"`+end["plan_hash"].(string)+`"}`).want(200)
	require.NotEqual(t, kept, w.polls())
}

// TestPinKeepsRollout: a cluster that is pinned while it is served the change of a rollout keeps it when the stage is taken back, and is
// counted. A cluster that is pinned before is not.
func TestPinKeepsRollout(t *testing.T) {
	t.Parallel()
	w := rolloutWorld(t)
	w.post("/rollouts", bumpRollout).want(201)
	w.pin("wave-2", `{"reason":"INC-6"}`)
	w.post("/rollouts/podinfo-6.9.9/start", "").want(200)
	w.pin("wave-1", `{"reason":"INC-7"}`)
	progress := func(rollout *answer) map[string]any {
		t.Helper()
		stages := rollout.want(200).json()
		require.NotContains(t, at(stages, "stages", 1, "progress"), "kept")
		return at(stages, "stages", 0, "progress").(map[string]any)
	}
	require.NotContains(t, progress(w.get("/rollouts/podinfo-6.9.9")), "kept")
	back := progress(w.post("/rollouts/podinfo-6.9.9/back", ""))
	require.Contains(t, string(w.poll("/api/v2/flux/clusters/wave-1.example.com/platform-components").want(200).body), "6.9.9")
	require.InDelta(t, 1, back["kept"], 0)
	require.Equal(t, []any{"wave-1"}, at(back, "cluster_ids", "kept"))
	w.pin("wave-1", "null")
	require.NotContains(t, progress(w.get("/rollouts/podinfo-6.9.9")), "kept")
}

// TestPinHoldsRollout: a rollout waits while a pin keeps its change from a cluster of a started stage, and not for other
// changes that a pin keeps.
func TestPinHoldsRollout(t *testing.T) {
	t.Parallel()
	w, runners := autoRollout(t, 1, "")
	w.do("POST", autoPath+"/start", "").want(200)
	w.pin("wave-1", `{"reason":"INC-7"}`)
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
	rollout := w.get(autoPath).want(200).json()
	require.Equal(t, "pin", at(rollout, "waiting", "reason"))
	require.InDelta(t, 1, at(rollout, "stages", 0, "progress", "pinned"), 0)
	w.patch("/clusters/wave-1", `{"cluster_name":null}`).want(200)
	w.create("/namespaces", `{"id":"other"}`)
	w.patch("/clusters/wave-1", `{"namespaces":[{"id":"other"}]}`).want(200)
	pass()
	require.Equal(t, "running2", w.rolloutState())
}
