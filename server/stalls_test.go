package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// longEnum is a resource type with an enum of 4,000 objects, and a spec of 1.2 MB for it: 360 million comparisons, which
// cannot be interrupted.
func longEnum() (resourceType, spec string) {
	values := make([]string, 4000)
	for i := range values {
		values[i] = fmt.Sprintf(`{"k":%d}`, i)
	}
	resourceType = `{"id":"stall","schema":{"type":"object","additionalProperties":false,"properties":{"a":{"type":"array","default":[],"items":{"enum":[` +
		strings.Join(values, ",") + `]}}}}}`
	return resourceType, `{"a":[` + strings.TrimSuffix(strings.Repeat(`{"k":400000},`, 90_000), ",") + `]}`
}

// TestValidationInterrupted: a schema and a spec that would keep the validator busy for minutes are refused, by batches,
// plans and single changes.
func TestValidationInterrupted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	resourceType, spec := longEnum()
	w.create("/resource_types", resourceType)
	create := `{"operations":[{"op":"create","kind":"resource","type":"stall","document":{"id":"x","spec":` + spec + `}}]}`
	for path, body := range map[string]string{"/batch": create, "/plan": create, "/resources/stall": `{"id":"x","spec":` + spec + `}`} {
		problem := w.post(path, body).problem(http.StatusBadRequest, "validation_error")
		require.Contains(t, string(problem.body), "steps to validate", path)
	}
}

// stuckPlan is a plan that goes on after its client hung up, until the test lets it.
type stuckPlan struct {
	working chan struct{}
	proceed chan struct{}
}

func (w *world) stuckPlans() stuckPlan {
	s := stuckPlan{make(chan struct{}, 16), make(chan struct{})}
	w.faults.set(func(f *faultyStore) { f.past = func() { s.working <- struct{}{}; <-s.proceed } })
	return s
}

// stuck sends a plan that does not end, and hangs up while it is worked on. It returns the status of the answer, when there
// is one.
func (w *world) stuck(s stuckPlan, token string) <-chan int {
	ctx, hangUp := context.WithCancel(w.t.Context())
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/plan", strings.NewReader(`{"operations":[{"op":"restore","revision":1}]}`))
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	status := make(chan int, 1)
	go func() {
		rec := httptest.NewRecorder()
		w.http.Config.Handler.ServeHTTP(rec, req)
		status <- rec.Code
	}()
	synctest.Wait()
	require.Len(w.t, s.working, 1)
	<-s.working
	hangUp()
	synctest.Wait()
	return status
}

func (w *world) planAs(token string) *answer {
	return w.do("POST", "/plan", setTag, "Authorization", "Bearer "+token)
}

// TestCanceledJobsFreeTheirTurn: a job that does not end when its client disconnects delays its own credential only. The
// number of such jobs is limited, and probes and metrics report them.
func TestCanceledJobsFreeTheirTurn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := setupWith(t, options{serve: serveInMemory})
		var tokens []string
		for i := range 5 {
			tokens = append(tokens, w.issue(fmt.Sprintf(`{"name":"t-%d","role":"read"}`, i)).secret)
		}
		other := tokens[4]
		s := w.stuckPlans()
		var ends []<-chan int
		for _, token := range tokens[:2] {
			ends = append(ends, w.stuck(s, token))
		}
		w.planAs(other).want(200)
		ready := w.get("/ready").want(200)
		require.NotContains(t, string(ready.body), "queues")

		time.Sleep(11 * time.Second) // of the bubble
		ready = w.get("/ready").want(200)
		require.Contains(t, ready.json()["checks"].(map[string]any)["queues"], "stuck: plans: 2 not ended 11s after they were canceled")
		require.EqualValues(t, 2, w.metric(`flux_resourceset_work_jobs{state="stuck",work="plans"}`))
		w.planAs(other).want(200)

		for _, token := range tokens[2:4] {
			ends = append(ends, w.stuck(s, token))
		}
		time.Sleep(11 * time.Second) // of the bubble
		require.Contains(t, string(w.get("/ready").want(503).body), "plans: 4 not ended")
		w.get("/ready?for=polls").want(200)
		w.planAs(other).problem(429, "too_many_requests") // after 50 s of the bubble

		s.proceed <- struct{}{} // to the first, whose turn was given to others
		<-ends[0]
		w.planAs(other).want(200)

		close(s.proceed)
		for _, end := range ends[1:] {
			<-end
		}
		require.NotContains(t, string(w.get("/ready").want(200).body), "queues")
		for _, token := range tokens {
			w.planAs(token).want(200)
		}
		require.EqualValues(t, 0, w.metric(`flux_resourceset_work_jobs{state="working",work="plans"}`))
	})
}

// TestFairTurns: a principal with many plans waits for its own, and does not delay a principal with one.
func TestFairTurns(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := setupWith(t, options{serve: serveInMemory})
		other := w.issue(`{"name":"other","role":"read"}`).secret
		s := w.stuckPlans()
		statuses := make(chan int, 4)
		for range cap(statuses) {
			go func() {
				statuses <- w.do("POST", "/plan", `{"operations":[{"op":"restore","revision":1}]}`, "Authorization", "Bearer "+readToken).status
			}()
		}
		synctest.Wait()
		require.Len(t, s.working, 1, "one of a credential is worked on")
		w.planAs(other).want(200)
		close(s.proceed)
		for range cap(statuses) {
			require.Equal(t, http.StatusOK, <-statuses)
		}
	})
}
