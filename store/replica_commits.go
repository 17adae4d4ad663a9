package store

import (
	"sync"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// maxOwnCommits is the number of newest commits of this process that Committed knows.
const maxOwnCommits = 4096

// ownCommits are the newest commits that this process made or tried to make.
type ownCommits struct {
	mu    sync.Mutex
	known map[fleet.Head]struct{}
	order []fleet.Head
}

func (o *ownCommits) add(h fleet.Head) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil {
		o.known = map[fleet.Head]struct{}{}
	}
	o.known[h] = struct{}{}
	if o.order = append(o.order, h); len(o.order) > maxOwnCommits {
		delete(o.known, o.order[0])
		o.order = o.order[1:]
	}
}

// Committed reports whether this Replica made a commit, as one of its newest.
func (r *Replica) Committed(h fleet.Head) bool {
	r.own.mu.Lock()
	defer r.own.mu.Unlock()
	_, ok := r.own.known[h]
	return ok
}
