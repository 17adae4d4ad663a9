package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/versions"
)

// ArtifactReader reads the artifacts of sources.
type ArtifactReader interface {
	// Resolve returns the digest of the artifact that a source follows now, with one request if nothing has changed.
	Resolve(ctx context.Context, source *fleet.Source) (digest string, err error)
	// Read returns the artifact with this digest and the documents of its files, after its signature is verified. A *fleet.Error is about
	// the documents; any other error may end by itself.
	Read(ctx context.Context, source *fleet.Source, digest string) (fleet.FollowedArtifact, error)
}

const (
	sourcesInterval      = time.Second // between two checks for due sources
	maxSourceProblems    = 20          // in the message of a held artifact
	maxSourceLine        = 2 << 10     // bytes of one problem
	maxSourceMessage     = 32 << 10    // bytes of the message, which is a part of the fleet
	maxConcurrentSources = 2           // each may hold an artifact in memory
	maxKeptArtifact      = 4 << 20     // bytes of the documents of a held artifact that stays in memory, for each source
)

// sourceRunner is what this process knows of the sources.
type sourceRunner struct {
	mu     sync.Mutex
	checks map[string]*sourceCheck
	slots  chan struct{}
}

// sourceCheck is what this process knows of one source.
type sourceCheck struct {
	running chan struct{} // has room while no cycle runs

	mu        sync.Mutex
	due       time.Time
	of        sourceVersion // at the last cycle: another one makes it due
	checkedAt time.Time
	failed    string // why the artifact could not be read; empty: it could
	reason    string // of failed in one word, as it is recorded in the fleet
	checked   bool   // this process has recorded its reason
	waiting   string // digest of the artifact that waits for a rollout; empty: none does
	// tried is the artifact that was refused on a State; the same change on the same State is not tried again.
	tried triedArtifact
	kept  keptArtifact
}

// sourceVersion is what makes a source due when it changes. The recorded failure is no part of it: a registry whose answers alternate
// would cause a commit each second.
type sourceVersion struct {
	source                     fleet.Revision
	applied, approval, rollout string
}

func sourceVersionOf(doc *fleet.Document, record *fleet.SourceState) sourceVersion {
	v := sourceVersion{source: doc.Revision, applied: record.Digest}
	if record.Approval != nil {
		v.approval = record.Approval.PlanHash
	}
	if record.Rollout != nil {
		v.rollout = record.Rollout.ID
	}
	return v
}

// keptArtifact is a held artifact, as it was read for a version of the source.
type keptArtifact struct {
	of       fleet.Revision // of the source; zero: there is none
	artifact fleet.FollowedArtifact
	refusal  error
}

type triedArtifact struct {
	digest string
	on     fleet.Revision
	soon   bool // the refusal depends on the time
}

// check returns what is known of a source.
func (r *sourceRunner) check(id string) *sourceCheck {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.checks == nil {
		r.checks, r.slots = map[string]*sourceCheck{}, make(chan struct{}, maxConcurrentSources)
	}
	if r.checks[id] == nil {
		r.checks[id] = &sourceCheck{running: make(chan struct{}, 1)}
	}
	return r.checks[id]
}

// retain drops what is known of sources that do not exist any more.
func (r *sourceRunner) retain(exists func(id string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.checks, func(id string, _ *sourceCheck) bool { return !exists(id) })
}

// RunSources applies the artifacts of sources until ctx ends. Any number of processes may run it: each change is computed on the State
// that its commit is based on, so the process whose commit is late finds nothing to do.
func (s *Server) RunSources(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	s.every(ctx, sourcesInterval, func() {
		s.survive(ctx, "finding due sources", func() {
			for _, id := range s.dueSources() {
				running.Go(func() { s.survive(ctx, "following a source", func() { s.followDue(ctx, id) }) })
			}
		})
	})
}

// FollowSources makes the cycles of the sources that are due, and waits for them.
func (s *Server) FollowSources(ctx context.Context) {
	for _, id := range s.dueSources() {
		s.followDue(ctx, id)
	}
}

// dueSources returns the sources that are due, and sets the times of their next cycles.
func (s *Server) dueSources() (due []string) {
	st, _, problem := s.cfg.Replica.StateForReads()
	if s.cfg.ArtifactReader == nil || st == nil || problem != nil || s.statusWait() != "" {
		return nil
	}
	exists := func(id string) bool { _, ok := st.Get(fleet.KindSource, id); return ok }
	s.sources.retain(exists)
	s.sourceFailures.retain(exists)
	now := s.cfg.Now()
	for _, doc := range st.All(fleet.KindSource) {
		source, check := doc.Source(), s.sources.check(doc.ID)
		if source.Suspended || !source.Known() {
			continue
		}
		of := sourceVersionOf(doc, st.SourceState(doc.ID))
		check.mu.Lock()
		if of != check.of || !now.Before(check.due) || now.Before(check.checkedAt) {
			due = append(due, doc.ID)
			check.of, check.due = of, now.Add(source.PollInterval())
		}
		check.mu.Unlock()
	}
	return due
}

// followDue makes a cycle of a source, unless one runs already.
func (s *Server) followDue(ctx context.Context, id string) {
	check := s.sources.check(id)
	select {
	case check.running <- struct{}{}:
		defer func() { <-check.running }()
	default:
		return
	}
	_ = s.followSource(ctx, id, check, false) // it is recorded
}

// followSource makes one cycle of a source. again: also if its artifact is applied. The error is that of the artifact that is not applied.
func (s *Server) followSource(ctx context.Context, id string, check *sourceCheck, again bool) (err error) {
	ctx, span := s.span(ctx, "follow source", attribute.String("fleet.source", id))
	defer func() { endSpan(span, err) }()
	st := s.cfg.Replica.State()
	doc, ok := st.Get(fleet.KindSource, id)
	if !ok {
		return nil
	}
	record := st.SourceState(id)
	var failure error
	defer func() { s.recordCheck(ctx, id, check, failure) }()
	digest, err := s.cfg.ArtifactReader.Resolve(ctx, doc.Source())
	failure = err
	open := st.OpenRollout(record)
	check.setWaiting(open != nil && err == nil && digest != record.Rollout.Digest, digest)
	switch tried := check.tried; {
	case err != nil:
		return err
	case open != nil && again:
		return &fleet.Error{Code: fleet.CodeConflict, Detail: fmt.Sprintf("its rollout %q is open: complete or abort it first", open.ID)}
	case open != nil:
		return nil
	case record.HasApplied(doc.Source(), digest) && !again:
		return s.releaseArtifact(ctx, id, record)
	case !again && tried == triedArtifact{digest, st.Revision(), false}:
		return nil
	}
	select { // after the digest: a registry that does not answer delays no other source
	case s.sources.slots <- struct{}{}:
		defer func() { <-s.sources.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	artifact, err := s.readArtifact(ctx, doc, digest, check)
	refusal, refused := errors.AsType[*fleet.Error](err)
	if err != nil && !refused {
		failure = err
		return err
	}
	on := st.Revision()
	if !refused {
		on, err = s.commitArtifact(ctx, doc, artifact, again)
		refusal, refused = errors.AsType[*fleet.Error](err)
	}
	if !refused || record.HasApplied(doc.Source(), digest) {
		check.kept = keptArtifact{}
		return err
	}
	held := fleet.HeldArtifact{SourceArtifact: artifact.SourceArtifact, PlanHash: refusal.Approval.PlanHash, Code: refusal.Code, Message: artifactMessage(refusal)}
	if err := s.completePlan(ctx, st, &held, id, artifact, record); err != nil {
		return err
	}
	if on, err = s.holdArtifact(ctx, doc, held, on); err != nil {
		return err
	}
	check.tried = triedArtifact{digest, on, refusal.Code == fleet.CodeFrozen || refusal.Code == fleet.CodeConfirm && st.HasRecentRemovals(s.cfg.Now())}
	return refusal
}

// readArtifact returns the artifact with a digest, which the check of a source may have already.
func (s *Server) readArtifact(ctx context.Context, source *fleet.Document, digest string, check *sourceCheck) (fleet.FollowedArtifact, error) {
	if kept := check.kept; kept.of == source.Revision && kept.artifact.Digest == digest {
		return kept.artifact, kept.refusal
	}
	artifact, err := s.cfg.ArtifactReader.Read(ctx, source.Source(), digest)
	artifact.Digest, check.kept = digest, keptArtifact{}
	size := 0
	for _, d := range artifact.Documents {
		size += len(d.ID) + len(d.File) + len(d.Fields)
	}
	if _, refused := errors.AsType[*fleet.Error](err); (err == nil || refused) && size <= maxKeptArtifact {
		check.kept = keptArtifact{source.Revision, artifact, err}
	}
	return artifact, err
}

// recordCheck records the result of a request for an artifact. A failure is logged once. A process records the reason in the fleet only
// when its own result changes: otherwise two processes with different results would commit at each check.
func (s *Server) recordCheck(ctx context.Context, id string, check *sourceCheck, failure error) {
	if failure != nil && ctx.Err() != nil {
		return
	}
	check.mu.Lock()
	check.checkedAt, check.failed = s.cfg.Now(), ""
	reason := failureReason(failure)
	if failure != nil {
		check.failed = s.masker.Tokens(failure.Error())
	}
	if reason == string(versions.Limited) && check.reason != "" {
		reason = check.reason // the reader waits after an earlier failure
	}
	recorded := check.checked && check.reason == reason
	s.sourceFailures.refuse(ctx, s.cfg.Logger, "the artifact of a source cannot be read", slog.String("source_id", id), check.failed)
	check.mu.Unlock()
	if recorded {
		return
	}
	err := s.automate(ctx, store.Meta{Actor: fleet.SourceActor(id)}, func(tx *fleet.Tx) error {
		if !tx.Base().Has(fleet.KindSource, id) {
			return errNothingToDo
		}
		return unlessNothing(tx.FailArtifact(id, reason, s.commitTime()))
	})
	if err == nil {
		check.mu.Lock()
		check.reason, check.checked = reason, true
		check.mu.Unlock()
	}
}

// failureReason returns the reason of a failure in one word.
func failureReason(failure error) string {
	if failure == nil {
		return ""
	}
	if e, ok := errors.AsType[*versions.Error](failure); ok {
		return string(e.Class)
	}
	return "unreadable"
}

// isFailed reports whether the artifact could not be read.
func (c *sourceCheck) isFailed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed != ""
}

// setWaiting records whether the artifact with a digest waits for a rollout.
func (c *sourceCheck) setWaiting(waits bool, digest string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting = ""; waits {
		c.waiting = digest
	}
}

// commitArtifact commits the change of an artifact that was read for a source, unless the source was changed since: its URL, path or keys
// may be others now. on is the revision that the change was last computed on.
func (s *Server) commitArtifact(ctx context.Context, source *fleet.Document, a fleet.FollowedArtifact, again bool) (on fleet.Revision, err error) {
	id := source.ID
	meta := store.Meta{Actor: fleet.SourceActor(id), Reason: "artifact " + cmp.Or(a.Revision, a.Tag, a.Digest)}
	return on, s.automate(ctx, meta, func(tx *fleet.Tx) error {
		if on = tx.Base().Revision(); !isSource(tx.Base(), source) {
			return errNothingToDo
		}
		guard := fleet.Guard{Careful: true}
		if approval := tx.Base().SourceState(id).Approval; approval != nil && approval.Digest == a.Digest {
			guard.PlanHash = approval.PlanHash
		}
		tx.Guard(guard)
		return unlessNothing(s.applyArtifact(tx, id, a, again))
	})
}

// isSource reports whether a source is as it was read.
func isSource(st *fleet.State, source *fleet.Document) bool {
	doc, ok := st.Get(fleet.KindSource, source.ID)
	return ok && doc.Revision == source.Revision
}

// applyArtifact makes the change of an artifact in a transaction, within the rights of the source.
func (s *Server) applyArtifact(tx *fleet.Tx, id string, a fleet.FollowedArtifact, again bool) (changed bool, err error) {
	rights := tx.Base().Rights(&fleet.Subject{Source: id}, s.cfg.Now())
	tx.LimitTo(rights.With(fleet.RightRead), false)
	return tx.ApplyArtifact(id, a, s.commitTime(), again, func(tx *fleet.Tx, ops []api.Operation) (err error) {
		bodies := make([]map[string]any, len(ops))
		for i, op := range ops {
			if op.Document == nil {
				continue
			}
			if bodies[i], err = fleet.ParseObject(op.Document); err != nil {
				return inDocument(op, err)
			}
		}
		if err := fleet.Invalid(s.misshapenDocuments(ops, bodies)); err != nil {
			return inDocuments(ops, err)
		}
		batch := fleet.NewBatch(tx, nil)
		batch.CheckNew = func(op api.Operation, body map[string]any) []fleet.Problem {
			return s.misshapenDocument(op, http.MethodPost, body)
		}
		_, err = batch.RunParsed(ops, bodies)
		return inDocuments(ops, err)
	})
}

// inDocument names the document in an error about its JSON.
func inDocument(op api.Operation, err error) error {
	e, ok := errors.AsType[*fleet.Error](err)
	if !ok {
		return fmt.Errorf("%s %q: %w", op.Kind, op.ID, err)
	}
	detail := strings.Replace(e.Detail, "the body", "the document", 1)
	return &fleet.Error{Code: e.Code, Problems: []fleet.Problem{{Kind: fleet.Kind(op.Kind), ID: op.ID, Detail: detail}}}
}

// inDocuments replaces the places of operations in problems by the names of their documents.
func inDocuments(ops []api.Operation, err error) error {
	e, ok := errors.AsType[*fleet.Error](err)
	if !ok {
		return err
	}
	out := *e
	out.Problems = nil
	for _, p := range e.Problems {
		number, rest, _ := strings.Cut(strings.TrimPrefix(p.Pointer, "/operations/"), "/")
		if i, err := strconv.Atoi(number); err == nil && i < len(ops) {
			_, field, inside := strings.Cut(rest, "/")
			p.Kind, p.ID, p.Pointer = fleet.Kind(ops[i].Kind), ops[i].ID, ""
			if inside {
				p.Pointer = "/" + field
			}
		}
		out.Problems = append(out.Problems, p)
	}
	if len(out.Problems) > 0 {
		out.Detail = ""
	}
	return &out
}

// artifactMessage returns a refusal as the message of a held artifact, with all problems.
func artifactMessage(e *fleet.Error) string {
	var lines []string
	if e.Detail != "" {
		lines = append(lines, strings.NewReplacer("document of yours", "document of the source", "your access documents", "the access documents of the source").Replace(e.Detail))
	}
	for i, p := range e.Problems {
		if len(e.Problems) == 1 && e.Detail != "" && strings.Contains(e.Detail, p.Detail) {
			break
		}
		if i == maxSourceProblems {
			lines = append(lines, fmt.Sprintf("and %d further problems", len(e.Problems)-i))
			break
		}
		line := p.Detail
		if p.Pointer != "" {
			line = p.Pointer + ": " + line
		}
		if p.ID != "" && !strings.Contains(line, strconv.Quote(p.ID)) {
			line = fmt.Sprintf("%s %q: %s", p.Kind, p.ID, line)
		}
		lines = append(lines, strings.ReplaceAll(line, "document of yours", "document of the source"))
	}
	lines = strings.Split(strings.Join(lines, "\n"), "\n")
	for i, line := range lines {
		lines[i] = cut(line, maxSourceLine)
	}
	return cut(strings.Join(lines, "\n"), maxSourceMessage)
}

// cut returns at most so many bytes of a text, which may be one of the publisher.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// completePlan adds the plan of a change that an approval can admit.
func (s *Server) completePlan(ctx context.Context, st *fleet.State, held *fleet.HeldArtifact, id string, a fleet.FollowedArtifact, record *fleet.SourceState) error {
	if held.Code == fleet.CodeStale && record.Approval != nil {
		held.Code, held.Message = fleet.CodeConfirm, "the approval is outdated, since the change would have another effect now: approve the new plan"
	}
	if held.Code != fleet.CodeConfirm && held.Code != fleet.CodeFrozen && held.PlanHash == "" { // freezes end, and the approval then still counts
		return nil
	}
	plan, err := s.planArtifact(ctx, st, id, a)
	if err != nil {
		return refusedPlan(held, err)
	}
	held.PlanHash = plan.PlanHash
	for _, v := range plan.Policies {
		if v.Failed && v.Action == fleet.PolicyApprove && v.ApprovedBy == "" && held.Code == fleet.CodeConfirm {
			held.Code, held.Message = fleet.CodePolicy, held.Message+fmt.Sprintf("\nand policy %q needs an approval: %s", v.ID, v.Message)
		}
	}
	if held.Code != fleet.CodeFrozen {
		actions := map[string]int{}
		for _, ch := range plan.Changes {
			actions[ch.Action]++
		}
		held.Message += fmt.Sprintf("\nthe plan: documents created %d, changed %d, deleted %d; answers to %d clusters change; removals %d",
			actions["create"], actions["update"], actions["delete"], plan.Totals.Clusters, plan.Totals.Removals)
	}
	return nil
}

// refusedPlan holds an artifact for a reason that no approval removes.
func refusedPlan(held *fleet.HeldArtifact, err error) error {
	refusal, ok := errors.AsType[*fleet.Error](err)
	if !ok {
		return err
	}
	held.Code, held.Message = refusal.Code, artifactMessage(refusal)
	return nil
}

// holdArtifact records an artifact that was refused on a revision, unless another process has applied it, or the source was changed. It
// returns the last revision that the refusal is about: that of the record, if nothing else was committed before it.
func (s *Server) holdArtifact(ctx context.Context, source *fleet.Document, held fleet.HeldArtifact, on fleet.Revision) (fleet.Revision, error) {
	id, about := source.ID, on
	err := s.automate(ctx, store.Meta{Actor: fleet.SourceActor(id)}, func(tx *fleet.Tx) error {
		about = on
		if !isSource(tx.Base(), source) || tx.Base().SourceState(id).HasApplied(source.Source(), held.Digest) {
			return errNothingToDo
		}
		held.At = s.commitTime()
		changed, err := tx.HoldArtifact(id, held)
		if err == nil && !changed {
			err = errNothingToDo
		} else if tx.Base().Revision() == on {
			about = on + 1
		}
		return err
	})
	return about, err
}

// releaseArtifact records that nothing is held, since the source refers to the applied artifact again.
func (s *Server) releaseArtifact(ctx context.Context, id string, record *fleet.SourceState) error {
	if record.Held == nil && record.Approval == nil {
		return nil
	}
	return s.automate(ctx, store.Meta{Actor: fleet.SourceActor(id)}, func(tx *fleet.Tx) error {
		return unlessNothing(tx.ReleaseArtifact(id))
	})
}
