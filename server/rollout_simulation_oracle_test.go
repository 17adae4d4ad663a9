package server_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// simulatedStage and simulatedDocument are the document of a rollout, read by other code than the fleet's.
type simulatedStage struct {
	Name, Selector, Below  string
	ClusterIDs             []string `json:"cluster_ids"`
	All, Skipped, Approval bool
	Approved               *struct{ By string }
	StartedAt              *time.Time `json:"started_at"`
	Gate                   *api.RolloutGate
	StartAt                *time.Time `json:"start_at"`
}

type simulatedDocument struct {
	State, Principal string
	Started          int
	Stages           []simulatedStage
	Gate             *api.RolloutGate
	Windows          []api.Window
	StartAt          *time.Time `json:"start_at"`
	PausedBecause    string     `json:"paused_because"`
}

func (s *rolloutSimulation) read(body json.RawMessage) *simulatedDocument {
	if body == nil {
		return &simulatedDocument{}
	}
	d := new(simulatedDocument)
	require.NoError(s.t, json.Unmarshal(body, d))
	return d
}

func (d *simulatedDocument) open() bool {
	return d.State == "proposed" || d.State == "running" || d.State == "paused"
}

// place returns the stage of a cluster, and whether it is served the change.
func (d *simulatedDocument) place(c *api.Cluster) (stage int, reached bool) {
	sum := sha256.Sum256([]byte(simulatedRollout + "/" + c.ID))
	position := fmt.Sprintf("%x", sum[:8])
	for i, st := range d.Stages {
		_, tier, _ := strings.Cut(st.Selector, "=")
		in := st.All || slices.Contains(st.ClusterIDs, c.ID) || st.Selector != "" && c.Labels["tier"] == tier
		if in && !st.Skipped && (st.Below == "" || position < st.Below) {
			return i, d.open() && i < d.Started
		}
	}
	return len(d.Stages), false
}

func (d *simulatedDocument) gate(stage int) (confirmed int, soak time.Duration) {
	confirmed, soak = 100, 30*time.Minute
	for _, g := range []*api.RolloutGate{d.Gate, d.Stages[stage].Gate} {
		if g == nil {
			continue
		}
		if g.Confirmed != "" {
			_, _ = fmt.Sscanf(g.Confirmed, "%d%%", &confirmed)
		}
		if g.Soak != "" {
			soak, _ = time.ParseDuration(g.Soak)
		}
	}
	return confirmed, soak
}

func receiptsByInput(t require.TestingT, st *fleet.State, c *fleet.Document) map[string]string {
	out := map[string]string{}
	lists, err := st.DesiredInputs(c)
	require.NoError(t, err)
	for _, list := range lists {
		i := 0
		for id := range list.Inputs {
			out[list.List+"/"+id] = list.Receipts[i].String()
			i++
		}
	}
	return out
}

// changed returns the inputs of a cluster that the rollout changes, with their new receipts; empty: it removes them.
func (s *rolloutSimulation) changed(id string) map[string]string {
	was, ok := s.without.Get(fleet.KindCluster, id)
	require.True(s.t, ok)
	is, _ := s.with.Get(fleet.KindCluster, id)
	before, after := receiptsByInput(s.t, s.without, was), receiptsByInput(s.t, s.with, is)
	out := map[string]string{}
	for key, receipt := range after {
		if before[key] != receipt {
			out[key] = receipt
		}
	}
	for key := range before {
		if after[key] == "" {
			out[key] = ""
		}
	}
	return out
}

// confirmed reports whether a cluster truly runs all of these inputs.
func (s *rolloutSimulation) confirmed(c *simulatedCluster, inputs map[string]string) bool {
	for key, receipt := range inputs {
		list, id, _ := strings.Cut(key, "/")
		switch {
		case receipt == "" && c.served[list][id] != "":
			return false
		case receipt != "" && c.runs[key] != receipt:
			return false
		}
	}
	return true
}

// requirePassed requires that the last started stage has truly passed.
func (s *rolloutSimulation) requirePassed(d *simulatedDocument, at time.Time) {
	stage := d.Started - 1
	st := &d.Stages[stage]
	percent, soak := d.gate(stage)
	if st.Skipped {
		return
	}
	var affected, reached, online, confirmed int
	var missing []string
	for _, c := range s.clusters {
		doc, ok := s.state.Get(fleet.KindCluster, c.id)
		if !ok {
			continue
		}
		in, has := d.place(doc.Cluster())
		inputs := s.changed(c.id)
		if in != stage || len(inputs) == 0 {
			continue
		}
		affected++
		if !has {
			continue
		}
		reached++
		runs, silent := s.confirmed(c, inputs), s.evaluated.now().Sub(c.seen)
		// Processes exchange the last request of a cluster once a minute, so it may be offline or not.
		if silent > simulatedOfflineAfter+2*time.Minute || silent > simulatedOfflineAfter-2*time.Minute && !runs {
			continue
		}
		online++
		if runs {
			confirmed++
		} else {
			missing = append(missing, fmt.Sprint(c.id, inputs, c.runs, c.applies))
		}
	}
	if affected > 0 {
		require.GreaterOrEqual(s.t, at.Sub(*st.StartedAt), soak, "the soak of stage %s", st.Name)
	}
	if percent > 0 && reached > 0 {
		need := max(1, (online*percent+99)/100)
		require.GreaterOrEqual(s.t, confirmed, need, "stage %s: %d of %d clusters truly run the new inputs, without %v; clocks differ by %s", st.Name, confirmed, online, missing, s.skew)
	}
}

// examine compares the new commits.
func (s *rolloutSimulation) examine() {
	commits, err := s.store.Since(s.t.Context(), s.state.Head(), 100)
	require.NoError(s.t, err)
	for _, c := range commits {
		next, err := s.state.Apply(c)
		require.NoError(s.t, err)
		was, is := s.read(bodyOf(s.state)), s.read(bodyOf(next))
		s.t.Logf("%s revision %d by %s: %s %s%d -> %s%d", s.now.Format("15:04:05"), c.Revision, c.Actor, c.Reason, was.State, was.Started, is.State, is.Started)
		if c.Actor == fleet.RolloutRunner {
			s.examineStep(c, was, is)
		}
		var restored, reverted fleet.Revision
		if n, _ := fmt.Sscanf(c.Reason, "restore %d", &restored); n == 1 {
			s.fleetsWithout = s.past[restored]
			require.NotEqual(s.t, "running", is.State, "a restored rollout does not advance by itself")
		} else {
			s.follow(c)
		}
		if n, _ := fmt.Sscanf(c.Reason, "revert %d", &reverted); n == 1 || c.Reason == "forward" {
			s.takesBack[c.Revision] = n == 1 && !s.takesBack[reverted]
			s.reverted = append(s.reverted, c.Revision)
		}
		switch is.State {
		case was.State:
		case "completed":
			s.without = s.with
		case "aborted":
			s.with = s.without
		}
		s.examineWindows(c, next, was, is)
		for _, doc := range next.All(fleet.KindCluster) {
			want := s.without
			if _, reached := is.place(doc.Cluster()); reached {
				want = s.with
			}
			requireSameAnswers(s.t, want, next, doc.ID)
			if is.State == "completed" && was.State != "completed" && c.Actor == fleet.RolloutRunner {
				requireSameAnswers(s.t, s.state, next, doc.ID)
			}
		}
		s.state = next
		s.past[c.Revision] = s.fleetsWithout
	}
}

func bodyOf(st *fleet.State) json.RawMessage {
	if d, ok := st.Get(fleet.KindRollout, simulatedRollout); ok {
		return d.Body
	}
	return nil
}

func requireSameAnswers(t require.TestingT, want, got *fleet.State, id string) {
	for _, kind := range fleet.Definitions() {
		require.Equal(t, etagOf(t, want, id, kind), etagOf(t, got, id, kind), "%s of %s at revision %d", kind, id, got.Revision())
	}
}

func sameAnswers(t require.TestingT, want, got *fleet.State, id string) bool {
	return !slices.ContainsFunc(fleet.Definitions(), func(kind fleet.Kind) bool { return etagOf(t, want, id, kind) != etagOf(t, got, id, kind) })
}

func etagOf(t require.TestingT, st *fleet.State, id string, kind fleet.Kind) string {
	doc, _ := st.Get(fleet.KindCluster, id)
	answer, err := st.Answer(doc, kind)
	require.NoError(t, err)
	return answer.ETag
}

// examineStep compares a step of a runner.
func (s *rolloutSimulation) examineStep(c fleet.Commit, was, is *simulatedDocument) {
	require.True(s.t, s.wasComplete, "%s does not know the status of all clusters", s.evaluated.name)
	require.True(s.t, was.State == "running" || was.State == "proposed" && was.StartAt != nil, was.State)
	step := "pause"
	switch {
	case is.State == "completed":
		require.Equal(s.t, len(was.Stages), was.Started)
		s.requirePassed(was, c.At)
		step = "complete"
	case is.Started > was.Started:
		require.Equal(s.t, was.Started+1, is.Started, "one stage starts in one step")
		if was.Started > 0 {
			s.requirePassed(was, c.At)
		} else {
			require.NotNil(s.t, was.StartAt, "a person starts the first stage")
			s.steps["start by itself"]++
		}
		require.True(s.t, !is.Stages[was.Started].Approval || is.Stages[was.Started].Approved != nil, "approval")
		step = "start"
	case is.Started < was.Started:
		require.Equal(s.t, was.Started-1, is.Started)
		require.Equal(s.t, "paused", is.State)
		step = "back"
	}
	// The process with the right clock may start a rollout before it knows that the other clock is wrong.
	begins := step == "start" && was.Started == 0 && s.evaluated.name == "process 0"
	require.True(s.t, s.skew.Abs() < time.Minute || begins, "nothing is decided by clocks that differ")
	s.steps[step]++
	if step != "pause" {
		require.False(s.t, s.revoked && strings.Contains(was.Principal, "deployer"), "%s is not authorized any more", was.Principal)
	}
	if step == "start" {
		require.True(s.t, was.opens(c.At), "%s is not within %v", c.At, was.Windows)
		for _, at := range []*time.Time{was.StartAt, was.Stages[was.Started].StartAt} {
			require.False(s.t, at != nil && c.At.Before(*at), "%s is before the start time %v", c.At, at)
		}
	}
	if strings.Contains(is.PausedBecause, "it keeps the change") {
		s.requireStopped(is.PausedBecause)
	}
}

func (s *rolloutSimulation) edited(st *fleet.State, edit func(*fleet.Tx) error) *fleet.State {
	tx := st.Begin()
	tx.Guard(fleet.Guard{Off: true})
	require.NoError(s.t, edit(tx))
	res, err := tx.Finish(fleet.Commit{ID: uuid.New(), At: s.now, Actor: "test"})
	require.NoError(s.t, err)
	return res.State
}
