package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// roll creates a rollout with settings.
func roll(w *world, n NewRollout) func(*Tx) error {
	return func(tx *Tx) error {
		_, err := tx.CreateRollout(n, &w.log)
		return err
	}
}

var bumpGrafana = patchOp(KindComponent, "grafana", `{"component_version":"18"}`)

// TestRolloutSettings: all problems of stages and settings are reported at once.
func TestRolloutSettings(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer)
	e := w.refused(CodeInvalid, roll(w, NewRollout{
		ID: "r", Strategy: "missing", Operations: []api.Operation{bumpGrafana},
		Stages: []RolloutStage{
			{Name: "a", Selector: "x in (y", Gate: &api.RolloutGate{Soak: "31d", Confirmed: "101%", MaxFailures: new(-1), Deadline: "1s"}},
			{Name: "b", All: true, Percent: -1},
		},
		RolloutSettings: RolloutSettings{
			Advance: "soon", OnFailure: "abort", Gate: &api.RolloutGate{Soak: "721h", Confirmed: "all"},
			Windows: []api.Window{{Days: []string{"mon", "monday"}, From: "8", To: "25:00", Tz: "Berlin"}, {From: "00:00", To: "00:00", Tz: "Local"}},
		},
	}))
	var at []string
	for _, p := range e.Problems {
		at = append(at, p.Pointer)
	}
	require.ElementsMatch(t, []string{
		"/strategy", "/strategy", "/stages/0/selector", "/stages/0/gate/soak", "/stages/0/gate/confirmed", "/stages/0/gate/max_failures", "/stages/0/gate/deadline",
		"/stages/1/percent", "/advance", "/on_failure", "/gate/soak", "/gate/confirmed", "/windows/0/days/1", "/windows/0/from", "/windows/0/to", "/windows/0/tz", "/windows/1/tz",
	}, at)
	e = w.refused(CodeInvalid, roll(w, NewRollout{ID: "r", Operations: []api.Operation{bumpGrafana}, RolloutSettings: RolloutSettings{Gate: &api.RolloutGate{Soak: "3h", Deadline: "2h"}}}))
	require.Equal(t, "/gate/deadline", e.Problems[0].Pointer)
	res := w.must(roll(w, NewRollout{ID: "r", Operations: []api.Operation{bumpGrafana}, RolloutSettings: RolloutSettings{Advance: advanceAutomatic, Gate: &api.RolloutGate{Deadline: "1h"}}}))
	require.Contains(t, strings.Join(res.Warnings, "\n"), "may need 1h15m0s")
}

// TestDeadlineFollowsTheSoak: a day of soak needs no deadline.
func TestDeadlineFollowsTheSoak(t *testing.T) {
	t.Parallel()
	for soak, want := range map[string]string{"": "2h30m", "24h": "26h", "90m": "3h30m", "0s": "2h", "45s": "2h0m45s"} {
		settings := RolloutSettings{Gate: &api.RolloutGate{Soak: soak}}
		require.Equal(t, want, settings.effectiveGate(&RolloutStage{}).Deadline, soak)
		require.Equal(t, "5h", settings.effectiveGate(&RolloutStage{Gate: &api.RolloutGate{Deadline: "5h"}}).Deadline)
	}
	settings := RolloutSettings{Gate: &api.RolloutGate{Soak: "1h"}}
	require.Equal(t, "26h", settings.effectiveGate(&RolloutStage{Gate: &api.RolloutGate{Soak: "24h"}}).Deadline, "the soak of the stage")
	w := tiers(t, baseLayer)
	w.must(roll(w, NewRollout{ID: "r", Operations: []api.Operation{bumpGrafana}, RolloutSettings: RolloutSettings{Gate: &api.RolloutGate{Soak: "24h"}}}))
}

// TestStageTimes: stages store the time of their commit, not before the newest known commit. The plan hash covers neither it
// nor the principal.
func TestStageTimes(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer)
	w.must(roll(w, NewRollout{ID: "r", Stages: devFirst, Operations: []api.Operation{patchOp(KindComponent, "grafana", `{"target_namespace":"x"}`)}}))
	require.Equal(t, "test", w.state.docs[KindRollout]["r"].rollout().Principal)
	newest := w.now
	hash := w.plan(act("r", RolloutStart)).PlanHash
	tx := w.state.Begin()
	require.NoError(t, confirmed(hash, act("r", RolloutStart))(tx))
	res, err := tx.Finish(Commit{ID: uuid.New(), At: newest.Add(-time.Hour), Actor: "other"})
	require.NoError(t, err, "the plan was made at another time, by another principal")
	w.keep(res)
	r := w.state.docs[KindRollout]["r"].rollout()
	require.Equal(t, newest, *r.Stages[0].StartedAt, "the clock is behind")
	require.Equal(t, "other", r.Principal)

	hash = w.plan(act("r", RolloutStart)).PlanHash
	w.now = newest.Add(time.Hour)
	w.must(confirmed(hash, act("r", RolloutStart)))
	require.Equal(t, w.now, *w.state.docs[KindRollout]["r"].rollout().Stages[1].StartedAt)
	w.must(withoutGuard(act("r", RolloutBack)))
	require.Nil(t, w.state.docs[KindRollout]["r"].rollout().Stages[1].StartedAt, "the soak starts again with the stage")
}

// TestStagesOfPercent: stages with a percentage of the same clusters serve the change to some clusters after others, and to clusters
// that join.
func TestStagesOfPercent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, string(KindComponent), `{"id":"grafana","component_path":"a","oci_url":"https://charts.example.com"}`)
	add := func(from, to int) {
		w.must(func(tx *Tx) error {
			for i := from; i < to; i++ {
				if _, err := tx.Create(KindCluster, fmt.Appendf(nil, `{"id":"k%d","cluster_dns":"k%d.example.com","environment":"prod","platform_components":[{"id":"grafana"}]}`, i, i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	add(0, 10)
	reached := func() (ids []string) {
		for _, d := range w.state.All(KindCluster) {
			if version := component(t, w.state, d.Cluster().ClusterDNS, "grafana")["component_version"]; version == "18" {
				ids = append(ids, d.ID)
			}
		}
		return ids
	}
	stages := []RolloutStage{{Name: "one", ClusterIDs: []string{"k0"}}, {Name: "prod-40", All: true, Percent: 40}, {Name: "prod-80", All: true, Percent: 80}, {Name: "prod", All: true}}
	w.must(rollOut(w, "r", stages, bumpGrafana))
	w.must(act("r", RolloutStart))
	require.Equal(t, []string{"k0"}, reached())
	w.must(act("r", RolloutStart))
	first := reached()
	require.Len(t, first, 5, "40% of the other nine are four")
	require.Len(t, w.plan(act("r", RolloutStart)).Groups[0].Clusters, 4)
	w.must(act("r", RolloutStart))
	require.Len(t, reached(), 9)
	require.Subset(t, reached(), first)
	w.must(act("r", RolloutStart))
	require.Len(t, reached(), 10)
	add(10, 12)
	require.Len(t, reached(), 12, "clusters that join")
	served := polls(t, w.state)
	w.must(act("r", RolloutComplete))
	require.Equal(t, served, polls(t, w.state))
}

// TestWindows: when the next window opens, also over midnight and at the change of daylight saving time.
func TestWindows(t *testing.T) {
	t.Parallel()
	berlin := api.Window{Days: []string{"mon", "tue", "wed", "thu"}, From: "08:00", To: "16:00", Tz: "Europe/Berlin"}
	night := api.Window{Days: []string{"fri"}, From: "22:00", To: "02:00"}
	for _, c := range []struct {
		windows   []api.Window
		now, want string
	}{
		{nil, "2026-03-02T05:00:00Z", "2026-03-02T05:00:00Z"},
		{[]api.Window{berlin}, "2026-03-02T06:59:59Z", "2026-03-02T07:00:00Z"}, // a Monday, UTC+1
		{[]api.Window{berlin}, "2026-03-02T07:00:00Z", "2026-03-02T07:00:00Z"},
		{[]api.Window{berlin}, "2026-03-02T14:59:59Z", "2026-03-02T14:59:59Z"},
		{[]api.Window{berlin}, "2026-03-02T15:00:00Z", "2026-03-03T07:00:00Z"},
		{[]api.Window{berlin}, "2026-03-26T15:00:00Z", "2026-03-30T06:00:00Z"}, // a Thursday; UTC+2 on Monday
		{[]api.Window{night}, "2026-03-07T01:00:00Z", "2026-03-07T01:00:00Z"},
		{[]api.Window{night}, "2026-03-07T02:00:00Z", "2026-03-13T22:00:00Z"},
		{[]api.Window{berlin, night}, "2026-03-06T12:00:00Z", "2026-03-06T22:00:00Z"},
		{[]api.Window{{From: "00:00", To: "00:00"}}, "2026-03-06T12:00:00Z", "2026-03-06T12:00:00Z"},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		require.NoError(t, err)
		at, ok := nextOpening(c.windows, now)
		require.True(t, ok)
		require.Equal(t, c.want, at.UTC().Format(time.RFC3339), "at %s", c.now)
	}
	_, ok := nextOpening([]api.Window{{From: "8"}}, time.Now())
	require.False(t, ok)
}
