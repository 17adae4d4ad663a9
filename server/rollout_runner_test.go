package server_test

import (
	"fmt"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/server"
)

const autoPath = "/rollouts/auto"

// autoRollout creates and starts a rollout that advances automatically, and returns n processes that run it. The shared token counts.
func autoRollout(t *testing.T, n int, settings string, configure ...func(*server.Config)) (*world, []*server.Server) {
	t.Helper()
	var cfg server.Config
	w := setupWith(t, options{configure: func(c *server.Config) {
		c.ClusterStatus, c.GatesTrustSharedToken = clusterstatus.NewTracker(clusterstatus.Config{}), true
		for _, set := range configure {
			set(c)
		}
		cfg = *c
	}})
	for _, id := range []string{"wave-1", "wave-2"} {
		w.create("/clusters", fmt.Sprintf(`{"id":%q,"cluster_dns":"%s.example.com","environment":"dev","platform_components":[{"id":"podinfo"}]}`, id, id))
	}
	runners := make([]*server.Server, n)
	for i := range runners {
		var err error
		runners[i], err = server.New(cfg)
		require.NoError(t, err)
	}
	w.confirmAll()
	w.create("/rollouts", `{"id":"auto","advance":"automatic"`+settings+`,"operations":[`+bump+`],"stages":[{"name":"one","cluster_ids":["wave-1"]}]}`)
	require.Equal(t, "start", at(w.get(autoPath).want(200).json(), "waiting", "reason"))
	return w, runners
}

func (w *world) confirmAll() {
	w.t.Helper()
	for _, dns := range []string{"wave-1.example.com", "wave-2.example.com", demoDNS} {
		w.confirm(dns)
	}
}

// rolloutState returns the state of the rollout and the number of started stages.
func (w *world) rolloutState() string {
	w.t.Helper()
	r := w.get(autoPath).want(200).json()
	return fmt.Sprint(r["state"], r["started"])
}

// TestRolloutAdvances: each stage starts when the one before has confirmed exactly the new inputs and its soak is over.
func TestRolloutAdvances(t *testing.T) {
	t.Parallel()
	w, runners := autoRollout(t, 1, "")
	step := func() string { runners[0].AdvanceRollouts(t.Context()); return w.rolloutState() }
	require.Equal(t, "proposed0", step(), "a person starts the first stage")
	w.do("POST", autoPath+"/start", "").want(200)
	require.Equal(t, "running1", step())
	status := w.get(autoPath).want(200).json()
	require.Equal(t, "confirmations", at(status, "waiting", "reason"), "the cluster has confirmed the inputs of before only")
	require.EqualValues(t, 1, at(status, "stages", 0, "progress", "affected"))
	require.EqualValues(t, 0, at(status, "stages", 0, "progress", "confirmed"))
	require.EqualValues(t, 2, at(status, "stages", 1, "progress", "affected"))

	w.confirmAll()
	require.Equal(t, "running1", step())
	status = w.get(autoPath).want(200).json()
	require.Equal(t, "soak", at(status, "waiting", "reason"))
	require.Equal(t, []any{"wave-1"}, at(status, "stages", 0, "progress", "cluster_ids", "confirmed"))
	require.NotContains(t, at(w.get("/rollouts").want(200).list()[0], "stages", 0, "progress"), "cluster_ids")
	w.clock.advance(30 * time.Minute)
	w.confirmAll()
	require.Equal(t, "running2", step())
	require.Equal(t, "running2", step())
	w.confirmAll()
	w.clock.advance(30 * time.Minute)
	w.confirmAll()
	served := w.polls()
	require.Equal(t, "completed2", step())
	require.Equal(t, served, w.polls())
	newest := w.get("/revisions?limit=1").want(200).list()[0]
	require.Equal(t, "rollout-runner", at(newest, "actor"))
}

// TestRolloutFailure: a cluster that confirms and then fails stops the rollout, and with on_failure back its stage loses the
// change.
func TestRolloutFailure(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]string{"": "paused1", `,"on_failure":"back"`: "paused0"} {
		w, runners := autoRollout(t, 1, settings)
		w.do("POST", autoPath+"/start", "").want(200)
		w.confirmAll()
		w.clock.advance(time.Minute)
		receipt := w.input("wave-1", "platform-components", "podinfo")["receipt"].(string)
		w.tell(readToken, strings.Replace(demoEvents, demoDNS, "wave-1.example.com", 1), event(`{"component":"podinfo","input":"`+receipt+`"}`, "no such image")).want(202)
		require.Equal(t, "no such image", at(w.get(autoPath).want(200).json(), "stages", 0, "progress", "failures", 0, "failure", "message"))
		runners[0].AdvanceRollouts(t.Context())
		require.Equal(t, want, w.rolloutState())
		require.Equal(t, `stage "one": 1 cluster failed, and 0 may; wave-1: no such image`, w.get(autoPath).want(200).json()["paused_because"])
		w.clock.advance(time.Hour)
		runners[0].AdvanceRollouts(t.Context())
		require.Equal(t, want, w.rolloutState(), "a paused rollout does not advance")
	}
}

// TestRolloutsKeepNoState: after the last rollout has ended, a process keeps no earlier State of the fleet in memory.
func TestRolloutsKeepNoState(t *testing.T) {
	t.Parallel()
	w, runners := autoRollout(t, 1, "")
	w.do("POST", autoPath+"/start", "").want(200)
	w.put("/platform_components/podinfo", `{"patches":{"x":"y"}}`).want(200)
	earlier := weak.Make(w.replica.State())
	runners[0].AdvanceRollouts(t.Context())
	w.do("POST", autoPath+"/abort", "").want(200)
	w.put("/platform_components/podinfo", `{"patches":{"x":"z"}}`).want(200)
	runners[0].AdvanceRollouts(t.Context())
	runtime.GC()
	if earlier.Value() != nil {
		t.Error("the State during the rollout is still in memory")
	}
	runtime.KeepAlive(runners)
}

// TestRolloutOffline: a cluster that has been offline since it confirmed is not a confirmed one.
func TestRolloutOffline(t *testing.T) {
	t.Parallel()
	w, runners := autoRollout(t, 1, "")
	w.do("POST", autoPath+"/start", "").want(200)
	w.confirmAll()
	w.clock.advance(clusterstatus.OfflineAfter + time.Minute)
	progress := at(w.get(autoPath).want(200).json(), "stages", 0, "progress")
	require.EqualValues(t, 1, at(progress, "offline"))
	require.EqualValues(t, 0, at(progress, "confirmed"))
	runners[0].AdvanceRollouts(t.Context())
	require.Equal(t, "paused1", w.rolloutState())
	require.Equal(t, `stage "one": more than half of its clusters are offline, 1 of 1`, w.get(autoPath).want(200).json()["paused_because"])
}

// TestRolloutPrincipal: a rollout pauses when the token that started it is revoked.
func TestRolloutPrincipal(t *testing.T) {
	t.Parallel()
	w, runners := autoRollout(t, 1, "")
	token := w.issue(`{"name":"deployer","role":"write"}`)
	w.do("POST", autoPath+"/start", "", "Authorization", "Bearer "+token.secret).want(200)
	require.Contains(t, w.get(autoPath).want(200).json()["principal"], "deployer")
	w.confirmAll()
	w.clock.advance(30 * time.Minute)
	w.confirmAll()
	w.delete("/tokens/" + token.id).want(200)
	runners[0].AdvanceRollouts(t.Context())
	require.Equal(t, "paused1", w.rolloutState())
	require.Contains(t, w.get(autoPath).want(200).json()["paused_because"], "no authorized principal")
	w.do("POST", autoPath+"/resume", "").want(200)
	runners[0].AdvanceRollouts(t.Context())
	require.Equal(t, "running2", w.rolloutState(), "with the permission of who resumed it")
}

// TestRolloutObservations: a process that does not know the status of all clusters decides nothing.
func TestRolloutObservations(t *testing.T) {
	t.Parallel()
	w, runners := autoRollout(t, 1, "")
	w.do("POST", autoPath+"/start", "").want(200)
	w.pass()
	restart := func() (*clusterstatus.Tracker, *server.Server) {
		tracker := clusterstatus.NewTracker(clusterstatus.Config{Store: &sharedTable{now: w.clock.Now, rows: map[[2]string]sharedRow{}}})
		restarted, err := server.New(server.Config{Mode: server.ModeCRUD, Replica: w.replica, History: w.faults, Tokens: server.Tokens{Read: readToken, Write: writeToken}, ClusterStatus: tracker, Now: w.clock.Now})
		require.NoError(t, err)
		return tracker, restarted
	}
	tracker, restarted := restart()
	w.unchanged(func() { restarted.AdvanceRollouts(t.Context()) })
	wrong, ahead := restart()
	wrong.Sync(t.Context(), w.clock.Now().Add(time.Hour))
	require.True(t, wrong.Stats().Complete)
	w.unchanged(func() { ahead.AdvanceRollouts(t.Context()) }) // its clock differs from the database's
	tracker.Sync(t.Context(), w.clock.Now())
	require.True(t, tracker.Stats().Complete)
	restarted.AdvanceRollouts(t.Context())
	require.Equal(t, "paused1", w.rolloutState(), "it knows that no cluster sends receipts")
	w.do("POST", autoPath+"/resume", "").want(200)
	runners[0].AdvanceRollouts(t.Context())
	require.Equal(t, "running2", w.rolloutState())
}

// TestRolloutRunners: of several processes one makes each step.
func TestRolloutRunners(t *testing.T) {
	t.Parallel()
	w, runners := autoRollout(t, 4, "")
	w.do("POST", autoPath+"/start", "").want(200)
	w.confirmAll()
	w.clock.advance(30 * time.Minute)
	w.confirmAll()
	before := w.replica.State().Revision()
	var all sync.WaitGroup
	for _, r := range runners {
		all.Go(func() { r.AdvanceRollouts(t.Context()) })
	}
	all.Wait()
	require.Equal(t, "running2", w.rolloutState())
	require.Equal(t, before+1, w.replica.State().Revision())
}

// pass lets the started stage pass its gate.
func (w *world) pass() {
	w.t.Helper()
	w.confirmAll()
	w.clock.advance(30 * time.Minute)
	w.confirmAll()
}

// TestRolloutFreeze: a rollout waits for the end of a freeze of its next clusters, without a warning.
func TestRolloutFreeze(t *testing.T) {
	t.Parallel()
	w, runners := autoRollout(t, 1, "")
	w.do("POST", autoPath+"/start", "").want(200)
	w.pass()
	w.create("/freezes", `{"id":"year-end","selector":"id=wave-2","until":"2999-01-01T00:00:00Z","reason":"CHG-9"}`)
	w.create("/freezes", `{"id":"passed-stage","selector":"id=wave-1","reason":"CHG-8"}`)
	for range 2 {
		w.unchanged(func() { runners[0].AdvanceRollouts(t.Context()) })
		waiting := w.get(autoPath).want(200).json()["waiting"]
		require.Equal(t, "freeze", at(waiting, "reason"))
		require.Equal(t, "rest", at(waiting, "stage"))
		require.Equal(t, "2999-01-01T00:00:00Z", at(waiting, "until"))
		require.Contains(t, at(waiting, "message"), `freeze "year-end" of wave-2`)
		require.NotContains(t, at(waiting, "message"), "passed-stage")
	}
	require.NotContains(t, w.logs.String(), "cannot advance")
	w.delete("/freezes/year-end").want(200)
	runners[0].AdvanceRollouts(t.Context())
	require.Equal(t, "running2", w.rolloutState())
}

// TestRolloutFrozenBack: a failed stage that is frozen keeps the change, and the rollout pauses.
func TestRolloutFrozenBack(t *testing.T) {
	t.Parallel()
	w, runners := autoRollout(t, 1, `,"on_failure":"back"`)
	w.do("POST", autoPath+"/start", "").want(200)
	w.confirmAll()
	w.clock.advance(time.Minute)
	receipt := w.input("wave-1", "platform-components", "podinfo")["receipt"].(string)
	w.tell(readToken, strings.Replace(demoEvents, demoDNS, "wave-1.example.com", 1), event(`{"component":"podinfo","input":"`+receipt+`"}`, "no such image")).want(202)
	w.create("/freezes", `{"id":"year-end","all":true,"reason":"CHG-9"}`)
	served := w.polls()
	runners[0].AdvanceRollouts(t.Context())
	require.Equal(t, "paused1", w.rolloutState())
	require.Equal(t, served, w.polls())
	because := w.get(autoPath).want(200).json()["paused_because"]
	require.Contains(t, because, "1 cluster failed")
	require.Contains(t, because, `freeze "year-end" of wave-1`)
}

// TestRolloutGuard: the runner confirms no removals: a stage with more of them than the guard allows pauses the rollout, again
// after each resume.
func TestRolloutGuard(t *testing.T) {
	t.Parallel()
	w, runners := autoRollout(t, 1, "")
	const path = "/rollouts/paths"
	w.create("/rollouts", `{"id":"paths","advance":"automatic","gate":{"confirmed":"0%"},"operations":[
		{"op":"patch","kind":"platform_component","id":"podinfo","patch":{"component_path":"elsewhere"}}],"stages":[{"name":"one","cluster_ids":["wave-1"]}]}`)
	w.clusters(rules.MaxRemovals+1, "dev") // nobody confirmed their removals
	w.do("POST", path+"/start", "").want(200)
	w.clock.advance(30 * time.Minute)
	served := w.polls()
	for range 2 {
		runners[0].AdvanceRollouts(t.Context())
		paused := w.get(path).want(200).json()
		require.Equal(t, "paused", paused["state"])
		require.EqualValues(t, 1, paused["started"])
		require.Contains(t, paused["paused_because"], "removes more than was confirmed")
		require.Equal(t, served, w.polls())
		w.do("POST", path+"/resume", "").want(200)
	}
	plan := w.post("/plan", `{"rollout":"paths"}`).want(200).json()
	w.do("POST", path+"/start?plan_hash="+plan["plan_hash"].(string), "").want(200)
}

// TestPolicyPausesRollout: a policy that was added refuses the next stage, which pauses the rollout; it may still be aborted.
func TestPolicyPausesRollout(t *testing.T) {
	t.Parallel()
	w, runners := autoRollout(t, 1, "")
	w.create("/rollouts", `{"id":"paths","advance":"automatic","gate":{"confirmed":"0%"},"operations":[
		{"op":"patch","kind":"platform_component","id":"podinfo","patch":{"patches":{"policy.test":"1"}}}],"stages":[{"name":"one","cluster_ids":["wave-1"]},{"name":"two","cluster_ids":["wave-2"]}]}`)
	w.do("POST", "/rollouts/paths/start", "").want(200)
	w.create("/policies", `{"id":"never","rule":"false","action":"deny"}`)
	w.clock.advance(30 * time.Minute)
	served := w.polls()
	runners[0].AdvanceRollouts(t.Context())
	paused := w.get("/rollouts/paths").want(200).json()
	require.Equal(t, "paused", paused["state"])
	require.Equal(t, `a policy refuses the next step: policy "never": its rule is false for this change`, paused["paused_because"])
	require.Equal(t, served, w.polls())
	w.do("POST", "/rollouts/paths/resume", "").problem(422, "policy")
	w.do("POST", "/rollouts/paths/abort", "").want(200)
}

// TestRolloutAbortRace: an abort by another process, between the runner's decision to start a stage and its commit, wins.
func TestRolloutAbortRace(t *testing.T) {
	t.Parallel()
	w, runners := autoRollout(t, 1, "")
	w.do("POST", autoPath+"/start", "").want(200)
	w.pass()
	other := w.another()
	slow := &slowCommit{begun: make(chan struct{}), proceed: make(chan struct{})}
	w.faults.set(func(f *faultyStore) { f.slow = slow })
	var run sync.WaitGroup
	run.Go(func() { runners[0].AdvanceRollouts(t.Context()) })
	<-slow.begun
	w.faults.set(func(f *faultyStore) { f.slow = nil })
	other.do("POST", autoPath+"/abort", "").want(200)
	served, revision := other.polls(), other.revision()
	close(slow.proceed)
	run.Wait()
	runners[0].AdvanceRollouts(t.Context())
	require.Equal(t, "aborted1", w.rolloutState())
	require.Equal(t, revision, w.revision())
	require.Equal(t, served, w.polls())
	require.NotContains(t, w.logs.String(), "cannot advance")
}

// TestRolloutMetrics: the started stages of open rollouts, and how long each has waited for the same reason or been paused.
func TestRolloutMetrics(t *testing.T) {
	t.Parallel()
	w, runners := autoRollout(t, 2, "")
	waiting := func(reason string) float64 {
		return w.metric(`flux_resourceset_rollout_waiting_seconds{reason="` + reason + `",rollout="auto"}`)
	}
	const stage = `flux_resourceset_rollout_stage{rollout="auto"}`
	require.Zero(t, w.metric(stage))
	w.do("POST", autoPath+"/start", "").want(200)
	require.Equal(t, 1.0, w.metric(stage))
	w.clock.advance(time.Minute)
	runners[0].AdvanceRollouts(t.Context())
	w.clock.advance(time.Minute)
	runners[1].AdvanceRollouts(t.Context())
	for _, runner := range runners { // the second one has just started
		srv := httptest.NewServer(runner)
		t.Cleanup(srv.Close)
		process := &world{t: t, http: srv, client: srv.Client()}
		require.Equal(t, 120.0, process.metric(`flux_resourceset_rollout_waiting_seconds{reason="confirmations",rollout="auto"}`))
	}
	w.do("POST", autoPath+"/pause", "").want(200)
	w.clock.advance(time.Minute)
	require.Equal(t, 60.0, waiting("paused"))
	require.Equal(t, -1.0, waiting("confirmations"))
	runners[0].AdvanceRollouts(t.Context())
	w.do("POST", autoPath+"/abort", "").want(200)
	require.Equal(t, -1.0, w.metric(stage))
	require.Equal(t, -1.0, waiting("paused"))
}

// TestRolloutMetricsOfNewRollout: a rollout has no metric of the wait of a deleted one with its id.
func TestRolloutMetricsOfNewRollout(t *testing.T) {
	t.Parallel()
	w, runners := autoRollout(t, 1, "")
	srv := httptest.NewServer(runners[0])
	t.Cleanup(srv.Close)
	process := &world{t: t, http: srv, client: srv.Client()}
	const waiting = `flux_resourceset_rollout_waiting_seconds{reason="confirmations",rollout="auto"}`
	w.do("POST", autoPath+"/start", "").want(200)
	runners[0].AdvanceRollouts(t.Context())
	require.Zero(t, process.metric(waiting))
	w.do("POST", autoPath+"/abort", "").want(200)
	w.delete(autoPath).want(200)
	runners[0].AdvanceRollouts(t.Context())
	w.create("/rollouts", `{"id":"auto","advance":"automatic","operations":[`+bump+`],"stages":[{"name":"one","cluster_ids":["wave-1"]}]}`)
	w.do("POST", autoPath+"/start", "").want(200)
	require.Equal(t, -1.0, process.metric(waiting), "it is not evaluated yet")
}

// TestRolloutTraces: each evaluation of an automatic rollout is a span, with the commit of its step below it.
func TestRolloutTraces(t *testing.T) {
	t.Parallel()
	w, runners := autoRollout(t, 1, `,"gate":{"confirmed":"0%","soak":"1s"}`)
	spans := tracetest.NewSpanRecorder()
	runners[0].SetTracer(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test"))
	runners[0].AdvanceRollouts(t.Context())
	require.Empty(t, spans.Ended(), "it has not started")
	w.do("POST", autoPath+"/start", "").want(200)
	w.clock.advance(time.Minute)
	runners[0].AdvanceRollouts(t.Context())
	ended := spans.Ended()
	require.Len(t, ended, 2)
	require.Equal(t, "commit rollout step", ended[0].Name())
	require.Equal(t, "evaluate rollout", ended[1].Name())
	require.Equal(t, ended[1].SpanContext().SpanID(), ended[0].Parent().SpanID())
	require.Contains(t, ended[0].Attributes(), attribute.String("fleet.revision", strconv.Itoa(w.revision())))
	require.Contains(t, ended[1].Attributes(), attribute.String("fleet.rollout.action", "start"))
}
