package server

import (
	"net/http"
	"sync"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/httperror"
)

// visibleStates keeps what principals with limits may read of the newest State, so that each commit causes one computation for each
// set of rights.
type visibleStates struct {
	mu    sync.Mutex
	of    *fleet.State
	known map[string]func() *fleet.State // by ReadGrants
}

// maxVisibleStates limits the kept sets of rights. Each keeps references to its visible documents.
const maxVisibleStates = 64

// get returns the State as rights permit to read it.
func (c *visibleStates) get(st *fleet.State, rights fleet.Rights) *fleet.State {
	if st == nil || rights.Everywhere(fleet.RightRead) {
		return st
	}
	return c.entry(st, rights)()
}

func (c *visibleStates) entry(st *fleet.State, rights fleet.Rights) func() *fleet.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	compute := sync.OnceValue(func() *fleet.State { return st.VisibleTo(rights) })
	if c.of != st {
		if c.of != nil && c.of.Head() != st.Head() && c.of.Revision() > st.Revision() {
			return compute // a request that began before the last commit
		}
		c.of, c.known = st, map[string]func() *fleet.State{}
	}
	key := rights.ReadGrants()
	if known, ok := c.known[key]; ok {
		return known
	}
	if len(c.known) < maxVisibleStates {
		c.known[key] = compute
	}
	return compute
}

// clear drops everything that was computed of another State, which it would keep in memory.
func (c *visibleStates) clear(current *fleet.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of != current {
		c.of, c.known = nil, nil
	}
}

// errNeedsUnlimitedRead is the answer where the right to read must have no limits.
var errNeedsUnlimitedRead = &httperror.Error{
	Status: http.StatusForbidden, Code: "forbidden", Detail: "the token is valid, but this requires the right read without limits: GET /whoami lists your rights",
}
