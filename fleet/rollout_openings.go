package fleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// stageWindows is a freeze with windows that selects clusters of a stage, with their time zones.
type stageWindows struct {
	freeze  *freeze
	zones   timeZones
	cluster string // the first of them
}

// checkStageWindows refuses a rollout with a stage that could never start: the windows of freezes on the clusters that its change affects,
// and those of the rollout, are never open at one time.
func (r Result) checkStageWindows(rollout *rollout) error {
	freezes := slices.DeleteFunc(r.base.ActiveFreezes(r.Commit.At), func(d *Document) bool { return !d.freeze().isRecurring() })
	if len(freezes) == 0 {
		return nil
	}
	clusters, err := r.affected(true)
	if err != nil {
		return err
	}
	read := map[string]*time.Location{}
	effects, stages := r.effects(), make([]map[string]stageWindows, len(rollout.Stages))
	for _, a := range clusters {
		if a.before == nil || a.before.Deleted() {
			continue
		}
		at := rollout.stageOf(a.before.cluster)
		for _, d := range freezes {
			if at == len(stages) || !d.freeze().matches(a.before.cluster) {
				continue
			}
			zones := d.freeze().zones(a.before)
			key := d.ID + " " + zones
			if _, known := stages[at][key]; known {
				continue
			}
			effect, err := effects.on(a)
			if err != nil {
				return err
			}
			if effect.key == "" {
				break
			}
			if stages[at] == nil {
				stages[at] = map[string]stageWindows{}
			}
			stages[at][key] = stageWindows{d.freeze(), timeZones{d.freeze().zonesByVariable(zones), read}, a.id}
		}
	}
	c := &checker{next: r.base, limit: maxProblems}
	for i, windows := range stages {
		if err := r.work.stopped(); err != nil {
			return err
		}
		all := make([]stageWindows, 0, len(windows))
		for _, key := range sortedKeys(windows) {
			all = append(all, windows[key])
		}
		begin := r.Commit.At
		for _, at := range []*time.Time{rollout.StartAt, rollout.Stages[i].StartAt} {
			if at != nil {
				begin = later(begin, *at)
			}
		}
		if !rollout.opensIn(all, begin) {
			c.problem(jsontext.Pointer("stages", i), "stage %q could never start: %s", rollout.Stages[i].Name, rollout.disjoint(all, begin))
		}
	}
	if len(c.problems) > 0 {
		return Invalid(c.problems)
	}
	return nil
}

// opensIn reports whether all windows of a stage, and those of the rollout, are open at one time.
func (r *rollout) opensIn(all []stageWindows, at time.Time) bool {
	for t := at; t.Sub(at) <= openWithin; {
		next, ok := nextOpening(r.Windows, t)
		for _, w := range all {
			if ok {
				next, ok = w.freeze.nextOpen(w.zones, next)
			}
		}
		if !ok {
			return false
		}
		if next.Equal(t) {
			return true
		}
		t = next
	}
	return false
}

// maxCompared limits the pairs of clusters of a message: there may be 100 freezes in 400 time zones.
const maxCompared = 20

// disjoint describes why the windows of a stage are never open at one time, by two clusters if two are enough.
func (r *rollout) disjoint(all []stageWindows, at time.Time) string {
	for i, a := range all {
		if !r.opensIn(all[i:i+1], at) {
			return fmt.Sprintf("the windows of the rollout and those of freeze %q on cluster %q are never open at one time", a.freeze.ID, a.cluster)
		}
		for _, b := range all[:min(i, maxCompared)] { // the first ones with each
			if !r.opensIn([]stageWindows{a, b}, at) {
				return fmt.Sprintf("the windows of clusters %q (freeze %q) and %q (freeze %q) are never open at one time; give each time zone a stage of its own", b.cluster, b.freeze.ID, a.cluster, a.freeze.ID)
			}
		}
	}
	return fmt.Sprintf("the windows of its clusters, such as %q and %q, are never open at one time; give each time zone a stage of its own", all[0].cluster, all[len(all)-1].cluster)
}
