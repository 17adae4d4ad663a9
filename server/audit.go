package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auditlog"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
)

// AuditLog writes audit events: see [auditlog.Log].
type AuditLog = auditlog.Log

// AuditEvent is an audit event: see [auditlog.Event].
type AuditEvent = auditlog.Event

// AuditConfig configures an AuditLog: see [auditlog.Config].
type AuditConfig = auditlog.Config

// AuditAllowed is the decision of accepted requests.
const AuditAllowed = auditlog.Allowed

// OpenAuditLog opens the output of audit events: see [auditlog.Open].
func OpenAuditLog(cfg AuditConfig) (*AuditLog, error) { return auditlog.Open(cfg) }

const (
	auditChange       = "fleet.audit.change"
	auditRefused      = "fleet.audit.refused"
	auditSignIn       = "fleet.audit.sign_in"
	auditSignInFailed = "fleet.audit.sign_in_failed"
	auditTokenIssued  = "fleet.audit.token_issued"
	auditTokenRevoked = "fleet.audit.token_revoked"

	maxAuditText      = 640 // bytes of each text; no actor is longer
	maxAuditDocuments = 10
)

// auditTypes are the types of events of accepted operations. Other writes are auditChange, other reads have no event.
var auditTypes = map[string]string{
	"CreateSession": auditSignIn, "EndSessions": "fleet.audit.sessions_ended",
	"CreateToken": auditTokenIssued, "RotateToken": auditTokenIssued, "RevokeToken": auditTokenRevoked,
	"GetBackup": "fleet.audit.backup_read", "GetWebhookSecret": "fleet.audit.secret_read",
}

// auditRefusals are the codes of writes that a rule of the fleet refused to a sender that may write. Codes of refused credentials and
// missing rights have the status 401 or 403.
var auditRefusals = []fleet.Code{
	fleet.CodeProtected, fleet.CodeConfirm, fleet.CodeInRollout, fleet.CodeFrozen, fleet.CodePinned, fleet.CodeManagedBySource,
	fleet.CodeFieldConflict, fleet.CodePolicy, fleet.CodeSecretValue, fleet.CodeSecondPerson,
}

// auditRecord is what the steps of a request record for its audit event.
type auditRecord struct {
	caller    auth.Principal // of a refused request
	reason    string         // of auth_failures_total
	code      string         // of the problem
	stalePlan bool           // the effect is another than that of the plan
	revision  fleet.Revision // of the commit; 0: none
	changes   []fleet.Change
}

// audit emits the event of a request, if it has one.
func (s *Server) audit(r *request) {
	if s.cfg.AuditLog == nil || r.op == nil {
		return
	}
	status, did := r.Response().Status, r.audited
	e := auditlog.Event{Type: auditTypes[r.op.ID], Decision: auditlog.Allowed}
	if e.Type == "" && r.op.Write {
		e.Type = auditChange
	}
	dryRun := false
	if r.op.Write { // others have none, and the query of a poll is not parsed
		dryRun, _ = strconv.ParseBool(r.QueryParam("dry_run"))
	}
	refusedByRule := r.op.Write && !dryRun && (did.stalePlan || slices.Contains(auditRefusals, fleet.Code(did.code)))
	switch {
	case did.revision > 0: // also if the answer could not be sent
	case did.code == "outcome_unknown":
		e.Decision = auditlog.Unknown
	case r.op.ID == "CreateSession" && status >= http.StatusBadRequest:
		e.Type, e.Decision = auditSignInFailed, auditlog.Refused
	case did.reason != "" && signsIn(r.Request().Context()):
		e.Type, e.Decision = auditSignInFailed, auditlog.Refused
	case status == http.StatusUnauthorized, status == http.StatusForbidden, did.reason != "", refusedByRule:
		e.Type, e.Decision = auditRefused, auditlog.Refused
	case status >= http.StatusBadRequest, e.Type == "", dryRun:
		return
	}
	caller := r.principal
	if did.reason != "" {
		caller = did.caller
	}
	e.Sender = caller.Actor
	if e.Sender == "" {
		e.Sender = auth.SourceNetwork(r.Request()).String()
	}
	e.Actor, e.Status, e.Error, e.Reason = s.auditActor(caller), status, did.code, did.reason
	e.Method, e.Operation, e.Route, e.Path = r.Request().Method, r.op.ID, r.Path(), s.auditText(s.masker.Path(r.Request().URL))
	e.RequestID, e.Remote = requestID(r), r.Request().RemoteAddr
	s.emitAudit(e, did.revision, did.changes)
}

type signInKey struct{}

// WithSignIn marks the requests of a sign-in on the fleet page: a refused one is a failed sign-in.
func WithSignIn(ctx context.Context) context.Context {
	return context.WithValue(ctx, signInKey{}, true)
}

func signsIn(ctx context.Context) bool { return ctx.Value(signInKey{}) != nil }

// PageAuditEvent is an event of the fleet page: see ui.AuditEvent.
type PageAuditEvent struct{ Type, Token, Issuer string }

// AuditPage emits an event of the fleet page.
func (s *Server) AuditPage(r *http.Request, page PageAuditEvent) {
	if s.cfg.AuditLog == nil {
		return
	}
	e := auditlog.Event{Type: "fleet.audit." + page.Type, Decision: auditlog.Allowed, Method: r.Method, Path: s.auditText(s.masker.Path(r.URL)), Remote: r.RemoteAddr}
	if page.Issuer != "" {
		e.Actor = &auditlog.Actor{Issuer: s.auditText(page.Issuer)}
	} else if page.Token != "" {
		identified := &http.Request{Header: http.Header{"Authorization": {"Bearer " + page.Token}}, TLS: r.TLS, RemoteAddr: r.RemoteAddr}
		caller, _ := s.auth.Authorize(identified.WithContext(r.Context()), auth.Access{Needs: auth.Scoped, Self: true}, "", s.cfg.Replica.State())
		e.Actor, e.Sender = s.auditActor(caller), caller.Actor
	}
	switch e.Type {
	case auditRefused:
		e.Decision, e.Status = auditlog.Refused, http.StatusForbidden
	case auditSignInFailed:
		e.Decision = auditlog.Refused
	}
	e.Sender = cmp.Or(e.Sender, auth.SourceNetwork(r).String())
	s.emitAudit(e, 0, nil)
}

// auditCommit emits the event of a change that the server made by itself.
func (s *Server) auditCommit(commit fleet.Commit) {
	e := auditlog.Event{Type: auditChange, Decision: auditlog.Allowed, RequestID: s.auditText(commit.RequestID)}
	e.Actor = &auditlog.Actor{Name: s.auditText(commit.Actor), Credential: "internal"}
	s.emitAudit(e, commit.Revision, commit.Changes)
}

// emitAudit emits an event. Tokens that another change issues or revokes, such as those of a deleted cluster, have events of their own.
func (s *Server) emitAudit(e auditlog.Event, revision fleet.Revision, changes []fleet.Change) {
	e.Time, e.Revision = s.cfg.Now().UTC(), int64(revision)
	s.emitAuditOf(e, changes, func(ch fleet.Change) bool { return !isPartOfOther(ch.Kind) })
	if e.Type != auditChange {
		return
	}
	for _, tokens := range []struct{ action, event string }{{"create", auditTokenIssued}, {"delete", auditTokenRevoked}} {
		of := func(ch fleet.Change) bool { return ch.Kind == fleet.KindToken && ch.Action() == tokens.action }
		if slices.ContainsFunc(changes, of) {
			e.Type = tokens.event
			s.emitAuditOf(e, changes, of)
		}
	}
}

// emitAuditOf emits an event of some changes.
func (s *Server) emitAuditOf(e auditlog.Event, changes []fleet.Change, of func(fleet.Change) bool) {
	for _, ch := range changes {
		if !of(ch) {
			continue
		}
		if e.Objects++; e.Objects <= maxAuditDocuments {
			e.Documents = append(e.Documents, s.auditText(string(ch.Kind)+"/"+ch.ID))
		}
		if kind := s.auditText(string(ch.Kind)); len(e.Kinds) < maxAuditDocuments && !slices.Contains(e.Kinds, kind) {
			e.Kinds = append(e.Kinds, kind)
		}
	}
	s.cfg.AuditLog.Emit(e)
}

func (s *Server) auditActor(p auth.Principal) *auditlog.Actor {
	if p.Actor == "" {
		return nil
	}
	out := &auditlog.Actor{Name: s.auditText(p.Actor)}
	if p.Role != auth.None {
		out.Credential = p.Method.String()
	}
	if p.Managed != nil {
		out.Token = p.Managed.ID
	} else if p.Subject != nil {
		out.Issuer, out.Subject = p.Subject.Issuer, s.auditText(auth.ActorPart(p.Subject.Sub))
	}
	return out
}

// auditText returns a text without secrets, as a short one of ASCII without control characters.
func (s *Server) auditText(text string) string {
	text = strings.Map(func(r rune) rune {
		if (r < ' ' || r > '~') && r != '…' { // in long actors
			return '_'
		}
		return r
	}, s.masker.All(text))
	if len(text) > maxAuditText {
		text = strings.Clone(text[:maxAuditText-3]) + "..." // the clone does not keep the rest in memory
	}
	return text
}
