// Package sqlstore is the store of SQLite and PostgreSQL in the SQL that both have in common. A backend supplies a [Dialect]: its
// connections and transactions, and the statements that differ.
//
// Reading order: sqlstore.go (the dialect and the head), store.go (the reads of the contract) with commits.go, changes.go and
// document_log.go, commit.go and documents.go (a commit), bodies.go and pack.go (how the log stores documents), import.go,
// compact.go and chain.go (whole logs), schema.go (versions).
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Dialect is the part of a store that depends on its database. Its functions return errors of the contract. doing names an
// operation in errors, as in "reading the log".
type Dialect struct {
	// ReadOnly refuses all writes but a quarantine.
	ReadOnly bool
	// ReadHead reads the head with the function of the same name.
	ReadHead func(ctx context.Context, tx Tx) (HeadRow, error)
	// AndVersion is a condition, with AND in front, that the version of the schema is $7. It is empty if no migration can run
	// during a transaction that writes.
	AndVersion string
	// Ask runs f, one short query, outside of a transaction.
	Ask func(ctx context.Context, doing string, f func(context.Context, Tx) error) error
	// Read runs f in a read transaction: every query of f sees the store at the same head, which f receives.
	Read Reader
	// Recall is Read for users who read the history, of whom there may be any number. It always leaves connections for the
	// follower and for commits.
	Recall Reader
	// Barrier reads the head after every commit under way has ended: see [store.Store].
	Barrier func(ctx context.Context, doing string) (HeadRow, error)
	// Write runs f in a transaction that writes, and commits it unless f returns an error. f receives the head; it may change
	// before the end of the transaction only if the mode does not lock it. ErrStale if another commit was added to the log first.
	Write func(ctx context.Context, job Job, f func(context.Context, WriteTx, HeadRow) error) error
}

// Job describes a transaction that writes.
type Job struct {
	Doing string
	Mode  Mode
	// Commit is the id of the last commit that the transaction adds to the log; zero if it adds none. If the answer to COMMIT
	// is lost, the outcome is looked up by this id: ErrUnknown if that fails.
	Commit uuid.UUID
}

// Mode selects the time limits and the lock of a transaction that writes.
type Mode int

// The modes; only Locked and HeadLocked lock more than the rows that are written.
const (
	Short      Mode = iota // a few statements, or one commit
	Locked                 // locks out commits while one is computed
	HeadLocked             // locks the head
	Importing              // a whole log
	Probing                // a short attempt
)

// Reader runs f in a transaction.
type Reader = func(ctx context.Context, doing string, f func(context.Context, Tx, HeadRow) error) error

// Tx is a transaction, or a connection without one. Parameters are $1, $2 and so on.
type Tx interface {
	Query(ctx context.Context, query string, args ...any) (Rows, error)
	// QueryRows is Query for rowColumns, which may be large.
	QueryRows(ctx context.Context, query string, args ...any) (Rows, error)
	// OneOf is a condition: the column is one of some revisions. It has one parameter, by its name in the query.
	OneOf(column, parameter string, revisions []int64) (condition string, arg any)
	// EachKey runs a query for each of some keys: its parameters $1, $2 and $3 are kind, id and revision, followed by args. Rows
	// of different keys come in any order.
	EachKey(ctx context.Context, keys []Key, query string, args []any, scan func(Rows) error) error
}

// Key is a document, and for some queries a revision of it.
type Key struct {
	Kind     fleet.Kind
	ID       string
	Revision fleet.Revision
}

// WriteTx is a transaction that writes. nil and a nil []byte are NULL. Queued statements may run at any time until Flush
// returns, and a query may run before them. Their results are added to affected, which may be nil.
type WriteTx interface {
	Tx
	// Exec runs a statement after the queued ones, and returns how many rows it affected.
	Exec(ctx context.Context, statement string, args ...any) (int64, error)
	Queue(ctx context.Context, affected *int64, statement string, args ...any) error
	// QueueRows queues a statement for rows. fixed are its first parameters, which are the same for all rows.
	QueueRows(ctx context.Context, affected *int64, s RowStatement, fixed []any, rows iter.Seq[[]any]) error
	Flush(ctx context.Context) error
	// Prepare prepares the transaction to write a commit, which COMMIT will keep even if the power fails. It returns the context
	// of the statements to come: a large commit has more time.
	Prepare(ctx context.Context, c fleet.Commit) (context.Context, context.CancelFunc, error)
}

// RowStatement is a statement for many rows in two forms. A value of a row is nil, an int64, a string, a []byte or a [Body], and
// the values of a column are of the same type or nil.
type RowStatement struct {
	Each string // is run for one row
	All  string // is run for many rows at once: its parameters after the fixed ones are arrays, one for each column
}

// Body is a document in a row. In RowStatement.All the bodies are one text, in which [BodySeparator] separates them: PostgreSQL
// parses it several times faster than an array of texts with escaped quotes.
type Body []byte

// BodySeparator does not occur in JSON. In SQL it is chr(31).
const BodySeparator = "\x1f"

// Rows are the result of a query, as drivers have it.
type Rows interface {
	Next() bool
	Scan(to ...any) error
	Err() error
	Close() error
}

// errNoRow: there is not even one.
var errNoRow = errors.New("the query has no result")

// Each calls scan for every row of a result, and closes it.
func Each(rows Rows, scan func(Rows) error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Query runs a query and reads its result to the end. A scan that dies half-way is an error, never a shorter result.
func Query[T any](ctx context.Context, tx Tx, scan func(Rows, *T) error, query string, args ...any) ([]T, error) {
	rows, err := tx.Query(ctx, query, args...)
	return collect(rows, err, scan)
}

// collect reads the result of a query.
func collect[T any](rows Rows, err error, scan func(Rows, *T) error) (all []T, _ error) {
	if err != nil {
		return nil, err
	}
	err = Each(rows, func(rows Rows) error {
		var item T
		err := scan(rows, &item)
		all = append(all, item)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// QueryOne runs a query with a result of at most one row, and returns errNoRow if there is none.
func QueryOne(ctx context.Context, tx Tx, to []any, query string, args ...any) error {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	found := rows.Next()
	if found {
		err = rows.Scan(to...)
	}
	// The rows are not asked for another one, which costs SQLite as much as the first. PostgreSQL reads the result to its end.
	err = errors.Join(err, rows.Close())
	if err == nil {
		err = rows.Err()
	}
	if err == nil && !found {
		err = errNoRow
	}
	return err
}

// collectRows reads changes.
func collectRows(ctx context.Context, rows Rows, err error) ([]logRow, error) {
	return collect(rows, err, func(rows Rows, r *logRow) error { return r.scan(ctx, rows) })
}

// scanRow appends a row of rowColumns to a slice.
func scanRow(ctx context.Context, to *[]logRow) func(Rows) error {
	return func(rows Rows) error {
		var r logRow
		err := r.scan(ctx, rows)
		*to = append(*to, r)
		return err
	}
}

// microtime is a time as the log has it.
func microtime(us int64) time.Time { return time.UnixMicro(us).UTC() }

// HeadRow is the row every commit moves.
type HeadRow struct {
	fleet.Head
	At         int64
	Documents  int64
	Oldest     fleet.Revision // that the log holds whole
	Quarantine string         // why it is not served, as store.Quarantine has it
	// Hash and Checkpoint are the fields of store.ChainHead.
	Hash, Checkpoint []byte
	// Standby: the database follows another one, and may be behind it.
	Standby bool
	version int64 // of the schema
}

// HeadQuery returns the query of [ReadHead]. standby is an expression for HeadRow.Standby.
func HeadQuery(standby string) string {
	return `SELECT h.revision, h.commit_id, h.at, h.documents, h.oldest, h.hold, h.hash, h.checkpoint, ` + standby + `, v.version, v.dirty
		FROM head h LEFT JOIN ` + VersionTable + ` v ON true`
}

// VersionTable is golang-migrate's table. It exists in every database that was ever migrated.
const VersionTable = "schema_version"

// ErrNoHead is returned when the table of the head is empty.
var ErrNoHead = fmt.Errorf("%w: the row that names the head is gone", store.ErrCorrupt)

// ReadHead reads the head with a [HeadQuery], and refuses a schema version other than the newest one: another process may have
// migrated the database since it was opened. name is the database in errors.
func ReadHead(ctx context.Context, tx Tx, query string, newest int, name string) (HeadRow, error) {
	var h HeadRow
	var version sql.NullInt64
	var dirty sql.NullBool
	err := QueryOne(ctx, tx, []any{
		&h.Revision, &h.ID, &h.At, &h.Documents, &h.Oldest, &h.Quarantine, &h.Hash, &h.Checkpoint, &h.Standby, &version, &dirty,
	}, query)
	switch {
	case errors.Is(err, errNoRow):
		return h, ErrNoHead
	case err != nil:
		return h, err
	}
	h.version = version.Int64
	return h, Schema{Version: int(version.Int64), Dirty: dirty.Bool}.Fits(newest, name)
}

// reached returns an error for a head that a standby has yet to come to. One standby may be behind another, and every standby
// behind its primary. That is no other history: treating it as one would revert this process's State.
func (h HeadRow) reached(after fleet.Head) error {
	if after.Revision > h.Revision && h.Standby {
		return fmt.Errorf("%w: this standby has reached revision %d and not yet %d", store.ErrUnavailable, h.Revision, after.Revision)
	}
	return nil
}

// ChainHead is where the chain ends.
func (h HeadRow) ChainHead() store.ChainHead {
	return store.ChainHead{Head: h.Head, Hash: h.Hash, Oldest: h.Oldest, Checkpoint: h.Checkpoint}
}

// Free returns the head, with a *store.QuarantinedError if the store is quarantined.
func (h HeadRow) Free() (fleet.Head, error) {
	if quarantine := store.DecodeQuarantine(h.Quarantine); quarantine.AppliesTo(h.Head) {
		return h.Head, &store.QuarantinedError{Head: h.Head, Quarantine: *quarantine}
	}
	return h.Head, nil
}

// QuarantineAfter returns the stored quarantine after a commit, or a *store.QuarantinedError if the commit is not allowed.
func (h HeadRow) QuarantineAfter(c fleet.Commit) (string, error) {
	if store.IsAcceptance(c) {
		return "", nil
	}
	_, err := h.unlessCopied()
	return h.Quarantine, err
}

// unlessCopied is Free for changes, which are possible in a copy.
func (h HeadRow) unlessCopied() (fleet.Head, error) {
	if store.DecodeQuarantine(h.Quarantine).Copied() {
		return h.Head, nil
	}
	return h.Free()
}
