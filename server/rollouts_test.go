package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	bump        = `{"op":"patch","kind":"platform_component","id":"podinfo","patch":{"component_version":"6.9.9"}}`
	bumpRollout = `{"id":"podinfo-6.9.9","description":"CHG-1","operations":[` + bump + `],"stages":[{"name":"one","cluster_ids":["wave-1"]}]}`
)

func rolloutWorld(t *testing.T) *world {
	w := setup(t)
	for _, id := range []string{"wave-1", "wave-2"} {
		w.create("/clusters", fmt.Sprintf(`{"id":%q,"cluster_dns":"%s.example.com","environment":"dev","platform_components":[{"id":"podinfo"}]}`, id, id))
	}
	return w
}

// TestRolloutRoutes runs a rollout from its creation to its deletion.
func TestRolloutRoutes(t *testing.T) {
	t.Parallel()
	w := rolloutWorld(t)
	before := w.polls()
	require.Empty(t, w.get("/rollouts").want(200).list())
	w.unchanged(func() { w.post("/rollouts?dry_run=true", bumpRollout).want(200) })
	made := w.post("/rollouts", bumpRollout).want(201)
	require.Equal(t, "/rollouts/podinfo-6.9.9", made.header.Get("Location"))
	require.Equal(t, "proposed", made.json()["state"])
	require.Equal(t, "platform_component", at(made.json(), "changes", 0, "kind"))
	require.Equal(t, "patch", at(made.json(), "operations", 0, "op"))
	require.Equal(t, before, w.polls(), "the creation changes no answer")
	w.unchanged(func() {
		w.post("/rollouts", bumpRollout).want(200)
		w.post("/rollouts", strings.Replace(bumpRollout, "6.9.9\"}", "6.9.8\"}", 1)).problem(409, "conflict")
	})
	got := w.get("/rollouts/podinfo-6.9.9").want(200)
	require.Equal(t, made.etag(), got.etag())
	require.Len(t, w.get("/rollouts").want(200).list(), 1)

	// The plan of a stage names its clusters; the action takes its hash, the ETag and the name of the stage.
	plan := w.post("/plan", `{"rollout":"podinfo-6.9.9","stage":"one"}`).want(200).json()
	require.Equal(t, []any{"wave-1"}, at(plan, "groups", 0, "clusters"))
	w.post("/plan", `{"rollout":"podinfo-6.9.9","stage":"rest"}`).problem(409, "conflict")
	w.post("/plan", `{"rollout":"podinfo-6.9.9","operations":[`+bump+`]}`).problem(400, "validation_error")
	w.post("/plan", `{}`).problem(400, "validation_error")
	w.post("/plan", `{"operations":[`+bump+`],"stage":"one"}`).problem(400, "validation_error")
	start := "/rollouts/podinfo-6.9.9/start"
	w.do("POST", start, "", "If-Match", `"1-00000000"`).problem(412, "stale")
	w.do("POST", start+"?stage=rest", "").problem(409, "conflict")
	w.do("POST", start+"?plan_hash=other", "").problem(412, "stale")
	w.do("POST", "/rollouts/podinfo-6.9.9/begin", "").problem(400, "validation_error")
	w.unchanged(func() { w.do("POST", start+"?dry_run=true", "").want(200) })
	started := w.do("POST", start+"?stage=one&plan_hash="+plan["plan_hash"].(string), "", "If-Match", got.etag()).want(200)
	require.Equal(t, "running", started.json()["state"])
	require.Equal(t, "started", at(started.json(), "stages", 0, "state"))
	require.Equal(t, 1.0, at(started.json(), "stages", 0, "clusters"))
	require.Contains(t, w.polls()["wave-1/platform-components"], "6.9.9")
	require.Equal(t, before["wave-2/platform-components"], w.polls()["wave-2/platform-components"])

	// Its field cannot change in another way, nor can the rollout be deleted.
	conflict := w.patch("/platform_components/podinfo", `{"component_version":"6.0.0"}`).problem(409, "in_rollout")
	require.Equal(t, []string{"/component_version"}, conflict.pointers())
	w.batch(bump).problem(409, "in_rollout")
	w.delete("/rollouts/podinfo-6.9.9").problem(409, "conflict")

	served := w.polls()
	w.do("POST", "/rollouts/podinfo-6.9.9/pause", "").want(200)
	w.do("POST", start, "").problem(409, "conflict")
	w.do("POST", "/rollouts/podinfo-6.9.9/resume", "").want(200)
	require.Equal(t, served, w.polls())
	w.do("POST", start, "").want(200)
	served = w.polls()
	require.Contains(t, served["wave-2/platform-components"], "6.9.9")
	complete := w.post("/plan", `{"rollout":"podinfo-6.9.9","action":"complete"}`).want(200).json()
	require.Empty(t, complete["groups"])
	w.do("POST", "/rollouts/podinfo-6.9.9/complete", "").want(200)
	require.Equal(t, served, w.polls(), "the completion changes no answer")
	require.Equal(t, "6.9.9", w.get("/platform_components/podinfo").json()["component_version"])
	w.delete("/rollouts/podinfo-6.9.9").want(200)
	w.get("/rollouts/podinfo-6.9.9").problem(404, "not_found")
	require.NotEmpty(t, w.get("/revisions?limit=20").want(200).list())
}

// TestInvalidRollouts: problems name the operation or the stage, and nothing is stored.
// TestTwoStartsAtOnce: of two processes that start the next stage at once, one starts it, and neither the stage after it.
func TestTwoStartsAtOnce(t *testing.T) {
	t.Parallel()
	w := rolloutWorld(t)
	w.post("/rollouts", bumpRollout).want(201)
	behind := w.another()
	w.do("POST", "/rollouts/podinfo-6.9.9/start", "").want(200)
	behind.do("POST", "/rollouts/podinfo-6.9.9/start", "").problem(409, "conflict")
	require.Equal(t, "pending", at(w.get("/rollouts/podinfo-6.9.9").json(), "stages", 1, "state"))
}

// TestAnswerOfAStartedStage: if the status of the rollout cannot be computed after the commit, since the time of the request
// is over, the answer still shows that the stage has started. After an error, a client would start the next one.
func TestAnswerOfAStartedStage(t *testing.T) {
	t.Parallel()
	w := rolloutWorld(t)
	w.post("/rollouts", bumpRollout).want(201)
	ctx, end := context.WithCancel(t.Context())
	w.faults.set(func(f *faultyStore) { f.made = end })
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/rollouts/podinfo-6.9.9/start", nil)
	req.Header.Set("Authorization", "Bearer "+writeToken)
	got := httptest.NewRecorder()
	w.http.Config.Handler.ServeHTTP(got, req)
	require.Error(t, ctx.Err())
	require.Equal(t, http.StatusOK, got.Code, "%s", got.Body)
	require.Contains(t, got.Body.String(), `"started":1`)
}

func TestInvalidRollouts(t *testing.T) {
	t.Parallel()
	w := rolloutWorld(t)
	post := func(operations, stages string) *answer {
		var a *answer
		w.unchanged(func() { a = w.post("/rollouts", `{"id":"r","operations":[`+operations+`],"stages":[`+stages+`]}`) })
		return a
	}
	require.Equal(t, []string{"/operations/0/patch/component_version"}, post(`{"op":"patch","kind":"platform_component","id":"podinfo","patch":{"component_version":" x"}}`, "").problem(400, "validation_error").pointers())
	post(`{"op":"patch","kind":"platform_component","id":"missing","patch":{}}`, "").problem(404, "not_found")
	refused := post(`{"op":"patch","kind":"cluster","id":"wave-1","patch":{"labels":{"a":"b"}}},{"op":"create","kind":"namespace","document":{"id":"more"}}`, "").problem(422, "not_stageable")
	require.Len(t, refused.pointers(), 2)
	require.Equal(t, []string{"/stages/0/percent"}, post(bump, `{"name":"a","all":true,"percent":0}`).problem(400, "validation_error").pointers())
	require.Equal(t, []string{"/stages/0"}, post(bump, `{"name":"a"}`).problem(400, "validation_error").pointers())
	require.Equal(t, []string{"/stages/0"}, post(bump, `{"name":"a","selector":" "}`).problem(400, "validation_error").pointers(), "a blank selector would select every cluster")
	post("", "").problem(400, "validation_error")
}

// TestStrategies: a rollout copies the stages of a strategy, which may change or go afterwards.
func TestStrategies(t *testing.T) {
	t.Parallel()
	w := rolloutWorld(t)
	before := w.polls()
	made := w.post("/strategies", `{"id":"waves","stages":[{"name":"one","selector":"id=wave-1"},{"name":"half","all":true,"percent":50}]}`).want(201)
	require.Equal(t, "/strategies/waves", made.header.Get("Location"))
	w.post("/strategies", `{"id":"waves","stages":[{"name":"one","all":true}]}`).problem(409, "conflict")
	bad := w.post("/strategies", `{"id":"bad","stages":[{"name":"a","selector":"x in (y"},{"name":"a"},{"name":"rest","selector":"x=y"}]}`).problem(400, "validation_error")
	require.Subset(t, bad.pointers(), []string{"/stages/0/selector", "/stages/1", "/stages/1/name", "/stages/2/name"})
	rollout := w.post("/rollouts", `{"id":"r","strategy":"waves","operations":[`+bump+`]}`).want(201).json()
	require.Equal(t, "one", at(rollout, "stages", 0, "name"))
	require.Equal(t, 50.0, at(rollout, "stages", 1, "percent"))
	require.Equal(t, "rest", at(rollout, "stages", 2, "name"))
	other := `{"op":"patch","kind":"platform_component","id":"podinfo","patch":{"secret_ref":"pull"}}`
	unknown := w.post("/rollouts", `{"id":"s","strategy":"missing","gate":{"soak":"721h"},"operations":[`+other+`]}`).problem(400, "validation_error").pointers()
	require.Equal(t, []string{"/strategy", "/gate/soak"}, unknown)
	w.post("/rollouts", `{"id":"s","strategy":"waves","stages":[{"name":"a","all":true}],"operations":[`+other+`]}`).problem(400, "validation_error")
	w.put("/strategies/waves", `{"stages":[{"name":"all","all":true}]}`, "If-Match", made.etag()).want(200)
	require.Equal(t, "all", at(w.get("/strategies/waves").want(200).json(), "stages", 0, "name"))
	require.Len(t, w.get("/strategies").want(200).list(), 1)
	w.delete("/strategies/waves").want(200)
	w.get("/strategies/waves").problem(404, "not_found")
	require.Equal(t, "one", at(w.get("/rollouts/r").want(200).json(), "stages", 0, "name"))
	require.Equal(t, before, w.polls())
}

// TestRolloutOfARestore: the error names the operation and the cluster that it would change.
func TestRolloutOfARestore(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.patch(demoCluster, `{"labels":{"x":"y"}}`).want(200)
	w.create("/clusters", `{"id":"other","cluster_dns":"other.example.com","environment":"dev"}`)
	body := w.post("/rollouts", `{"id":"r","operations":[{"op":"restore","revision":1}],"stages":[{"name":"all","all":true}]}`).problem(422, "not_stageable").json()
	require.Equal(t, `2 problems; the first: /operations/0: cluster "demo-cluster-01": a rollout cannot change clusters; change a layer that matches them`, body["detail"])
}
