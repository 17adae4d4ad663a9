package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/observations"
	"github.com/flux-resourceset/flux-resourceset/observations/tabletest"
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
	tabletest.Run(t, func(t *testing.T) tabletest.Opened {
		url := newDatabase(t)
		return tabletest.Opened{
			Table: observationsOf(t, url),
			Again: func(t *testing.T) observations.Table { return observationsOf(t, url) },
			Lose:  func(t *testing.T) { pgtest.Exec(t, url, `DROP TABLE observations`) },
		}
	})
}

// A database that has lost everything must stay recognizable: none of our tables appears before a migration, and none is in the
// way of one.
func TestObservationsOfAnEmptiedDatabase(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	o := observationsOf(t, url)
	rows := []observations.Row{{Cluster: "a", Subject: "s", Body: "{}", Said: time.Now()}}
	require.NoError(t, o.Put(t.Context(), rows))
	pgtest.Exec(t, url, `DROP SCHEMA public CASCADE; CREATE SCHEMA public`)
	require.Error(t, o.Put(t.Context(), rows))
	_, err := o.Since(t.Context(), time.Time{}, nil, func(observations.Row) { t.Error("nothing is left") })
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
	rows := []observations.Row{{Cluster: "a", Subject: "s", Body: "{}", Said: time.Now()}}
	require.ErrorIs(t, reader.Put(t.Context(), rows), observations.ErrDenied)
	_, err := reader.Since(t.Context(), time.Time{}, nil, func(observations.Row) { t.Error("nothing was written") })
	require.NoError(t, err)
	pgtest.Exec(t, url, `GRANT INSERT, UPDATE ON observations TO fleet_reader`)
	require.NoError(t, reader.Put(t.Context(), rows))
	require.NoError(t, reader.Put(t.Context(), rows))
	require.ErrorIs(t, reader.Keep(t.Context(), nil, 0), observations.ErrDenied, "it deletes nothing")
	pgtest.Exec(t, url, `DROP TABLE observations`)
	require.ErrorIs(t, reader.Put(t.Context(), rows), observations.ErrDenied, "nor does it make tables")
	_, err = reader.Since(t.Context(), time.Time{}, nil, func(observations.Row) { t.Error("nothing is left") })
	require.NoError(t, err)
	_, err = observationsOf(t, url).Since(t.Context(), time.Time{}, nil, func(observations.Row) { t.Error("nothing is left") })
	require.NoError(t, err)
	pgtest.Exec(t, url, `GRANT SELECT, INSERT, UPDATE ON observations TO fleet_reader`) // which the owner has made again by looking
	require.NoError(t, reader.Put(t.Context(), rows))
}
