package clusterstatus

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTokenUsesShared: a use is recorded once an hour, and written rarely. Processes learn those of others, also after a restart and a loss.
func TestTokenUsesShared(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	now := noon
	a, b := NewTracker(Config{Store: store}), NewTracker(Config{Store: store})
	exchange := func(trackers ...*Tracker) {
		for range 3 {
			for _, tracker := range trackers {
				now = now.Add(2 * time.Second)
				tracker.Sync(t.Context(), now)
			}
		}
	}
	require.Zero(t, a.LastTokenUse("ci"))
	a.RecordTokenUse("ci", now)
	exchange(a, b)
	require.Equal(t, noon, b.LastTokenUse("ci"))
	written := store.rows[" "+tokenUsesSubject].ObservedAt

	b.RecordTokenUse("ci", noon.Add(59*time.Minute))
	require.Equal(t, noon, b.LastTokenUse("ci"), "once an hour")
	b.RecordTokenUse("ops", now)
	exchange(b, a)
	require.Equal(t, written, store.rows[" "+tokenUsesSubject].ObservedAt, "a row is not written again within ten minutes")
	now = noon.Add(time.Hour)
	b.RecordTokenUse("ci", now)
	exchange(b, a)
	late := NewTracker(Config{Store: store})
	exchange(late)
	for _, tracker := range []*Tracker{a, b, late} {
		require.Equal(t, noon.Add(time.Hour), tracker.LastTokenUse("ci"))
		require.False(t, tracker.LastTokenUse("ops").IsZero())
	}

	now = now.Add(10 * time.Minute)
	a.RecordTokenUse("new", now)
	store.rows[" "+tokenUsesSubject] = Row{Subject: tokenUsesSubject, Body: `{"ci":99999999999,"x":`, ObservedAt: now}
	store.at[" "+tokenUsesSubject] = time.Now()
	exchange(a)
	now = now.Add(10 * time.Minute)
	exchange(a, late)
	require.False(t, late.LastTokenUse("new").IsZero(), "a row that cannot be read is replaced")

	store.rows[" "+tokenUsesSubject] = Row{Subject: tokenUsesSubject, Body: `{"ci":99999999999}`, ObservedAt: now}
	store.at[" "+tokenUsesSubject] = time.Now()
	exchange(a)
	require.False(t, a.LastTokenUse("ci").After(now), "the clock of the other process was ahead")
}

// TestTokenUsesAreLimited: the tokens that were used last are kept.
func TestTokenUsesAreLimited(t *testing.T) {
	t.Parallel()
	tracker := NewTracker(Config{})
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for i := range maxTokenUses + 5 {
		tracker.RecordTokenUse(fmt.Sprint(i), noon.Add(time.Duration(i)*time.Second))
	}
	require.Len(t, tracker.tokenUses.last, maxTokenUses)
	require.Zero(t, tracker.LastTokenUse("4"))
	require.Equal(t, noon.Add(5*time.Second), tracker.LastTokenUse("5"))
}
