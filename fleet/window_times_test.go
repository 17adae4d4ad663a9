package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func at(t require.TestingT, text string) time.Time {
	out, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return out
}

// TestClockTime: a time that the clock skips is the end of the gap, and one that it shows twice the first.
func TestClockTime(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ zone, date, clock, want string }{
		{"Europe/Berlin", "2026-03-29", "02:30", "2026-03-29T01:00:00Z"},
		{"Europe/Berlin", "2026-03-29", "03:00", "2026-03-29T01:00:00Z"},
		{"Europe/Berlin", "2026-03-29", "01:59", "2026-03-29T00:59:00Z"},
		{"Europe/Berlin", "2026-10-25", "02:30", "2026-10-25T00:30:00Z"},
		{"Europe/Berlin", "2026-10-25", "03:00", "2026-10-25T02:00:00Z"},
		{"America/New_York", "2026-03-08", "02:00", "2026-03-08T07:00:00Z"},
		{"America/New_York", "2026-11-01", "01:00", "2026-11-01T05:00:00Z"},
		{"Australia/Lord_Howe", "2026-10-04", "02:15", "2026-10-03T15:30:00Z"}, // half an hour
		{"Australia/Lord_Howe", "2026-04-05", "01:45", "2026-04-04T14:45:00Z"},
		{"America/Sao_Paulo", "2018-11-04", "00:00", "2018-11-04T03:00:00Z"}, // no midnight
		{"Pacific/Apia", "2026-11-30", "10:00", "2026-11-29T21:00:00Z"},
		{"UTC", "2026-11-30", "00:00", "2026-11-30T00:00:00Z"},
	} {
		in, err := zone(tc.zone)
		require.NoError(t, err)
		date, err := time.ParseInLocation(time.DateOnly+" 15", tc.date+" 12", in)
		require.NoError(t, err)
		minute, ok := minuteOfDay(tc.clock)
		require.True(t, ok)
		require.Equal(t, tc.want, clockTime(date, minute).UTC().Format(time.RFC3339), tc)
	}
}

// zonesWithSummerTime are five time zones with different changes of the clock.
var zonesWithSummerTime = []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Santiago"}

// opensByHand reports whether a window is open at a time, by the clock on the wall, minute by minute. Only valid on days on which the
// clock does not change between from and to.
func opensByHand(w api.Window, in *time.Location, now time.Time) bool {
	local := now.In(in)
	clock, day := local.Format(timeOfDay), local
	within := clock >= w.From && clock < w.To
	if w.To <= w.From {
		within = clock >= w.From || clock < w.To
		if clock < w.To && clock < w.From {
			day = local.AddDate(0, 0, -1)
		}
	}
	if !within {
		return false
	}
	for _, name := range w.Days {
		if name == weekdays[day.Weekday()] {
			return true
		}
	}
	return len(w.Days) == 0
}

// clockChanges reports whether the clock changes within a day of a time.
func clockChanges(in *time.Location, now time.Time) bool {
	_, a := now.Add(-36 * time.Hour).In(in).Zone()
	_, b := now.Add(36 * time.Hour).In(in).Zone()
	return a != b
}

// TestWindowsOfAYear: each hour of a year in five zones, a window is open when the clock on the wall says so, and one that is closed
// names when it opens: it is open then, and not a minute before.
func TestWindowsOfAYear(t *testing.T) {
	t.Parallel()
	for _, w := range []api.Window{
		{Days: []string{"tue", "wed", "thu"}, From: "10:00", To: "16:00"},
		{Days: []string{"fri", "sun"}, From: "22:30", To: "02:30"},
		{From: "02:15", To: "02:45"},
		{Days: []string{"sun"}, From: "00:00", To: "00:00"},
	} {
		for _, name := range zonesWithSummerTime {
			in, err := zone(name)
			require.NoError(t, err)
			w.Tz = name
			openings, opened := map[time.Time]bool{}, 0
			for now, end := at(t, "2026-01-01T00:07:00Z"), at(t, "2027-01-01T00:00:00Z"); now.Before(end); now = now.Add(time.Hour) {
				opens, closes, ok := windowNext(&w, timeZones{}, now, daysAhead)
				require.True(t, ok, "%v %s", w, now)
				require.True(t, closes.After(opens), "%v %s", w, now)
				from, _ := minuteOfDay(w.From)
				for day := -1; day <= 9; day++ {
					local := now.In(in)
					date := time.Date(local.Year(), local.Month(), local.Day()+day, 12, 0, 0, 0, in)
					require.Equal(t, clockTime(date, from).UTC(), clockOf(local)(day, from), "%s %d", local, day)
				}
				isOpen := opens.Equal(now)
				if !clockChanges(in, now) {
					require.Equal(t, opensByHand(w, in, now), isOpen, "%v %s", w, now.In(in))
				}
				if isOpen {
					opened++
					continue
				}
				if openings[opens] {
					continue
				}
				openings[opens] = true
				again, _, _ := windowNext(&w, timeZones{}, opens, daysAhead)
				require.Equal(t, opens, again, "%v %s", w, now)
				before, _, _ := windowNext(&w, timeZones{}, opens.Add(-time.Minute), daysAhead)
				require.Equal(t, opens, before, "%v %s", w, now)
			}
			days := 365
			if len(w.Days) > 0 {
				days = len(w.Days) * 52
			}
			require.InDelta(t, days, len(openings), 2, "%v: no day is left out or counted twice", w)
			require.Positive(t, opened+len(openings))
		}
	}
}

// TestFreezeWindows: any window of allow permits changes, block wins, and before from and after until everything is permitted.
func TestFreezeWindows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		windows := func(name string) (out []api.Window) {
			for range rapid.IntRange(0, 2).Draw(t, name) {
				w := api.Window{From: fmt.Sprintf("%02d:00", rapid.IntRange(0, 23).Draw(t, "from")), To: fmt.Sprintf("%02d:30", rapid.IntRange(0, 23).Draw(t, "to"))}
				w.Days = rapid.SliceOfNDistinct(rapid.SampledFrom(weekdays), 0, 3, rapid.ID).Draw(t, "days")
				if rapid.Bool().Draw(t, "variable") {
					w.TzVariable = "tz"
				}
				out = append(out, w)
			}
			return out
		}
		f := &freeze{Allow: windows("allow"), Block: windows("block")}
		now := at(t, "2026-06-01T00:00:00Z").Add(time.Duration(rapid.IntRange(0, 7*24*60).Draw(t, "minute")) * time.Minute)
		if rapid.Bool().Draw(t, "ends") {
			f.Until = new(now.Add(time.Duration(rapid.IntRange(-60, 48*60).Draw(t, "until")) * time.Minute))
		}
		zones := map[string]string{"tz": rapid.SampledFrom(zonesWithSummerTime).Draw(t, "zone")}
		openAt := func(now time.Time) bool {
			in := func(windows []api.Window) bool {
				for _, w := range windows {
					where := time.UTC
					if w.TzVariable != "" {
						where, _ = zone(zones["tz"])
					}
					if opensByHand(w, where, now) {
						return true
					}
				}
				return false
			}
			if f.Until != nil && !now.Before(*f.Until) {
				return true
			}
			if !f.isRecurring() {
				return false
			}
			return (len(f.Allow) == 0 || in(f.Allow)) && !in(f.Block)
		}
		next, ok := f.nextOpen(timeZones{variables: zones}, now)
		if !f.isRecurring() {
			require.False(t, ok)
			return
		}
		require.Equal(t, openAt(now), f.permits(timeZones{variables: zones}, now))
		want, found := now, false
		for ; want.Sub(now) <= openWithin && !found; want = want.Add(time.Minute) {
			if found = openAt(want); found {
				break
			}
		}
		require.Equal(t, found, ok)
		if found {
			require.Equal(t, want, next)
		}
	})
}

// hours returns a freeze of the clusters in prod outside of some hours of the day, by the clock of a variable.
func hours(from, to string) func(*Tx) error {
	return create(KindFreeze, fmt.Sprintf(`{"id":"hours","selector":"tier=prod","reason":"hours","allow":[{"from":%q,"to":%q,"tz_variable":"timezone"}]}`, from, to))
}

// TestWindowsInTimeZones: each cluster has the windows of its own time zone, of its layers or its document, and a change cannot move
// them for itself.
func TestWindowsInTimeZones(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer) // at 03:04 UTC
	bump := patchOp(KindComponent, "loki", `{"component_version":"9"}`)
	require.NoError(t, w.as("ann", patch(KindLayer, "prod", `{"variables":{"timezone":"Asia/Tokyo"}}`)))
	require.NoError(t, w.as("ann", patch(KindCluster, "c3", `{"variables":{"timezone":"Europe/Berlin"}}`)))
	require.NoError(t, w.as("ann", hours("10:00", "16:00")))
	doc, err := w.state.Find(KindFreeze, "hours")
	require.NoError(t, err)
	view := w.state.FreezeView(doc, w.now)
	require.Greater(t, view.Clusters, 1)
	require.Equal(t, 1, view.Frozen, "the other clusters are in Tokyo, where it is noon")
	e := w.refused(CodeFrozen, operations(w, bump))
	require.Equal(t, []string{"c3"}, frozenIDs(e))
	require.Contains(t, e.Detail, "until 2026-01-02T09:00:00Z")

	for name, write := range map[string]func(*Tx) error{
		"variable":            patch(KindCluster, "c3", `{"variables":{"timezone":"Asia/Tokyo"}}`),
		"variable is gone":    patch(KindCluster, "c3", `{"variables":null}`),
		"variable and change": both(patch(KindCluster, "c3", `{"variables":{"timezone":"Asia/Tokyo"}}`), operations(w, bump)),
		"label":               patch(KindCluster, "c3", `{"labels":{"tier":"dev"}}`),
	} {
		require.Equal(t, []string{"c3"}, frozenIDs(w.refused(CodeFrozen, write)), name)
	}
	w.now = w.now.Add(8 * time.Hour) // noon in Berlin, evening in Tokyo
	require.NotContains(t, frozenIDs(w.refused(CodeFrozen, operations(w, bump))), "c3")
	layer := w.refused(CodeFrozen, patch(KindLayer, "prod", `{"variables":{"timezone":"Europe/Berlin"}}`))
	require.NotContains(t, frozenIDs(layer), "c3", "its own variable stays")
	require.NotEmpty(t, frozenIDs(layer))

	// A batch that reverts and does something else does not only take back.
	require.NoError(t, w.as("ann", remove(KindFreeze, "hours", DeleteOptions{})))
	require.NoError(t, w.as("ann", operations(w, bump)))
	require.NoError(t, w.as("ann", hours("01:00", "02:00")))
	back := api.Operation{Op: "revert", Revision: int64(len(w.log.commits)) - 1}
	_, err = w.try(operations(w, back))
	require.NoError(t, err)
	w.refused(CodeFrozen, operations(w, back, patchOp(KindNamespace, "team", `{"labels":{"a":"b"}}`)))
}

// TestTimeZonesAreChecked where they are written: in a cluster, in a layer and when a freeze reads them first.
func TestTimeZonesAreChecked(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.must(patch(KindCluster, "c3", `{"variables":{"timezone":"Europe/Bern"}}`))
	e := w.refused(CodeInvalid, hours("10:00", "16:00"))
	require.Equal(t, "/allow/0/tz_variable", e.Problems[0].Pointer)
	require.Contains(t, e.Problems[0].Detail, "cluster/c3")
	w.must(patch(KindCluster, "c3", `{"variables":null}`))
	w.must(hours("10:00", "16:00"))
	for _, zone := range []string{`"Europe/Bern"`, `"Local"`, `""`, `7`, `true`, `"../../etc/passwd"`} {
		for kind, id := range map[Kind]string{KindCluster: "c3", KindLayer: "prod"} {
			e := w.refused(CodeInvalid, patch(kind, id, `{"variables":{"timezone":`+zone+`}}`))
			require.Equal(t, "/variables/timezone", e.Problems[0].Pointer, zone)
		}
	}
	for body, pointer := range map[string]string{
		`"allow":[{"from":"8:00","to":"16:00"}]`:                                          "/allow/0/from",
		`"block":[{"from":"08:00","to":"24:00"}]`:                                         "/block/0/to",
		`"allow":[{"days":["monday"],"from":"08:00","to":"16:00"}]`:                       "/allow/0/days/0",
		`"allow":[{"from":"08:00","to":"16:00","tz":"Berlin"}]`:                           "/allow/0/tz",
		`"allow":[{"from":"08:00","to":"16:00","tz_variable":"a b"}]`:                     "/allow/0/tz_variable",
		`"block":[{"from":"00:00","to":"00:00"}]`:                                         "/allow",
		`"allow":[{"from":"08:00","to":"16:00"}],"block":[{"from":"07:00","to":"17:00"}]`: "/allow",
	} {
		e := w.refused(CodeInvalid, create(KindFreeze, `{"id":"f","all":true,"reason":"r",`+body+`}`))
		require.Equal(t, pointer, e.Problems[0].Pointer, body)
	}
	w.refused(CodeInvalid, create(KindFreeze, `{"id":"all","all":true,"reason":"r","allow":[{"from":"08:00","to":"16:00"}]}`))
}

// TestRolloutsWaitForWindows: the runner waits until the windows of all clusters of a stage are open, takes a failed stage back outside
// them, and a stage that can never start is refused when the rollout is created.
func TestRolloutsWaitForWindows(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	bump := patchOp(KindComponent, "loki", `{"component_version":"9"}`)
	prod := []RolloutStage{{Name: "prod", Selector: "tier=prod"}}
	require.NoError(t, w.as("ann", patch(KindCluster, "c3", `{"variables":{"timezone":"Europe/Berlin"}}`)))
	require.NoError(t, w.as("ann", hours("10:00", "16:00"))) // the other clusters: UTC
	require.NoError(t, w.as("ann", rollOut(w, "r", prod, bump)))
	wait, err := w.state.WaitForFreezes(t.Context(), "r", RolloutStep{Action: RolloutStart, Stage: "prod"}, w.now)
	require.NoError(t, err)
	require.Equal(t, "freeze", wait.Reason)
	require.Equal(t, at(t, "2026-01-02T10:00:00Z"), wait.Until)
	w.now = at(t, "2026-01-02T10:30:00Z")
	require.NoError(t, w.as("ann", act("r", RolloutStart)))
	w.now = at(t, "2026-01-02T22:00:00Z")
	step, err := w.state.WaitForFreezes(t.Context(), "r", RolloutStep{Action: RolloutBack, Stage: "prod", Message: "failed"}, w.now)
	require.NoError(t, err)
	require.Equal(t, RolloutBack, step.Action)
	require.NoError(t, w.as("ann", act("r", RolloutBack)))
	require.NoError(t, w.as("ann", act("r", RolloutAbort)))

	w.now = at(t, "2026-01-03T11:00:00Z")
	w.must(patch(KindCluster, "c3", `{"variables":{"timezone":"Asia/Tokyo"}}`))
	e := w.refused(CodeInvalid, rollOut(w, "r2", prod, bump))
	require.Equal(t, "/stages/0", e.Problems[0].Pointer)
	require.Contains(t, e.Problems[0].Detail, `"c3"`)
	require.NoError(t, w.as("ann", rollOut(w, "r2", []RolloutStage{{Name: "tokyo", ClusterIDs: []string{"c3"}}, prod[0]}, bump)), "a stage for each time zone")
}

// TestStartAt: an automatic rollout with a time starts its first stage without a person, then and not before, and a stage with a time
// waits for it.
func TestStartAt(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	bump := patchOp(KindComponent, "loki", `{"component_version":"9"}`)
	begin, second := at(t, "2026-01-02T09:00:00Z"), at(t, "2026-01-05T09:00:00Z")
	n := NewRollout{ID: "r", Operations: []api.Operation{bump}, RolloutSettings: RolloutSettings{Advance: advanceAutomatic, StartAt: &begin, Gate: &api.RolloutGate{Soak: "1h"}}, Stages: []RolloutStage{
		{Name: "dev", Selector: "tier=dev"}, {Name: "prod", Selector: "tier=prod", StartAt: &second},
	}}
	w.must(func(tx *Tx) error { _, err := tx.CreateRollout(n, &w.log); return err })
	next := func(now time.Time) RolloutStep {
		d, err := w.state.Find(KindRollout, "r")
		require.NoError(t, err)
		require.True(t, Advances(d))
		return NextStep(d, []StageCounts{{Affected: 1, Confirmed: 1}, {Affected: 1}, {}}, now)
	}
	require.Equal(t, RolloutStep{Reason: "start_at", Stage: "dev", Until: begin, Message: `stage "dev" waits for its start time`}, next(begin.Add(-time.Second)))
	require.Equal(t, RolloutStep{Action: RolloutStart, Stage: "dev"}, next(begin))
	w.now = begin
	w.must(func(tx *Tx) error { return tx.StepRollout("r", next(begin)) })
	require.Equal(t, "soak", next(begin.Add(time.Minute)).Reason)
	require.Equal(t, RolloutStep{Reason: "start_at", Stage: "prod", Until: second, Message: `stage "prod" waits for its start time`}, next(begin.Add(2*time.Hour)))
	require.Equal(t, RolloutStep{Action: RolloutStart, Stage: "prod"}, next(second))

	n.ID, n.Advance = "manual", ""
	e := w.refused(CodeInvalid, func(tx *Tx) error { _, err := tx.CreateRollout(n, &w.log); return err })
	require.Equal(t, "/start_at", e.Problems[0].Pointer)
	require.Equal(t, "/stages/1/start_at", e.Problems[1].Pointer)
	w.refused(CodeInvalid, create(KindStrategy, `{"id":"s","stages":[{"name":"a","all":true,"start_at":"2026-01-02T09:00:00Z"}]}`))
}
