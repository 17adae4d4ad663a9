package server

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

// ListApprovals lists those that the caller may see: they name the people who change parts of the fleet.
func (s *Server) ListApprovals(c echo.Context, p api.ListApprovalsParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	caller := requestOf(c).principal
	everything := caller.Subject == nil || st.Rights(caller.Subject, s.cfg.Now()).Everywhere(fleet.RightRead)
	return listDocuments(c, st.ApprovalsFor(principalOf(caller), everything, s.cfg.Now()), p.Limit, p.Offset)
}

// principalOf returns the sender of a request as commits name it.
func principalOf(caller auth.Principal) fleet.Principal {
	p := fleet.Principal{Actor: caller.Actor}
	if caller.Subject != nil && caller.Subject.Issuer != "" {
		p.Identity = caller.Subject
	}
	return p
}

func (s *Server) CreateApproval(c echo.Context, p api.CreateApprovalParams) error {
	req, err := decodeBody[api.ApprovalCreate](c)
	if err != nil {
		return err
	}
	if err := checkSubject(req.Subject); err != nil {
		return err
	}
	var id string
	reason := cmp.Or(req.Reason, value(p.XChangeReason))
	res, err := s.commit(c, fleet.KindApproval, "", writeParams{nil, p.DryRun, &reason, nil}, func(tx *fleet.Tx) error {
		id = tx.Approve(req.PlanHash, req.Subject, reason, actor(c))
		return nil
	})
	if err != nil {
		return err
	}
	doc, err := res.State.Whole().Find(fleet.KindApproval, id)
	if err != nil {
		return err
	}
	if value(p.DryRun) {
		return response.WriteJSON(c, http.StatusOK, doc.View())
	}
	c.Response().Header().Set(response.HeaderETag, doc.ETag())
	c.Response().Header().Set(echo.HeaderLocation, "/approvals/"+id)
	return response.WriteJSON(c, http.StatusCreated, doc.View())
}

// checkSubject refuses a subject of an approval that makes no changes, such as a name without its kind.
func checkSubject(subject string) error {
	kind, of, _ := strings.Cut(subject, ":")
	issuer, sub, _ := strings.Cut(of, ":")
	switch {
	case of != "" && (kind == "token" || kind == "source"), kind == "oidc" && issuer != "" && sub != "":
		return nil
	case slices.Contains([]string{"static-write", fleet.RolloutRunner, fleet.VersionAutomation}, subject):
		return nil
	}
	return fleet.Invalid([]fleet.Problem{{Pointer: "/subject", Detail: fmt.Sprintf("%q makes no changes: name token:NAME, oidc:ISSUER:SUB, source:ID, static-write, %s or %s, as the refusal of the change does",
		subject, fleet.RolloutRunner, fleet.VersionAutomation)}})
}

func (s *Server) DeleteApproval(c echo.Context, id string, p api.DeleteApprovalParams) error {
	res, err := s.commit(c, fleet.KindApproval, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, func(tx *fleet.Tx) error {
		tx.DeleteApproval(id)
		return nil
	})
	if err != nil {
		return err
	}
	doc, err := res.Base().Find(fleet.KindApproval, id)
	if err != nil {
		return err
	}
	return response.WriteJSON(c, http.StatusOK, doc.View())
}

// approverRights returns the rights of an approver in a State: all changes, by its role, or those of access documents.
func (s *Server) approverRights(st *fleet.State, p fleet.Principal) (all bool, of fleet.Rights) {
	return s.auth.MayStill(p.Actor, auth.Write, st), s.rightsOf(principal{p.Actor, p.Identity}, st)
}
