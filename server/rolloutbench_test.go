package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// BenchmarkRolloutRunner evaluates a rollout that changes a component of 10,000 clusters with 30 components each, a third of
// which are served the change: the first time after a change of a cluster, again in the same State, and after a change of a
// layer of few clusters.
func BenchmarkRolloutRunner(b *testing.B) {
	table := &sharedTable{rows: map[[2]string]sharedRow{}}
	h, replica, tracker := confirmedFleet(b, 10_000, 30, table, time.Now)
	tracker.Sync(b.Context(), time.Now())
	require.True(b, tracker.Stats().Complete)
	do := func(method, path, body string, want int) {
		req := httptest.NewRequest(method, path, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer bench-write")
		req.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		require.Equal(b, want, rec.Code, "%s", rec.Body)
	}
	do(http.MethodPost, "/rollouts", `{"id":"r","advance":"automatic","operations":[{"op":"patch","kind":"platform_component","id":"component-0","patch":{"component_version":"9.9.9"}}],
		"stages":[{"name":"third","all":true,"percent":30}]}`, http.StatusCreated)
	do(http.MethodPost, "/rollouts/r/start", "", http.StatusOK)
	do(http.MethodPost, "/layers", `{"id":"few","priority":10,"selector":"id in (c0, c1, c2)"}`, http.StatusCreated)
	st := replica.State()
	for _, doc := range st.All(fleet.KindCluster) { // all clusters poll and send receipts, and few have not confirmed yet
		lists, err := st.DesiredInputs(doc)
		require.NoError(b, err)
		for _, list := range lists {
			if tracker.RecordPoll(clusterstatus.Poll{Cluster: doc.ID, List: list.List, ETag: list.ETag, Agent: "flux-operator/v0.58.1"}, time.Now()) {
				tracker.RecordServed(doc.ID, list, time.Now())
			}
		}
	}
	runner := h.(*server.Server)
	evaluate := func() time.Duration {
		revision, before := replica.State().Revision(), used(b)
		runner.AdvanceRollouts(b.Context())
		require.Equal(b, revision, replica.State().Revision(), "it waits")
		return used(b) - before
	}
	change := func(kind fleet.Kind, id, body string) {
		_, err := replica.Update(b.Context(), store.Meta{Actor: "bench"}, func(tx *fleet.Tx) error {
			_, err := tx.Patch(kind, id, fmt.Appendf(nil, body, time.Now().Format("150405.000000000")))
			return err
		})
		require.NoError(b, err)
	}
	var first, again, layer time.Duration
	for b.Loop() {
		change(fleet.KindCluster, "c0", `{"labels":{"time":%q}}`)
		first += evaluate()
		again += evaluate()
		change(fleet.KindLayer, "few", `{"patches":{"component-1":{"time":%q}}}`)
		layer += evaluate()
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(first.Microseconds())/float64(b.N)/1000, "first-cpu-ms")
	b.ReportMetric(float64(again.Microseconds())/float64(b.N)/1000, "cpu-ms")
	b.ReportMetric(float64(layer.Microseconds())/float64(b.N)/1000, "layer-cpu-ms")
}

// BenchmarkRolloutPolls polls a list of 10,000 clusters before a rollout starts, while it serves its change to a third of them,
// and after it is aborted. The ratio is the CPU time of the first and last polls over that of those between them.
func BenchmarkRolloutPolls(b *testing.B) {
	h, _, _ := confirmedFleet(b, 10_000, 30, &sharedTable{rows: map[[2]string]sharedRow{}}, time.Now)
	do := func(method, path, body string, want int) {
		req := httptest.NewRequest(method, path, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer bench-write")
		req.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		require.Equal(b, want, rec.Code, "%s", rec.Body)
	}
	requests := make([]*http.Request, 10_000)
	for i := range requests {
		requests[i] = httptest.NewRequest(http.MethodGet, pollPath(i), nil)
		requests[i].Header = http.Header{"Authorization": {"Bearer " + benchToken}, "Accept-Encoding": {"gzip"}, "User-Agent": {"flux-operator/v0.58.1"}}
	}
	polls := func(rounds int) time.Duration {
		before := used(b)
		for range rounds {
			for _, r := range requests {
				h.ServeHTTP(&unread{header: http.Header{}}, r)
			}
		}
		return used(b) - before
	}
	const rounds = 10
	var without, with time.Duration
	for b.Loop() {
		do(http.MethodPost, "/rollouts", `{"id":"r","operations":[{"op":"patch","kind":"platform_component","id":"component-0","patch":{"component_version":"9.9.9"}}],
			"stages":[{"name":"third","all":true,"percent":30}]}`, http.StatusCreated)
		polls(1)
		runtime.GC()
		without += polls(rounds)
		do(http.MethodPost, "/rollouts/r/start", "", http.StatusOK)
		polls(1)
		runtime.GC()
		with += polls(2 * rounds)
		do(http.MethodPost, "/rollouts/r/abort", "", http.StatusOK)
		polls(1)
		runtime.GC()
		without += polls(rounds)
		do(http.MethodDelete, "/rollouts/r", "", http.StatusOK)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(with.Nanoseconds())/float64(b.N*2*rounds*len(requests)), "cpu-ns/poll")
	b.ReportMetric(float64(without)/float64(with), "polls-ratio")
}

// unread is a client that does not read its answer.
type unread struct{ header http.Header }

func (w *unread) Header() http.Header          { return w.header }
func (*unread) WriteHeader(int)                {}
func (*unread) Write(body []byte) (int, error) { return len(body), nil }

var _ clusterstatus.Store = (*sharedTable)(nil)
