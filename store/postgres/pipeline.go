package postgres

import (
	"context"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// maxMessageSize is the approximate size, in bytes, of the rows in one message. The server waits at most idleTimeout for the
// whole message before it starts, and may work on it for writeTimeout.
const maxMessageSize = 1 << 20

// pipeline collects the statements of a transaction and sends them as one message, which is one round trip, when they reach
// maxMessageSize. Values are written into the message as SQL literals: binding them with the driver copies megabytes several
// times.
type pipeline struct {
	tx      pgx.Tx
	message []byte
	done    []func(pgconn.CommandTag) // of each statement; nil: the result is ignored
	size    int
	err     error // of an added statement
}

// add adds a statement with its parameters. done, if not nil, receives its result.
func (o *pipeline) add(done func(pgconn.CommandTag), statement string, args ...any) {
	if o.err != nil {
		return
	}
	o.message, o.err = appendStatement(o.message, statement, args)
	o.message, o.done = append(o.message, ';'), append(o.done, done)
}

// reserve sends the collected statements if size more bytes would make the message too large.
func (o *pipeline) reserve(ctx context.Context, size int) error {
	if o.size > 0 && o.size+size > maxMessageSize {
		if err := o.send(ctx); err != nil {
			return err
		}
	}
	o.size += size
	return nil
}

func (o *pipeline) send(ctx context.Context) error {
	message, done := o.message, o.done
	o.message, o.done, o.size = message[:0], nil, 0
	if o.err != nil || len(done) == 0 {
		return o.err
	}
	conn := o.tx.Conn().PgConn()
	for setting, value := range requiredSettings {
		if is := conn.ParameterStatus(setting); is != value {
			return fmt.Errorf("%s is %q on this connection, and must be %q", setting, is, value)
		}
	}
	results := conn.Exec(ctx, string(message))
	for i := 0; results.NextResult(); i++ {
		tag, err := results.ResultReader().Close()
		if err != nil {
			break // Close returns the error
		}
		if i < len(done) && done[i] != nil {
			done[i](tag)
		}
	}
	return results.Close()
}

// count adds how many rows a statement affects.
func count(to *int64) func(pgconn.CommandTag) {
	return func(tag pgconn.CommandTag) { *to += tag.RowsAffected() }
}

// addInBatches adds a statement for each portion of rows that fits into a message. sizeOf is about how large a row is in it.
func addInBatches[T any](ctx context.Context, out *pipeline, rows iter.Seq[T], sizeOf func(T) int, add func([]T)) error {
	var portion []T
	size := 0
	flush := func() error {
		if len(portion) == 0 {
			return nil
		}
		if err := out.reserve(ctx, size); err != nil {
			return err
		}
		add(portion)
		portion, size = nil, 0
		return nil
	}
	for row := range rows {
		n := rowSize + sizeOf(row)
		if size > 0 && size+n > maxMessageSize {
			if err := flush(); err != nil {
				return err
			}
		}
		portion, size = append(portion, row), size+n
	}
	return flush()
}

// rowSize is the approximate size of a row in bytes, without its documents.
const rowSize = 150

// column is one value of each row, which becomes an array.
func column[T, V any](rows []T, value func(T) V) []V {
	all := make([]V, len(rows))
	for i, row := range rows {
		all[i] = value(row)
	}
	return all
}
