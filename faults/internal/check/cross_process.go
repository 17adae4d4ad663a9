package check

import (
	"cmp"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/faults/internal/history"
)

const (
	// followLag is how far a process that nothing troubles may be behind another one, in microseconds: it asks for the head
	// ten times a second, on a machine that is busy. No cluster polls a list twice within that time.
	followLag = 1_000_000
	// reconnectTime is how long a process may still be behind once its trouble is over, in microseconds.
	reconnectTime = 5_000_000
	// maxBackShare is the part of the answers that may take a cluster back where a balancer sends each poll to any process.
	maxBackShare = 0.01
)

// checkAcross judges what a cluster sees behind a balancer that sends its polls to several processes: an answer that states an older
// revision than another process had stated before takes it back. Only a process that is cut off may do that, and only rarely;
// how old its answer may be is the rule of age. Where a balancer keeps a cluster on one process it does not happen.
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

// troubled tells whether something was done to a process, or to the database, while the copy that a poll was answered from may
// have become old.
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
