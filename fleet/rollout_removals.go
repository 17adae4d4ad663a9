package fleet

import (
	"crypto/sha256"
	"strings"
)

// digestBytes is the number of bytes for the removals of one cluster: a rollout stores them for up to 10,000 clusters, and a
// false match has the probability of one in 2^64 for each pair of clusters.
const digestBytes = 8

// digests returns, for each cluster that loses anything, the first bytes of a hash of its name and its removals.
func (l removals) digests() []byte {
	var out []byte
	for _, dns := range sortedKeys(l.byName) {
		sum := sha256.Sum256([]byte(strings.Join(append(l.idsFor(dns), dns), "\x00")))
		out = append(out, sum[:digestBytes]...)
	}
	return out
}

// within reports whether all removals are among those with the given digests: on each cluster the same ones, or none.
func (l removals) within(confirmed []byte) bool {
	known := map[[digestBytes]byte]bool{}
	for ; len(confirmed) >= digestBytes; confirmed = confirmed[digestBytes:] {
		known[[digestBytes]byte(confirmed)] = true
	}
	for own := l.digests(); len(own) > 0; own = own[digestBytes:] {
		if !known[[digestBytes]byte(own)] {
			return false
		}
	}
	return true
}

// confirmedByRollout reports whether a commit starts a stage, and its removals are among those that the author of
// the rollout confirmed with the plan_hash of the whole change.
func (r Result) confirmedByRollout() bool {
	if r.base.rollouts == nil || r.removals.count == 0 {
		return false
	}
	var started *Change
	for i, ch := range r.Commit.Changes {
		switch {
		case isInternal(ch.Kind):
		case ch.Kind != KindRollout || started != nil || ch.Before == nil || ch.After == nil:
			return false
		default:
			started = &r.Commit.Changes[i]
		}
	}
	if started == nil {
		return false
	}
	was, is := r.base.docs[KindRollout][started.ID].rollout(), r.State.docs[KindRollout][started.ID].rollout()
	return is.Started >= was.Started && is.open() && r.removals.within(was.Confirmed)
}
