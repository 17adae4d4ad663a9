package clusterstatus

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var firstInterval = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// record counts an interval, as the service does.
func (t *Tracker) record(tr CountDetails, now time.Time) {
	t.RecordCount(StateCount{Total: 9}, now)
	t.RecordCountDetails(tr, now)
}

// TestCountDetailsShared: the history of a component and of a cluster reaches the other processes, also those that start later; the first count
// of an interval stays.
func TestCountDetailsShared(t *testing.T) {
	t.Parallel()
	store, now := newFakeStore(), firstInterval
	a, b := NewTracker(Config{Store: store}), NewTracker(Config{Store: store})
	exchange := func(trackers ...*Tracker) {
		for range 3 {
			for _, tracker := range trackers {
				now = now.Add(2 * time.Second)
				tracker.Sync(t.Context(), now)
			}
		}
	}
	a.record(CountDetails{Components: []ComponentCount{{"podinfo", 2, 0}, {"grafana", 0, 3}}, Failed: []string{"c1"}}, now)
	exchange(a, b)
	b.record(CountDetails{Failed: []string{"c2"}}, now)
	now = now.Add(CountInterval)
	b.record(CountDetails{Components: []ComponentCount{{"grafana", 1, 0}}, Silent: []string{"c1"}, Failed: []string{"c1"}}, now)
	exchange(b, a)
	late := NewTracker(Config{Store: store})
	exchange(late)
	at := firstInterval.Unix()
	for _, tracker := range []*Tracker{a, b, late} {
		require.Equal(t, []StateCount{{At: at, Total: 9, Failed: 3}, {At: at + 300, Total: 9, Progressing: 1}}, tracker.ComponentCounts("grafana", now))
		require.Equal(t, []StateCount{{At: at, Total: 9}, {At: at + 300, Total: 9}}, tracker.ComponentCounts("loki", now), "no cluster failed at it")
		require.Equal(t, []StateCount{{At: at, Total: 1, Failed: 1}, {At: at + 300, Total: 1, Failed: 1, Silent: 1}}, tracker.ClusterCounts("c1", now))
		require.Equal(t, []StateCount{{At: at, Total: 1}, {At: at + 300, Total: 1}}, tracker.ClusterCounts("c2", now), "its interval was known")
	}

	// After a day the memory of a cluster is free, and what it did a day ago is not what it does now.
	now = firstInterval.Add(24 * time.Hour)
	a.record(CountDetails{Failed: []string{"c3"}}, now)
	require.Equal(t, []StateCount{{At: at + 300, Total: 1, Failed: 1, Silent: 1}, {At: now.Unix(), Total: 1}}, a.ClusterCounts("c1", now))
	now = now.Add(CountInterval)
	a.record(CountDetails{}, now)
	require.Len(t, a.countDetails.clusters, 1)
	require.Equal(t, []StateCount{{At: now.Unix() - 300, Total: 1}, {At: now.Unix(), Total: 1}}, a.ClusterCounts("c1", now))
}

// TestCountDetailsAreBounded: the history takes 2 MiB at most. Beyond the limits an interval is missing, instead of showing no failure.
func TestCountDetailsAreBounded(t *testing.T) { //nolint:paralleltest // it measures the heap
	ids := make([]string, maxDetailClusters+1)
	for i := range ids {
		ids[i] = fmt.Sprintf("cluster-%05d", i)
	}
	components := make([]ComponentCount, maxDetailComponents+1)
	for i := range components {
		components[i] = ComponentCount{ID: fmt.Sprintf("a-component-with-a-name-of-sixty-three-characters-as-allowed-%03d", i), Failed: int32(i)}
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	a, now := NewTracker(Config{}), firstInterval
	for i := range CountHistory + 10 {
		tr := CountDetails{Components: components}
		if i == 20 || i == CountHistory+9 {
			tr.Failed, tr.Silent = ids, ids[:5]
		}
		a.record(tr, now)
		now = now.Add(CountInterval)
	}
	now = now.Add(-CountInterval)
	after := heap()
	t.Logf("%d KiB of heap", (after-before)>>10)
	require.Less(t, after-before, int64(2<<20))
	require.Len(t, a.ClusterCounts(ids[0], now), CountHistory)
	require.Len(t, a.ClusterCounts(ids[maxDetailClusters], now), CountHistory-2, "two are not recorded")
	require.Len(t, a.ComponentCounts(components[1].ID, now), CountHistory)
	require.Empty(t, a.ComponentCounts(components[0].ID, now), "not recorded")
	row, ok := a.countDetails.encode(now)
	require.True(t, ok)
	t.Logf("row of %d KiB", len(row.Body)>>10)
	require.Less(t, len(row.Body), 1<<20)
	b := NewTracker(Config{})
	for _, c := range a.Counts(now) {
		b.counts.add(c, now)
	}
	b.countDetails.merge(row, now)
	require.Equal(t, a.ClusterCounts(ids[0], now), b.ClusterCounts(ids[0], now))
	require.Equal(t, a.ClusterCounts(ids[maxDetailClusters], now), b.ClusterCounts(ids[maxDetailClusters], now))
	runtime.KeepAlive(a)
}

// TestBadCountDetailsAreIgnored: rows that no process of this version writes do not reach the answer, and are replaced.
func TestBadCountDetailsAreIgnored(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "{", "null", "AAAA", "////"} {
		a := NewTracker(Config{})
		a.countDetails.merge(Row{Cluster: storeID, Subject: detailsSubject, Body: body, ObservedAt: firstInterval}, firstInterval)
		a.record(CountDetails{}, firstInterval)
		require.Len(t, a.ClusterCounts("c1", firstInterval), 1)
		row, ok := a.countDetails.encode(firstInterval)
		require.True(t, ok)
		require.True(t, row.ObservedAt.After(firstInterval))
	}
}
