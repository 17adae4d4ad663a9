package fleet

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// How a rollout advances, and its reaction to failures.
const (
	advanceManual    = "manual"
	advanceAutomatic = "automatic"
	onFailurePause   = "pause"
	onFailureBack    = "back"
)

const (
	maxSoak = 30 * 24 * time.Hour
	// deadlineAfterSoak is the time for confirmations after the soak, unless a gate has a deadline.
	deadlineAfterSoak = 2 * time.Hour
	// receiptsArriveWithin is the time after which clusters have sent their receipts again if all observations were lost.
	receiptsArriveWithin = 75 * time.Minute
)

// gate is an effective gate.
type gate struct {
	soak, deadline time.Duration
	confirmed      int // percent of the affected clusters that are not offline
	maxFailures    int
}

func defaultGate() api.RolloutGate {
	return api.RolloutGate{Soak: "30m", Confirmed: "100%", MaxFailures: new(int)}
}

// effectiveGate returns the gate of a stage: field by field that of the stage, of the rollout, or the default. The
// default deadline is deadlineAfterSoak after the soak.
func (r *RolloutSettings) effectiveGate(s *RolloutStage) api.RolloutGate {
	out := defaultGate()
	for _, g := range []*api.RolloutGate{r.Gate, s.Gate} {
		if g != nil {
			out.Soak, out.Confirmed, out.Deadline = cmp.Or(g.Soak, out.Soak), cmp.Or(g.Confirmed, out.Confirmed), cmp.Or(g.Deadline, out.Deadline)
			out.MaxFailures = cmp.Or(g.MaxFailures, out.MaxFailures)
		}
	}
	if soak, err := time.ParseDuration(out.Soak); err == nil && out.Deadline == "" {
		out.Deadline = strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace((soak + deadlineAfterSoak).String())
	}
	return out
}

// parseGate returns a gate without empty fields. A field that cannot be read has the value that never passes: only a database
// that was edited by hand has one.
func parseGate(g api.RolloutGate) gate {
	out := gate{soak: maxSoak, deadline: maxSoak, confirmed: 100, maxFailures: *g.MaxFailures}
	if d, err := time.ParseDuration(g.Soak); err == nil {
		out.soak = d
	}
	if d, err := time.ParseDuration(g.Deadline); err == nil {
		out.deadline = d
	}
	if percent, ok := parsePercent(g.Confirmed); ok {
		out.confirmed = percent
	}
	return out
}

// parsePercent parses 0% to 100%.
func parsePercent(text string) (int, bool) {
	digits, ok := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0 && n <= 100
}

// checkSettings checks how a rollout advances.
func checkSettings(c *checker, r *RolloutSettings, stages []rolloutStage) {
	c.oneOf("/advance", cmp.Or(r.Advance, advanceManual), advanceManual, advanceAutomatic)
	c.oneOf("/on_failure", cmp.Or(r.OnFailure, onFailurePause), onFailurePause, onFailureBack)
	checkGate(c, "/gate", r.Gate)
	for i := range stages {
		at := jsontext.Pointer("stages", i, "gate")
		checkGate(c, at, stages[i].Gate)
		g := parseGate(r.effectiveGate(&stages[i].RolloutStage))
		if g.deadline <= g.soak && len(c.problems) == 0 {
			if stages[i].Gate == nil {
				at = "/gate"
			}
			c.problem(at+"/deadline", "stage %q: the deadline of %s must be longer than the soak of %s", stages[i].Name, g.deadline, g.soak)
			return
		}
		if g.deadline < receiptsArriveWithin && r.Advance == advanceAutomatic {
			c.warn("stage %q has a deadline of %s: clusters may need %s to send their receipts again after a loss of all statuses", stages[i].Name, g.deadline, receiptsArriveWithin)
		}
	}
	checkWindows(c, "windows", r.Windows, false)
	checkStartTimes(c, r, stages)
}

// checkStartTimes refuses start times without the runner, which alone reads them, and those of a strategy, which several rollouts copy.
func checkStartTimes(c *checker, r *RolloutSettings, stages []rolloutStage) {
	if r.StartAt != nil && r.Advance != advanceAutomatic {
		c.problem("/start_at", "only with advance: automatic; otherwise a person starts each stage")
	}
	for i := range stages {
		if stages[i].StartAt != nil && r.Advance != advanceAutomatic {
			c.problem(jsontext.Pointer("stages", i, "start_at"), "only in a rollout with advance: automatic")
		}
	}
}

func checkGate(c *checker, at string, g *api.RolloutGate) {
	if g == nil {
		return
	}
	checkDuration(c, at+"/soak", g.Soak, 0)
	checkDuration(c, at+"/deadline", g.Deadline, time.Minute)
	if _, ok := parsePercent(g.Confirmed); g.Confirmed != "" && !ok {
		c.problem(at+"/confirmed", "%q is not a percentage from 0%% to 100%%", g.Confirmed)
	}
	if g.MaxFailures != nil && *g.MaxFailures < 0 {
		c.problem(at+"/max_failures", "must be at least 0")
	}
}

// checkDuration checks a duration as Go writes it; an empty one is not set.
func checkDuration(c *checker, at, text string, atLeast time.Duration) {
	if d, err := time.ParseDuration(text); text != "" && (err != nil || d < atLeast || d > maxSoak) {
		c.problem(at, "must be a duration such as 90m, from %s to 720h", atLeast)
	}
}

// since returns when the clusters of a started stage got the change; the zero time for a stage that was started by a version
// without times.
func (s *rolloutStage) since() (at time.Time) {
	if s.StartedAt != nil {
		at = *s.StartedAt
	}
	return at
}

// unverified reports whether a stage passes, or has passed, by time alone.
func (r *rollout) unverified() bool {
	return r.Advance == advanceAutomatic && slices.ContainsFunc(r.Stages, func(s rolloutStage) bool { return parseGate(r.effectiveGate(&s.RolloutStage)).confirmed == 0 })
}
