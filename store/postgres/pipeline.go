package postgres

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

// maxMessageSize is the approximate size of one message in bytes. The server waits at most idleTimeout for the whole message
// before it starts, and may work on it for writeTimeout.
const maxMessageSize = 1 << 20

// pipeline is a transaction that collects its statements and sends them as one message, which is one round trip, when they reach
// maxMessageSize. Values are written into the message as SQL literals: binding them with the driver copies megabytes several
// times.
type pipeline struct {
	reading
	store   *Store
	caller  context.Context //nolint:containedctx // the statements of a large commit have more time than the start of the transaction
	limit   time.Duration   // of these statements
	extra   time.Duration   // see store.ExtraCommitTime
	conn    *pgconn.PgConn
	message []byte
	done    []*int64 // where the number of rows affected by each statement is added; nil: nowhere
	columns []column // reused by QueueRows
}

var _ sqlstore.WriteTx = (*pipeline)(nil)

// Queue implements [sqlstore.WriteTx].
func (p *pipeline) Queue(ctx context.Context, affected *int64, statement string, args ...any) error {
	start := len(p.message)
	message, err := appendStatement(p.message, statement, args)
	if err != nil {
		return err
	}
	message = append(message, ';')
	if start > 0 && len(message) > maxMessageSize {
		if err := p.Flush(ctx); err != nil {
			return err
		}
		message = append(message[:0], message[start:]...)
	}
	p.message, p.done = message, append(p.done, affected)
	return nil
}

// QueueRows implements [sqlstore.WriteTx]. PostgreSQL plans a statement for one row faster without unnest.
func (p *pipeline) QueueRows(ctx context.Context, affected *int64, s sqlstore.RowStatement, fixed []any, rows iter.Seq[[]any]) error {
	size, count := 0, 0
	var last []any
	flush := func() error {
		n := count
		size, count = 0, 0
		args := slices.Clip(fixed)
		switch n {
		case 0:
			return nil
		case 1:
			return p.Queue(ctx, affected, s.Each, append(args, last...)...)
		}
		for i := range p.columns {
			args = append(args, p.columns[i].literal())
		}
		return p.Queue(ctx, affected, s.All, args...)
	}
	for row := range rows {
		if count == 0 {
			p.columns = resetColumns(p.columns, len(row))
		}
		count, last = count+1, row
		for i, value := range row {
			n, err := p.columns[i].add(value)
			if err != nil {
				return err
			}
			size += n
		}
		if size >= maxMessageSize {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// Flush implements [sqlstore.WriteTx].
func (p *pipeline) Flush(ctx context.Context) error {
	message, done := p.message, p.done
	p.message, p.done = message[:0], done[:0]
	if len(message) == 0 {
		return nil
	}
	for setting, value := range requiredSettings {
		if is := p.conn.ParameterStatus(setting); is != value {
			return fmt.Errorf("%s is %q on this connection, and must be %q", setting, is, value)
		}
	}
	results := p.conn.Exec(ctx, string(message))
	for i := 0; results.NextResult(); i++ {
		tag, err := results.ResultReader().Close()
		if err != nil {
			break // Close returns the error
		}
		if i < len(done) && done[i] != nil {
			*done[i] += tag.RowsAffected()
		}
	}
	return results.Close()
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
