package fleet

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestZonesOfOtherClusters: the variables of clusters that a freeze does not concern are no time zones. Otherwise the freeze of one
// team would forbid another team the values of its variables, and its refusal would name that variable.
func TestZonesOfOtherClusters(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.must(patch(KindCluster, "c0", `{"labels":{"tier":"dev"},"variables":{"timezone":"example.com"}}`))
	w.must(create(KindLayer, `{"id":"zones","priority":77,"selector":"tier=dev","variables":{"timezone":"example.org"}}`))
	w.must(hours("10:00", "16:00"))
	w.must(patch(KindCluster, "c0", `{"variables":{"timezone":"example.net"}}`))
	w.must(patch(KindLayer, "zones", `{"variables":{"timezone":"example.net"}}`))
	w.now = at(t, "2026-01-02T11:00:00Z")
	e := w.refused(CodeInvalid, patch(KindLayer, "zones", `{"selector":"tier in (dev,prod)"}`))
	require.Equal(t, "/variables/timezone", e.Problems[0].Pointer)
	e = w.refused(CodeInvalid, patch(KindCluster, "c0", `{"labels":{"tier":"prod"}}`))
	require.Equal(t, "/variables/timezone", e.Problems[0].Pointer)

	// The layer becomes one of a cluster in the freeze, without a change of a variable.
	w.must(patch(KindCluster, "c0", `{"variables":null}`))
	w.must(patch(KindLayer, "zones", `{"selector":"zone=other"}`))
	w.must(patch(KindCluster, "c3", `{"labels":{"zone":"other"}}`))
	doc, err := w.state.Find(KindFreeze, "hours")
	require.NoError(t, err)
	require.Equal(t, 1, w.state.FreezeView(doc, w.now).Frozen, "an unknown zone: no window opens")
}

// TestUnknownZoneOpensNothing: a window of a zone that is unknown neither permits a change nor stops forbidding one.
func TestUnknownZoneOpensNothing(t *testing.T) {
	t.Parallel()
	now, unknown := at(t, "2026-01-02T11:00:00Z"), timeZones{variables: map[string]string{"tz": "Europe/Bern"}}
	w := api.Window{From: "00:00", To: "00:00", TzVariable: "tz"}
	_, ok := (&freeze{Allow: []api.Window{w}}).nextOpen(unknown, now)
	require.False(t, ok)
	w.To = "00:01"
	_, ok = (&freeze{Block: []api.Window{w}}).nextOpen(unknown, now)
	require.False(t, ok)
}

// TestNamesOfZones: the same names on each machine, also if its database has links to its own zone.
func TestNamesOfZones(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+3", "America/Port-au-Prince", "EST5EDT"} {
		_, err := zone(name)
		require.NoError(t, err, name)
	}
	for _, name := range []string{"Local", "localtime", "posixrules", "posix/Europe/Berlin", "right/Europe/Berlin", "Europe//Berlin", "Europe/./Berlin", "./Europe/Berlin", "/usr/share/zoneinfo/UTC", "../UTC", "Europe/Berlin/", "Europe", "utc\n", "zone.tab", "tzdata.zi"} {
		_, err := zone(name)
		require.Error(t, err, name)
	}
}

// TestRevertMovesNoWindow: outside the windows, a revert takes changes of answers back, but does not only move the windows.
func TestRevertMovesNoWindow(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.must(patch(KindCluster, "c3", `{"variables":{"timezone":"Asia/Tokyo"}}`))
	w.must(patch(KindCluster, "c3", `{"variables":{"timezone":"Europe/Berlin"}}`))
	moved := w.last()
	w.must(patch(KindComponent, "loki", `{"component_version":"9"}`))
	changed := w.last()
	w.must(hours("10:00", "16:00"))
	w.now = at(t, "2026-01-02T03:30:00Z") // noon in Tokyo
	e := w.refused(CodeFrozen, operations(w, api.Operation{Op: "revert", Revision: moved}))
	require.Equal(t, []string{"c3"}, frozenIDs(e))
	w.must(operations(w, api.Operation{Op: "revert", Revision: changed}))
}

// TestStageWithTimeAfterTheFreeze: windows are compared from the time of the stage.
func TestStageWithTimeAfterTheFreeze(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.must(patch(KindCluster, "c3", `{"variables":{"timezone":"Asia/Tokyo"}}`))
	w.must(hours("10:00", "16:00"))
	w.must(patch(KindFreeze, "hours", `{"until":"2026-02-01T00:00:00Z"}`))
	begin := at(t, "2026-02-02T00:00:00Z")
	n := NewRollout{ID: "r", Operations: []api.Operation{patchOp(KindComponent, "loki", `{"component_version":"9"}`)}, RolloutSettings: RolloutSettings{Advance: advanceAutomatic}, Stages: []RolloutStage{{Name: "prod", Selector: "tier=prod"}}}
	propose := func(tx *Tx) error { _, err := tx.CreateRollout(n, &w.log); return err }
	w.refused(CodeInvalid, propose)
	n.StartAt = &begin
	w.must(propose)
}

// zoneNames returns names of time zones from the database of the system.
func zoneNames(b *testing.B) (out []string) {
	b.Helper()
	const root = "/usr/share/zoneinfo"
	_ = filepath.WalkDir(root, func(path string, _ fs.DirEntry, _ error) error {
		if name, _ := filepath.Rel(root, path); len(out) < 400 {
			if _, err := zone(name); err == nil {
				out = append(out, name)
			}
		}
		return nil
	})
	if len(out) < 400 {
		b.Skip("there is no database of time zones")
	}
	return out
}

// manyWindows is a fleet of 10,000 clusters in 400 time zones, with 100 freezes of 20 windows.
func manyWindows(b *testing.B) *State {
	b.Helper()
	s := loadShared(b, sharedFleet(b, 10_000, 5))
	edit := func(change func(tx *Tx) error) {
		tx := s.Begin()
		tx.Guard(Guard{Off: true})
		require.NoError(b, change(tx))
		res, err := tx.Finish(Commit{Actor: "test", At: at(b, "2026-01-02T03:04:05Z")})
		require.NoError(b, err)
		s = res.State
	}
	names := zoneNames(b)
	edit(func(tx *Tx) error {
		for i, d := range tx.Base().All(KindCluster) {
			if _, err := tx.Patch(KindCluster, d.ID, fmt.Appendf(nil, `{"variables":{"timezone":%q}}`, names[i%len(names)])); err != nil {
				return err
			}
		}
		return nil
	})
	windows := ""
	for i := range 20 {
		windows += fmt.Sprintf(`,{"days":[%q],"from":"%02d:00","to":"%02d:30","tz_variable":"timezone"}`, weekdays[i%7], 1+i, 1+i)
	}
	edit(func(tx *Tx) error {
		for i := range 100 {
			if err := create(KindFreeze, fmt.Sprintf(`{"id":"f%d","selector":"fleet=all","reason":"hours","allow":[%s]}`, i, windows[1:]))(tx); err != nil {
				return err
			}
		}
		return nil
	})
	return s
}

// BenchmarkWindows measures what the windows of freezes cost in the largest fleet.
func BenchmarkWindows(b *testing.B) {
	s := manyWindows(b)
	now := at(b, "2026-01-07T12:04:05Z")
	timed := func(name string, do func()) {
		start := time.Now()
		do()
		b.ReportMetric(time.Since(start).Seconds()*1000, name+"-ms")
	}
	change := func(name string, edit func(tx *Tx) error) {
		timed(name, func() {
			tx := s.Begin()
			tx.Guard(Guard{})
			require.NoError(b, edit(tx))
			_, err := tx.Finish(Commit{Actor: "test", At: now})
			b.Logf("%s: %.300v", name, err)
		})
	}
	for b.Loop() {
		timed("list", func() {
			for _, d := range s.All(KindFreeze) {
				s.FreezeView(d, now)
			}
		})
		change("cluster", patch(KindCluster, "k00001", `{"labels":{"a":"b"}}`))
		change("component", patch(KindComponent, "c3", `{"component_version":"99.0.0"}`))
		change("rollout", rollOut(&world{state: s}, "r", []RolloutStage{{Name: "third", All: true, Percent: 30}}, patchOp(KindComponent, "c3", `{"component_version":"99.0.0"}`)))
		change("variables", func(tx *Tx) error {
			for _, d := range tx.Base().All(KindCluster) {
				if _, err := tx.Patch(KindCluster, d.ID, []byte(`{"variables":{"other":"x"}}`)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// TestRevertOfARevertObeysWindows: outside the windows a revert takes changes back. One of a revert or of a restore makes them again, and
// has to wait, by whatever way it comes.
func TestRevertOfARevertObeysWindows(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	revert := func(rev int64) api.Operation { return api.Operation{Op: "revert", Revision: rev} }
	do := func(ops ...api.Operation) int64 {
		t.Helper()
		w.must(operations(w, ops...))
		return w.last()
	}
	other := do(patchOp(KindComponent, "grafana", `{"component_version":"99"}`))
	both := do(patchOp(KindComponent, "loki", `{"component_version":"9"}`), patchOp(KindNamespace, "team", `{"labels":{"a":"b"}}`))
	w.must(hours("10:00", "16:00")) // it is 03:04 in prod

	back := do(revert(both))
	for name, ops := range map[string][]api.Operation{
		"whole":         {revert(back)},
		"one document":  {{Op: "revert", Revision: back, Kind: string(KindComponent), ID: "loki"}},
		"two revisions": {revert(other), revert(back)},
		"preferring":    {{Op: "revert", Revision: back, Prefer: "theirs"}},
	} {
		e := w.refused(CodeFrozen, operations(w, ops...))
		require.NotEmpty(t, frozenIDs(e), name)
	}
	tx := w.state.Begin()
	require.NoError(t, operations(w, revert(back))(tx))
	tx.Guard(Guard{OverrideFreezes: []string{"hours"}})
	res, err := tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: "test", Reason: "CHG-1"})
	require.NoError(t, err)
	w.keep(res)
	again := w.last()
	back = do(revert(again)) // which the third revert had made
	w.refused(CodeFrozen, operations(w, revert(back)))

	// A batch that makes a change and takes another one back, within the windows.
	w.now = at(t, "2026-01-02T11:00:00Z")
	mixed := do(revert(other), patchOp(KindComponent, "loki", `{"component_version":"10"}`))
	w.log.past = w.pastOf(Revision(both))
	restored := do(api.Operation{Op: "restore", Revision: both})
	w.now = at(t, "2026-01-02T18:00:00Z")
	for _, rev := range []int64{restored, mixed} {
		w.refused(CodeFrozen, operations(w, api.Operation{Op: "revert", Revision: rev, Prefer: "theirs"}))
	}
	doc, err := w.state.Find(KindFreeze, "hours")
	require.NoError(t, err)
	w.must(remove(KindFreeze, "hours", DeleteOptions{}))
	var reverts []int64
	for _, rev := range []int64{restored, mixed} {
		reverts = append(reverts, do(api.Operation{Op: "revert", Revision: rev, Prefer: "theirs"}))
	}
	w.must(func(tx *Tx) error { _, err := tx.Create(KindFreeze, doc.Body); return err })
	for _, rev := range reverts { // what they took back is not known
		w.refused(CodeFrozen, operations(w, api.Operation{Op: "revert", Revision: rev, Prefer: "theirs"}))
	}
	w.log.past = w.pastOf(Revision(both))
	w.refused(CodeFrozen, operations(w, api.Operation{Op: "restore", Revision: both}))
	w.now = at(t, "2026-01-03T11:00:00Z")
	do(revert(reverts[1]))
}

// TestDirectionOfReverts: each revert of a revert turns the direction around, up to a limit. It is not known of revisions that the log no
// longer has, and of those that did more than was recorded.
func TestDirectionOfReverts(t *testing.T) {
	t.Parallel()
	var history log
	add := func(operations string) {
		history.commits = append(history.commits, Commit{Revision: Revision(len(history.commits) + 1), Operations: json.RawMessage(operations)})
	}
	add(`{"operations":[{"op":"patch","kind":"namespace","id":"team"}]}`)
	for rev := 1; rev <= maxDirectionReads; rev++ {
		add(fmt.Sprintf(`{"operations":[{"op":"override","kind":"freeze","id":"f"},{"op":"revert","revision":%d}]}`, rev))
	}
	of := func(rev int) direction {
		t.Helper()
		did, err := directions{}.of(Revision(rev), &history)
		require.NoError(t, err)
		return did
	}
	require.Equal(t, []direction{directionForward, directionBack, directionForward, directionBack}, []direction{of(1), of(2), of(3), of(4)})
	require.Equal(t, directionBack, of(maxDirectionReads))
	require.Equal(t, directionUnknown, of(maxDirectionReads+1))
	for _, operations := range []string{
		`{"operations":[{"op":"restore","revision":1}]}`,
		`{"operations":[{"op":"revert","revision":1}],"more":1}`,
		`{"operations":[{"op":"revert","revision":1},{"op":"revert","revision":2}]}`,
		`{"operations":[{"op":"revert","revision":1},{"op":"patch","kind":"namespace","id":"team"}]}`,
	} {
		add(operations)
		require.Equal(t, directionUnknown, of(len(history.commits)), operations)
	}
	add(`{"operations":[{"op":"revert","revision":1000}]}`)
	require.Equal(t, directionUnknown, of(len(history.commits)))
	counting := &countingHistory{log: &history}
	batch := directions{}
	for range 50 {
		_, err := batch.of(maxDirectionReads, counting)
		require.NoError(t, err)
	}
	require.Equal(t, maxDirectionReads, counting.commits, "a revision is read once in a batch")
	_, err := batch.of(Revision(len(history.commits)), counting)
	require.NoError(t, err)
	require.Greater(t, counting.commits, maxDirectionReads, "the limit is that of one revert")
	history.commits[0].Operations = nil // of a version that did not record them
	require.Equal(t, directionForward, of(1))
}

// countingHistory counts the commits that are read.
type countingHistory struct {
	*log

	commits int
}

func (h *countingHistory) Commit(rev Revision) (Commit, error) {
	h.commits++
	return h.log.Commit(rev)
}
