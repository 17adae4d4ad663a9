package clusterstatus

import (
	"context"
	"errors"
	"time"
)

// Row is one observation as a Table keeps it.
type Row struct {
	Cluster    string // id
	Subject    string // what it is about; one row is kept for each
	Body       string // JSON
	ObservedAt time.Time
}

// ErrDenied is the error of a process that may read the table and not write to it.
var ErrDenied = errors.New("the role may not write to the table of observations")

// Table is where the processes of one service leave observations for each other. Times are exact to the microsecond.
type Store interface {
	// Put writes rows, all of different subjects. A row that is there and was said later stays, and so does one that is the same. All or nothing; ErrDenied when
	// this process may not. A table that was lost is made anew where this process may do that.
	Put(ctx context.Context, rows []Row) error
	// Since visits the rows that were written at that time of the table's own clock or later, and those of no cluster that are about one of the
	// subjects, in no order. Zero is everything. It returns from when on to ask the next time: what is not there yet is written later, unless
	// whoever writes it takes much longer over that than usual.
	Since(ctx context.Context, at time.Time, subjects []string, visit func(Row)) (next time.Time, err error)
	// Keep drops what is of no cluster of these, and of each cluster all but the most rows that were written last.
	Prune(ctx context.Context, clusters []string, most int) error
	// Close lets go of the table. Calls under way may fail.
	Close() error
}
