package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Verified is what [Verify] found a history to be.
type Verified struct {
	Head   fleet.Head
	Hash   []byte         // of the commit at the head; nil: there is no commit
	Oldest fleet.Revision // that the log holds whole; 0: it begins with the first one
	// Unhashed is how many commits had no hash: a version that knows of none has made them. Nothing tells whether they were
	// altered before. Hash is the one that the head's commit would have.
	Unhashed int
	// Folded is a checkpoint of what is kept of the commits before Oldest; nil when there are none. Covered: the store has one
	// for them, and it is the same.
	Folded    []byte
	Covered   bool
	Documents int // at Head
}

// Verify reads the whole history of a store, and compares it with its hash chain and with the documents: ErrCorrupt when
// anything was altered. ErrCompacted when the log is shortened meanwhile. note, when not nil, is called after every batch of
// commits. What is committed meanwhile is not looked at.
func Verify(ctx context.Context, s Store, note func(at, of fleet.Revision)) (Verified, error) {
	found, _, err := verify(ctx, s, note)
	return found, err
}

func verify(ctx context.Context, s Store, note func(at, of fleet.Revision)) (Verified, *chainCheck, error) {
	snap, err := s.Load(ctx)
	if err != nil {
		return Verified{}, nil, err
	}
	check := newChainCheck(snap.Oldest)
	for _, err := range checkedLog(ctx, s, snap, check, func(at fleet.Revision) {
		if note != nil {
			note(at, snap.Head.Revision)
		}
	}) {
		if err != nil {
			return Verified{}, nil, err
		}
	}
	found := Verified{Head: snap.Head, Hash: check.last.Hash, Oldest: snap.Oldest, Unhashed: check.unhashed, Documents: len(snap.Records)}
	if snap.Oldest > 1 {
		found.Folded = CheckpointFor(snap.Oldest, check.folded.Sum(nil))
		found.Covered = bytes.Equal(found.Folded, snap.Checkpoint)
	}
	return found, check, nil
}

// Audit keeps the hash chain of a store whole, and verifies the history: all of it at the start and once a day, new commits
// every minute, and that what was verified before is still there. It takes a small part of one processor.
type Audit struct {
	Store  Chained
	Logger *slog.Logger
	// Every is the time between two looks. Default 1 min.
	Every time.Duration
	// Full is the time after which all of it is verified again. Default 24 h.
	Full time.Duration
	Now  func() time.Time

	mu     sync.Mutex
	status AuditStatus
	full   time.Time // when all of it was verified
	oldest fleet.Revision
	check  *chainCheck // what was verified, to go on from
}

// AuditStatus is what an [Audit] has found.
type AuditStatus struct {
	Checked bool       // something was verified, or found to be altered
	OK      bool       // the history is what the hash chain says
	Head    fleet.Head // up to where it was verified
	Hash    []byte     // of the commit there
	At      time.Time  // of the last look that succeeded
	Altered int        // times the history was found to be altered, or another one than was verified before
}

// Status returns what was found last.
func (a *Audit) Status() AuditStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

// Run looks until ctx ends.
func (a *Audit) Run(ctx context.Context) {
	setDefault(&a.Logger, slog.New(slog.DiscardHandler))
	setDefault(&a.Every, time.Minute)
	setDefault(&a.Full, 24*time.Hour)
	if a.Now == nil {
		a.Now = time.Now
	}
	for ctx.Err() == nil {
		if err := a.Look(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotInitialised) {
			a.Logger.WarnContext(ctx, "the history could not be verified; it is tried again later", slog.Any("error", err))
		}
		sleep(ctx, a.Every)
	}
}

// Look adds commits to the chain that are not in it, and verifies what is due. ErrCorrupt when history was altered, which is
// logged and stays in the status until all of it was verified.
func (a *Audit) Look(ctx context.Context) error {
	if a.Now == nil {
		a.Now = time.Now
	}
	if err := a.fill(ctx); err != nil {
		return err
	}
	head, err := a.Store.ChainHead(ctx)
	if err != nil {
		return err
	}
	last := a.Status()
	switch due := last.Head == (fleet.Head{}) || !last.OK || head.Oldest != a.oldest || a.Now().Sub(a.full) >= a.Full; {
	case due:
		err = a.all(ctx, last)
	case head.Head != last.Head || !bytes.Equal(head.Hash, last.Hash):
		err = a.newer(ctx, last)
	default:
		a.set(last)
	}
	switch {
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrDiverged):
		a.oldest = 0 // from the beginning, then
		a.mu.Lock()
		a.status.Checked, a.status.OK = true, false
		a.status.Altered++
		a.mu.Unlock()
		if a.Logger != nil {
			a.Logger.ErrorContext(ctx, "the history is not the one that was verified before, or not what its hash chain says", slog.Any("error", err))
		}
	case errors.Is(err, ErrCompacted): // meanwhile
		a.oldest = 0
		return nil
	}
	return err
}

func (a *Audit) set(s AuditStatus) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.Checked, s.OK, s.At, s.Altered = true, true, a.Now(), a.status.Altered
	a.status = s
}

// all verifies the whole history, and that it goes on from what was verified before.
func (a *Audit) all(ctx context.Context, last AuditStatus) error {
	batch := a.Now()
	found, check, err := verify(ctx, a.Store, func(fleet.Revision, fleet.Revision) { // one part of work, four of rest
		sleep(ctx, min(4*a.Now().Sub(batch), time.Second))
		batch = a.Now()
	})
	if err != nil {
		return err
	}
	if last.OK && last.Head.Revision >= max(found.Oldest, 1) {
		links, err := a.Store.Links(ctx, last.Head.Revision-1, 1)
		if err != nil {
			return err
		}
		if len(links) != 1 || links[0].Revision != last.Head.Revision || !bytes.Equal(links[0].Hash, last.Hash) {
			return fmt.Errorf("%w: revision %d was verified with the hash %s before", ErrDiverged, last.Head.Revision, FormatHash(last.Hash))
		}
	}
	if found.Folded != nil && !found.Covered {
		if err := a.Store.SetCheckpoint(ctx, found.Folded); err != nil {
			return err
		}
	}
	a.full, a.oldest, a.check = a.Now(), max(found.Oldest, 1), check
	a.set(AuditStatus{Head: found.Head, Hash: found.Hash})
	return nil
}

// newer verifies the commits that were made since.
func (a *Audit) newer(ctx context.Context, last AuditStatus) error {
	for {
		commits, err := a.Store.Since(ctx, last.Head, copyBatch)
		if err != nil {
			return err
		}
		if len(commits) == 0 {
			break
		}
		entries, err := withLinks(ctx, a.Store, 0, commits)
		if err != nil {
			return err
		}
		check := a.check
		for i := range entries {
			if err := check.add(&entries[i]); err != nil {
				return err
			}
		}
		last.Head, last.Hash = entries[len(entries)-1].Head(), check.last.Hash
		a.set(last)
	}
	head, err := a.Store.ChainHead(ctx)
	if err == nil && head.Head == last.Head && !bytes.Equal(head.Hash, last.Hash) {
		err = fmt.Errorf("%w: revision %d was verified with the hash %s before, and has %s", ErrDiverged, head.Revision, FormatHash(last.Hash), FormatHash(head.Hash))
	}
	return err
}

// fillBatch is how many commits are added to the chain at once. Nobody else commits meanwhile.
const fillBatch = 50

// fill adds the commits of versions before to the chain.
func (a *Audit) fill(ctx context.Context) error {
	head, err := a.Store.ChainHead(ctx)
	if err != nil || head.Hash != nil || head.Revision == 0 {
		return err
	}
	// Those in the chain come before those that are not.
	oldest := max(head.Oldest, 1)
	at := oldest - 1 + fleet.Revision(sort.Search(int(head.Revision-oldest)+1, func(i int) bool {
		links, asked := a.Store.Links(ctx, oldest+fleet.Revision(i)-1, 1)
		if asked != nil {
			err = asked
		}
		return len(links) == 0 || links[0].Hash == nil
	}))
	for err == nil && at < head.Revision && head.Hash == nil {
		began := a.Now()
		var last fleet.Revision
		if last, err = a.Store.FillChain(ctx, at, fillBatch); err == nil && last == at {
			break
		}
		at = last
		sleep(ctx, min(4*a.Now().Sub(began), time.Second)) // for those who commit
		if err == nil && at >= head.Revision {
			head, err = a.Store.ChainHead(ctx)
		}
	}
	return err
}
