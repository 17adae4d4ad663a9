// Package store keeps the fleet's commit log and the documents it adds up to. [Store] is the contract every backend
// fulfils and storetest proves; [Replica] keeps one process's copy of the fleet current and is what the server talks
// to.
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

// Errors of the contract. A backend translates its driver's errors to these once, by code; everything else it wraps
// in ErrUnavailable when trying again later may help.
var (
	// ErrStale: the head is no longer the base the commit was computed from. Nothing was written.
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
	// ErrContended: others held the store's lock, or were faster, for as long as one may wait. Nothing was written. It
	// comes with ErrUnavailable.
	ErrContended = errors.New("other writers were faster")
	// ErrNotInitialised: the store has no schema yet; a process that may write must migrate it first.
	ErrNotInitialised = errors.New("the store is not initialised")
	// ErrSchema: the store's schema is not the one this binary works with. The message names both versions.
	ErrSchema = errors.New("the store's schema version does not fit this binary")
	// ErrReadOnly: a commit was tried on a store that was opened read-only.
	ErrReadOnly = errors.New("the store was opened read-only")
	// ErrCorrupt: what the store holds contradicts itself. Nothing of it may be served.
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
	// Oldest is the oldest revision that the log holds whole; 0: it begins with the first one.
	Oldest fleet.Revision
	// Checkpoint covers what is kept of the commits before Oldest: see [ChainHead].
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

// ChangedName says what happened to a document: see [fleet.Change.Action].
type ChangedName struct {
	Kind   fleet.Kind
	ID     string
	Action string
}

// Compactor is a Store whose log can be shortened.
type Compactor interface {
	Store
	// Compact makes the log start with the oldest commit at or after before, or with the newest one if all are older.
	// That revision and every later one can still be read and restored; of older ones only those changes are kept that
	// say what documents were like then. It works in small transactions, and what one that was interrupted left is
	// removed by the next. It returns the oldest revision there is now and how many commits were removed.
	Compact(ctx context.Context, before time.Time) (oldest fleet.Revision, removed int64, err error)
}

// Shortened is a Store that tells what is left of a log that was shortened: see [Copy].
type Shortened interface {
	// Kept returns what is left of the commits between a revision and the oldest one, which are not whole: those of their
	// changes that are kept, at most limit commits, in order. What a document was is not known of every change; then it
	// is an empty object. ErrCompacted when oldest is not the oldest revision any more.
	Kept(ctx context.Context, after, oldest fleet.Revision, limit int) ([]fleet.Commit, error)
}

// Store keeps one fleet. All methods are safe for concurrent use and stop when their context ends.
type Store interface {
	// Head returns the newest point of history. It is cheap: replicas ask every 100 ms. While the store is held, a
	// *[QuarantinedError] with the head and the hold.
	Head(ctx context.Context) (fleet.Head, error)
	// Barrier returns the head once every commit that anybody had begun to commit has ended: none of those can land
	// after it, also not one whose outcome its caller could not tell. It writes nothing and leaves nothing locked.
	// ErrReadOnly when the store was opened read-only, ErrUnavailable when a commit that is under way does not end in
	// time.
	Barrier(ctx context.Context) (fleet.Head, error)
	// Load returns every document at one head, from one consistent read, sorted by kind and id. ErrCorrupt when
	// the documents are not the ones the head counts.
	Load(ctx context.Context) (Snapshot, error)
	// Commit appends c to the log and applies its changes, all or nothing. c.Revision must be base.Revision+1, and c
	// must not change a document more than once.
	// ErrStale when head is not base; a *[QuarantinedError] while the store is held, unless the commit is the acceptance, which
	// ends the hold, or the first one of a store that is held as seeded. When the connection dies while committing the outcome is looked up by c.ID;
	// ErrUnknown when even that fails.
	Commit(ctx context.Context, base fleet.Head, c fleet.Commit) error
	// Quarantine records why what the store has is not to be served: see [Quarantine]. It does nothing when the hold does not take
	// the place of the present one, as [Quarantine.Supersedes] has it. ErrReadOnly, or ErrUnavailable, where it may not be written.
	Quarantine(ctx context.Context, h Quarantine) error
	// CommitLocked is Commit for whoever others were faster than too often: nobody else commits from when next is called
	// until CommitLocked returns. next is handed the head and returns the commit that is to follow it, which has the given
	// id; it may read the store. Its error ends everything, nothing is written, and the error is returned, wrapped. What
	// takes next too long is ended, with ErrUnavailable. Other errors are as for Commit.
	CommitLocked(ctx context.Context, id uuid.UUID, next func(ctx context.Context, base fleet.Head) (fleet.Commit, error)) error
	// Probe does everything that Commit does, up to waiting for the disk, and leaves nothing behind that any method would
	// show. It returns why a commit would fail now.
	Probe(ctx context.Context) error
	// Since returns the commits after the given head in order, without gaps; none when the head is current, else at
	// least one and at most limit of them, and fewer when their documents are large. ErrDiverged when the log does not
	// contain that head, ErrCompacted when it no longer does.
	Since(ctx context.Context, after fleet.Head, limit int) ([]fleet.Commit, error)
	// Latest returns which documents of one kind the commits after the given head changed, and what these documents are at
	// the head, which it returns as well: nil for those that are gone. It reads no document of another kind, so that it is
	// quick however much those commits changed. Errors are those of Since.
	Latest(ctx context.Context, kind fleet.Kind, after fleet.Head) (fleet.Head, map[string]json.RawMessage, error)
	// History returns commits with all their changes, newest first. It does not go back beyond the oldest one that the
	// log holds whole.
	History(ctx context.Context, q HistoryQuery) ([]fleet.Commit, error)
	// Summaries is History without documents: of each commit how many changes it has, and what the first of them were,
	// as many as names says. It does not read what documents looked like.
	Summaries(ctx context.Context, q HistoryQuery, names int) ([]Summary, error)
	// Changes returns the changes of one revision in order, without the first offset of them: at most limit, and fewer,
	// but at least one, when the documents are large; none when there are no more, or there is no such revision.
	// ErrCompacted when the log no longer holds that revision.
	Changes(ctx context.Context, rev fleet.Revision, offset, limit int) ([]fleet.Change, error)
	// DocumentLog returns the changes of some documents, newest first: those of at most q.Limit revisions, and of fewer, but at
	// least one, when the documents are large. It reads no other documents, however many revisions lie between. The log of a
	// shortened store ends with the oldest revision that it holds whole.
	DocumentLog(ctx context.Context, q fleet.DocumentLogQuery) (fleet.DocumentLog, error)
	// Past returns what the documents that q asks for were at a revision: nil for those that did not exist. It reads no
	// more of each than that. ErrCompacted when the log no longer holds the changes since.
	Past(ctx context.Context, q fleet.PastQuery) (fleet.Documents, error)
	// At returns a document as it was at a revision; false when there was none, or a decommissioned cluster.
	// ErrCompacted when the log no longer holds that revision. A revision that does not exist yet is the newest one.
	At(ctx context.Context, kind fleet.Kind, id string, rev fleet.Revision) (fleet.Record, bool, error)
	// Ping tells whether the store answers.
	Ping(ctx context.Context) error
	Close() error
}

// Importer is a Store that can take over the content of another one with its whole history: see [Copy].
type Importer interface {
	Store
	// Import fills a store that has never held a commit with the documents of snap and the log that leads there, all or
	// nothing: whoever asks meanwhile sees an empty store. log yields every commit from the first, or from snap.Oldest, to
	// snap.Head, in order, and before those what is kept of older ones; an error that it yields is returned. Links are kept as
	// they are. That they are those of the commits, and that the documents are what the log adds up to, is not checked.
	// ErrNotEmpty when the store holds anything, ErrReadOnly as for Commit, ErrUnknown likewise.
	Import(ctx context.Context, snap Snapshot, log iter.Seq2[Entry, error]) error
}
