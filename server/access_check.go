package server

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/fleet/access"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
	"github.com/flux-resourceset/flux-resourceset/server/internal/openapi"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// maxCheckedErrors limits the errors of one operation in an answer, which may have 1,000 operations.
const maxCheckedErrors = 20

// CheckAccess answers which operations a subject may perform. It commits nothing.
func (s *Server) CheckAccess(c echo.Context, _ api.CheckAccessParams) error {
	req, err := decodeBody[api.AccessCheckRequest](c)
	if err != nil {
		return err
	}
	bodies := operationBodies(requestOf(c).body, len(req.Operations))
	if err := fleet.Invalid(append(checkRequestProblems(req), s.misshapenDocuments(req.Operations, bodies)...)); err != nil {
		return err
	}
	check := accessCheck{
		server: s, req: req, bodies: bodies,
		rules: access.Check{
			Context: requestOf(c).job.Context(), History: &logReader{ctx: c.Request().Context(), log: s.cfg.History},
			Filters: s.tracker.Filters(), At: s.commitTime(),
		},
	}
	if req.Subject == nil {
		return s.checkOwnAccess(c, &check)
	}
	r := requestOf(c)
	if _, refusal := s.auth.Authorize(r.Request(), auth.Access{Needs: auth.Admin, Rights: []fleet.Right{fleet.RightAdmin}}, "", r.state.Whole()); refusal != nil {
		return s.reportRefusal(c, refusal)
	}
	var out api.AccessCheck
	res, err := s.transact(c, store.Meta{DryRun: true}, func(tx *fleet.Tx) (err error) {
		out, err = check.run(tx.Base())
		return err
	})
	if err != nil {
		return err
	}
	c.Response().Header().Set(response.HeaderRevision, response.FormatRevision(res.State.Revision()))
	return s.sendBuffered(c, out)
}

// checkOwnAccess answers for the caller itself, as a read: no right is needed to learn the own rights.
func (s *Server) checkOwnAccess(c echo.Context, check *accessCheck) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	check.caller, check.rules.Self = &requestOf(c).principal, true
	out, err := check.run(st.Whole())
	if err != nil {
		return err
	}
	return s.sendBuffered(c, out)
}

// checkRequestProblems returns problems of a request that its schema does not express.
func checkRequestProblems(req api.AccessCheckRequest) (problems []fleet.Problem) {
	sub := cmp.Or(req.Subject, &api.CheckedSubject{Token: "the caller"})
	if (sub.Token == "") == (sub.Issuer == "") {
		problems = append(problems, fleet.Problem{Pointer: "/subject", Detail: "exactly one of token and issuer is required"})
	}
	if sub.Token != "" && (sub.Sub != "" || len(sub.Groups)+len(sub.Claims) > 0) {
		problems = append(problems, fleet.Problem{Pointer: "/subject", Detail: "sub, groups and claims are for an issuer"})
	}
	if (len(req.Operations) == 0) == (req.Right == "") || req.Right == "" && req.Kind != "" || req.Kind == "" && req.ID != "" {
		problems = append(problems, fleet.Problem{Detail: "exactly one of operations and right is required; kind is for right, and id for kind"})
	}
	if req.Create && req.ID == "" || req.Selector != "" && (!req.Create || req.Kind != string(fleet.KindLayer) && req.Kind != string(fleet.KindFreeze)) {
		problems = append(problems, fleet.Problem{Detail: "create is for id, and selector for create of a layer or a freeze"})
	}
	if _, err := fleet.ParseSelector(req.Selector); err != nil {
		problems = append(problems, fleet.Problem{Pointer: "/selector", Detail: err.Error()})
	}
	return problems
}

// accessCheck is a request of CheckAccess.
type accessCheck struct {
	server *Server
	req    api.AccessCheckRequest
	bodies []map[string]any
	rules  access.Check
	caller *auth.Principal // the subject; nil: that of req
	base   *fleet.State
	role   auth.Role // Scoped: rules.Rights limit the subject
}

func (a *accessCheck) run(base *fleet.State) (out api.AccessCheck, err error) {
	a.base = base
	if a.caller != nil {
		out = a.ofCaller(base)
	} else {
		out = a.subject(base)
	}
	at, err := a.rules.Of(base)
	if err != nil {
		return out, err
	}
	for i := range out.Warnings {
		out.Warnings[i] = a.server.masker.Tokens(out.Warnings[i])
	}
	if a.req.Right != "" {
		p, err := a.right(at)
		return a.withResult(out, p), err
	}
	needs := a.server.operations.Find(http.MethodPost, "/batch").Access
	all, err := a.permission(needs, func() (p access.Permission, err error) {
		p, _, err = a.rules.Operations(at, a.req.Operations, a.bodies)
		return p, err
	})
	if err != nil {
		return out, err
	}
	out = a.withResult(out, all)
	for i := range a.req.Operations {
		p, err := a.permission(needs, func() (p access.Permission, err error) {
			p, at, err = a.rules.Operations(at, a.req.Operations[i:i+1], a.bodies[i:i+1])
			return p, err
		})
		if err != nil {
			return out, err
		}
		r := a.withResult(api.AccessCheck{}, p)
		result := api.CheckedOperation{
			Op: a.req.Operations[i].Op, Allowed: r.Allowed, PermittedBy: r.PermittedBy, Code: r.Code, MissingRight: r.MissingRight,
			Reason: renumber(r.Reason, i), Errors: r.Errors[:min(len(r.Errors), maxCheckedErrors)],
		}
		for j := range result.Errors {
			result.Errors[j].Pointer = renumber(result.Errors[j].Pointer, i)
		}
		out.Operations = append(out.Operations, result)
	}
	return out, nil
}

// renumber replaces the number of the only operation of a commit by its number in the request.
func renumber(text string, i int) string {
	return strings.ReplaceAll(text, "/operations/0", "/operations/"+strconv.Itoa(i))
}

// subject determines the rights of the subject in a State.
func (a *accessCheck) subject(base *fleet.State) api.AccessCheck {
	now, sub := a.server.cfg.Now(), a.req.Subject
	out := newAccessCheck()
	a.role = auth.Scoped
	subject := fleet.Subject{Issuer: sub.Issuer, Sub: sub.Sub, Groups: sub.Groups, Claims: sub.Claims, Token: sub.Token}
	if sub.Token != "" {
		role, valid := base.TokenRole(sub.Token, now)
		out.Role = role
		switch {
		case role == "":
			out.Warnings = append(out.Warnings, fmt.Sprintf("there is no token %q: the result is for a token of role scoped with this name", sub.Token))
		case !valid:
			out.Warnings = append(out.Warnings, fmt.Sprintf("token %q has expired: it is refused until it is rotated", sub.Token))
		}
		for _, known := range roleNames {
			if known.name == role {
				a.role = known.role
			}
		}
	} else if a.server.cfg.Issuers == nil || !a.server.cfg.Issuers.Has(sub.Issuer) {
		out.Warnings = append(out.Warnings, fmt.Sprintf("issuer %q is not in OIDC_ISSUERS: its tokens are refused", sub.Issuer))
	}
	return a.withRights(out, base, &subject)
}

// newAccessCheck returns an answer without a result.
func newAccessCheck() api.AccessCheck {
	return api.AccessCheck{Role: fleet.RoleScoped, Access: []api.GrantedAccess{}, May: []string{}, Operations: []api.CheckedOperation{}, Warnings: []string{}}
}

// ofCaller determines the rights of the caller in a State.
func (a *accessCheck) ofCaller(base *fleet.State) api.AccessCheck {
	out := newAccessCheck()
	a.role = a.caller.Role
	for _, known := range roleNames {
		if known.role == a.role {
			out.Role = known.name
		}
	}
	return a.withRights(out, base, a.caller.Subject)
}

// withRights adds the rights of the subject to an answer.
func (a *accessCheck) withRights(out api.AccessCheck, base *fleet.State, subject *fleet.Subject) api.AccessCheck {
	if a.role != auth.Scoped {
		out.Rules = base.EnforcedRules(a.server.cfg.Now())
		for _, known := range roleNames {
			if a.role >= known.role {
				out.May = append(out.May, known.name)
			}
		}
		return out
	}
	rights := base.Rights(subject, a.server.cfg.Now())
	a.rules.Rights = &rights
	if !rights.Everywhere(fleet.RightRead) { // as for a change, which restores and reverts documents that are not visible
		a.rules.History = &logReader{refused: &fleet.Error{Code: codeForbidden, Detail: errNeedsUnlimitedRead.Detail}}
	}
	out.May, out.Access, out.Rules = rights.Names(), rights.Documents(), base.VisibleTo(rights).EnforcedRules(a.server.cfg.Now())
	return out
}

// permission checks the permission to call an operation of the API, and then the effect.
func (a *accessCheck) permission(needs auth.Access, effect func() (access.Permission, error)) (access.Permission, error) {
	switch {
	case a.role != auth.Scoped && a.role < auth.Write:
		return forbidden("the role of the token permits no change", fleet.RightWrite), nil
	case a.role != auth.Scoped || needs.MayCall(*a.rules.Rights):
		return effect()
	}
	return a.missing(needs.Rights[0]), nil
}

// right checks a right.
func (a *accessCheck) right(at access.CheckedState) (access.Permission, error) {
	right := a.req.Right
	if a.role != auth.Scoped {
		needs := map[string]auth.Role{fleet.RightRead: auth.Read, fleet.RightPlan: auth.Read, fleet.RightOverridePolicy: auth.Admin, fleet.RightPolicy: auth.Admin, fleet.RightAdmin: auth.Admin}
		need, listed := needs[right]
		if !listed {
			need = auth.Write
		}
		if a.role < need {
			return forbidden("the role of the token does not include "+right, right), nil
		}
		return access.Permission{Allowed: true}, nil
	}
	if !(auth.Access{Rights: []fleet.Right{right}}).MayCall(*a.rules.Rights) {
		return a.missing(right), nil
	}
	return a.rules.Right(at, access.RightQuery{Right: right, Kind: fleet.Kind(a.req.Kind), ID: a.req.ID, Create: a.req.Create, Selector: a.req.Selector})
}

// missing returns the refusal for a right that the subject lacks; read is required as well.
func (a *accessCheck) missing(right fleet.Right) access.Permission {
	if !(auth.Access{Rights: []fleet.Right{fleet.RightRead}}).MayCall(*a.rules.Rights) {
		return forbidden("no access document grants read to the subject, which every request needs", fleet.RightRead)
	}
	if a.rules.Rights.Include(right) {
		return forbidden("no access document grants read to the subject without limits, which "+right+" needs", fleet.RightRead)
	}
	return forbidden("no access document grants "+right+" to the subject", right)
}

// codeForbidden is the code of a refusal for a missing right or role.
const codeForbidden fleet.Code = "forbidden"

func forbidden(detail string, missing fleet.Right) access.Permission {
	return access.Permission{Err: &fleet.Error{Code: codeForbidden, Detail: detail}, MissingRight: missing}
}

// withResult adds a permission to an answer.
func (a *accessCheck) withResult(out api.AccessCheck, p access.Permission) api.AccessCheck {
	out.Allowed, out.PermittedBy, out.MissingRight, out.Errors = p.Allowed, append([]string{}, p.Access...), p.MissingRight, []api.FieldProblem{}
	if p.Err == nil {
		return out
	}
	if a.caller != nil && p.Whole {
		p.Err = (&limitedChange{server: a.server, base: a.base, rights: *a.rules.Rights}).hidden(p.Err)
	}
	mask := a.server.masker.Tokens
	out.Code, out.Reason = string(p.Err.Code), mask(p.Err.Detail)
	for _, problem := range p.Err.Problems[:min(len(p.Err.Problems), openapi.MaxProblems)] {
		out.Errors = append(out.Errors, api.FieldProblem{Pointer: mask(problem.Pointer), Detail: mask(problem.Detail), Kind: string(problem.Kind), ID: mask(problem.ID)})
	}
	return out
}
