package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// statusWait returns the reason for which rollouts must wait, because this process is passive, or the status of clusters is not
// reliable now; empty: they need not wait.
func (s *Server) statusWait() string {
	switch stats := s.tracker.Stats(); {
	case !s.cfg.Replica.MayAct():
		return "this process is passive: its store is a copy that no operator has accepted, PASSIVE is true, or the store has not answered yet"
	case !stats.Complete:
		return "the status of all clusters is not known yet"
	case stats.ClocksDiffer:
		return "the clock of a process differed from the clock of the database by more than ten seconds, within the last ten minutes: the order of polls and receipts is not certain"
	}
	return ""
}

// every calls do once in each interval, until ctx ends.
func (s *Server) every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// survive logs a panic of do: no bug may end a process that answers polls.
func (s *Server) survive(ctx context.Context, doing string, do func()) {
	defer func() {
		if p := recover(); p != nil {
			s.metrics.panics.Inc()
			s.cfg.Logger.LogAttrs(ctx, slog.LevelError, "a task of the server ended in a panic", slog.String("doing", doing), slog.String("error", fmt.Sprintf("panic: %v\n%s", p, debug.Stack())))
		}
	}()
	do()
}

// errNothingToDo ends a change of the server that turns out to be made already.
var errNothingToDo = errors.New("there is nothing to do")

// unlessNothing returns the error of a change, or errNothingToDo if it changed nothing.
func unlessNothing(changed bool, err error) error {
	if err == nil && !changed {
		return errNothingToDo
	}
	return err
}

// automate makes a change that the server decides by itself. decide runs on the State that the commit is based on; errNothingToDo
// ends it without an error. There is nothing to do while this process must wait.
func (s *Server) automate(ctx context.Context, meta store.Meta, decide func(*fleet.Tx) error) error {
	res, err := s.cfg.Replica.Update(ctx, meta, func(tx *fleet.Tx) error {
		if s.statusWait() != "" {
			return errNothingToDo
		}
		tx.UseContext(ctx)
		tx.ClusterFilters(s.tracker.Filters())
		tx.Approvers(s.approverRights)
		return decide(tx)
	})
	switch {
	case errors.Is(err, errNothingToDo):
		return nil
	case err == nil && len(res.Commit.Changes) > 0:
		s.metrics.committed(res.Commit.Changes)
		s.auditCommit(res.Commit)
		trace.SpanFromContext(ctx).SetAttributes(attribute.String("fleet.revision", response.FormatRevision(res.State.Revision())))
	}
	return err
}

// principal is whom the server acts for. Access documents grant rights to the identity, which was recorded, so the rights do not
// depend on a session; to the name, if it has none. The zero value has no rights.
type principal struct {
	name     string
	identity *fleet.Subject
}

func rolloutPrincipal(st *fleet.State, id string) (p principal) {
	if d, ok := st.Get(fleet.KindRollout, id); ok {
		p = principal{fleet.RolloutPrincipal(d), fleet.RolloutIdentity(d)}
	}
	return p
}

// rightsOf returns the rights that access documents grant to a principal now.
func (s *Server) rightsOf(p principal, st *fleet.State) fleet.Rights {
	if p.identity != nil {
		return s.auth.RightsOfIdentity(p.identity, st)
	}
	rights := s.auth.RightsOf(p.name, st)
	if fleet.SourceOf(p.name) != "" {
		rights = rights.With(fleet.RightRead) // it needs none to apply its files
	}
	return rights
}

// mayChange reports whether a principal may change the fleet at all. [Server.onBehalfOf] limits a change to its rights.
func (s *Server) mayChange(p principal, st *fleet.State) bool {
	rights := s.rightsOf(p, st)
	return s.auth.MayStill(p.name, auth.Write, st) || rights.Include(fleet.RightWrite) || rights.Include(fleet.RightPushVersion)
}

// onBehalfOf limits a change to the rights of a principal, unless its role permits all changes.
func (s *Server) onBehalfOf(tx *fleet.Tx, p principal) {
	tx.OnBehalfOf(fleet.Principal{Actor: p.name, Identity: p.identity})
	if base := tx.Base(); !s.auth.MayStill(p.name, auth.Write, base) {
		tx.LimitTo(s.rightsOf(p, base), false)
	}
}

// reasons are why changes are not made, by the name of the change, as this process evaluated them last.
type reasons struct {
	mu    sync.Mutex
	known map[string]string
}

// set records the reason of a change, and reports whether it is a new one. Empty: there is none.
func (r *reasons) set(name, reason string) (isNew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if reason == "" {
		delete(r.known, name)
		return false
	}
	if r.known == nil {
		r.known = map[string]string{}
	}
	isNew = r.known[name] != reason
	r.known[name] = reason
	return isNew
}

// refuse records the error of a change, whose name is the value of an attribute, and logs a new one. Empty: there is none.
func (r *reasons) refuse(ctx context.Context, log *slog.Logger, message string, change slog.Attr, refusal string) {
	if r.set(change.Value.String(), refusal) {
		log.LogAttrs(ctx, slog.LevelWarn, message, change, slog.String("error", refusal)) //nolint:sloglint // a constant of the caller
	}
}

func (r *reasons) get(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[name]
}

// retain drops the reasons of changes that have no future.
func (r *reasons) retain(keep func(name string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.known, func(name, _ string) bool { return !keep(name) })
}
