package fleet

import "time"

// Right permits one class of operations.
type Right string

// The rights. None includes another one.
const (
	RightRead           Right = "read"            // reads of the fleet
	RightPlan           Right = "plan"            // plans and dry runs
	RightWrite          Right = "write"           // changes of documents, but of access documents and tokens
	RightRevert         Right = "revert"          // reverts of revisions
	RightPushVersion    Right = "push_version"    // changes of the version of a component
	RightApprove        Right = "approve"         // approvals of stages of rollouts
	RightOverrideFreeze Right = "override_freeze" // changes despite a freeze
	RightAdmin          Right = "admin"           // access documents, tokens and backups
)

// Rights are the rights of a Subject in one State: the union of the access documents that select it. The zero value permits
// nothing.
type Rights struct{}

// Rights returns the rights of a subject at a time. Expired access documents grant none.
func (s *State) Rights(_ *Subject, _ time.Time) Rights { return Rights{} }

// Has reports whether the rights include one, for some clusters or documents at least.
func (r Rights) Has(Right) bool { return false }

// Everywhere reports whether the rights include one for all clusters and documents.
func (r Rights) Everywhere(Right) bool { return false }
