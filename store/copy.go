package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// copyBatch is how many commits are read from a log at once.
const copyBatch = 100

// Progress is the progress of a [Copy].
type Progress struct {
	// Verifying: everything is written, and the two stores are being compared. Revision starts again.
	Verifying bool
	Revision  fleet.Revision // of the last commit copied or compared
	Of        fleet.Revision // the last one
}

// Copy makes to a copy of from: its documents and its whole history, with revisions, commit ids, times and actors. from may be
// written to meanwhile; commits made after the start are not copied. progress, if not nil, is called after every batch.
//
// Copy compares the history with its hash chain while it reads it, and the documents with the history. If they disagree it
// returns ErrCorrupt and leaves to empty.
//
// A copy that fails, or is killed, leaves to empty and can be started again. After writing, Copy reads and compares both
// stores: if they differ it returns ErrCorrupt, and to must not be used.
//
// The copy is marked with QuarantineCopied, so that its processes take no automatic actions beside the original.
//
// A shortened log is copied as it is, with the remains of older revisions. Copy returns ErrNotEmpty if to has ever held a
// commit, ErrCompacted if the log of from is shortened meanwhile, and the errors of both stores.
func Copy(ctx context.Context, from Store, to Store, progress func(Progress)) error {
	if progress == nil {
		progress = func(Progress) {}
	}
	snap, err := from.Load(ctx)
	if err != nil {
		return fmt.Errorf("reading the documents to copy: %w", err)
	}
	snap.Quarantine = &Quarantine{Reason: QuarantineCopied, At: time.Now().UTC().Truncate(time.Second)}
	note := func(verifying bool) func(fleet.Revision) {
		return func(at fleet.Revision) {
			progress(Progress{Verifying: verifying, Revision: at, Of: snap.Head.Revision})
		}
	}
	if err := to.Import(ctx, snap, checkedLog(ctx, from, snap, newChainCheck(snap.Oldest), note(false))); err != nil {
		return fmt.Errorf("copying: %w", err)
	}
	if err := sameContent(ctx, snap, from, to, note(true)); err != nil {
		return fmt.Errorf("verifying the copy: %w", err)
	}
	return nil
}

// checkedLog is readLog, compared with its hash chain, and at its end with the documents of the snapshot.
func checkedLog(ctx context.Context, s Store, of Snapshot, check *chainCheck, note func(fleet.Revision)) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range readLog(ctx, s, of, note) {
			if err == nil {
				err = check.add(e)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
		if err := check.finish(of); err != nil {
			yield(Entry{}, err)
		}
	}
}

// readLog yields a store's log up to the head of a snapshot, batch by batch.
func readLog(ctx context.Context, s Store, of Snapshot, note func(fleet.Revision)) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for at := (fleet.Head{}); at != of.Head; note(at.Revision) {
			commits, err := nextCommits(ctx, s, of, at)
			if err == nil && len(commits) == 0 {
				err = fmt.Errorf("%w: the log ends with revision %d and not with %d", ErrDiverged, at.Revision, of.Head.Revision)
			}
			var entries []Entry
			if err == nil {
				entries, err = withLinks(ctx, s, of.Oldest, commits)
			}
			if err != nil {
				yield(Entry{}, fmt.Errorf("reading the log: %w", err))
				return
			}
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
				at = e.Head()
			}
		}
	}
}

// withLinks adds the links of commits. Commits before the oldest complete one have none.
func withLinks(ctx context.Context, s Store, oldest fleet.Revision, commits []fleet.Commit) ([]Entry, error) {
	entries := make([]Entry, len(commits))
	for i, c := range commits {
		entries[i].Commit = c
	}
	if len(commits) == 0 || commits[0].Revision < oldest {
		return entries, nil
	}
	links, err := s.Links(ctx, commits[0].Revision-1, len(commits))
	if err != nil {
		return nil, err
	}
	if len(links) != len(commits) || links[0].Revision != commits[0].Revision {
		return nil, fmt.Errorf("%w: the log was shortened meanwhile", ErrCompacted)
	}
	for i := range links {
		entries[i].Link = links[i]
	}
	return entries, nil
}

// nextCommits returns a batch of entries after at: the remains of commits before the oldest complete one, that one, and later
// ones.
func nextCommits(ctx context.Context, s Store, of Snapshot, at fleet.Head) ([]fleet.Commit, error) {
	if at.Revision >= of.Oldest {
		return s.Since(ctx, at, int(min(copyBatch, of.Head.Revision-at.Revision)))
	}
	kept, err := s.Kept(ctx, at.Revision, of.Oldest, copyBatch)
	if err != nil || len(kept) > 0 {
		return kept, err
	}
	return s.History(ctx, HistoryQuery{Before: of.Oldest + 1, Limit: 1})
}

// sameContent returns ErrCorrupt unless to holds exactly snap and from's log up to there.
func sameContent(ctx context.Context, snap Snapshot, from, to Store, note func(fleet.Revision)) error {
	copied, err := to.Load(ctx)
	if err != nil {
		return err
	}
	if copied.Head != snap.Head || !copied.At.Equal(snap.At) || copied.Oldest != snap.Oldest || !bytes.Equal(copied.Checkpoint, snap.Checkpoint) {
		return fmt.Errorf("%w: the copy's head is revision %d, the original's %d", ErrCorrupt, copied.Head.Revision, snap.Head.Revision)
	}
	if !slices.EqualFunc(copied.Records, snap.Records, sameRecord) {
		return fmt.Errorf("%w: the copy's documents are not the original's", ErrCorrupt)
	}
	next, stop := iter.Pull2(checkedLog(ctx, to, snap, newChainCheck(snap.Oldest), note))
	defer stop()
	for want, err := range readLog(ctx, from, snap, func(fleet.Revision) {}) {
		if err != nil {
			return err
		}
		got, err, ok := next()
		if err != nil {
			return err
		}
		if !ok || !sameCommit(got.Commit, want.Commit) {
			return fmt.Errorf("%w: revision %d of the copy is not the original's", ErrCorrupt, want.Revision)
		}
	}
	_, err, _ = next() // lets it note its end
	return err
}

func sameRecord(a, b fleet.Record) bool {
	return a.Kind == b.Kind && a.ID == b.ID && string(a.Body) == string(b.Body) && a.Revision == b.Revision &&
		a.CommitID == b.CommitID && a.CreatedAt.Equal(b.CreatedAt) && a.UpdatedAt.Equal(b.UpdatedAt)
}

func sameCommit(a, b fleet.Commit) bool {
	return a.Head() == b.Head() && a.At.Equal(b.At) && a.Actor == b.Actor && a.Author == b.Author && a.Reason == b.Reason &&
		a.RequestID == b.RequestID && string(a.Operations) == string(b.Operations) && slices.EqualFunc(a.Changes, b.Changes, sameChange)
}

func sameChange(a, b fleet.Change) bool {
	same := func(a, b json.RawMessage) bool { return string(a) == string(b) && (a == nil) == (b == nil) }
	return a.Kind == b.Kind && a.ID == b.ID && same(a.Before, b.Before) && same(a.After, b.After)
}
