// Package postgres keeps a fleet in a PostgreSQL database, version 14 or newer: the store for any number of processes on any
// number of machines.
//
// It keeps no session state that outlives a transaction, so it works behind pgbouncer in transaction mode, and read-only
// processes work on a standby.
//
// Package store/internal/sqlstore has the store itself, and this package its dialect. Reading order: store.go and config.go
// (connections and timeouts), commit.go with pipeline.go (a transaction that writes, in one round trip),
// barrier.go (the lock of the head), read.go (queries), migrate.go (schema versions).
package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

// Store is a [store.Store] on one Postgres database.
type Store struct {
	sqlstore.Store

	first *store.FirstUse
	name  string
	pool  *pgxpool.Pool
	turns chan struct{} // a token for each connection in use, so that waiting for one is not taken for a server that hangs
	// recalls holds a token for each connection that users read the history with. The remaining connections are reserved for
	// the follower and for commits.
	recalls chan struct{}

	closing   context.Context //nolint:containedctx // ends operations under way when the store is closed
	close     context.CancelFunc
	closeOnce sync.Once
	closed    chan struct{} // closed when the last connection is

	// durability is the statement of every commit that makes it wait for the disk. Tests replace it to observe the loss of
	// acknowledged commits.
	durability string
	// importIdle takes the place of idleTimeout during an import. Tests shorten it.
	importIdle time.Duration
}

var _ store.Store = (*Store)(nil)

// durable makes COMMIT wait for the disk where the server, the database or the role was configured not to. Anything
// stronger stays, and so does the operator's choice how to wait for standbys.
const durable = `SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'`

// Open opens a database that [Migrate] has prepared.
//
// ErrNotInitialised when it has no schema, ErrSchema when the schema is another one than this binary's, ErrUnavailable
// when the server does not answer or does not let us in.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	s, err := New(cfg)
	if err != nil {
		return nil, err
	}
	if err := s.first.Wait(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// New returns a store that connects on first use, with the errors of [Open]. It fails for an invalid URL only.
func New(cfg Config) (*Store, error) {
	p, err := cfg.pool()
	if err != nil {
		return nil, err
	}
	s := &Store{
		name: name(p.ConnConfig), closed: make(chan struct{}),
		turns: make(chan struct{}, p.MaxConns), recalls: make(chan struct{}, max(1, p.MaxConns-ownConns)),
		durability: durable, importIdle: readTimeout,
	}
	s.Store = sqlstore.New(sqlstore.Dialect{
		ReadOnly: cfg.ReadOnly, AndVersion: andVersion, ReadHead: s.readHead, Ask: s.ask, Read: s.read, Recall: s.recall, Barrier: s.barrier, Write: s.write,
	})
	if s.pool, err = pgxpool.NewWithConfig(context.Background(), p); err != nil {
		return nil, err
	}
	s.closing, s.close = context.WithCancel(context.Background())
	s.first = store.OnFirstUse(cfg.Prepare, s.check)
	return s, nil
}

// check refuses a database that we must not use, and one with an unreadable head.
func (s *Store) check(ctx context.Context) error {
	doing := "opening " + s.name
	return s.translate(ctx, doing, s.connected(ctx, func(ctx context.Context, c *session) error {
		found, err := inspect(ctx, c.conn, s.name)
		if err == nil {
			err = found.ours(s.name)
		}
		if err == nil {
			_, err = s.readHead(ctx, reading{c.conn})
		}
		return err
	}))
}

// session is one connection while an operation has it, and its transaction when there is one.
type session struct {
	store *Store
	conn  *pgxpool.Conn
	tx    pgx.Tx
	head  sqlstore.HeadRow
}

// within gives an operation its time-out, and ends it with the store.
func (s *Store) within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	stop := context.AfterFunc(s.closing, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// patiently returns a context that ends when the store is closed, or when no part of an answer has arrived for readTimeout.
func (s *Store) patiently(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := store.WithIdleTimeout(ctx, readTimeout)
	stop := context.AfterFunc(s.closing, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// start takes a connection and runs a first query on it. A lost connection is replaced once: a restarted server leaves dead
// connections in the pool, and this one has not executed any statement yet.
func (s *Store) start(ctx context.Context, question func(context.Context, *session) error) (*session, error) {
	if err := s.take(ctx, s.turns); err != nil {
		return nil, err
	}
	ctx, cancel := s.within(ctx, questionTimeout)
	defer cancel()
	for again := false; ; again = true {
		c := &session{store: s}
		var err error
		if c.conn, err = s.pool.Acquire(ctx); err != nil {
			<-s.turns
			return nil, fmt.Errorf("%w: %w", errLost, err)
		}
		if err = question(ctx, c); err == nil {
			return c, nil
		}
		if err = c.release(err); again || !errors.Is(err, errLost) || ctx.Err() != nil {
			<-s.turns
			return nil, err
		}
	}
}

// take puts a token into turns or recalls, when there is room.
func (s *Store) take(ctx context.Context, turns chan struct{}) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing.Done():
		return s.closing.Err()
	case turns <- struct{}{}:
		return nil
	}
}

// release gives the connection back after err, which it marks when the connection was lost by it.
func (c *session) release(err error) error {
	if c.tx != nil && !c.conn.Conn().IsClosed() {
		ctx, cancel := context.WithTimeout(context.Background(), questionTimeout)
		_ = c.tx.Rollback(ctx) // when it fails the connection is closed, and the transaction with it
		cancel()
	}
	if err != nil && c.conn.Conn().IsClosed() {
		err = fmt.Errorf("%w: %w", errLost, err)
		c.store.pool.Reset() // the others have probably died too
	}
	c.conn.Release()
	return err
}

// end is release, and lets the next operation have its turn.
func (c *session) end(err error) error {
	err = c.release(err)
	<-c.store.turns
	return err
}

// connected runs one short question on a connection.
func (s *Store) connected(ctx context.Context, question func(context.Context, *session) error) error {
	c, err := s.start(ctx, question)
	if err != nil {
		return err
	}
	return c.end(nil)
}

// ask is [sqlstore.Dialect.Ask].
func (s *Store) ask(ctx context.Context, doing string, f func(context.Context, sqlstore.Tx) error) error {
	if err := s.first.Wait(ctx); err != nil {
		return err
	}
	return s.translate(ctx, doing, s.connected(ctx, func(ctx context.Context, c *session) error { return f(ctx, reading{c.conn}) }))
}

// begin starts a transaction and reads the head in it.
func (s *Store) begin(ctx context.Context, mode string, limit time.Duration) (*session, error) {
	return s.start(ctx, func(ctx context.Context, c *session) (err error) {
		if err = c.begin(ctx, mode, limit); err == nil {
			c.head, err = s.readHead(ctx, reading{c.tx})
		}
		return err
	})
}

// begin starts the transaction of a session.
func (c *session) begin(ctx context.Context, mode string, limit time.Duration) error {
	tx, err := c.conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin(mode, limit)})
	if err == nil {
		c.tx = tx
	}
	return err
}

// Close closes every connection. Calls under way fail, calls after it return ErrUnavailable. A connection that the
// server does not let go of is left to itself after a moment.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.first.Close()
		s.close()
		go func() {
			defer close(s.closed)
			s.pool.Close()
		}()
	})
	timeout := time.NewTimer(closeTimeout)
	defer timeout.Stop()
	select {
	case <-s.closed:
	case <-timeout.C:
	}
	return nil
}
