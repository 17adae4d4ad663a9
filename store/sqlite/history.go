package sqlite

import (
	"context"
	"database/sql"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/backend"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqllog"
)

// History implements [store.Store]. Of the process's own tasks, only the follower calls it, to look for acceptances.
func (s *Store) History(ctx context.Context, q store.HistoryQuery) (commits []fleet.Commit, err error) {
	if err := backend.CheckHistory(q); err != nil {
		return nil, err
	}
	err = s.read(ctx, "reading the history", func(tx *sql.Tx, h head) (err error) {
		commits, err = sqllog.History(ctx, reading{tx}, h, q)
		return err
	})
	return commits, err
}

// Summaries implements [store.Store].
func (s *Store) Summaries(ctx context.Context, q store.HistoryQuery, names int) (summaries []store.Summary, err error) {
	if err := backend.CheckHistory(q); err != nil {
		return nil, err
	}
	err = s.recall(ctx, "reading the history", func(tx *sql.Tx, h head) (err error) {
		summaries, err = sqllog.Summaries(ctx, reading{tx}, h, q, names)
		return err
	})
	return summaries, err
}

// Changes implements [store.Store].
func (s *Store) Changes(ctx context.Context, rev fleet.Revision, offset, limit int) (changes []fleet.Change, err error) {
	err = s.recall(ctx, "reading a revision", func(tx *sql.Tx, h head) (err error) {
		changes, err = sqllog.Changes(ctx, reading{tx}, h, rev, offset, limit)
		return err
	})
	return changes, err
}

// DocumentLog implements [store.Store].
func (s *Store) DocumentLog(ctx context.Context, q fleet.DocumentLogQuery) (log fleet.DocumentLog, err error) {
	if err := backend.CheckDocumentLog(q); err != nil {
		return log, err
	}
	err = s.recall(ctx, "reading the history", func(tx *sql.Tx, h head) (err error) {
		log, err = sqllog.DocumentLog(ctx, reading{tx}, h, q)
		return err
	})
	return log, err
}

// Past implements [store.Store]. Commits that restore documents depend on it, so it does not wait behind users who read the
// history.
func (s *Store) Past(ctx context.Context, q fleet.PastQuery) (docs fleet.Documents, err error) {
	err = s.read(ctx, "reading the past", func(tx *sql.Tx, h head) (err error) {
		docs, err = sqllog.Past(ctx, reading{tx}, h, q)
		return err
	})
	return docs, err
}

// At implements [store.Store].
func (s *Store) At(ctx context.Context, kind fleet.Kind, id string, rev fleet.Revision) (rec fleet.Record, found bool, err error) {
	err = s.recall(ctx, "reading the history", func(tx *sql.Tx, h head) (err error) {
		rec, found, err = sqllog.At(ctx, reading{tx}, h, kind, id, rev)
		return err
	})
	return rec, found && err == nil, err
}
