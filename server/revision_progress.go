package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// changedInputs are the inputs that a revision changed, by the id of the cluster.
type changedInputs map[string][]fleet.ChangedInput

// changedInputsCache keeps the changed inputs of recent revisions: the page of a revision requests its progress again and
// again, and the log does not change.
type changedInputsCache struct {
	mu    sync.Mutex
	known []cachedChange // the most recently used one is last
}

type cachedChange struct {
	commit uuid.UUID // not its revision, because the history may be replaced
	inputs changedInputs
	bytes  int
}

// maxCachedBytes bounds the cache. A revision that creates 10,000 clusters with 12 inputs each takes about 10 MiB.
const maxCachedBytes = 32 << 20

func (c *changedInputsCache) get(commit uuid.UUID) (changedInputs, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.known, func(one cachedChange) bool { return one.commit == commit })
	if i < 0 {
		return nil, false
	}
	found := c.known[i]
	c.known = append(slices.Delete(c.known, i, i+1), found)
	return found.inputs, true
}

// put keeps the inputs of a commit, once, and drops those that were used longest ago. What is larger than the cache is not kept.
func (c *changedInputsCache) put(commit uuid.UUID, inputs changedInputs) {
	added := cachedChange{commit, inputs, inputs.size()}
	if added.bytes > maxCachedBytes {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = slices.DeleteFunc(c.known, func(one cachedChange) bool { return one.commit == commit })
	c.known = append(c.known, added)
	total := 0
	for _, one := range c.known {
		total += one.bytes
	}
	for total > maxCachedBytes {
		total -= c.known[0].bytes
		c.known = slices.Delete(c.known, 0, 1)
	}
}

// size is about how many bytes of memory the inputs take. Their texts are mostly those of the fleet.
func (in changedInputs) size() int {
	const cluster, input = 64, int(unsafe.Sizeof(fleet.ChangedInput{}))
	total := 0
	for id, inputs := range in {
		total += cluster + len(id) + cap(inputs)*input
	}
	return total
}

// inputsChangedIn returns the inputs that a revision changed. They are computed from the log.
func (s *Server) inputsChangedIn(ctx context.Context, st *fleet.State, revision int64) (changedInputs, error) {
	st = st.Whole()
	commit, err := s.revision(ctx, st, revision)
	if err != nil {
		return nil, err
	}
	if known, ok := s.changedInputs.get(commit.ID); ok {
		return known, nil
	}
	log := &logReader{ctx: ctx, log: s.cfg.History}
	changes, err := log.Changes(commit.Revision)
	if err != nil {
		return nil, err
	}
	later, err := log.Past(fleet.PastQuery{At: commit.Revision, UpTo: st.Revision()})
	if err != nil {
		return nil, err
	}
	inputs, err := st.InputsChangedBy(ctx, changes, later)
	if err != nil {
		return nil, err
	}
	s.changedInputs.put(commit.ID, inputs)
	return inputs, nil
}

// clusterCounts keeps the number of clusters on which a commit changed inputs, which never changes.
type clusterCounts struct {
	mu    sync.Mutex
	known map[uuid.UUID]int // 0 also for commits that take too long
	limit time.Duration     // 0: maxCountingTime
}

// Limits of the counts: those that are kept, and those that one answer adds and the time that it takes for them, because each compares
// all clusters.
const (
	maxClusterCounts = 10_000
	newClusterCounts = 10
	maxCountingTime  = time.Second
)

// addClusterCounts adds the numbers of clusters to revisions, the newest first. The list does not fail because of them: what takes too
// long is not counted, and a commit that alone takes too long is not tried again. counted: only those that were counted before.
func (s *Server) addClusterCounts(c echo.Context, st *fleet.State, revisions []api.RevisionSummary, counted bool) error {
	request := requestOf(c).job.Context()
	ctx, stop := context.WithTimeout(request, cmp.Or(s.clusterCounts.limit, maxCountingTime))
	defer stop()
	added := 0
	for i := range revisions {
		rev := &revisions[i]
		s.clusterCounts.mu.Lock()
		n, known := s.clusterCounts.known[rev.CommitID]
		s.clusterCounts.mu.Unlock()
		if !known {
			if counted || added == newClusterCounts || added > 0 && ctx.Err() != nil {
				continue
			}
			added++
			inputs, err := s.inputsChangedIn(ctx, st, rev.Revision)
			switch {
			case errors.Is(err, store.ErrCompacted): // meanwhile
				continue
			case err != nil && (ctx.Err() == nil || request.Err() != nil):
				return err
			case err != nil && added > 1: // the next answer begins with it
				continue
			}
			n = len(inputs)
			s.clusterCounts.put(rev.CommitID, n)
		}
		rev.Clusters = n
	}
	return nil
}

func (c *clusterCounts) put(commit uuid.UUID, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxClusterCounts {
		c.known = map[uuid.UUID]int{}
	}
	c.known[commit] = n
}

// ofComponent keeps the inputs of one component; an empty component keeps all.
func ofComponent(inputs []fleet.ChangedInput, component string) []fleet.ChangedInput {
	if component == "" {
		return inputs
	}
	var out []fleet.ChangedInput
	for _, in := range inputs {
		if in.List == fleet.KindComponent.Endpoint() && in.ID == component {
			out = append(out, in)
		}
	}
	return out
}

// inputName names an input of a cluster.
type inputName struct{ list, id string }

// progressOf evaluates a cluster by the inputs that a revision changed and that no later one did. Without any, the cluster is
// superseded. revision: see [clusterstatus.Query]. forGate: only with reports that count for the gates of rollouts.
func (s *Server) progressOf(st *fleet.State, cluster *fleet.Document, changed []fleet.ChangedInput, revision int64, names clusterstatus.NameCache, forGate bool) (clusterstatus.Status, error) {
	asked, err := st.DesiredReceipts(cluster)
	if err != nil {
		return clusterstatus.Status{}, err
	}
	desired := map[inputName]fleet.Receipt{}
	for _, list := range asked {
		i := 0
		for id := range list.Inputs {
			name := inputName{list.List, id}
			if desired[name] = (fleet.Receipt{}); i < len(list.Receipts) { // an answer may omit receipts
				desired[name] = list.Receipts[i]
			}
			i++
		}
	}
	current, removedFrom, superseded := map[inputName]bool{}, map[string]bool{}, 0
	for _, in := range changed {
		name := inputName{in.List, in.ID}
		receipt, there := desired[name]
		switch {
		case in.Receipt == (fleet.Receipt{}) && !there:
			removedFrom[in.List] = true
		case there && (receipt == in.Receipt || receipt == (fleet.Receipt{})):
			current[name] = true
		default:
			superseded++
		}
	}
	q := s.statusQuery(st, cluster, names)
	q.Desired = asked
	q.OwnCredential = q.OwnCredential || forGate && !s.cfg.GatesTrustSharedToken
	q.IncludeInput = func(list, id string) bool { return current[inputName{list, id}] }
	q.Revision = revision
	q.ChangedList = func(list string) bool {
		return slices.ContainsFunc(changed, func(in fleet.ChangedInput) bool { return in.List == list })
	}
	q.IncludeList = func(list string) bool { return removedFrom[list] }
	known := s.tracker.Evaluate(q)
	if superseded > 0 {
		known.Counts.Set(clusterstatus.Superseded, superseded)
	}
	if superseded == len(changed) {
		known.State = clusterstatus.Superseded
	}
	return known, nil
}
