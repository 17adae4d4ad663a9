package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// A read-only role with exactly the rights of docs/databases.md loads, follows, and quarantines the store when its history is
// replaced; it can change no other data. Without the right to quarantine, it reports that.
func TestReadOnlyRoleQuarantines(t *testing.T) {
	t.Parallel()
	for name, grant := range map[string]string{"granted": "GRANT UPDATE (hold) ON head TO fleet_reader;", "not granted": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pgtest.NewServer(t)
			url := server.Database(t, "fleet")
			require.NoError(t, Migrate(t.Context(), url))
			fill(t, url, 3)
			pgtest.Exec(t, url, `CREATE ROLE fleet_reader LOGIN PASSWORD 'sesame';
				GRANT USAGE ON SCHEMA public TO fleet_reader;
				GRANT SELECT ON ALL TABLES IN SCHEMA public TO fleet_reader;`+grant)
			as := pgtest.WithUser(url, "fleet_reader", "sesame")
			reader := openStore(t, Config{URL: as, ReadOnly: true})
			r := store.NewReplica(store.Config{Store: reader, Interval: 10 * time.Millisecond})
			require.NoError(t, r.Load(t.Context()))
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				r.Run(ctx)
			}()
			t.Cleanup(func() { <-done })
			t.Cleanup(cancel)
			at := fill(t, url, 1)
			require.NoError(t, r.WaitFor(t.Context(), at.Revision))

			// The history is replaced by an older one.
			pgtest.Exec(t, url, fmt.Sprintf(`DELETE FROM changes WHERE revision = %[1]d; DELETE FROM commits WHERE revision = %[1]d;
				DELETE FROM documents WHERE revision = %[1]d;
				UPDATE head SET documents = documents - 1, (revision, commit_id, at) = (SELECT revision, id, at FROM commits ORDER BY revision DESC LIMIT 1)`, at.Revision))
			eventually(t, func() error {
				if r.Status().QuarantineReason == "" {
					return errors.New("it has not noticed")
				}
				return nil
			})
			writer := openStore(t, Config{URL: url})
			if grant == "" {
				h := store.NewQuarantine(r.State(), time.Now())
				err := reader.Quarantine(t.Context(), h)
				require.ErrorIs(t, err, store.ErrUnavailable)
				require.ErrorContains(t, err, "the role may not do this")
				require.NoError(t, ask(t.Context(), writer))
				return
			}
			eventually(t, func() error {
				if err := ask(t.Context(), writer); !errors.Is(err, store.ErrQuarantined) {
					return fmt.Errorf("it is not held: %w", err)
				}
				return nil
			})
			require.Equal(t, at, r.State().Head(), "what it serves goes on")
			for _, forbidden := range []string{
				`UPDATE head SET revision = 0`, `DELETE FROM documents`, `INSERT INTO commits SELECT * FROM commits`, `UPDATE changes SET seq = 0`,
			} {
				_, err := reader.pool.Exec(t.Context(), forbidden)
				require.True(t, hasCode(err, codeDenied), "%s: %v", forbidden, err)
			}
			require.ErrorIs(t, reader.Commit(t.Context(), fleet.Head{}, namespace(fleet.Head{}, "x")), store.ErrReadOnly)
		})
	}
}
