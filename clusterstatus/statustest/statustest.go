// Package statustest has the suite of tests that every [clusterstatus.Store] passes.
package statustest

import (
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
)

// Fixture is a Store under test.
type Fixture struct {
	Store clusterstatus.Store
	// Reopen opens the same Store as another process does.
	Reopen func(t *testing.T) clusterstatus.Store
	// Lose drops all rows while the Store is open.
	Lose func(t *testing.T)
}

// Run runs the suite. open makes an empty Store.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	t.Helper()
	for name, run := range map[string]func(*testing.T, Fixture){
		"later observation wins": laterObservationWins, "new rows are read": readSince, "arbitrary text": arbitraryText,
		"bounded": bounded, "empty": empty, "recreated after loss": recreatedAfterLoss, "many rows": manyRows, "marks survive": marksSurvive,
		"uses of tokens": tokenUses,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, open(t))
		})
	}
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 123456000, time.UTC)

func row(cluster, subject, body string, said time.Time) clusterstatus.Row {
	return clusterstatus.Row{Cluster: cluster, Subject: subject, Body: body, ObservedAt: said}
}

// all returns the rows of a Store, sorted, and the time for the next read.
func all(t *testing.T, store clusterstatus.Store, since time.Time, subjects ...string) ([]string, time.Time) {
	t.Helper()
	out := []string{}
	next, err := store.Since(t.Context(), since, subjects, func(r clusterstatus.Row) {
		out = append(out, fmt.Sprintf("%s %s %s %s", r.Cluster, r.Subject, r.Body, r.ObservedAt.UTC().Format(time.RFC3339Nano)))
	})
	require.NoError(t, err)
	sort.Strings(out)
	return out, next
}

func laterObservationWins(t *testing.T, o Fixture) {
	require.NoError(t, o.Store.Put(t.Context(), []clusterstatus.Row{row("a", "s", "2", noon), row("b", "s", "1", noon), row("c", "s", "1", noon)}))
	since := time.Now() // the Store runs on this machine
	require.NoError(t, o.Store.Put(t.Context(), []clusterstatus.Row{row("a", "s", "1", noon.Add(-time.Second)), row("b", "s", "2", noon.Add(time.Second)), row("c", "s", "1", noon)}))
	got, _ := all(t, o.Reopen(t), time.Time{})
	require.Equal(t, []string{"a s 2 2026-01-02T12:00:00.123456Z", "b s 2 2026-01-02T12:00:01.123456Z", "c s 1 2026-01-02T12:00:00.123456Z"}, got)
	got, _ = all(t, o.Reopen(t), since)
	require.Equal(t, got, []string{"b s 2 2026-01-02T12:00:01.123456Z"}, "neither an older word nor the same is written again")
}

func readSince(t *testing.T, o Fixture) {
	other := o.Reopen(t)
	require.NoError(t, o.Store.Put(t.Context(), []clusterstatus.Row{row("a", "s", "1", noon)}))
	first, at := all(t, other, time.Time{})
	require.Len(t, first, 1)
	require.WithinRange(t, at, time.Now().Add(-time.Minute), time.Now().Add(time.Minute), "by when it was written, and not by when it was said")
	require.NoError(t, o.Store.Put(t.Context(), []clusterstatus.Row{row("a", "s", "0", noon.Add(-time.Hour)), row("b", "s", "1", noon.Add(-time.Hour))}))
	next, later := all(t, other, at)
	require.Contains(t, next, "b s 1 2026-01-02T11:00:00.123456Z")
	require.True(t, later.After(at))
	none, same := all(t, other, time.Now().Add(time.Hour))
	require.Empty(t, none, "what was written before is not told again")
	require.WithinRange(t, same, later, time.Now().Add(time.Minute), "whatever was asked")
}

func arbitraryText(t *testing.T, o Fixture) {
	for i, text := range []string{`'; DROP TABLE observations; --`, `{"a":"\u0000"}`, "<script>", "ü🚀\u2028", "$1 %s {} \\", strings.Repeat("x", 10_000)} {
		id := fmt.Sprint(i, text)
		require.NoError(t, o.Store.Put(t.Context(), []clusterstatus.Row{row(id, text, text, noon)}))
		got, _ := all(t, o.Store, time.Time{})
		require.Contains(t, got, id+" "+text+" "+text+" 2026-01-02T12:00:00.123456Z")
	}
}

func bounded(t *testing.T, o Fixture) {
	var rows []clusterstatus.Row
	for i := range 30 {
		rows = append(rows, row("a", fmt.Sprintf("s%02d", i), "", noon), row("gone", fmt.Sprint(i), "", noon))
	}
	require.NoError(t, o.Store.Put(t.Context(), rows))
	require.NoError(t, o.Store.Put(t.Context(), []clusterstatus.Row{row("a", "s29", "new", noon), row("b", "s", "", noon)}))
	require.NoError(t, o.Store.Prune(t.Context(), []string{"a", "b", "never said a word"}, 10))
	got, _ := all(t, o.Store, time.Time{})
	require.Len(t, got, 11)
	require.Contains(t, got, "a s29 new 2026-01-02T12:00:00.123456Z", "those that were written last")
	require.NotContains(t, strings.Join(got, "\n"), "gone")

	rows = nil
	for i := range 30 {
		rows = append(rows, row("", fmt.Sprint(clusterstatus.VersionPrefix, i), "", noon), row("", fmt.Sprint("other/", i), "", noon))
	}
	require.NoError(t, o.Store.Put(t.Context(), rows))
	require.NoError(t, o.Store.Prune(t.Context(), []string{""}, 10))
	got, _ = all(t, o.Store, time.Time{})
	require.Len(t, got, 20, "known versions are counted apart")
	require.Equal(t, 10, strings.Count(strings.Join(got, "\n"), clusterstatus.VersionPrefix))
}

func empty(t *testing.T, o Fixture) {
	got, _ := all(t, o.Store, time.Time{})
	require.Empty(t, got)
	require.NoError(t, o.Store.Put(t.Context(), nil))
	require.NoError(t, o.Store.Prune(t.Context(), []string{"a"}, 1))
}

func recreatedAfterLoss(t *testing.T, o Fixture) {
	require.NoError(t, o.Store.Put(t.Context(), []clusterstatus.Row{row("a", "s", "1", noon)}))
	other := o.Reopen(t)
	o.Lose(t)
	got, _ := all(t, other, time.Time{})
	require.Empty(t, got)
	require.NoError(t, o.Store.Put(t.Context(), []clusterstatus.Row{row("b", "s", "1", noon)}))
	got, _ = all(t, other, time.Time{})
	require.Len(t, got, 1)
}

func marksSurvive(t *testing.T, o Fixture) {
	require.NoError(t, o.Store.Put(t.Context(), []clusterstatus.Row{row("", "one", "1", noon), row("", "other", "1", noon), row("", "third", "1", noon), row("a", "one", "1", noon)}))
	later := time.Now().Add(time.Hour)
	got, _ := all(t, o.Reopen(t), later, "one", "third", "none")
	require.Equal(t, []string{" one 1 2026-01-02T12:00:00.123456Z", " third 1 2026-01-02T12:00:00.123456Z"}, got, "whenever it was written")
	got, _ = all(t, o.Reopen(t), time.Time{}, "one")
	require.Len(t, got, 4, "everything")
	got, _ = all(t, o.Reopen(t), later)
	require.Empty(t, got)
	require.NoError(t, o.Store.Prune(t.Context(), []string{"", "b"}, 10))
	got, _ = all(t, o.Store, time.Time{})
	require.Len(t, got, 3)
}

func tokenUses(t *testing.T, o Fixture) {
	a, b := clusterstatus.NewTracker(clusterstatus.Config{Store: o.Store}), clusterstatus.NewTracker(clusterstatus.Config{Store: o.Reopen(t)})
	a.RecordTokenUse("ci", noon)
	b.RecordTokenUse("ops", noon)
	for i := range 3 {
		now := noon.Add(time.Duration(i) * 11 * time.Minute) // a row is written again after ten minutes
		a.Sync(t.Context(), now)
		b.Sync(t.Context(), now)
	}
	for _, tracker := range []*clusterstatus.Tracker{a, b} {
		require.Equal(t, noon.Truncate(time.Second), tracker.LastTokenUse("ci"))
		require.Equal(t, noon.Truncate(time.Second), tracker.LastTokenUse("ops"))
	}
}

func manyRows(t *testing.T, o Fixture) {
	done := make(chan error)
	for p := range 4 {
		store := o.Reopen(t)
		go func() {
			var err error
			for n := 0; n < 5 && err == nil; n++ {
				rows := make([]clusterstatus.Row, 500)
				for i := range rows {
					rows[i] = row(fmt.Sprint("c", (i*7+p)%500), "s", fmt.Sprint(p), noon.Add(time.Duration(n)*time.Second))
				}
				for range 30 {
					// SQLite refuses a writer that has waited for the others for two seconds; a caller writes again.
					if err = store.Put(t.Context(), rows); err == nil || !strings.Contains(err.Error(), "SQLITE_BUSY") {
						break
					}
				}
			}
			done <- err
		}()
	}
	for range 4 {
		require.NoError(t, <-done)
	}
	got, _ := all(t, o.Store, time.Time{})
	require.Len(t, got, 500)
}
