package check

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"sort"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
)

// revisionTimeline is the highest revision that any client had received by a point in time, from any process.
type revisionTimeline struct {
	at       []int64
	revision []int64
}

func (j *judge) knownRevisions() revisionTimeline {
	type observed struct{ at, revision int64 }
	var all []observed
	for i := range j.h.Polls {
		if p := &j.h.Polls[i]; p.Status == 200 || p.Status == 304 {
			all = append(all, observed{p.To, p.Revision})
		}
	}
	for _, w := range j.h.Writes {
		if w.Acknowledged() {
			all = append(all, observed{w.To, w.Revision})
		}
	}
	slices.SortFunc(all, func(a, b observed) int { return cmp.Compare(a.at, b.at) })
	var k revisionTimeline
	for _, t := range all {
		if n := len(k.revision); n == 0 || t.revision > k.revision[n-1] {
			k.at, k.revision = append(k.at, t.at), append(k.revision, t.revision)
		}
	}
	return k
}

// before returns the highest revision that any client had received before a point in time; -1: none.
func (k revisionTimeline) before(at int64) int64 {
	i := sort.Search(len(k.at), func(i int) bool { return k.at[i] >= at })
	if i == 0 {
		return -1
	}
	return k.revision[i-1]
}

// OpToggle are writes that many clients send for the same assignments through any process. Their documents always exist,
// so only a failure of the store justifies a refusal.
const OpToggle = "toggle"

// checkService checks the view of a client behind a load balancer, whose requests reach a different process each time.
// An answer to a write has the revision that it was computed at, and is correct there (see checkLog). If that revision
// is at least the newest one known to any client before the write was sent, the write took effect between request and
// answer, no-ops included.
func (j *judge) checkService() {
	k := j.knownRevisions()
	for _, w := range j.h.Writes {
		if w.Status == 0 || w.Status >= 500 {
			continue
		}
		if floor := k.before(w.From); w.Revision >= 0 && w.Revision < floor {
			j.violate(Fresh, "%s was answered with %d as of revision %d, and revision %d was known before it was sent", describe(w), w.Status, w.Revision, floor)
		}
		if w.Op == OpToggle && !w.Acknowledged() && w.Status != 429 {
			j.violate(Fresh, "%s was refused with %d %s, for which there is no reason", describe(w), w.Status, w.Code)
		}
	}
	if j.h.Run.Staleness == 0 {
		return
	}
	for i := range j.h.Polls {
		p := &j.h.Polls[i]
		if p.Status != 200 && p.Status != 304 {
			continue
		}
		if floor := k.before(p.From - j.h.Run.Staleness); p.Revision < floor {
			j.violate(Age, "%s states revision %d, and revision %d was known %.1f s before", j.describe(p), p.Revision, floor, float64(j.h.Run.Staleness)/1e6)
		}
	}
}

// byToken matches the token in the actor of a commit.
var byToken = regexp.MustCompile(`^token:.* \(([^()]+)\)$`)

// checkAuthority: a token must exist in the revision before each commit that it made.
func (j *judge) checkAuthority() {
	tokens := map[string]bool{}
	for _, c := range j.h.Commits {
		if by := byToken.FindStringSubmatch(c.Actor); by != nil && !tokens[by[1]] {
			j.violate(Authority, "revision %d (%s) was made by %s, which the revision before does not have", c.Revision, c.RequestID, c.Actor)
		}
		for _, ch := range c.Changes {
			if ch.Kind == fleet.KindToken {
				tokens[ch.ID] = ch.After != nil && mayWrite(ch)
			}
		}
	}
}

func mayWrite(ch history.Change) bool {
	var doc struct{ Role string }
	return json.Unmarshal(ch.After, &doc) == nil && (doc.Role == "write" || doc.Role == "admin")
}
