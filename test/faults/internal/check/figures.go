package check

import (
	"slices"

	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
)

// Figures are what clusters and writers noticed of a failure. Times are microseconds.
type Figures struct {
	Polls    int // of clusters, each counted once
	Repeated int // requests that were not answered, and repeated
	Failed   int // polls that failed nevertheless
	// WithoutPolls is the longest time in which one list was not answered, WithoutWrites that in which no change was acknowledged.
	WithoutPolls, WithoutWrites int64
	Writes, Refused, Unknown    int // acknowledged changes; those that the service could not make; those of unknown outcome
	Lost                        int // acknowledged, and not in the log that outlived the failure
}

// Measure returns the figures of a run with a steady load.
func Measure(h *history.History) Figures {
	var f Figures
	lists := make([][]int64, len(h.Run.Endpoints))
	var end int64
	for i := range h.Polls {
		switch p := &h.Polls[i]; {
		case p.Last: // of the harness, before and after the load
			continue
		case p.Status == 200 || p.Status == 304:
			f.Polls++
			lists[p.Endpoint] = append(lists[p.Endpoint], p.To)
		case p.Again:
			f.Repeated++
		default:
			f.Polls++
			f.Failed++
		}
		end = max(end, h.Polls[i].From)
	}
	for _, answered := range lists {
		f.WithoutPolls = max(f.WithoutPolls, longestGap(answered, end))
	}
	var acknowledged []int64
	for _, w := range h.Writes {
		switch {
		case w.Acknowledged():
			f.Writes++
			acknowledged = append(acknowledged, w.To)
			if h.Run.Survived > 0 && w.Revision > h.Run.Survived {
				f.Lost++
			}
		case w.Unknown():
			f.Unknown++
		case w.Unsent || w.Status >= 500: // and not for a reason of its own
			f.Refused++
		}
	}
	f.WithoutWrites = longestGap(acknowledged, end)
	return f
}

// longestGap returns the longest time between two of these, or after the last one.
func longestGap(times []int64, end int64) (longest int64) {
	times = append(times, end)
	slices.Sort(times)
	for i := 1; i < len(times); i++ {
		longest = max(longest, times[i]-times[i-1])
	}
	return longest
}

// checkSteady: while a part of the service is away, the rest of it answers every poll. Without the store it does so until its
// copy is too old.
func (j *judge) checkSteady() {
	if !j.h.Run.Steady {
		return
	}
	for _, f := range j.h.Faults {
		if f.To-f.From >= j.h.Run.Staleness {
			return
		}
	}
	for i := range j.h.Polls {
		if p := &j.h.Polls[i]; !p.Last && !p.Again && p.Status != 200 && p.Status != 304 {
			j.violate(Polls, "%s failed with status %d", j.describe(p), p.Status)
		}
	}
}
