package server_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPlanOfWaitingStage: the plan of a stage that cannot start yet shows its effect, and what the stage waits for. The start
// stays refused.
func TestPlanOfWaitingStage(t *testing.T) {
	t.Parallel()
	w := rolloutWorld(t)
	closed := `,"advance":"automatic","windows":[{"days":["` + strings.ToLower(w.clock.Now().AddDate(0, 0, 2).Weekday().String()[:3]) + `"],"from":"08:00","to":"16:00","tz":"UTC"}]}`
	w.post("/rollouts", strings.TrimSuffix(strings.Replace(bumpRollout, `["wave-1"]`, `["wave-1"],"approval":true`, 1), "}")+closed).want(201)
	w.post("/freezes", `{"id":"year-end","selector":"id=wave-1","reason":"CHG-9"}`).want(201)
	start := "/rollouts/podinfo-6.9.9/start"
	plan := w.post("/plan", `{"rollout":"podinfo-6.9.9","stage":"one"}`).want(200).json()
	require.Equal(t, []any{"wave-1"}, at(plan, "groups", 0, "clusters"))
	require.Equal(t, "approval", at(plan, "waiting", 0, "reason"))
	require.Equal(t, "one", at(plan, "waiting", 0, "stage"))
	require.Equal(t, "window", at(plan, "waiting", 1, "reason"))
	require.Equal(t, "year-end", at(plan, "frozen", 0, "freeze"))
	require.Contains(t, at(plan, "warnings", 0), `would be refused: stage "one" needs an approval`)
	require.Contains(t, at(plan, "warnings", 1), "next window")
	w.unchanged(func() {
		w.do("POST", start, "").problem(409, "conflict")
		w.do("POST", start+"?dry_run=true", "").problem(409, "conflict")
		w.do("POST", start+"?plan_hash="+plan["plan_hash"].(string), "").problem(409, "conflict")
		w.post("/plan", `{"rollout":"podinfo-6.9.9","action":"skip"}`).problem(409, "conflict")
	})
	require.Equal(t, "approval", at(w.get("/rollouts/podinfo-6.9.9").want(200).json(), "waiting", "reason"))
	w.delete("/freezes/year-end").want(200)
	w.do("POST", "/rollouts/podinfo-6.9.9/approve", "").want(200)
	plan = w.post("/plan", `{"rollout":"podinfo-6.9.9"}`).want(200).json()
	require.Equal(t, "window", at(plan, "waiting", 0, "reason"))
	started := w.do("POST", start+"?plan_hash="+plan["plan_hash"].(string), "").want(200) // a person may start it at any time
	require.Equal(t, "running", started.json()["state"])
	require.Empty(t, w.post("/plan", `{"rollout":"podinfo-6.9.9","action":"pause"}`).want(200).json()["waiting"])
}

// TestApprovalEnds: a cluster that the author labels into an approved stage ends the approval. The rollout shows that it waits for
// another one, and why.
func TestApprovalEnds(t *testing.T) {
	t.Parallel()
	w := rolloutWorld(t)
	const path = "/rollouts/podinfo-6.9.9"
	w.post("/rollouts", strings.Replace(bumpRollout, `"cluster_ids":["wave-1"]`, `"selector":"wave=one","approval":true`, 1)).want(201)
	w.do("PATCH", "/clusters/wave-1", `{"labels":{"wave":"one"}}`).want(200)
	stage := func() any { return at(w.get(path).want(200).json(), "stages", 0) }
	w.do("POST", path+"/approve", "").want(200)
	require.Contains(t, stage(), "approved_by")
	w.do("PATCH", "/clusters/wave-2", `{"labels":{"wave":"one"}}`).want(200)
	w.do("POST", path+"/start", "").problem(409, "conflict")
	require.NotContains(t, stage(), "approved_by")
	require.Contains(t, at(stage(), "approval_ended"), "the approval of static-write has ended")
	waiting := at(w.get(path).want(200).json(), "waiting")
	require.Equal(t, "approval", at(waiting, "reason"))
	require.Contains(t, at(waiting, "message"), "has ended")
	require.Equal(t, "approval", at(w.post("/plan", `{"rollout":"podinfo-6.9.9"}`).want(200).json(), "waiting", 0, "reason"))
	w.do("POST", path+"/approve", "").want(200)
	w.do("POST", path+"/start", "").want(200)
}
