package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Verified is the result of [Verify].
type Verified struct {
	Head   fleet.Head
	Hash   []byte         // of the head commit; nil if the log is empty
	Oldest fleet.Revision // oldest complete revision of the log; 0 if the log was never shortened
	// Folded is the computed checkpoint over the remains of the commits before Oldest; nil without such commits. Covered reports
	// whether the stored checkpoint is equal.
	Folded    []byte
	Covered   bool
	Documents int // at Head
}

// Verify compares the whole history of a store with its hash chain and with the documents. It returns ErrCorrupt if anything was
// altered, and ErrCompacted if the log is shortened at the same time. progress, if not nil, is called after every batch of commits.
// Commits made after the start are not verified.
func Verify(ctx context.Context, s Store, progress func(at, of fleet.Revision)) (Verified, error) {
	found, _, err := verify(ctx, s, progress)
	return found, err
}

func verify(ctx context.Context, s Store, progress func(at, of fleet.Revision)) (Verified, *chainCheck, error) {
	snap, err := s.Load(ctx)
	if err != nil {
		return Verified{}, nil, err
	}
	check := newChainCheck(snap.Oldest)
	var names nameCheck
	for e, err := range checkedLog(ctx, s, snap, check, func(at fleet.Revision) {
		if progress != nil {
			progress(at, snap.Head.Revision)
		}
	}) {
		if err == nil {
			err = names.add(ctx, s, e.Commit, snap)
		}
		if err != nil {
			return Verified{}, nil, err
		}
	}
	if err := checkRest(ctx, s, snap, check); err != nil {
		return Verified{}, nil, err
	}
	found := Verified{Head: snap.Head, Hash: check.last.Hash, Oldest: snap.Oldest, Documents: len(snap.Records)}
	if snap.Oldest > 1 {
		found.Folded = CheckpointFor(snap.Oldest, check.folded.Sum(nil))
		found.Covered = bytes.Equal(found.Folded, snap.Checkpoint)
	}
	return found, check, nil
}

// nameCheck compares the stored actions and numbers of changes with the changes. They can be computed from the changes, so no hash covers
// them, but lists of revisions show them.
type nameCheck struct{ batch []fleet.Commit }

// add adds a commit. It compares a batch when it is full, or at the last commit.
func (k *nameCheck) add(ctx context.Context, s Store, c fleet.Commit, snap Snapshot) error {
	if c.Revision == 0 || c.Revision < snap.Oldest {
		return nil
	}
	most := 1
	k.batch = append(k.batch, c)
	for _, c := range k.batch {
		most = max(most, len(c.Changes))
	}
	if len(k.batch) < copyBatch && most < 1_000 && c.Revision < snap.Head.Revision {
		return nil
	}
	batch := k.batch
	k.batch = nil
	q := HistoryQuery{Limit: len(batch)}
	for _, c := range batch {
		q.Among = append(q.Among, c.Revision)
	}
	summaries, err := s.Summaries(ctx, q, most)
	if err != nil {
		return err
	}
	found := map[fleet.Revision]Summary{}
	for _, sum := range summaries {
		found[sum.Revision] = sum
	}
	for _, c := range batch {
		names, ok := found[c.Revision]
		if !ok {
			return fmt.Errorf("%w: the log was shortened meanwhile", ErrCompacted)
		}
		same := names.Count == len(c.Changes) && len(names.First) == len(c.Changes)
		for i := 0; same && i < len(c.Changes); i++ {
			same = names.First[i] == ChangedName{c.Changes[i].Kind, c.Changes[i].ID, c.Changes[i].Action()}
		}
		if !same {
			return fmt.Errorf("%w: the stored actions of revision %d differ from its changes: history was altered", ErrCorrupt, c.Revision)
		}
	}
	return nil
}

// checkRest verifies what the hash chain does not cover: the head's hash, its quarantine, and the form of ids.
func checkRest(ctx context.Context, s Store, snap Snapshot, check *chainCheck) error {
	head, err := s.ChainHead(ctx)
	if err != nil {
		return err
	}
	if head.Head == snap.Head && !bytes.Equal(head.Hash, check.last.Hash) {
		return fmt.Errorf("%w: the hash of the head differs from the hash of revision %d: history was altered", ErrCorrupt, snap.Head.Revision)
	}
	_, err = s.Head(ctx)
	if q, ok := errors.AsType[*QuarantinedError](err); ok {
		if q.Quarantine.Altered {
			return fmt.Errorf("%w: the quarantine of the store was altered", ErrCorrupt)
		}
	} else if err != nil {
		return err
	}
	return s.CheckCanonical(ctx)
}

// Audit verifies the history of a store: all of it at the start and once a day, new commits every
// minute, each time with a check that the history still contains the commit that was verified last. It uses at most a fifth of one processor.
type Audit struct {
	Store  Store
	Logger *slog.Logger
	// Every is the time between two checks. Default 1 min.
	Every time.Duration
	// Full is the time between two verifications of the whole history. Default 24 h. After an alteration was found, the whole
	// history is verified again when it changes, and otherwise once an hour.
	Full time.Duration
	Now  func() time.Time

	mu     sync.Mutex
	status AuditStatus
	full   time.Time // time of the last verification of the whole history
	oldest fleet.Revision
	check  *chainCheck // state after the last verified commit
	// corrupt is the head at which a verification of the whole history failed, and retry the time of the next one at the same head.
	corrupt ChainHead
	retry   time.Time
}

// AuditStatus is the state of an [Audit].
type AuditStatus struct {
	Checked bool       // at least one check was completed
	OK      bool       // the history matches the hash chain
	Head    fleet.Head // the last verified commit
	Hash    []byte     // hash of that commit
	At      time.Time  // time of the last check without error
	Altered int        // checks that found an altered or replaced history
}

// Status returns the result of the last check.
func (a *Audit) Status() AuditStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

// Run checks the history every a.Every until ctx ends.
func (a *Audit) Run(ctx context.Context) {
	setDefault(&a.Logger, slog.New(slog.DiscardHandler))
	setDefault(&a.Every, time.Minute)
	setDefault(&a.Full, 24*time.Hour)
	if a.Now == nil {
		a.Now = time.Now
	}
	for ctx.Err() == nil {
		if err := a.Check(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotInitialised) {
			a.Logger.WarnContext(ctx, "cannot verify the history, will retry", slog.Any("error", err))
		}
		sleep(ctx, a.Every)
	}
}

// corruptRetry is the time until an altered history is verified again when no commit was made meanwhile. Each verification
// reads the whole log.
const corruptRetry = time.Hour

// Check runs the verifications that are due. It returns ErrCorrupt or ErrDiverged if the history was
// altered, which is also logged and remains in the status until the whole history was verified.
func (a *Audit) Check(ctx context.Context) error {
	if a.Now == nil {
		a.Now = time.Now
	}
	head, err := a.Store.ChainHead(ctx)
	if err != nil {
		return err
	}
	last := a.Status()
	if !last.OK && head.Head == a.corrupt.Head && bytes.Equal(head.Hash, a.corrupt.Hash) && a.Now().Before(a.retry) {
		return nil
	}
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
		a.oldest = 0 // verify the whole history next time
		if errors.Is(err, ErrCorrupt) {
			a.corrupt, a.retry = head, a.Now().Add(corruptRetry)
		}
		a.mu.Lock()
		a.status.Checked, a.status.OK = true, false
		a.status.Altered++
		a.mu.Unlock()
		if a.Logger != nil {
			a.Logger.ErrorContext(ctx, "the history was altered: it does not match its hash chain, or lacks a commit that was verified before", slog.Any("error", err))
		}
	case errors.Is(err, ErrCompacted): // at the same time; verify the whole history next time
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

// all verifies the whole history, and that it still contains the commit that was verified last.
func (a *Audit) all(ctx context.Context, last AuditStatus) error {
	batch := a.Now()
	found, check, err := verify(ctx, a.Store, func(fleet.Revision, fleet.Revision) { // at most a fifth of one processor
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
			return fmt.Errorf("%w: revision %d was verified with the hash %s earlier", ErrDiverged, last.Head.Revision, FormatHash(last.Hash))
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

// newer verifies the commits after the one that was verified last.
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
			if err := check.add(entries[i]); err != nil {
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
