package knownversions_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/knownversions"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
	"github.com/flux-resourceset/flux-resourceset/store/postgres"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

var (
	noon  = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	chart = knownversions.Source{Component: "podinfo", Identity: "1"}
	image = knownversions.Source{Component: "podinfo", Image: "redis", Identity: "1", Tracked: []string{"latest"}}
)

// highest returns the known versions, the highest first.
func highest(s *knownversions.Store, src knownversions.Source) ([]knownversions.Version, knownversions.Scan) {
	versions, scan := s.Known(src)
	knownversions.SortHighestFirst(versions)
	return versions, scan
}

func names(s *knownversions.Store, src knownversions.Source) []string {
	out := []string{}
	versions, _ := highest(s, src)
	for _, v := range versions {
		out = append(out, v.Version)
	}
	return out
}

func TestKnown(t *testing.T) {
	t.Parallel()
	s := knownversions.New()
	require.Empty(t, names(s, chart))
	require.True(t, s.Push(chart, noon, knownversions.Observation{Version: "1.9.0"}, knownversions.Observation{Version: "1.10.0"}))
	require.True(t, s.Push(chart, noon, knownversions.Observation{Version: "v1.11.0"}, knownversions.Observation{Version: "0a1b2c3d"}))
	require.False(t, s.Push(chart, noon.Add(time.Hour), knownversions.Observation{Version: "1.9.0"}), "known already")
	require.Equal(t, []string{"v1.11.0", "1.10.0", "1.9.0", "0a1b2c3d"}, names(s, chart))
	require.Equal(t, []string{"podinfo"}, s.TakeChanged())
	require.Empty(t, s.TakeChanged())
	versions, _ := highest(s, chart)
	require.Equal(t, noon.UnixMilli(), versions[2].FirstSeen, "it keeps the earliest time")
	require.Empty(t, names(s, image))
	require.Empty(t, names(s, knownversions.Source{Component: "podinfo", Identity: "2"}), "the component was created again")
}

// TestMovedTag: the digest that was observed last counts, and the one before stays visible.
func TestMovedTag(t *testing.T) {
	t.Parallel()
	s := knownversions.New()
	for i, digest := range []string{"sha256:a", "sha256:b", "sha256:c", "sha256:b", ""} {
		s.Push(image, noon.Add(time.Duration(i)*time.Hour), knownversions.Observation{Version: "latest", Digest: digest})
	}
	versions, _ := highest(s, image)
	require.Len(t, versions, 1)
	require.Len(t, versions[0].Digests, 2)
	require.Equal(t, "sha256:b", versions[0].Digests[0].Digest)
	require.Equal(t, noon.Add(time.Hour).UnixMilli(), versions[0].Digests[0].FirstSeen)
	require.Equal(t, "sha256:c", versions[0].Digests[1].Digest)
	require.True(t, s.IsNew(image, knownversions.Observation{Version: "latest", Digest: "sha256:c"}))
	require.False(t, s.IsNew(image, knownversions.Observation{Version: "latest", Digest: "sha256:b"}))
}

// TestNewestAreKept: a flood of pushes neither grows without limit nor removes the tag that a policy tracks.
func TestNewestAreKept(t *testing.T) {
	t.Parallel()
	s := knownversions.New()
	s.Push(image, noon, knownversions.Observation{Version: "latest"})
	for i := range 1000 {
		s.Push(image, noon.Add(time.Duration(i/10)*time.Hour), knownversions.Observation{Version: fmt.Sprintf("1.%d.0", i)})
	}
	got := names(s, image)
	require.Len(t, got, knownversions.MaxVersions)
	require.Equal(t, "1.999.0", got[0])
	require.Equal(t, "1.901.0", got[98])
	require.Equal(t, "latest", got[99])
}

// TestCreatedInThePast: of two times of creation the later one counts, so that a false one cannot make a version old.
func TestCreatedInThePast(t *testing.T) {
	t.Parallel()
	s := knownversions.New()
	s.Push(chart, noon, knownversions.Observation{Version: "1.0.0", Created: noon.Add(-time.Hour)})
	require.False(t, s.IsNew(chart, knownversions.Observation{Version: "1.0.0", Created: noon.Add(-time.Hour)}))
	s.Push(chart, noon, knownversions.Observation{Version: "1.0.0", Created: noon.AddDate(-20, 0, 0)})
	versions, _ := highest(s, chart)
	require.Equal(t, noon.Add(-time.Hour).UnixMilli(), versions[0].Created)
}

func TestRecordScan(t *testing.T) {
	t.Parallel()
	s := knownversions.New()
	s.Push(chart, noon, knownversions.Observation{Version: "0.1.0"})
	s.RecordScan(chart, noon, knownversions.Scan{At: 1000}, []knownversions.Observation{{Version: "2.0.0"}}, []string{"1.0.0", "2.0.0"})
	s.RecordScan(chart, noon, knownversions.Scan{At: 2000}, nil, []string{"1.0.0"})
	versions, scan := highest(s, chart)
	require.Equal(t, int64(2000), scan.Complete)
	require.Equal(t, int64(1000), versions[0].Listed, "2.0.0 was withdrawn")
	require.Zero(t, versions[1].Listed, "0.1.0 was only pushed")
	s.RecordScan(chart, noon, knownversions.Scan{At: 3000, Attempts: 1, Error: "timeout"}, nil, nil)
	s.RecordScan(chart, noon, knownversions.Scan{At: 2500}, nil, []string{"2.0.0"})
	versions, scan = highest(s, chart)
	require.Equal(t, knownversions.Scan{At: 3000, Attempts: 1, Error: "timeout", Complete: 2500}, scan)
	require.Equal(t, int64(2500), versions[0].Listed)
}

// rowsOf returns the rows that a process would write.
func rowsOf(s *knownversions.Store) []clusterstatus.Row {
	s.Resync()
	return s.PendingRows(noon)
}

// TestMergeIsOrderFree: processes that read the same rows in any order, and any of them again, know the same.
func TestMergeIsOrderFree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var rows []clusterstatus.Row
		for range rapid.IntRange(1, 4).Draw(t, "processes") {
			s := knownversions.New()
			for range rapid.IntRange(0, 6).Draw(t, "observations") {
				at := noon.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "at")) * time.Second)
				src := rapid.SampledFrom([]knownversions.Source{chart, image, {Component: "podinfo", Identity: "2"}}).Draw(t, "source")
				o := knownversions.Observation{
					Version: rapid.SampledFrom([]string{"1.0.0", "1.1.0", "latest"}).Draw(t, "version"),
					Digest:  rapid.SampledFrom([]string{"", "sha256:a", "sha256:b"}).Draw(t, "digest"),
				}
				if rapid.Bool().Draw(t, "scan") {
					s.RecordScan(src, at, knownversions.Scan{At: at.UnixMilli()}, []knownversions.Observation{o}, []string{o.Version})
				} else {
					s.Push(src, at, o)
				}
			}
			rows = append(rows, rowsOf(s)...)
		}
		merge := func(rows []clusterstatus.Row) []clusterstatus.Row {
			s := knownversions.New()
			for _, r := range rows {
				s.MergeRow(r)
			}
			return rowsOf(s)
		}
		bodies := func(rows []clusterstatus.Row) (out []string) {
			for _, r := range rows {
				out = append(out, r.Subject+r.Body)
			}
			return out
		}
		want := merge(rows)
		order := rapid.Permutation(append(rows, rows...)).Draw(t, "order")
		require.Equal(t, bodies(want), bodies(merge(order)))
		require.Equal(t, bodies(want), bodies(merge(append(order, want...))))
	})
}

// TestUnreadableRows: a row that this version cannot read is ignored, and replaced at the next change.
func TestUnreadableRows(t *testing.T) {
	t.Parallel()
	s := knownversions.New()
	for _, body := range []string{"", "null", "{}", "[null]", `[{"versions":[{"v":1}]}]`, "[]"} {
		s.MergeRow(clusterstatus.Row{Subject: "version/podinfo", Body: body, ObservedAt: noon})
	}
	require.Empty(t, names(s, chart))
	s.Push(chart, noon, knownversions.Observation{Version: "1.0.0"})
	rows := s.PendingRows(noon)
	require.Len(t, rows, 1)
	require.True(t, rows[0].ObservedAt.After(noon), "the table keeps the later row")
}

// TestRetain: what is known of a deleted component is forgotten everywhere, also if it is created again.
func TestRetain(t *testing.T) {
	t.Parallel()
	a, b := knownversions.New(), knownversions.New()
	a.Push(chart, noon, knownversions.Observation{Version: "1.0.0"})
	exchange := func() {
		for _, pair := range [][2]*knownversions.Store{{a, b}, {b, a}} {
			rows := pair[0].PendingRows(noon)
			pair[0].MarkWritten(rows)
			for _, r := range rows {
				pair[1].MergeRow(r)
			}
		}
	}
	exchange()
	require.Equal(t, []string{"1.0.0"}, names(b, chart))
	again := chart
	again.Identity = "2"
	recreated := func(string) []knownversions.Source { return []knownversions.Source{again} }
	for range 3 {
		a.Retain(recreated)
		b.Retain(recreated)
		exchange()
	}
	require.Empty(t, names(a, chart))
	require.Empty(t, names(b, chart))
	require.Empty(t, names(a, again))
	require.NotContains(t, fmt.Sprint(rowsOf(a)), "1.0.0")
}

// TestProcesses: two processes that share a database know each other's versions after two exchanges, whichever writes first, and one
// that starts later knows them too.
func TestProcesses(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	require.NoError(t, postgres.Migrate(t.Context(), url))
	path := filepath.Join(t.TempDir(), "fleet.db")
	for name, open := range map[string]func() clusterstatus.Store{
		"postgres": func() clusterstatus.Store {
			table, err := postgres.NewObservations(postgres.Config{URL: url})
			require.NoError(t, err)
			return table
		},
		"sqlite": func() clusterstatus.Store { return sqlite.NewObservations(path) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := func() (*knownversions.Store, *clusterstatus.Tracker) {
				s, table := knownversions.New(), open()
				t.Cleanup(func() { _ = table.Close() })
				return s, clusterstatus.NewTracker(clusterstatus.Config{Store: table, ServiceRows: s})
			}
			a, trackerA := start()
			b, trackerB := start()
			for i := range 5 {
				a.Push(chart, time.Now(), knownversions.Observation{Version: fmt.Sprintf("1.%d.0", i)})
				b.Push(chart, time.Now(), knownversions.Observation{Version: fmt.Sprintf("2.%d.0", i)})
				for range 2 {
					trackerA.Sync(t.Context(), time.Now())
					trackerB.Sync(t.Context(), time.Now().Add(-time.Minute)) // its clock is behind
				}
			}
			for range 2 {
				trackerA.Sync(t.Context(), time.Now())
				trackerB.Sync(t.Context(), time.Now().Add(-time.Minute))
			}
			require.Len(t, names(a, chart), 10)
			require.Equal(t, names(a, chart), names(b, chart))
			c, trackerC := start()
			trackerC.Sync(t.Context(), time.Now())
			require.Equal(t, names(a, chart), names(c, chart))
			require.Empty(t, c.PendingRows(time.Now()), "it writes nothing that is stored already")
		})
	}
}
