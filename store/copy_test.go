package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
	"github.com/flux-resourceset/flux-resourceset/store/postgres"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// From SQLite to Postgres and back: the third store equals the first. The suite covers copies within one backend, and refused
// copies.
func TestCopyBetweenBackends(t *testing.T) {
	t.Parallel()
	first, third := newSQLite(t), newSQLite(t)
	at := history(t, first, 250)
	url := pgtest.URL(t)
	require.NoError(t, postgres.Migrate(t.Context(), url))
	second, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, second.Close()) })

	var notes []store.Progress
	require.NoError(t, store.Copy(t.Context(), first, second, func(p store.Progress) { notes = append(notes, p) }))
	require.Equal(t, []store.Progress{
		{Revision: 100, Of: 250},
		{Revision: 200, Of: 250},
		{Revision: 250, Of: 250},
		{Verifying: true, Revision: 100, Of: 250},
		{Verifying: true, Revision: 200, Of: 250},
		{Verifying: true, Revision: 250, Of: 250},
	}, notes)
	require.NoError(t, store.Copy(t.Context(), second, third, nil))
	for _, s := range []store.Store{second, third} {
		want, err := first.Load(t.Context())
		require.NoError(t, err)
		got, err := s.Load(t.Context())
		require.NoError(t, err)
		require.True(t, got.Quarantine.Copied())
		got.Quarantine = nil
		require.Equal(t, want, got)
		log, err := first.Since(t.Context(), fleet.Head{}, 1000)
		require.NoError(t, err)
		copied, err := s.Since(t.Context(), fleet.Head{}, 1000)
		require.NoError(t, err)
		require.Equal(t, log, copied)
		// A follower of the first store continues with the copy.
		after, err := s.Since(t.Context(), at, 10)
		require.NoError(t, err)
		require.Empty(t, after)
	}
	require.ErrorIs(t, store.Copy(t.Context(), first, second, nil), store.ErrNotEmpty)
	require.ErrorIs(t, store.Copy(t.Context(), second, first, nil), store.ErrNotEmpty)
}

// A copy that differs from its original is reported.
func TestCopyIsVerified(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"a document":      `UPDATE documents SET body = '{}' WHERE id = 'd4'`,
		"a time":          `UPDATE documents SET created_at = created_at + 1 WHERE id = 'd4'`,
		"the head's time": `UPDATE head SET at = at + 1`,
		"a lost change":   `DELETE FROM changes WHERE revision = 3`,
		"a lost document": `DELETE FROM documents WHERE id = 'd4'`,
		"a reason":        `UPDATE commits SET reason = '' WHERE revision = 3`,
		"a body before":   `UPDATE changes SET packed_before = '\\x00' WHERE revision = 4 AND seq = 1`,
		"a commit's id":   `UPDATE commits SET id = '00000000-0000-0000-0000-000000000001' WHERE revision = 3`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := newSQLite(t)
			history(t, from, 10)
			url := pgtest.URL(t)
			require.NoError(t, postgres.Migrate(t.Context(), url))
			to, err := postgres.Open(t.Context(), postgres.Config{URL: url})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, to.Close()) })
			err = store.Copy(t.Context(), from, damaging{to, func() { pgtest.Exec(t, url, damage) }}, nil)
			require.ErrorIs(t, err, store.ErrCorrupt)
		})
	}
}

// damaging is a store that alters its input.
type damaging struct {
	store.Store
	damage func()
}

func (d damaging) Import(ctx context.Context, snap store.Snapshot, log iter.Seq2[store.Entry, error]) error {
	err := d.Store.Import(ctx, snap, log)
	d.damage()
	return err
}

func newSQLite(t *testing.T) *sqlite.Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fleet.db")
	require.NoError(t, sqlite.Migrate(t.Context(), path))
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// history makes n commits; each creates a document, and changes or removes an older one.
func history(t *testing.T, s store.Store, n int) (at fleet.Head) {
	t.Helper()
	start := time.Date(2024, 2, 29, 12, 0, 0, 123456000, time.UTC)
	doc := func(n int) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"n":%d,"text":"{{ ä \" \\ }}"}`, n))
	}
	for i := range n {
		c := fleet.Commit{
			Revision: at.Revision + 1, ID: uuid.New(), At: start.Add(time.Duration(i) * time.Minute),
			Actor: fmt.Sprint("actor ", i%3), Author: fmt.Sprint("author ", i%2), Reason: fmt.Sprint("because ", i), RequestID: fmt.Sprint(i),
			Changes: []fleet.Change{{Kind: fleet.KindCluster, ID: fmt.Sprint("d", i), After: doc(i)}},
		}
		if old := fmt.Sprint("d", i-2); i >= 2 {
			ch := fleet.Change{Kind: fleet.KindCluster, ID: old, Before: doc(i - 2)}
			if i%5 != 0 {
				ch.After = doc(-i)
			}
			c.Changes = append(c.Changes, ch)
		}
		require.NoError(t, s.Commit(t.Context(), at, c))
		at = c.Head()
	}
	return at
}
