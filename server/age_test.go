package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store"
)

// reads are answers that are made from the State in memory: Flux's on both ways, and people's.
func (w *world) reads() map[string]*answer {
	w.t.Helper()
	return map[string]*answer{
		"poll":            w.get(demoPolls + "/namespaces"),
		"poll, not gzip":  w.get(demoPolls+"/namespaces", "Accept-Encoding", "identity"),
		"poll, unchanged": w.get(demoPolls+"/namespaces", "If-None-Match", "*"),
		"clusters":        w.get("/api/v2/flux/clusters"),
		"list":            w.get("/clusters"),
		"document":        w.get(demoCluster),
		"document, new":   w.get(demoCluster, "X-Fleet-Min-Revision", "1"),
	}
}

// A server without its store answers 503 on every route once its copy is older than MAX_STALENESS, and reports the age until
// then.
func TestReadsReportAge(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"crud", "read-only"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := setupWith(t, options{staleness: 2 * time.Minute, mode: mode})
			reads := func() map[string]*answer {
				all := w.reads()
				if mode == "read-only" { // people ask the others
					for _, name := range []string{"list", "document", "document, new"} {
						delete(all, name)
					}
				}
				return all
			}
			for name, a := range reads() {
				require.Less(t, a.status, 400, name)
				require.Equal(t, "0", a.header.Get("Age"), name)
			}
			w.faults.set(func(f *faultyStore) { f.fail = store.ErrUnavailable })
			w.clock.advance(90*time.Second + 700*time.Millisecond)
			require.Error(t, w.replica.Load(t.Context()), "it asks, and is not answered")
			for name, a := range reads() {
				require.Less(t, a.status, 400, name)
				require.Equal(t, "90", a.header.Get("Age"), name)
			}
			w.clock.advance(30 * time.Second)
			for name, a := range reads() {
				p := a.problem(503, "store_unavailable")
				require.Equal(t, "1", p.header.Get("Retry-After"), name)
				require.Contains(t, string(p.body), "MAX_STALENESS", name)
				require.Empty(t, p.header.Get("Age"), name)
			}
			ready := w.get("/ready").want(503)
			require.Contains(t, string(ready.body), "too old: the store last confirmed it 2m1s ago, and MAX_STALENESS is 2m0s")
			w.get("/health").want(200)
			require.InDelta(t, 120.7, w.metric("flux_resourceset_fleet_state_age_seconds"), 0.01)
			w.do("GET", demoPolls+"/namespaces", "", "Authorization", "Bearer nobody").want(401)

			w.faults.set(func(f *faultyStore) { f.fail = nil })
			require.NoError(t, w.replica.Load(t.Context()))
			for name, a := range reads() {
				require.Less(t, a.status, 400, name)
				require.Equal(t, "0", a.header.Get("Age"), name)
			}
			w.get("/ready").want(200)
		})
	}
}

// Zero is the old behaviour, for installations of one process.
func TestReadsAnsweredAtAnyAge(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clock.advance(1000 * time.Hour)
	for name, a := range w.reads() {
		require.Less(t, a.status, 400, name)
		require.Equal(t, "3600000", a.header.Get("Age"), name)
	}
	require.NotContains(t, string(w.get("/ready").want(200).body), "too old")
}
