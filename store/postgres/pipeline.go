package postgres

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

// maxMessageSize is the approximate size of one message in bytes. The server waits at most idleTimeout for the whole message
// before it starts, and may work on it for writeTimeout.
const maxMessageSize = 1 << 20

// pipeline is a transaction that collects its statements and sends them as one message, which is one round trip, when they reach
// maxMessageSize. The driver writes the values into the message: see Config.pool.
type pipeline struct {
	reading
	store  *Store
	caller context.Context //nolint:containedctx // the statements of a large commit have more time than the start of the transaction
	limit  time.Duration   // of these statements
	extra  time.Duration   // see store.ExtraCommitTime
	tx     pgx.Tx
	batch  pgx.Batch
	size   int // of the values in the batch
}

var _ sqlstore.WriteTx = (*pipeline)(nil)

// Queue implements [sqlstore.WriteTx].
func (p *pipeline) Queue(ctx context.Context, affected *int64, statement string, args ...any) error {
	size := len(statement)
	for i, arg := range args {
		if body, ok := arg.(sqlstore.Body); ok {
			args[i] = string(body)
		}
		size += sizeOf(arg)
	}
	return p.queue(ctx, affected, size, statement, args)
}

func (p *pipeline) queue(ctx context.Context, affected *int64, size int, statement string, args []any) error {
	if p.size > 0 && p.size+size > maxMessageSize {
		if err := p.Flush(ctx); err != nil {
			return err
		}
	}
	p.size += size
	query := p.batch.Queue(statement, args...)
	if affected != nil {
		query.Exec(func(tag pgconn.CommandTag) error { *affected += tag.RowsAffected(); return nil })
	}
	return nil
}

// sizeOf is the approximate size of a value in a message.
func sizeOf(value any) int {
	switch v := value.(type) {
	case string:
		return len(v)
	case sqlstore.Body:
		return len(v)
	case []byte:
		return 2 * len(v) // in hexadecimal
	}
	return 8
}

// QueueRows implements [sqlstore.WriteTx]. PostgreSQL plans a statement for one row faster without unnest.
func (p *pipeline) QueueRows(ctx context.Context, affected *int64, s sqlstore.RowStatement, fixed []any, rows iter.Seq[[]any]) error {
	var batch [][]any
	size := 0
	flush := func() error {
		full, n := batch, size
		batch, size = batch[:0], 0
		args := slices.Clip(fixed)
		switch len(full) {
		case 0:
			return nil
		case 1:
			return p.Queue(ctx, affected, s.Each, append(args, full[0]...)...)
		}
		for i := range full[0] {
			column, err := array(full, i)
			if err != nil {
				return err
			}
			args = append(args, column)
		}
		return p.queue(ctx, affected, n, s.All, args)
	}
	for row := range rows {
		batch = append(batch, row)
		for _, value := range row {
			size += sizeOf(value)
		}
		if size >= maxMessageSize {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// array returns a column of rows as one value: an array, or bodies with sqlstore.BodySeparator between them.
func array(rows [][]any, column int) (any, error) {
	for _, row := range rows {
		switch row[column].(type) {
		case nil:
			continue
		case sqlstore.Body:
			return joined(rows, column)
		case int64:
			return values[int64](rows, column)
		case []byte:
			return values[[]byte](rows, column)
		}
		break
	}
	return values[string](rows, column)
}

// values returns a column as a slice; nil is NULL.
func values[T any](rows [][]any, column int) ([]*T, error) {
	all := make([]*T, len(rows))
	for i, row := range rows {
		switch v := row[column].(type) {
		case nil:
		case T:
			all[i] = &v
		default:
			return nil, fmt.Errorf("a %T is among values of %T", v, *new(T))
		}
	}
	return all, nil
}

func joined(rows [][]any, column int) (string, error) {
	var all []byte
	for i, row := range rows {
		body, ok := row[column].(sqlstore.Body)
		if !ok {
			return "", fmt.Errorf("a %T is among documents", row[column])
		}
		if bytes.Contains(body, []byte(sqlstore.BodySeparator)) { // it would be taken for two
			return "", fmt.Errorf("a document is not JSON: it has the character %q", sqlstore.BodySeparator)
		}
		if i > 0 {
			all = append(all, sqlstore.BodySeparator...)
		}
		all = append(all, body...)
	}
	return string(all), nil
}

// Flush implements [sqlstore.WriteTx].
func (p *pipeline) Flush(ctx context.Context) error {
	if p.batch.Len() == 0 {
		return nil
	}
	batch := p.batch
	p.batch, p.size = pgx.Batch{}, 0
	return p.tx.SendBatch(ctx, &batch).Close()
}

// Exec implements [sqlstore.WriteTx].
func (p *pipeline) Exec(ctx context.Context, statement string, args ...any) (affected int64, err error) {
	if err = p.Queue(ctx, &affected, statement, args...); err == nil {
		err = p.Flush(ctx)
	}
	return affected, err
}

// byIndex keeps the server from reading all documents once for every message of a commit that changes more than a few.
const (
	few     = 100
	byIndex = `SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`
)

// Prepare implements [sqlstore.WriteTx].
func (p *pipeline) Prepare(ctx context.Context, c fleet.Commit) (context.Context, context.CancelFunc, error) {
	err := p.Queue(ctx, nil, p.store.durability)
	if err == nil && len(c.Changes) > few {
		err = p.Queue(ctx, nil, byIndex)
	}
	p.extra = store.ExtraCommitTime(c)
	if err == nil && p.extra > 0 { // COMMIT works on all of it at once
		err = p.Queue(ctx, nil, fmt.Sprintf(`SET LOCAL statement_timeout = %d`, (p.limit+p.extra).Milliseconds()))
	}
	ctx, cancel := p.store.within(p.caller, p.limit+p.extra)
	return ctx, cancel, err
}
