package ui

import (
	"net/http"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// The page omits buttons that the visitor's rights do not cover. The API refuses the change itself, and the plan has the reason.

// Rights of access documents that permit changes.
var (
	writing        = []string{"write"}
	runningRollout = []string{"write", "push_version"}
	approving      = []string{"approve"}
	changing       = []string{"write", "revert", "push_version", "approve"}
)

// scoped reports whether access documents limit the visitor.
func (req *pageRequest) scoped() bool { return req.identity.Role == "scoped" }

// mayChange reports whether forms are enabled and the visitor has one of the rights on a document; an empty id stands for any.
func (req *pageRequest) mayChange(rights []string, kind, id string) bool {
	return req.mayChangeWhere(rights, func(on *api.AccessScope) bool {
		if !client.InLimits(on, kind, id) {
			return false
		}
		if on == nil || on.Selector == "" || kind != client.KindCluster {
			return true
		}
		selected, _ := req.selected(on.Selector, id) // without an answer, the page offers no change
		return selected
	})
}

// mayChangeWhere is mayChange for the access documents whose limits are sufficient; nil: no limits.
func (req *pageRequest) mayChangeWhere(rights []string, sufficient func(on *api.AccessScope) bool) bool {
	if !req.page.cfg.Changes || !req.scoped() {
		return req.page.cfg.Changes && req.may("write")
	}
	return slices.ContainsFunc(req.identity.Access, func(a api.GrantedAccess) bool {
		return slices.ContainsFunc(rights, func(right string) bool { return slices.Contains(a.May, right) }) && sufficient(a.On)
	})
}

// selected reports whether a selector selects a cluster.
func (req *pageRequest) selected(selector, id string) (bool, error) {
	matching, err := req.fleet.ListClustersWithResponse(req.r.Context(), &api.ListClustersParams{Selector: new(selector + ",id=" + id), Limit: new(1)})
	return err == nil && len(*matching.JSON200) > 0, err
}

// mayPlan reports whether the visitor may plan changes.
func (req *pageRequest) mayPlan() bool {
	return !req.scoped() || slices.ContainsFunc([]string{"plan", "write", "revert", "push_version"}, req.may)
}

// mayPlanRestores reports whether the visitor may plan reverts and restores, which compare with the whole history.
func (req *pageRequest) mayPlanRestores() bool {
	return req.mayPlan() && (!req.scoped() || slices.ContainsFunc(req.identity.Access, func(a api.GrantedAccess) bool {
		return a.On == nil && slices.Contains(a.May, "read")
	}))
}

// mayAddClusters reports whether the visitor may create clusters.
func (req *pageRequest) mayAddClusters() bool { return req.mayChange(writing, client.KindCluster, "") }

// mayApply reports whether the visitor has a right to change anything.
func (req *pageRequest) mayApply() bool {
	return req.may("write") || req.may("admin") || req.scoped() && slices.ContainsFunc(changing, req.may)
}

// planOnly is the beginning of the warning of a plan that the visitor's rights do not permit to apply.
const planOnly = "the change would be refused: your access documents "

// takeDenial removes that warning from a plan and returns it; empty: there is none.
func takeDenial(plan *api.Plan) string {
	i := slices.IndexFunc(plan.Warnings, func(w string) bool { return strings.HasPrefix(w, planOnly) })
	if i < 0 {
		return ""
	}
	denied := plan.Warnings[i]
	plan.Warnings = slices.Delete(slices.Clone(plan.Warnings), i, i+1)
	return denied
}

// explained reports whether the plan page shows the reason of a refusal.
func explained(refused *client.Error) bool {
	return slices.Contains(refusalStatuses, refused.StatusCode) || refused.Problem.Error == client.CodeOutOfScope
}

// refusalStatuses are the statuses of plans that the fleet's rules refuse; the plan page shows the reason.
var refusalStatuses = []int{http.StatusBadRequest, http.StatusConflict, http.StatusGone, http.StatusUnprocessableEntity}

// deleteLink returns the link to the form that deletes a document, or to its preview where the page makes no changes. It is empty if the
// visitor's rights do not cover it.
func (req *pageRequest) deleteLink(kind, id, form string) pageLink {
	switch {
	case req.mayChange(writing, kind, id):
		return pageLink{"Delete…", form}
	case !req.page.cfg.Changes && req.mayPlan():
		return pageLink{"Preview deletion", form}
	}
	return pageLink{}
}

// offersStop reports whether the header offers the emergency stop of all clusters.
func (req *pageRequest) offersStop() bool {
	return req.mayChangeWhere(writing, func(on *api.AccessScope) bool {
		return on == nil || on.Selector == "" && client.InLimits(on, client.KindFreeze, freezeAll)
	}) && !slices.ContainsFunc(req.freezes, func(f api.Freeze) bool { return f.ID == freezeAll })
}
