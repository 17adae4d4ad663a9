package store

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// SchemaStatus compares the schema of a database with the one of this binary.
type SchemaStatus struct {
	Current  int   // 0: there is none
	Newest   int   // the version of this binary
	Dirty    bool  // a migration was interrupted
	Revision int64 // of the head; 0: without commits
}

// Errors of the contract. A backend translates its driver's errors to these once, by code; everything else it wraps
// in ErrUnavailable when trying again later may help.
var (
	// ErrStale: the head is no longer the base the commit was computed from. The commit was not written.
	ErrStale = errors.New("the store's head has moved")
	// ErrUnknown: the connection was lost while committing and the outcome could not be looked up. The commit may
	// or may not be in the log.
	ErrUnknown = errors.New("the outcome of the commit is unknown")
	// ErrDiverged: the log does not contain the given head: history was replaced, for example by a restored backup.
	ErrDiverged = errors.New("the store's history is not the one known here")
	// ErrCompacted: the log no longer reaches back to the given head.
	ErrCompacted = errors.New("the log no longer reaches back that far")
	// ErrUnavailable: the store cannot answer at the moment.
	ErrUnavailable = errors.New("the store is not available")
	// ErrContended: other writers held the store's lock, or committed first, until the timeout. The commit was not written. It
	// comes with ErrUnavailable.
	ErrContended = errors.New("other writers were faster")
	// ErrNotInitialised: the store has no schema yet; a process that may write must migrate it first.
	ErrNotInitialised = errors.New("the store is not initialised")
	// ErrSchema: the store's schema is not the one this binary works with. The message names both versions.
	ErrSchema = errors.New("the store's schema version does not fit this binary")
	// ErrReadOnly: a commit was tried on a store that was opened read-only.
	ErrReadOnly = errors.New("the store was opened read-only")
	// ErrCorrupt: the store's content is inconsistent. No part of it may be served.
	ErrCorrupt = errors.New("the store's content contradicts itself")
	// ErrNotEmpty: an import was tried into a store that has held a commit before.
	ErrNotEmpty = errors.New("the store is not empty")
)

// Snapshot is every document at one head.
type Snapshot struct {
	Head       fleet.Head
	At         time.Time // of the commit at Head; zero for the empty history
	Records    []fleet.Record
	Quarantine *Quarantine // why it is not to be served; nil: it is
	// Oldest is the oldest complete revision of the log; 0: the log begins with the first one.
	Oldest fleet.Revision
	// Checkpoint covers the remains of the commits before Oldest: see [ChainHead].
	Checkpoint []byte
}

// HistoryQuery selects commits, newest first. The zero value of a field does not filter.
type HistoryQuery struct {
	Kind   fleet.Kind       // commits that changed a document of this kind
	ID     string           // ... with this id (together with Kind)
	Actor  string           // commits by this actor
	Since  time.Time        // commits at or after this time
	Until  time.Time        // commits before this time
	Before fleet.Revision   // commits with a smaller revision: where the previous page ended
	Among  []fleet.Revision // commits of these revisions; none: of all
	Limit  int              // at most this many; required, 1 to 1000
}

// Summary is a commit as a list shows it.
type Summary struct {
	fleet.Commit               // without its changes
	Count        int           // of changes
	First        []ChangedName // the first of them
}

// WithoutBudget returns the summary without the entry of the removal budget, which is internal and always the first change, and the
// number of changes that this omits.
func (s Summary) WithoutBudget() (Summary, int) {
	if len(s.First) == 0 || s.First[0].Kind != fleet.KindBudget {
		return s, 0
	}
	s.First, s.Count = s.First[1:], s.Count-1
	return s, 1
}

// ChangedName is a changed document and the kind of change: see [fleet.Change.Action].
type ChangedName struct {
	Kind   fleet.Kind
	ID     string
	Action string
}

// PoolStats describes the use of a store's database connections.
type PoolStats struct {
	InUse, Idle, Max int
	Waits            int64         // number of waits for a connection
	Waited           time.Duration // and for how long, all together
}

// Store keeps one fleet. All methods are safe for concurrent use and stop when their context ends. A backend connects on first use:
// see [FirstUse].
type Store interface {
	// Head returns the newest point of history. It is cheap: replicas ask every 100 ms. While the store is quarantined, a
	// *[QuarantinedError] with the head and the quarantine.
	Head(ctx context.Context) (fleet.Head, error)
	// Barrier returns the head after every commit under way has ended: no commit that was begun before can land after Barrier
	// returns, including commits with an unknown outcome. It writes no data and leaves no locks. ErrReadOnly if the store was
	// opened read-only, ErrUnavailable if a commit under way does not end in time.
	Barrier(ctx context.Context) (fleet.Head, error)
	// Load returns every document at one head, from one consistent read, sorted by kind and id. ErrCorrupt when
	// the documents are not the ones the head counts.
	Load(ctx context.Context) (Snapshot, error)
	// Commit appends c to the log and applies its changes, all or nothing. c.Revision must be base.Revision+1, and c must not
	// change a document more than once. ErrStale if head is not base. A *[QuarantinedError] while the store is quarantined,
	// unless the commit is the acceptance, which ends the quarantine, or the first commit of a store with QuarantineSeeded. If
	// the connection dies during the commit, the outcome is looked up by c.ID; ErrUnknown if that fails too.
	Commit(ctx context.Context, base fleet.Head, c fleet.Commit) error
	// Quarantine records why the store's content must not be served: see [Quarantine]. It does nothing unless the new
	// quarantine supersedes the present one: see [Quarantine.Supersedes]. ErrReadOnly, or ErrUnavailable, if the store cannot
	// be written.
	Quarantine(ctx context.Context, h Quarantine) error
	// CommitLocked is Commit for a writer that lost too many conflicts: other commits are locked out from the call of next
	// until CommitLocked returns. next receives the head and returns the commit to follow it, with the given id; it may read
	// the store. If next returns an error, no commit is made and the error is returned, wrapped. If next takes too long it is
	// ended with ErrUnavailable. Other errors are as for Commit.
	CommitLocked(ctx context.Context, id uuid.UUID, next func(ctx context.Context, base fleet.Head) (fleet.Commit, error)) error
	// Probe performs all steps of Commit, including the wait for the disk, without a visible effect. It returns the error that
	// a commit would fail with now.
	Probe(ctx context.Context) error
	// Since returns the commits after the given head in order, without gaps; none when the head is current, else at
	// least one and at most limit of them, and fewer when their documents are large. ErrDiverged when the log does not
	// contain that head, ErrCompacted when it no longer does.
	Since(ctx context.Context, after fleet.Head, limit int) ([]fleet.Commit, error)
	// Latest returns the documents of one kind that the commits after the given head changed, as they are at the current head
	// (nil if removed), and that head. It reads no document of another kind, so its cost does not depend on other changes.
	// Errors are the errors of Since.
	Latest(ctx context.Context, kind fleet.Kind, after fleet.Head) (fleet.Head, map[string]json.RawMessage, error)
	// History returns commits with all their changes, newest first. It does not go back beyond the oldest one that the
	// log holds whole.
	History(ctx context.Context, q HistoryQuery) ([]fleet.Commit, error)
	// Summaries is History without documents: for each commit the number of changes, and the first of them, at most names. It
	// does not read documents.
	Summaries(ctx context.Context, q HistoryQuery, names int) ([]Summary, error)
	// Changes returns the changes of one revision in order, without the first offset of them: at most limit, and fewer,
	// but at least one, when the documents are large; none when there are no more, or there is no such revision.
	// ErrCompacted when the log no longer holds that revision.
	Changes(ctx context.Context, rev fleet.Revision, offset, limit int) ([]fleet.Change, error)
	// DocumentLog returns the changes of some documents, newest first: of at most q.Limit revisions, and of fewer, but at least
	// one, when the documents are large. It reads no other documents, however many revisions lie between. In a shortened store
	// the result ends with the oldest complete revision.
	DocumentLog(ctx context.Context, q fleet.DocumentLogQuery) (fleet.DocumentLog, error)
	// Past returns the documents selected by q at a revision: nil if one did not exist. It does not read other versions of
	// them. ErrCompacted if the log no longer holds the changes since.
	Past(ctx context.Context, q fleet.PastQuery) (fleet.Documents, error)
	// At returns a document as it was at a revision; false when there was none, or a decommissioned cluster.
	// ErrCompacted when the log no longer holds that revision. A revision that does not exist yet is the newest one.
	At(ctx context.Context, kind fleet.Kind, id string, rev fleet.Revision) (fleet.Record, bool, error)

	// Kept returns the remains of a shortened log: of the commits between a revision and the oldest complete one, at most limit of
	// them, in order, with their kept changes. A change whose document is no longer known has an empty object instead. ErrCompacted
	// if oldest is no longer the oldest revision.
	Kept(ctx context.Context, after, oldest fleet.Revision, limit int) ([]fleet.Commit, error)
	// Compact makes the log start with the oldest commit at or after before, or with the newest one if all are older. That
	// revision and every later one can still be read and restored. Of older revisions only the changes that are needed to
	// restore documents at later ones are kept. Compact works in small transactions and completes an interrupted earlier call.
	// It returns the oldest revision and the number of removed commits.
	Compact(ctx context.Context, before time.Time) (oldest fleet.Revision, removed int64, err error)
	// Import fills a store that has never held a commit with the documents of snap and the log that leads there, all or
	// nothing: see [Copy]. Other processes see an empty store meanwhile. log yields, in order, the remains of commits before
	// snap.Oldest, and then every commit from the first, or from snap.Oldest, to snap.Head; an error that it yields is returned.
	// Links are stored unchanged. The caller must ensure that the links match the commits, and that the documents are the result
	// of the log. ErrNotEmpty if the store holds any data, ErrReadOnly and ErrUnknown as for Commit.
	Import(ctx context.Context, snap Snapshot, log iter.Seq2[Entry, error]) error

	// ChainHead returns the newest commit of the hash chain, to which Commit adds each commit. Unlike Head, it also works while the
	// store is quarantined.
	ChainHead(ctx context.Context) (ChainHead, error)
	// Links returns at most limit links of the commits after a revision, in order. It omits links before the oldest complete
	// revision.
	Links(ctx context.Context, after fleet.Revision, limit int) ([]Link, error)
	// SetCheckpoint replaces the checkpoint if it belongs to the current oldest revision of the log.
	SetCheckpoint(ctx context.Context, checkpoint []byte) error
	// CheckCanonical returns ErrCorrupt if an id is stored in another form than the one in which Commit writes it. Reads accept
	// other forms.
	CheckCanonical(ctx context.Context) error

	// EndSession records for all processes that a session of the fleet page was ended early. Sessions are not part of the fleet:
	// otherwise each sign-out would be a revision without changes. until is the session's expiry: after that the record is
	// obsolete and may be removed. ErrReadOnly as for Commit.
	EndSession(ctx context.Context, id string, until time.Time) error
	// SessionEnded reports whether any process called EndSession for the session.
	SessionEnded(ctx context.Context, id string) (bool, error)

	// Ping returns an error if the store does not answer.
	Ping(ctx context.Context) error
	// Size is how many bytes the database takes on disk, with its log and its indexes.
	Size(ctx context.Context) (int64, error)
	// Pool does not query the database and does not wait; it returns false while there is no pool.
	Pool() (PoolStats, bool)
	Close() error
}
