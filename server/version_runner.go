package server

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/knownversions"
	"github.com/flux-resourceset/flux-resourceset/store"
)

const (
	versionsInterval = time.Second // between two checks for changes
	// allMovesInterval is the time between two evaluations of all policies, by which versions become old enough.
	allMovesInterval = 5 * time.Minute
)

// versionRunner is the state of MoveVersions between two calls.
type versionRunner struct {
	mu      sync.Mutex
	of      *fleet.State // whose documents were evaluated
	inputs  versionInputs
	lastAll time.Time
	retry   map[string]bool // moves that failed, or could not be evaluated
}

// RunVersions makes the changes that version policies decide until ctx ends. Any number of processes may run it: each change is
// decided again on the State that its commit is based on, so the process whose commit is late finds nothing to do.
func (s *Server) RunVersions(ctx context.Context) {
	s.every(ctx, versionsInterval, func() { s.survive(ctx, "moving versions", func() { s.MoveVersions(ctx) }) })
}

// MoveVersions evaluates the policies whose known versions or documents have changed since the last call, and all of them every
// allMovesInterval. It does nothing while this process does not know the status of all clusters and all versions, while clocks differ,
// or while it does not follow the store.
func (s *Server) MoveVersions(ctx context.Context) {
	r := &s.versionRunner
	r.mu.Lock()
	defer r.mu.Unlock()
	st, _, problem := s.cfg.Replica.StateForReads()
	if st == nil || problem != nil || s.statusWait() != "" {
		return
	}
	now, changed := s.cfg.Now(), s.versions.TakeChanged()
	all := now.Sub(r.lastAll) >= allMovesInterval || now.Before(r.lastAll)
	if st != r.of {
		inputs := versionInputsOf(st)
		all = all || inputs != r.inputs
		r.of, r.inputs = st, inputs
	}
	if all {
		r.lastAll = now
		s.forgetVersions(st, now)
	}
	due := map[string]bool{}
	for _, id := range changed {
		if doc, ok := st.Get(fleet.KindComponent, id); ok {
			for _, move := range fleet.VersionMovesOf(doc.Component()) {
				due[move] = true
			}
		}
	}
	if !all && len(due) == 0 && len(r.retry) == 0 {
		return
	}
	failed := map[string]bool{}
	for _, move := range s.pendingMoves(ctx, st, func(move string) bool { return all || due[move] || r.retry[move] }) {
		if ctx.Err() == nil && !s.tryMove(ctx, s.cfg.Replica.State(), move) {
			failed[move] = true
		}
	}
	r.retry = failed
}

// pendingMoves returns the due moves that have a version to move to, in the order in which they take the places of open rollouts: by the
// time since which the version is known, then by component or group, then from the lowest layer.
func (s *Server) pendingMoves(ctx context.Context, st *fleet.State, due func(move string) bool) (moves []string) {
	since := map[string]time.Time{}
	for _, move := range fleet.VersionMoves(st) {
		if !due(move) {
			continue
		}
		at, found, err := fleet.VersionMoveSince(st, move, s.knownVersions(st), s.cfg.Now())
		if err == nil && !found {
			s.setVersionRefusal(ctx, move, "")
			continue
		}
		since[move], moves = at, append(moves, move)
	}
	slices.SortStableFunc(moves, func(a, b string) int { return since[a].Compare(since[b]) })
	return moves
}

// setVersionRefusal records why a move is not made; empty: nothing refuses it.
func (s *Server) setVersionRefusal(ctx context.Context, move, message string) {
	s.versionRefusals.refuse(ctx, s.cfg.Logger, "a version cannot move", slog.String("move", move), message)
}

// versionInputs identifies the documents that version policies depend on.
type versionInputs struct {
	newest fleet.Revision
	count  int
}

// versionInputsOf finds the newest one of these documents, and counts them. Clusters are no part of them: there may be thousands, and
// allMovesInterval is enough for their effect.
func versionInputsOf(st *fleet.State) (in versionInputs) {
	if len(fleet.VersionMoves(st)) == 0 {
		return in
	}
	for _, kind := range []fleet.Kind{fleet.KindComponent, fleet.KindLayer, fleet.KindRollout, fleet.KindStrategy, fleet.KindFreeze, fleet.KindVersionAutomation, fleet.KindAccess, fleet.KindToken, fleet.KindPolicy} {
		for _, d := range st.All(kind) {
			in.newest = max(in.newest, d.Revision)
			in.count++
		}
	}
	return in
}

// forgetVersions drops what is known of components that do not exist any more.
func (s *Server) forgetVersions(st *fleet.State, now time.Time) {
	s.pushes.forget(now)
	s.versions.Retain(func(component string) []knownversions.Source {
		doc, ok := st.Get(fleet.KindComponent, component)
		if !ok {
			return nil
		}
		return versionSources(doc)
	})
	moves := fleet.VersionMoves(st)
	s.versionRefusals.retain(func(move string) bool { return slices.Contains(moves, move) })
}

// tryMove makes the change that the policies of a move decide, if there is one. It reports whether that is done.
func (s *Server) tryMove(ctx context.Context, st *fleet.State, move string) (done bool) {
	trial := st.Begin()
	trial.UseContext(ctx)
	trial.ClusterFilters(s.tracker.Filters())
	changed, err := s.move(trial, move)
	if (err != nil || changed) && !errors.Is(err, fleet.ErrVersionWaits) { // otherwise it needs no read of the store
		err = s.commitMove(ctx, move)
	}
	switch {
	case ctx.Err() != nil:
		return false
	case err == nil:
		s.setVersionRefusal(ctx, move, "")
		return true
	}
	message := err.Error()
	refusal, isRefusal := errors.AsType[*fleet.Error](err)
	if isRefusal && refusal.Code == fleet.CodeOutOfScope {
		message = "the principal of the policy may not make the change: " + refusal.Detail
	}
	s.setVersionRefusal(ctx, move, message)
	return isRefusal // it is tried again when documents change
}

// commitMove decides on the State that the commit is based on, and commits the change.
func (s *Server) commitMove(ctx context.Context, move string) (err error) {
	ctx, span := s.span(ctx, "move version", attribute.String("fleet.move", move))
	defer func() { endSpan(span, err) }()
	return s.automate(ctx, store.Meta{Actor: fleet.VersionAutomation}, func(tx *fleet.Tx) error {
		return unlessNothing(s.move(tx, move))
	})
}

// move makes the change of a move in a transaction, limited to the rights of the principals who last changed the policies.
func (s *Server) move(tx *fleet.Tx, move string) (changed bool, err error) {
	return tx.MoveVersions(move, s.knownVersions(tx.Base()), s.cfg.Now(), func(tx *fleet.Tx, actor string, identity *fleet.Subject) {
		tx.Approvers(s.approverRights) // also of attempts, which policies refuse otherwise
		s.onBehalfOf(tx, principal{actor, identity})
	})
}
