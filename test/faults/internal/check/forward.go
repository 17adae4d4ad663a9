package check

import (
	"cmp"
	"slices"
)

// seen is an answer with a revision.
type seen struct {
	from, to, revision int64
	what               string
}

type incarnation struct {
	process string
	n       int
}

// checkForward: an answer must not have an older revision than an earlier answer of the same process; a load balancer
// with affinity sends one cluster's polls to one process. A process that starts from the store must know all that any
// process acknowledged or served before that start. A process that starts from its own disk must know its own earlier
// answers; the rule "age" limits their age.
func (j *judge) checkForward() {
	all := map[incarnation][]seen{}
	for i := range j.h.Polls {
		if p := &j.h.Polls[i]; p.Revision >= 0 && (p.Status == 200 || p.Status == 304) {
			key := j.lifetime(p.Process, p.Incarnation)
			all[key] = append(all[key], seen{p.From, p.To, p.Revision, j.describe(p)})
		}
	}
	for _, w := range j.h.Writes {
		if w.Acknowledged() {
			key := j.lifetime(w.Process, w.Incarnation)
			all[key] = append(all[key], seen{w.From, w.To, w.Revision, describe(w)})
		}
	}
	started := map[incarnation]int64{}
	for _, s := range j.h.Starts {
		started[incarnation{s.Process, s.Incarnation}] = s.At
	}
	var everything []seen
	for _, answers := range all {
		everything = append(everything, answers...)
	}
	slices.SortFunc(everything, func(a, b seen) int { return cmp.Compare(a.to, b.to) })
	for key, answers := range all {
		floor := seen{revision: -1}
		for _, s := range everything {
			if j.h.Run.Kept || s.to >= started[key] {
				break
			}
			if s.revision > floor.revision {
				floor = s
			}
		}
		j.monotonic(answers, floor)
	}
}

// lifetime returns the unit that must not go back: one run of a process, or all its runs if it keeps its state.
func (j *judge) lifetime(process string, n int) incarnation {
	if j.h.Run.Kept {
		n = 0
	}
	return incarnation{process, n}
}

func (j *judge) monotonic(answers []seen, highest seen) {
	byEnd := slices.Clone(answers)
	slices.SortFunc(byEnd, func(a, b seen) int { return cmp.Compare(a.to, b.to) })
	slices.SortFunc(answers, func(a, b seen) int { return cmp.Compare(a.from, b.from) })
	ended := 0
	for _, s := range answers {
		for ; byEnd[ended].to < s.from; ended++ {
			if byEnd[ended].revision > highest.revision {
				highest = byEnd[ended]
			}
		}
		if s.revision < highest.revision {
			j.violate(Forward, "%s states revision %d, after %s had stated %d", s.what, s.revision, highest.what, highest.revision)
		}
	}
}
