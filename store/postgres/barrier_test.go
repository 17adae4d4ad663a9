package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
	"github.com/flux-resourceset/flux-resourceset/store"
)

func replicaOf(t *testing.T, cfg Config) *store.Replica {
	t.Helper()
	r := store.NewReplica(store.Config{Store: openStore(t, cfg)})
	require.NoError(t, r.Load(t.Context()))
	return r
}

func createNamespace(tx *fleet.Tx) error {
	_, err := tx.Create(fleet.KindNamespace, []byte(`{"id":"n"}`))
	return err
}

func deleteNamespace(tx *fleet.Tx) error {
	_, err := tx.Delete(fleet.KindNamespace, "n", fleet.DeleteOptions{})
	return err
}

// A write with an unknown outcome is settled by the next write through any process. Otherwise a removal could be answered with
// "not found" before the document arrives.
func TestNextWriteSettlesAnUnknownOne(t *testing.T) {
	t.Parallel()
	for name, through := range map[string]func(t *testing.T, first *store.Replica, url string) *store.Replica{
		"the same process": func(_ *testing.T, first *store.Replica, _ string) *store.Replica { return first },
		"another process":  func(t *testing.T, _ *store.Replica, url string) *store.Replica { return replicaOf(t, Config{URL: url}) },
	} {
		for outcome, delivered := range map[string]bool{"it arrives late": true, "it never arrives": false} {
			t.Run(name+", "+outcome, func(t *testing.T) {
				t.Parallel()
				direct := newDatabase(t)
				p, url := newProxy(t, direct)
				first := replicaOf(t, Config{URL: url})
				next := through(t, first, direct)
				deliver := make(chan bool, 1)
				p.Set(testrig.Trouble{Commit: func(c *testrig.Conn, message []byte) {
					p.Set(testrig.Trouble{Refuse: true})
					c.DropClient()
					p.Cut()
					if <-deliver {
						c.Deliver(message)
					} else {
						c.Cut()
					}
				}})
				_, err := first.Update(t.Context(), store.Meta{}, createNamespace)
				require.ErrorIs(t, err, store.ErrUnknown)
				p.Set(testrig.Trouble{})

				answered := make(chan error, 1)
				go func() {
					_, err := next.Update(context.WithoutCancel(t.Context()), store.Meta{}, deleteNamespace)
					answered <- err
				}()
				eventually(t, func() error {
					select {
					case err := <-answered:
						require.Fail(t, "answered while the commit was on its way", "%v", err)
					default:
					}
					return waitsForHead(t, direct)
				})
				deliver <- delivered
				err = <-answered
				if delivered {
					require.NoError(t, err)
				} else {
					var refused *fleet.Error
					require.ErrorAs(t, err, &refused)
				}
				state := replicaOf(t, Config{URL: direct}).State()
				_, exists := state.Get(fleet.KindNamespace, "n")
				require.False(t, exists)
			})
		}
	}
}

// Barrier waits for a commit of a stopped process as long as the caller's context permits, and not for ever.
func TestBarrierWhileWriterIsStopped(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	stopped, s := openStore(t, Config{URL: url}), openStore(t, Config{URL: url})
	ses, err := stopped.begin(t.Context(), writing, time.Minute)
	require.NoError(t, err)
	_, err = ses.tx.Exec(t.Context(), `UPDATE head SET at = at`) // as every commit does, which then stops before COMMIT
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = s.Barrier(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	eventually(t, func() error {
		head, err := s.Barrier(t.Context())
		require.Zero(t, head)
		if err != nil {
			require.ErrorIs(t, err, store.ErrUnavailable)
		}
		return err
	})
	require.Error(t, ses.end(errors.New("rolled back")))
}
