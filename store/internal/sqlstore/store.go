package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Store implements the part of [store.Store] that both backends share.
type Store struct{ db Dialect }

// New returns a Store on a database.
func New(db Dialect) Store { return Store{db} }

// read returns the result of f, which runs in a transaction of [Dialect.Read] or [Dialect.Recall].
func read[T any](ctx context.Context, in Reader, doing string, f func(context.Context, Tx, HeadRow) (T, error)) (result T, err error) {
	err = in(ctx, doing, func(ctx context.Context, tx Tx, h HeadRow) (err error) {
		result, err = f(ctx, tx, h)
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return result, nil
}

// head reads the head outside of a transaction.
func (s *Store) head(ctx context.Context) (h HeadRow, err error) {
	err = s.db.Ask(ctx, "reading the head", func(ctx context.Context, tx Tx) (err error) {
		h, err = s.db.ReadHead(ctx, tx)
		return err
	})
	return h, err
}

// Head implements [store.Store].
func (s *Store) Head(ctx context.Context) (fleet.Head, error) {
	h, err := s.head(ctx)
	if err != nil {
		return fleet.Head{}, err
	}
	return h.Free()
}

// Ping implements [store.Store].
func (s *Store) Ping(ctx context.Context) error {
	if _, err := s.Head(ctx); !errors.Is(err, store.ErrQuarantined) {
		return err
	}
	return nil
}

// Barrier implements [store.Store].
func (s *Store) Barrier(ctx context.Context) (fleet.Head, error) {
	if s.db.ReadOnly {
		return fleet.Head{}, store.ErrReadOnly
	}
	h, err := s.db.Barrier(ctx, "confirming the head")
	if err != nil {
		return fleet.Head{}, err
	}
	return h.unlessCopied()
}

// Load implements [store.Store].
func (s *Store) Load(ctx context.Context) (store.Snapshot, error) {
	return read(ctx, s.db.Read, "loading the fleet", load)
}

// Since implements [store.Store]. It returns ErrCompacted also if the log was shortened by hand.
func (s *Store) Since(ctx context.Context, after fleet.Head, limit int) ([]fleet.Commit, error) {
	if limit < 1 {
		return nil, fmt.Errorf("commits since revision %d: the limit is %d", after.Revision, limit)
	}
	return read(ctx, s.db.Read, "reading the log", func(ctx context.Context, tx Tx, h HeadRow) ([]fleet.Commit, error) {
		return since(ctx, tx, h, after, limit)
	})
}

// Latest implements [store.Store].
func (s *Store) Latest(ctx context.Context, kind fleet.Kind, after fleet.Head) (now fleet.Head, docs map[string]json.RawMessage, err error) {
	docs, err = read(ctx, s.db.Read, "reading what has changed", func(ctx context.Context, tx Tx, h HeadRow) (map[string]json.RawMessage, error) {
		now = h.Head
		return latest(ctx, tx, h, kind, after)
	})
	if err != nil {
		return fleet.Head{}, nil, err
	}
	return now, docs, nil
}

// History implements [store.Store]. Of the process's own tasks, only the follower calls it, to look for acceptances.
func (s *Store) History(ctx context.Context, q store.HistoryQuery) ([]fleet.Commit, error) {
	if err := checkHistory(q); err != nil {
		return nil, err
	}
	return read(ctx, s.db.Read, "reading the history", func(ctx context.Context, tx Tx, h HeadRow) ([]fleet.Commit, error) {
		return history(ctx, tx, h, q)
	})
}

// Summaries implements [store.Store].
func (s *Store) Summaries(ctx context.Context, q store.HistoryQuery, names int) ([]store.Summary, error) {
	if err := checkHistory(q); err != nil {
		return nil, err
	}
	return read(ctx, s.db.Recall, "reading the history", func(ctx context.Context, tx Tx, h HeadRow) ([]store.Summary, error) {
		return summaries(ctx, tx, h, q, names)
	})
}

// Changes implements [store.Store].
func (s *Store) Changes(ctx context.Context, rev fleet.Revision, offset, limit int) ([]fleet.Change, error) {
	return read(ctx, s.db.Recall, "reading a revision", func(ctx context.Context, tx Tx, h HeadRow) ([]fleet.Change, error) {
		return changes(ctx, tx, h, rev, offset, limit)
	})
}

// Kept implements [store.Store].
func (s *Store) Kept(ctx context.Context, after, oldest fleet.Revision, limit int) ([]fleet.Commit, error) {
	return read(ctx, s.db.Read, "reading the log", func(ctx context.Context, tx Tx, h HeadRow) ([]fleet.Commit, error) {
		return kept(ctx, tx, h, after, oldest, limit)
	})
}

// DocumentLog implements [store.Store].
func (s *Store) DocumentLog(ctx context.Context, q fleet.DocumentLogQuery) (fleet.DocumentLog, error) {
	if err := checkDocumentLog(q); err != nil {
		return fleet.DocumentLog{}, err
	}
	return read(ctx, s.db.Recall, "reading the history", func(ctx context.Context, tx Tx, h HeadRow) (fleet.DocumentLog, error) {
		return documentLog(ctx, tx, h, q)
	})
}

// Past implements [store.Store]. Commits that restore documents depend on it, so it does not wait behind users who read the
// history.
func (s *Store) Past(ctx context.Context, q fleet.PastQuery) (fleet.Documents, error) {
	return read(ctx, s.db.Read, "reading the past", func(ctx context.Context, tx Tx, h HeadRow) (fleet.Documents, error) {
		return past(ctx, tx, h, q)
	})
}

// At implements [store.Store].
func (s *Store) At(ctx context.Context, kind fleet.Kind, id string, rev fleet.Revision) (rec fleet.Record, found bool, err error) {
	rec, err = read(ctx, s.db.Recall, "reading the history", func(ctx context.Context, tx Tx, h HeadRow) (rec fleet.Record, err error) {
		rec, found, err = at(ctx, tx, h, kind, id, rev)
		return rec, err
	})
	return rec, found && err == nil, err
}
