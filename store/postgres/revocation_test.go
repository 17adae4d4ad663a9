package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// secretOf is the secret of a token of this test.
func secretOf(name string) string { return fleet.FormatSecret(sha256.Sum256([]byte(name))) }

// A process on a slow connection, busy with one commit for minutes, refuses tokens that were revoked after that commit long
// before it has read the revocation, and refuses no other token.
func TestRevocationsAreNotBehindBulk(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	p, through := newProxy(t, url)
	rules := fleet.Rules{Environments: []string{"dev"}, MaxRemovals: 100}
	direct := openStore(t, Config{URL: url})
	writer := store.NewReplica(store.Config{Store: direct, Rules: rules})
	follower := store.NewReplica(store.Config{Store: openStore(t, Config{URL: through, ReadOnly: true}), Rules: rules, QueryTimeout: time.Minute})
	now := time.Now()
	update := func(edits ...func(*fleet.Tx) error) {
		t.Helper()
		for _, edit := range edits {
			_, err := writer.Update(t.Context(), store.Meta{Actor: "test"}, edit)
			require.NoError(t, err)
		}
	}
	issue := func(name, role, cluster string) func(*fleet.Tx) error {
		return func(tx *fleet.Tx) error {
			_, err := tx.CreateToken(fleet.NewToken{ID: name, Name: name, Role: role, ClusterID: cluster, Secret: sha256.Sum256([]byte(secretOf(name)))}, now)
			return err
		}
	}
	rotate := func(id string, overlap time.Duration) func(*fleet.Tx) error {
		return func(tx *fleet.Tx) error {
			_, err := tx.RotateToken(id, fleet.Rotation{Secret: sha256.Sum256([]byte(secretOf("new-" + id))), Overlap: overlap}, now)
			return err
		}
	}
	remove := func(kind fleet.Kind, id string) func(*fleet.Tx) error {
		return func(tx *fleet.Tx) error {
			_, err := tx.Delete(kind, id, fleet.DeleteOptions{Orphan: kind == fleet.KindCluster})
			return err
		}
	}
	require.NoError(t, writer.Load(t.Context()))
	update(func(tx *fleet.Tx) error {
		for _, id := range []string{"a", "b"} {
			if _, err := tx.Create(fleet.KindCluster, fmt.Appendf(nil, `{"id":%q,"cluster_dns":"%s.example.com","environment":"dev"}`, id, id)); err != nil {
				return err
			}
		}
		return nil
	})
	update(issue("kept", fleet.RolePoll, "a"), issue("revoked", fleet.RolePoll, "a"), issue("reader", fleet.RoleRead, ""),
		issue("rotated", fleet.RolePoll, "a"), issue("overlapping", fleet.RolePoll, "a"), issue("ended", fleet.RolePoll, "b"))
	require.NoError(t, follower.Load(t.Context()))
	srv, err := server.New(server.Config{Mode: server.ModeReadOnly, Replica: follower, Tokens: server.Tokens{Read: "read-token-of-this-test"}})
	require.NoError(t, err)
	web := httptest.NewServer(srv)
	t.Cleanup(web.Close)
	all := map[string]string{"kept": "a", "revoked": "a", "reader": "a", "rotated": "a", "overlapping": "a", "ended": "b", "late": "a", "new-rotated": "a", "new-overlapping": "a"}
	statuses := func() map[string]int {
		got := map[string]int{}
		for name, cluster := range all {
			got[name] = poll(t, web, cluster, secretOf(name))
		}
		return got
	}
	good := map[string]int{"kept": 200, "revoked": 200, "reader": 200, "rotated": 200, "overlapping": 200, "ended": 200, "late": 401, "new-rotated": 401, "new-overlapping": 401}
	require.Equal(t, good, statuses())
	before := follower.State()

	p.Set(testrig.Trouble{Rate: bytesPerSecond(2)}) // 8 MB take half a minute
	bulk := fleet.Commit{Revision: before.Revision() + 1, ID: namespace(before.Head(), "").ID, At: now}
	for i := range 160 {
		id := fmt.Sprintf("ns%d", i)
		doc, err := json.Marshal(map[string]any{"id": id, "labels": map[string]string{"x": noise(i, 50_000)}})
		require.NoError(t, err)
		bulk.Changes = append(bulk.Changes, fleet.Change{Kind: fleet.KindNamespace, ID: id, After: doc})
	}
	require.NoError(t, direct.Commit(t.Context(), before.Head(), bulk))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		follower.Run(ctx)
	}()
	t.Cleanup(func() { <-done })
	t.Cleanup(stop)
	update(remove(fleet.KindToken, "revoked"), remove(fleet.KindToken, "reader"), rotate("rotated", 0), rotate("overlapping", time.Hour),
		remove(fleet.KindCluster, "b"), issue("late", fleet.RolePoll, "a"))
	restricted := map[string]int{"kept": 200, "revoked": 401, "reader": 401, "rotated": 401, "overlapping": 200, "ended": 401, "late": 401, "new-rotated": 401, "new-overlapping": 401}
	eventually(t, func() error {
		if poll(t, web, "b", secretOf("ended")) != 401 {
			return fmt.Errorf("it still works at revision %d", follower.State().Revision())
		}
		return nil
	})
	require.Equal(t, restricted, statuses())
	require.Same(t, before, follower.State(), "all that was known before the commit was read")

	p.Set(testrig.Trouble{})
	require.NoError(t, follower.WaitFor(t.Context(), writer.State().Revision()))
	restricted["late"], restricted["new-rotated"], restricted["new-overlapping"] = 200, 200, 200
	require.Equal(t, restricted, statuses(), "what is granted comes with the state")
}

func poll(t *testing.T, srv *httptest.Server, cluster, secret string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/api/v2/flux/clusters/"+cluster+".example.com/namespaces", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+secret)
	res, err := srv.Client().Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode
}
