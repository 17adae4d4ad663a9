package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/knownversions"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// versionProcess is one of several processes on a database.
type versionProcess struct {
	replica *store.Replica
	tracker *clusterstatus.Tracker
	server  *server.Server
	http    *httptest.Server
}

func newVersionProcess(t *testing.T, st store.Store, table clusterstatus.Store) *versionProcess {
	t.Helper()
	p, known := &versionProcess{}, knownversions.New()
	p.replica = store.NewReplica(store.Config{Store: st, Rules: rules})
	require.NoError(t, p.replica.Load(t.Context()))
	p.tracker = clusterstatus.NewTracker(clusterstatus.Config{Store: table, ServiceRows: known})
	var err error
	p.server, err = server.New(server.Config{
		Mode: server.ModeCRUD, Replica: p.replica, History: st, ClusterStatus: p.tracker, Versions: known, Tokens: server.Tokens{Read: readToken, Write: writeToken},
	})
	require.NoError(t, err)
	p.http = httptest.NewServer(p.server)
	t.Cleanup(func() { p.http.Close(); _ = table.Close(); _ = st.Close() })
	return p
}

func (p *versionProcess) push(t *testing.T, version string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.http.URL+versionsPath, strings.NewReader(`{"version":"`+version+`"}`))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+writeToken)
	req.Header.Set("Content-Type", "application/json")
	res, err := p.http.Client().Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode
}

// TestPushesToTwoProcesses: 1,000 pushes to two processes make one commit, by either of them, and each knows what was pushed to the
// other.
func TestPushesToTwoProcesses(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, start func() (store.Store, clusterstatus.Store)) {
		t.Helper()
		var processes []*versionProcess
		var history store.Store
		for range 2 {
			st, table := start()
			processes, history = append(processes, newVersionProcess(t, st, table)), st
		}
		res, err := processes[0].replica.Update(t.Context(), store.Meta{Actor: "static-write"}, func(tx *fleet.Tx) error {
			_, err := tx.Create(fleet.KindComponent, []byte(`{"id":"podinfo","component_path":"podinfo","oci_url":"https://charts.example.com","component_version":"6.0.0","version_policies":{"catalog":{"range":">=6"}}}`))
			return err
		})
		require.NoError(t, err)
		before := res.State.Revision()
		require.NoError(t, processes[1].replica.SyncTo(t.Context(), before))
		var pushing sync.WaitGroup
		for i, p := range processes {
			pushing.Go(func() {
				for n := range 500 {
					require.Equal(t, http.StatusAccepted, p.push(t, fmt.Sprintf("6.%d.%d", n%40, i)))
				}
			})
		}
		pushing.Wait()
		for range 3 {
			for _, p := range processes {
				p.tracker.Sync(t.Context(), time.Now())
			}
		}
		var running sync.WaitGroup
		for range 3 {
			for _, p := range processes {
				running.Go(func() { p.server.MoveVersions(t.Context()) })
			}
		}
		running.Wait()
		for _, p := range processes {
			p.server.MoveVersions(t.Context())
			require.NoError(t, p.replica.SyncTo(t.Context(), before+1))
			require.Equal(t, before+1, p.replica.State().Revision())
			require.Len(t, p.replica.State().All(fleet.KindRollout), 1)
		}
		found, err := history.Summaries(t.Context(), store.HistoryQuery{Limit: 1}, 1)
		require.NoError(t, err)
		require.Equal(t, fleet.VersionAutomation, found[0].Actor)
	})
}
