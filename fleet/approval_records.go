package fleet

import (
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// approvalAge is the age at which an approval ends.
const approvalAge = 24 * time.Hour

// approval is the value of a document that permits one person to make one change, although policies with action approve refuse it.
type approval struct {
	ID       string `json:"id"`
	PlanHash string `json:"plan_hash"`
	Subject  string `json:"subject"` // who may make the change: see Principal.subject
	By       string `json:"by"`      // the actor who approves
	// Identity is that of the approver, if it is one of an issuer.
	Identity *Subject `json:"identity,omitempty"`
	// Access has the ids of the access documents that grant the rights of the approver; none: its role permits all changes.
	Access []string  `json:"access,omitempty"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

var approvalKind = kindRules{
	name: KindApproval, noun: "approval",
	empty:     func() any { return new(approval) },
	normalize: func(map[string]any) {},
	check:     func(*checker, *Document) {},
	view:      func(d *Document) any { return d.approval().view(d) },
}

func (d *Document) approval() *approval { return d.value.(*approval) }

func (a *approval) view(d *Document) *api.Approval {
	return &api.Approval{ID: a.ID, PlanHash: a.PlanHash, Subject: a.Subject, By: a.By, Reason: a.Reason, At: a.At, ExpiresAt: a.At.Add(approvalAge), Revision: int64(d.Revision)}
}
