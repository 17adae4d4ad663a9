package server

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/knownversions"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
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
	tick := time.NewTicker(versionsInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.MoveVersions(ctx)
		}
	}
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
			due[fleet.VersionMoveOf(doc.Component())] = true
		}
	}
	if !all && len(due) == 0 && len(r.retry) == 0 {
		return
	}
	failed := map[string]bool{}
	for _, move := range fleet.VersionMoves(st) {
		if ctx.Err() == nil && (all || due[move] || r.retry[move]) && !s.tryMove(ctx, st, move) {
			failed[move] = true
		}
	}
	r.retry = failed
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
	for _, kind := range []fleet.Kind{fleet.KindComponent, fleet.KindLayer, fleet.KindRollout, fleet.KindStrategy, fleet.KindFreeze, fleet.KindVersionAutomation, fleet.KindAccess, fleet.KindToken} {
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
	s.versionRefusals.retain(fleet.VersionMoves(st))
}

// errNoMove ends an update that has nothing to do.
var errNoMove = errors.New("there is no version to move to")

// tryMove makes the change that the policies of a move decide, if there is one. It reports whether that is done.
func (s *Server) tryMove(ctx context.Context, st *fleet.State, move string) (done bool) {
	if changed, err := s.move(ctx, st.Begin(), move); err == nil && !changed {
		s.versionRefusals.set(move, "")
		return true // the usual case needs no read of the store
	}
	err := s.commitMove(ctx, move)
	switch {
	case ctx.Err() != nil:
		return false
	case err == nil:
		s.versionRefusals.set(move, "")
		return true
	}
	message := err.Error()
	refused, ofFleet := errors.AsType[*fleet.Error](err)
	if ofFleet && refused.Code == fleet.CodeOutOfScope {
		message = "the principal of the policy may not make the change: " + refused.Detail
	}
	if s.versionRefusals.set(move, message) {
		s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "a version cannot move", slog.String("move", move), slog.String("error", message))
	}
	return ofFleet // it is tried again when documents change
}

// commitMove decides on the State that the commit is based on, and commits the change.
func (s *Server) commitMove(ctx context.Context, move string) (err error) {
	ctx, span := s.span(ctx, "move version", attribute.String("fleet.move", move))
	defer func() { endSpan(span, err) }()
	res, err := s.cfg.Replica.Update(ctx, store.Meta{Actor: fleet.VersionAutomation}, func(tx *fleet.Tx) error {
		if s.statusWait() != "" {
			return errNoMove
		}
		changed, err := s.move(ctx, tx, move)
		if err == nil && !changed {
			err = errNoMove
		}
		return err
	})
	switch {
	case errors.Is(err, errNoMove):
		return nil
	case err == nil && len(res.Commit.Changes) > 0:
		s.metrics.committed(res.Commit.Changes)
		span.SetAttributes(attribute.String("fleet.revision", response.FormatRevision(res.State.Revision())))
	}
	return err
}

// move makes the change of a move in a transaction.
func (s *Server) move(ctx context.Context, tx *fleet.Tx, move string) (changed bool, err error) {
	tx.UseContext(ctx)
	tx.ClusterFilters(s.tracker.Filters())
	return tx.MoveVersions(move, s.knownVersions(tx.Base()), s.cfg.Now(), s.limitToPolicy)
}

// limitToPolicy limits a transaction to the rights of the principal who last changed the policies of a component, unless the role of
// the principal permits all changes. An unknown principal has no rights.
func (s *Server) limitToPolicy(tx *fleet.Tx, component string) {
	base := tx.Base()
	principal, identity := fleet.VersionPrincipal(base, component)
	switch {
	case s.auth.MayStill(principal, auth.Write, base):
	case identity != nil:
		tx.LimitTo(s.auth.RightsOfIdentity(identity, base), false)
	default:
		tx.LimitTo(s.auth.RightsOf(principal, base), false)
	}
}

// versionRefusals are the errors of moves that could not be made, by name.
type versionRefusals struct {
	mu    sync.Mutex
	known map[string]string
}

// set records an error; empty: there is none. It reports whether it is a new one.
func (r *versionRefusals) set(move, message string) (isNew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[string]string{}
	}
	isNew = r.known[move] != message
	if r.known[move] = message; message == "" {
		delete(r.known, move)
	}
	return isNew
}

func (r *versionRefusals) get(move string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[move]
}

// retain drops the errors of other moves.
func (r *versionRefusals) retain(moves []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for move := range r.known {
		if _, found := slices.BinarySearchFunc(moves, move, strings.Compare); !found {
			delete(r.known, move)
		}
	}
}
