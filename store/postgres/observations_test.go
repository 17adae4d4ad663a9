package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/clusterstatus/statustest"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

func observationsOf(t *testing.T, url string) *Observations {
	t.Helper()
	o, err := NewObservations(Config{URL: url})
	require.NoError(t, err)
	t.Cleanup(o.pool.Close)
	return o
}

func TestObservations(t *testing.T) {
	t.Parallel()
	statustest.Run(t, func(t *testing.T) statustest.Fixture {
		url := newDatabase(t)
		return statustest.Fixture{
			Store:  observationsOf(t, url),
			Reopen: func(t *testing.T) clusterstatus.Store { return observationsOf(t, url) },
			Lose:   func(t *testing.T) { pgtest.Exec(t, url, `DROP TABLE observations`) },
		}
	})
}

// A database that has lost everything must stay recognizable: none of our tables appears before a migration, and none is in the
// way of one.
func TestObservationsOfAnEmptiedDatabase(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	o := observationsOf(t, url)
	rows := []clusterstatus.Row{{Cluster: "a", Subject: "s", Body: "{}", ObservedAt: time.Now()}}
	require.NoError(t, o.Put(t.Context(), rows))
	pgtest.Exec(t, url, `DROP SCHEMA public CASCADE; CREATE SCHEMA public`)
	require.Error(t, o.Put(t.Context(), rows))
	_, err := o.Since(t.Context(), time.Time{}, nil, func(clusterstatus.Row) { t.Error("nothing is left") })
	require.NoError(t, err)
	status, err := Status(t.Context(), url)
	require.NoError(t, err)
	require.Zero(t, status.Current)
	pgtest.Exec(t, url, `DO $$ BEGIN ASSERT to_regclass('observations') IS NULL; END $$`)
	require.NoError(t, Migrate(t.Context(), url))
	require.NoError(t, o.Put(t.Context(), rows))
}

// The rights that docs/databases.md gives a read-only role are enough. Without them writes return an error, and reads work.
func TestReadOnlyRoleObserves(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	url := server.Database(t, "fleet")
	require.NoError(t, Migrate(t.Context(), url))
	pgtest.Exec(t, url, `CREATE ROLE fleet_reader LOGIN PASSWORD 'sesame'; GRANT USAGE ON SCHEMA public TO fleet_reader;
		GRANT SELECT ON ALL TABLES IN SCHEMA public TO fleet_reader`)
	reader := observationsOf(t, pgtest.WithUser(url, "fleet_reader", "sesame"))
	rows := []clusterstatus.Row{{Cluster: "a", Subject: "s", Body: "{}", ObservedAt: time.Now()}}
	require.ErrorIs(t, reader.Put(t.Context(), rows), clusterstatus.ErrDenied)
	_, err := reader.Since(t.Context(), time.Time{}, nil, func(clusterstatus.Row) { t.Error("nothing was written") })
	require.NoError(t, err)
	pgtest.Exec(t, url, `GRANT INSERT, UPDATE ON observations TO fleet_reader`)
	require.NoError(t, reader.Put(t.Context(), rows))
	require.NoError(t, reader.Put(t.Context(), rows))
	require.ErrorIs(t, reader.Prune(t.Context(), nil, 0), clusterstatus.ErrDenied, "it deletes nothing")
	pgtest.Exec(t, url, `DROP TABLE observations`)
	require.ErrorIs(t, reader.Put(t.Context(), rows), clusterstatus.ErrDenied, "nor does it make tables")
	_, err = reader.Since(t.Context(), time.Time{}, nil, func(clusterstatus.Row) { t.Error("nothing is left") })
	require.NoError(t, err)
	_, err = observationsOf(t, url).Since(t.Context(), time.Time{}, nil, func(clusterstatus.Row) { t.Error("nothing is left") })
	require.NoError(t, err)
	pgtest.Exec(t, url, `GRANT SELECT, INSERT, UPDATE ON observations TO fleet_reader`) // which the owner has made again by looking
	require.NoError(t, reader.Put(t.Context(), rows))
}
