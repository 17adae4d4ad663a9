package fleet

import (
	"encoding/json"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// Kind names a kind of document in the log and in the API. The names never change.
type Kind string

// KindComponent is the kind of platform components, the entries of the catalog.
const KindComponent Kind = "platform_component"

// KindNamespace is the kind of namespace definitions.
const KindNamespace Kind = "namespace"

// KindRoleBinding is the kind of role binding definitions.
const KindRoleBinding Kind = "rolebinding"

// KindFreeze is the kind of freezes: while one is active, changes of the answers to its clusters are refused. Creating, changing and
// deleting one changes no answer. The kind is not in [Kinds]: restores and reverts leave freezes as they are.
const KindFreeze Kind = "freeze"

// KindLayer is the kind of layers: shared settings for all clusters that match a selector.
const KindLayer Kind = "layer"

// KindResourceType is the kind of resource types: each adds a kind of definition, from a document instead of compiled-in
// code.
const KindResourceType Kind = "resource_type"

// KindToken is the kind of managed tokens. They are documents of the log, so that a revocation reaches every process and a
// process can authenticate without its store, but they are never part of an answer: [Kinds] omits them, and so do batches,
// the hashes of plans, and restores.
const KindToken Kind = "token"

// KindAccess is the kind of access documents, which grant rights to identities. They change no answer. The kind is not in
// [Kinds]: like tokens they are never restored or reverted, since that would grant withdrawn rights again.
const KindAccess Kind = "access"

// KindWebhook is the kind of webhooks: receivers of events. They change no answer. The kind is not in [Kinds]: like access
// documents they are never restored or reverted, since that would send events to a receiver that an admin removed.
const KindWebhook Kind = "webhook"

// KindBudget is the kind of the one document that records recent removals without confirmation. It is part of the log, so
// that all processes count the same, across restarts and whichever process receives a request. Like tokens it is never part
// of an answer: [Kinds] omits it, and so do the hashes of plans, restores and the history in the API. Its name sorts before
// all other kinds, so it is the first change of a commit.
const KindBudget Kind = "budget"

// KindOrphan is the kind of documents that record, by DNS name, the installations of a cluster whose polls are answered with
// 404: Flux keeps them. If the name is registered again with less, Flux uninstalls the rest then. They are internal like the
// budget, but the history shows them.
const KindOrphan Kind = "forgotten"

// KindPin is the kind of documents that store what a pinned cluster is served. They have the id of the cluster, are created when it is
// pinned and deleted when it is unpinned, and never change. The history shows them without their content.
const KindPin Kind = "pin"

// KindSessionEnd is the kind of documents that end the sessions of people of an issuer. They are part of the log, so that they reach
// every process, and change no answer.
const KindSessionEnd Kind = "session_end"

// KindVersionAutomation is the kind of documents that record, by component, which versions its policies never move to, and whose rights
// limit them. They are internal: commits write them along with what they follow from, and restores and reverts leave them as they are,
// since otherwise a revert would lift the holds that it creates.
const KindVersionAutomation Kind = "version_automation"

// KindSource is the kind of sources: artifacts of a registry that the server follows. They are never restored or reverted: a restore
// suspends them, since they would undo it otherwise.
const KindSource Kind = "source"

// KindPolicy is the kind of policies: rules about the effect of changes. Like access documents they are never restored or reverted,
// since that would lift rules that were added since.
const KindPolicy Kind = "policy"

// KindApproval is the kind of documents that permit one person to make one change, although policies refuse it. They are internal, and
// never restored or reverted: the commit that uses one deletes it.
const KindApproval Kind = "approval"

// KindSourceState and KindSourceDocuments are the kinds of documents that record, by source, the artifacts and the documents that the
// source manages. They are internal, like those of version automation.
const (
	KindSourceState     Kind = "source_state"
	KindSourceDocuments Kind = "source_documents"
)

// resourcePrefix is the prefix of the kinds of resource types' definitions.
const resourcePrefix = "resource/"

// kindResource is the kind that operations give for all definitions of resource types; their field type names the resource
// type.
const kindResource = "resource"

// Revision numbers the commits of a fleet. It starts at 0 (no commit yet) and grows by exactly one per commit.
type Revision int64

// KindCluster is the kind of clusters. The constants of other kinds are next to their types.
const KindCluster Kind = "cluster"

// Change is one document before and after a commit, as canonical JSON. Before is nil when the document was created,
// After is nil when it was deleted; they are never both nil.
type Change struct {
	Kind   Kind
	ID     string
	Before json.RawMessage
	After  json.RawMessage
}

// decode decodes the document before and after the change, as far as there is one.
func (c Change) decode(before, after any) (err error) {
	if c.Before != nil {
		err = json.Unmarshal(c.Before, before)
	}
	if err == nil && c.After != nil {
		err = json.Unmarshal(c.After, after)
	}
	return err
}

// Action returns the effect on the document: create, update or delete. A decommissioned cluster counts as deleted, although
// its document remains to answer its polls.
func (c Change) Action() string {
	is := c.After != nil && !c.tombstone(c.After)
	switch {
	case !c.Existed() && is:
		return "create"
	case !is:
		return "delete"
	}
	return "update"
}

// Existed reports whether the document existed before the change. A decommissioned cluster did not.
func (c Change) Existed() bool { return c.Before != nil && !c.tombstone(c.Before) }

// tombstone reports whether a body of the changed document is a decommissioned cluster.
func (c Change) tombstone(body json.RawMessage) bool {
	if c.Kind != KindCluster || !jsontext.MayHaveKey(body, "deleted_at") {
		return false
	}
	var doc struct {
		DeletedAt string `json:"deleted_at"`
	}
	return json.Unmarshal(body, &doc) == nil && doc.DeletedAt != ""
}

// Head identifies one point of history. ID is the commit that made Revision, so that two histories of the same length are
// distinguishable (a database that was restored from an older backup and written to since). The zero Head is the empty
// history.
type Head struct {
	Revision Revision
	ID       uuid.UUID
}

// Commit is one entry of the log: the changes, their author, time and reason. At is UTC with microsecond precision, which
// every store preserves.
type Commit struct {
	Revision  Revision
	ID        uuid.UUID
	At        time.Time
	Actor     string
	Author    string // the person behind the actor, as claimed by the actor; may be empty
	Reason    string
	RequestID string
	// Operations are the requested operations as JSON: see Commit.Requested. Empty: unknown.
	Operations json.RawMessage
	Changes    []Change
}

// Head returns the point of history that this commit made.
func (c Commit) Head() Head { return Head{Revision: c.Revision, ID: c.ID} }

// hasReason reports whether the reason has a visible character.
func (c Commit) hasReason() bool {
	return strings.ContainsFunc(c.Reason, func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) })
}

// Record is a document as a store keeps it: its canonical JSON and the time of its last change.
type Record struct {
	Kind      Kind
	ID        string
	Body      json.RawMessage
	Revision  Revision  // of the last commit that changed it
	CommitID  uuid.UUID // of that commit
	CreatedAt time.Time
	UpdatedAt time.Time
}

// later returns the later one of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// collection returns the collection of a resource type's definitions, or field for other kinds.
func (k Kind) collection(field string) string {
	if id, ok := k.ResourceType(); ok {
		return "resources/" + id
	}
	return field
}

// ResourceKind returns the kind of the definitions of a resource type, whether or not the type exists.
func ResourceKind(id string) Kind { return Kind(resourcePrefix + id) }

// ResourceType returns the id of the resource type whose definitions have this kind.
func (k Kind) ResourceType() (id string, ok bool) {
	return strings.CutPrefix(string(k), resourcePrefix)
}

// documentOperations are the operations on one document.
var documentOperations = []string{"create", "update", "patch", "put", "delete"}
