package clusterstatus

import (
	"context"
	"errors"
	"time"
)

// Row is one observation in a Store. A Store keeps one row for each cluster and subject.
type Row struct {
	Cluster    string // its id; empty for rows about the whole service
	Subject    string // kind, list and id of the observation, as codec.go formats them
	Body       string
	ObservedAt time.Time
}

// ErrDenied is the error of a process that may read the Store but not write to it.
var ErrDenied = errors.New("the database role may not write to the table observations")

// Store keeps the rows that the processes of one service share. Times are exact to the microsecond.
type Store interface {
	// Put writes rows of different subjects, all or none. It keeps an existing row that was observed later, or that is equal.
	// The error is ErrDenied when this process may not write. A table that was dropped is created again where this process may
	// do so.
	Put(ctx context.Context, rows []Row) error
	// Since visits, in no order, the rows that were written at a time of the Store's own clock or later, and the rows of no
	// cluster with one of the subjects. A zero time visits all rows. next is the time to pass to the next call: rows that are
	// not visible yet are written after it, unless their writer takes much longer than usual.
	Since(ctx context.Context, at time.Time, subjects []string, visit func(Row)) (next time.Time, err error)
	// Prune deletes the rows of clusters that are not listed, and of each cluster all but the most rows that were written
	// last. Rows with the prefix VersionPrefix are counted apart from the others of their cluster.
	Prune(ctx context.Context, clusters []string, most int) error
	// Close releases the connection to the Store. Calls in progress may fail.
	Close() error
}
