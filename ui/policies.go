package ui

import (
	"net/url"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// policyRow is a policy that failed for a plan.
type policyRow struct {
	api.PolicyVerdict

	Refuses bool
}

// failedPolicies returns the policies that failed for a plan, those that refuse first, and the ids of these. A rollout that would be
// created is judged when its stages start: no policy refuses its creation for the whole effect.
func failedPolicies(plan api.Plan, rollout bool) (rows []policyRow, refusing []string) {
	var warning []policyRow
	for _, v := range plan.Policies {
		row := policyRow{PolicyVerdict: v, Refuses: v.Action != "warn" && v.ApprovedBy == "" && !rollout}
		switch {
		case !v.Failed:
		case row.Refuses:
			rows, refusing = append(rows, row), append(refusing, v.ID)
		default:
			warning = append(warning, row)
		}
	}
	return append(rows, warning...), refusing
}

// needsApproval reports whether only policies refuse that a second person may approve.
func needsApproval(rows []policyRow) bool {
	refuses := false
	for _, row := range rows {
		if row.Refuses && row.Action != "approve" {
			return false
		}
		refuses = refuses || row.Refuses
	}
	return refuses
}

// subject returns the visitor as approvals name it: token:NAME, oidc:ISSUER:SUB, or another actor.
func (req *pageRequest) subject() string {
	if req.identity.Name != "" {
		return "token:" + req.identity.Name
	}
	return subjectOf(req.identity.Actor)
}

// subjectOf returns the subject of an actor; that of a person is oidc:ISSUER:USER (SUB), with percent-encoded parts.
func subjectOf(actor string) string {
	rest, isPerson := strings.CutPrefix(actor, "oidc:")
	issuer, user, _ := strings.Cut(rest, ":")
	_, sub, _ := strings.Cut(strings.TrimSuffix(user, ")"), " (")
	decoded, err := url.PathUnescape(sub)
	if !isPerson || sub == "" || err != nil {
		return actor
	}
	return "oidc:" + issuer + ":" + decoded
}
