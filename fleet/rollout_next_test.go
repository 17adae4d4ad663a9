package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestNextStep is the table of the gate: invariants 3 to 6 of the design and its failure cases.
func TestNextStep(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC) // a Monday
	night := []api.Window{{From: "22:00", To: "23:00"}}
	type counts = StageCounts
	ten := func(c counts) counts { c.Affected = 10; return c }
	for name, c := range map[string]struct {
		edit   func(*rollout)
		counts counts // of the started stage
		after  time.Duration
		want   string // action, or the reason of a wait
		until  time.Duration
	}{
		"soak":                                {counts: ten(counts{Confirmed: 10}), after: 29 * time.Minute, want: "soak", until: 30 * time.Minute},
		"passed":                              {counts: ten(counts{Confirmed: 10}), after: 30 * time.Minute, want: RolloutStart},
		"one is pending":                      {counts: ten(counts{Confirmed: 9, Pending: 1}), after: time.Hour, want: "confirmations", until: 150 * time.Minute},
		"one is behind at the deadline":       {counts: ten(counts{Confirmed: 9, Behind: 1}), after: 150 * time.Minute, want: RolloutPause},
		"one is unknown":                      {counts: ten(counts{Confirmed: 9, Unknown: 1}), after: time.Hour, want: "confirmations", until: 150 * time.Minute},
		"all are unknown":                     {counts: ten(counts{Unknown: 10}), after: time.Minute, want: RolloutPause},
		"all are unknown so far":              {counts: ten(counts{Unknown: 10}), after: 59 * time.Second, want: "confirmations", until: 150 * time.Minute},
		"all that are online are unknown":     {counts: ten(counts{Unknown: 6, Offline: 4}), after: time.Minute, want: RolloutPause},
		"half is offline":                     {counts: ten(counts{Confirmed: 5, Offline: 5}), after: time.Hour, want: RolloutStart},
		"more than half is offline":           {counts: ten(counts{Confirmed: 4, Offline: 6}), after: time.Hour, want: RolloutPause},
		"all are offline":                     {counts: ten(counts{Offline: 10}), after: time.Hour, want: RolloutPause},
		"a failure":                           {counts: ten(counts{Confirmed: 9, Failed: 1}), want: RolloutPause},
		"a failure after the deadline":        {counts: ten(counts{Confirmed: 9, Failed: 1}), after: 3 * time.Hour, want: RolloutPause},
		"a failure that is allowed":           {edit: gated(api.RolloutGate{MaxFailures: new(1), Confirmed: "90%"}), counts: ten(counts{Confirmed: 9, Failed: 1}), after: time.Hour, want: RolloutStart},
		"a failure, back":                     {edit: func(r *rollout) { r.OnFailure = onFailureBack }, counts: ten(counts{Confirmed: 9, Failed: 1}), want: RolloutBack},
		"90% of 9 is 9":                       {edit: gated(api.RolloutGate{Confirmed: "90%"}), counts: ten(counts{Confirmed: 8, Pending: 1, Offline: 1}), after: time.Hour, want: "confirmations", until: 150 * time.Minute},
		"1% of 10 is one":                     {edit: gated(api.RolloutGate{Confirmed: "1%"}), counts: ten(counts{Pending: 10}), after: time.Hour, want: "confirmations", until: 150 * time.Minute},
		"0% passes by time":                   {edit: gated(api.RolloutGate{Confirmed: "0%"}), counts: ten(counts{Unknown: 10}), after: 30 * time.Minute, want: RolloutStart},
		"0% waits for the soak":               {edit: gated(api.RolloutGate{Confirmed: "0%"}), counts: ten(counts{Unknown: 10}), after: time.Minute, want: "soak", until: 30 * time.Minute},
		"0% with a failure":                   {edit: gated(api.RolloutGate{Confirmed: "0%"}), counts: ten(counts{Failed: 1, Unknown: 9}), after: time.Hour, want: RolloutPause},
		"no cluster is affected":              {want: RolloutStart},
		"a pin keeps the change from one":     {counts: ten(counts{Confirmed: 9, Pinned: 1}), after: 3 * time.Hour, want: "pin"},
		"a pin keeps it from all":             {counts: ten(counts{Pinned: 10}), after: 3 * time.Hour, want: "pin"},
		"a pin and a failure":                 {counts: ten(counts{Failed: 1, Pinned: 9}), want: RolloutPause},
		"a skipped stage":                     {edit: func(r *rollout) { r.Stages[0].Skipped, r.Stages[0].StartedAt = true, nil }, want: RolloutStart},
		"the clock is behind":                 {counts: ten(counts{Confirmed: 10}), after: -time.Hour, want: "soak", until: 30 * time.Minute},
		"the clock is ahead, no confirmation": {counts: ten(counts{Pending: 10}), after: 30 * 24 * time.Hour, want: RolloutPause},
		"no window":                           {edit: func(r *rollout) { r.Windows = night }, counts: ten(counts{Confirmed: 10}), after: time.Hour, want: "window", until: 14 * time.Hour},
		"approval":                            {edit: func(r *rollout) { r.Stages[1].Approval = true }, counts: ten(counts{Confirmed: 10}), after: time.Hour, want: "approval"},
		"approved":                            {edit: func(r *rollout) { r.Stages[1].Approval, r.Stages[1].Approved = true, &stageApproval{} }, counts: ten(counts{Confirmed: 10}), after: time.Hour, want: RolloutStart},
		"paused":                              {edit: func(r *rollout) { r.State = rolloutPaused }, counts: ten(counts{Confirmed: 10}), after: time.Hour},
		"aborted":                             {edit: func(r *rollout) { r.State = rolloutAborted }, counts: ten(counts{Confirmed: 10}), after: time.Hour},
		"proposed":                            {edit: func(r *rollout) { r.State, r.Started = rolloutProposed, 0 }, want: "start"},
		"proposed, approval":                  {edit: func(r *rollout) { r.State, r.Started, r.Stages[0].Approval = rolloutProposed, 0, true }, want: "approval"},
		"by hand, approval":                   {edit: func(r *rollout) { r.Advance, r.Stages[1].Approval = "", true }, want: "approval"},
		"by hand":                             {edit: func(r *rollout) { r.Advance = "" }, counts: ten(counts{Failed: 10}), after: time.Hour, want: "start"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &rollout{ID: "r", State: rolloutRunning, Started: 1, RolloutSettings: RolloutSettings{Advance: advanceAutomatic}, Stages: []rolloutStage{
				{RolloutStage: RolloutStage{Name: "one"}, StartedAt: &start}, {RolloutStage: RolloutStage{Name: "rest", All: true}},
			}}
			if c.edit != nil {
				c.edit(r)
			}
			step := NextStep(&Document{value: r}, []StageCounts{c.counts, {}}, start.Add(c.after))
			got := step.Action
			if got == "" {
				got = step.Reason
			}
			require.Equal(t, c.want, got, step.Message)
			if c.until != 0 {
				require.Equal(t, start.Add(c.until), step.Until.UTC())
			}
		})
	}

	// The last stage completes; a failure in an earlier stage pauses also then, without a rollback of the last one.
	r := &rollout{State: rolloutRunning, Started: 2, RolloutSettings: RolloutSettings{Advance: advanceAutomatic, OnFailure: onFailureBack}, Stages: []rolloutStage{{StartedAt: &start}, {StartedAt: &start}}}
	all := counts{Affected: 1, Confirmed: 1}
	require.Equal(t, RolloutComplete, NextStep(&Document{value: r}, []StageCounts{all, all}, start.Add(time.Hour)).Action)
	require.Equal(t, RolloutPause, NextStep(&Document{value: r}, []StageCounts{{Affected: 1, Failed: 1}, all}, start.Add(time.Hour)).Action)
}

func gated(g api.RolloutGate) func(*rollout) { return func(r *rollout) { r.Gate = &g } }

// TestRolloutInputs: only inputs that the rollout changes count, on all stages, whether they have started or not.
func TestRolloutInputs(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer) // the layer prod overrides the version
	w.must(withoutGuard(rollOut(w, "r", []RolloutStage{{Name: "c0", ClusterIDs: []string{"c0"}}}, bumpGrafana, api.Operation{Op: "unassign_namespace", Layers: []string{"base"}, NamespaceID: "team"})))
	inputs := func() map[string][]ChangedInput {
		in, err := w.state.RolloutInputs(t.Context(), w.state.docs[KindRollout]["r"], nil)
		require.NoError(t, err)
		return in.ByCluster
	}
	before := inputs()
	require.Len(t, before, 4)
	require.Equal(t, []string{"namespaces", "platform-components"}, []string{before["c0"][0].List, before["c0"][1].List})
	require.Len(t, before["c2"], 1, "the version of a higher layer wins: only the namespace changes")
	require.Zero(t, before["c2"][0].Receipt, "it is removed")
	w.must(withoutGuard(act("r", RolloutStart)))
	require.Equal(t, before, inputs())
	receipts := func() map[string]Receipt {
		desired, err := w.state.receiptsOf(w.state.Effective(w.state.docs[KindCluster]["c0"]), w.state.kinds.descriptor(KindComponent), nil)
		require.NoError(t, err)
		return desired
	}
	require.Equal(t, before["c0"][1].Receipt, receipts()["grafana"], "the receipt is that of the input that is served")
}

// TestRolloutInputsOfAnEarlierState: only clusters that a change concerns are compared again.
func TestRolloutInputsOfAnEarlierState(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.must(withoutGuard(rollOut(w, "r", []RolloutStage{{Name: "c0", ClusterIDs: []string{"c0"}}}, bumpGrafana)))
	doc := func() *Document { return w.state.docs[KindRollout]["r"] }
	for _, change := range []struct {
		what string
		edit func(*Tx) error
		same []string // clusters that are not compared again
	}{
		{"a stage starts", act("r", RolloutStart), []string{"c0", "c1", "c2", "c3"}},
		{"a cluster", patch(KindCluster, "c1", `{"labels":{"a":"b"}}`), []string{"c0", "c2", "c3"}},
		{"a layer", patch(KindLayer, "prod", `{"patches":{"grafana":{"replicas":"4"}}}`), []string{"c0", "c1"}},
		{"the selector of a layer", patch(KindLayer, "prod", `{"selector":"region=eu"}`), []string{"c0"}},
		{"a new layer", create(KindLayer, `{"id":"more","priority":30,"selector":"region=eu"}`), []string{"c0", "c3"}},
		{"another rollout", rollOut(w, "other", devFirst, patchOp(KindLayer, "prod", `{"description":"x"}`)), []string{"c0", "c1", "c2", "c3"}},
		{"a stage of the other rollout", act("other", RolloutStart), []string{"c2", "c3"}},
		{"a layer that the other rollout changes", patch(KindLayer, "prod", `{"patches":{"grafana":{"replicas":"5"}}}`), nil},
		{"the end of the other rollout", act("other", RolloutAbort), []string{"c2", "c3"}},
		{"a definition", patch(KindNamespace, "team", `{"labels":{"a":"b"}}`), nil},
	} {
		known, err := w.state.RolloutInputs(t.Context(), doc(), nil)
		require.NoError(t, err)
		w.must(withoutGuard(change.edit))
		unchanged := known.unchanged(w.state, doc())
		var same []string
		for _, c := range w.state.All(KindCluster) {
			if unchanged(c.ID) {
				same = append(same, c.ID)
			}
		}
		require.Equal(t, change.same, same, change.what)
		next, err := w.state.RolloutInputs(t.Context(), doc(), known)
		require.NoError(t, err)
		anew, err := w.state.RolloutInputs(t.Context(), doc(), nil)
		require.NoError(t, err)
		require.Equal(t, anew.ByCluster, next.ByCluster, change.what)
	}
}
