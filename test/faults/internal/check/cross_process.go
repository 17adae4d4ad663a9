package check

import (
	"cmp"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
)

const (
	// followLag is the permitted lag of an undisturbed process behind another one, in microseconds: it reads the head ten
	// times a second, on a busy machine. No cluster polls a list twice within that time.
	followLag = 1_000_000
	// reconnectTime is the permitted lag after the end of a fault, in microseconds.
	reconnectTime = 5_000_000
	// maxBackShare is the permitted share of answers older than an earlier one, if polls go to random processes.
	maxBackShare = 0.01
)

// checkAcross checks the sequence of answers that a cluster receives from several processes behind a load balancer: an
// answer with an older revision than another process's earlier one takes the cluster back. Only a disconnected process
// may do that, and only rarely; the rule "age" limits the age of its answer. With affinity it must not happen at all.
func (j *judge) checkAcross() {
	if j.h.Run.Route == "" {
		return
	}
	byEndpoint := make([][]*history.Poll, len(j.h.Run.Endpoints))
	for i := range j.h.Polls {
		p := &j.h.Polls[i]
		if (p.Status == 200 || p.Status == 304) && p.Endpoint >= 0 && p.Endpoint < len(byEndpoint) {
			byEndpoint[p.Endpoint] = append(byEndpoint[p.Endpoint], p)
			j.verdict.Routed++
		}
	}
	for _, polls := range byEndpoint {
		byEnd := slices.Clone(polls)
		slices.SortFunc(byEnd, func(a, b *history.Poll) int { return cmp.Compare(a.To, b.To) })
		slices.SortFunc(polls, func(a, b *history.Poll) int { return cmp.Compare(a.From, b.From) })
		newest, ended := (*history.Poll)(nil), 0
		for _, p := range polls {
			for ; byEnd[ended].To < p.From-followLag; ended++ {
				if newest == nil || byEnd[ended].Revision > newest.Revision {
					newest = byEnd[ended]
				}
			}
			if newest == nil || p.Revision >= newest.Revision {
				continue
			}
			j.verdict.Back++
			switch {
			case !j.troubled(p):
				j.violate(Across, "%s states revision %d, after %s had stated %d, and nothing troubled this process", j.describe(p), p.Revision, j.describe(newest), newest.Revision)
			case j.h.Run.Route == history.RouteAffinity:
				j.violate(Across, "%s states revision %d, after %s had stated %d, although a cluster stays on one process", j.describe(p), p.Revision, j.describe(newest), newest.Revision)
			}
		}
	}
	if float64(j.verdict.Back) > maxBackShare*float64(j.verdict.Routed) {
		j.violate(Across, "%d of %d answers took a cluster back, more than %g %%", j.verdict.Back, j.verdict.Routed, 100*maxBackShare)
	}
}

// troubled reports whether a fault affected the process or the database during the time in which the copy behind a
// poll's answer may have become old.
func (j *judge) troubled(p *history.Poll) bool {
	begins := p.From - j.h.Run.Staleness - reconnectTime
	for _, f := range j.h.Faults {
		if f.To < begins || f.From > p.To {
			continue
		}
		targets := strings.Fields(f.Target)
		aboutOthers := slices.ContainsFunc(targets, j.isProcess) && !slices.Contains(targets, p.Process)
		if !aboutOthers {
			return true
		}
	}
	return false
}

func (j *judge) isProcess(name string) bool {
	return slices.ContainsFunc(j.h.Starts, func(s history.Start) bool { return s.Process == name })
}
