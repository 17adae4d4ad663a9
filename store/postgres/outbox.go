package postgres

import (
	"context"
	"iter"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// atOnce is about how many bytes of rows go into one message. The server waits for all of it before it does anything, no
// longer than idleTimeout, and has writeTimeout for what it says.
const atOnce = 1 << 20

// outbox collects statements of a transaction, and sends them as one message when they have become as large as one should
// be. What is sent in one message is one round trip.
type outbox struct {
	tx    pgx.Tx
	batch *pgx.Batch
	size  int
}

// add adds a small statement.
func (o *outbox) add(statement string, args ...any) *pgx.QueuedQuery {
	if o.batch == nil {
		o.batch = &pgx.Batch{}
	}
	return o.batch.Queue(statement, args...)
}

// makeRoom sends what there is if it would become too large by so many bytes.
func (o *outbox) makeRoom(ctx context.Context, size int) error {
	if o.size > 0 && o.size+size > atOnce {
		if err := o.send(ctx); err != nil {
			return err
		}
	}
	o.size += size
	return nil
}

func (o *outbox) send(ctx context.Context) error {
	b := o.batch
	if b == nil {
		return nil
	}
	o.batch, o.size = nil, 0
	return o.tx.SendBatch(ctx, b).Close()
}

// count adds how many rows a statement affects.
func count(to *int64) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		*to += tag.RowsAffected()
		return nil
	}
}

// inPortions adds a statement for each portion of rows that fits into a message. sizeOf is about how large a row is in it.
func inPortions[T any](ctx context.Context, out *outbox, rows iter.Seq[T], sizeOf func(T) int, add func([]T)) error {
	var portion []T
	size := 0
	flush := func() error {
		if len(portion) == 0 {
			return nil
		}
		if err := out.makeRoom(ctx, size); err != nil {
			return err
		}
		add(portion)
		portion, size = nil, 0
		return nil
	}
	for row := range rows {
		n := rowSize + sizeOf(row)
		if size > 0 && size+n > atOnce {
			if err := flush(); err != nil {
				return err
			}
		}
		portion, size = append(portion, row), size+n
	}
	return flush()
}

// rowSize is about what a row takes beside its documents.
const rowSize = 150

// column is one value of each row, which becomes an array.
func column[T, V any](rows []T, value func(T) V) []V {
	all := make([]V, len(rows))
	for i, row := range rows {
		all[i] = value(row)
	}
	return all
}
