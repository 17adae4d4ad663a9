package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Link is a commit's place in the hash chain over the log. The hash of a commit covers the hash of the commit before it, and
// everything that the log says of the commit: revision, id, time, actor, author, reason, request id, operations, and of each
// change kind, id, and what it replaced by what in which place of the document. What the document was before is covered by the
// hash of the commit that wrote it, so a commit costs no more than it changes. So the hash of the newest commit covers the whole log: whoever has noted it can tell later
// whether the history up to there was altered.
type Link struct {
	Revision fleet.Revision
	// Previous is the hash of the commit before. Of the first commit of a chain it is 32 zeros.
	Previous []byte
	// Hash is nil for a commit that is not in the chain yet: a version that knows of none has made it.
	Hash []byte
	// Checkpoint is the checkpoint that the store had when the commit was made, and nil when it had none: see [ChainHead].
	Checkpoint []byte
}

// Entry is a commit with its link.
type Entry struct {
	fleet.Commit
	Link Link
}

// ChainHead is the newest point of history, as the chain has it.
type ChainHead struct {
	fleet.Head
	Hash   []byte         // of the commit at the head; nil: it is not in the chain yet, or there is no commit
	Oldest fleet.Revision // that the log holds whole; 0 or 1: it begins with the first one
	// Checkpoint covers what is kept of the commits before Oldest, which are no longer whole, so that their hashes say nothing:
	// the revision of Oldest, in eight bytes, and a SHA-256 over what [Shortened.Kept] returns and the commit at Oldest, with
	// documents in full. Compact leaves the first eight
	// bytes, SetCheckpoint adds the rest. nil: the log was never shortened, or by a version that knew of no checkpoints.
	Checkpoint []byte
}

// Chained is a Store that keeps the hash chain. Commit adds a commit to the chain when the one before it is in it; a commit
// without a hash is followed by commits without, until FillChain has come to the head.
type Chained interface {
	Store
	// ChainHead returns where the chain ends. It does what Head does, and is not refused while the store is held.
	ChainHead(ctx context.Context) (ChainHead, error)
	// Links returns the links of the commits after a revision, in order, at most limit. Those before the oldest revision that
	// the log holds whole are left out.
	Links(ctx context.Context, after fleet.Revision, limit int) ([]Link, error)
	// FillChain adds commits after a revision to the chain, at most limit of them, and leaves those that are in it. Nobody else
	// commits meanwhile. It returns the last revision it came to, which is after when there is none. It is an error when the
	// commit at after is not in the chain.
	FillChain(ctx context.Context, after fleet.Revision, limit int) (fleet.Revision, error)
	// SetCheckpoint replaces the checkpoint, when it is for the oldest revision that the log has at that moment.
	SetCheckpoint(ctx context.Context, checkpoint []byte) error
}

// genesis comes before the first commit of a chain.
var genesis = make([]byte, sha256.Size)

// NextLink is the link of a commit that follows the one with the hash previous; nil: it is the first.
func NextLink(previous, checkpoint []byte, c fleet.Commit) Link {
	if previous == nil {
		previous = genesis
	}
	w := digest{Hash: sha256.New()}
	w.text("flux-resourceset commit 1")
	w.text(string(previous))
	w.text(string(checkpoint))
	w.commit(c)
	return Link{Revision: c.Revision, Previous: previous, Checkpoint: checkpoint, Hash: w.Sum(nil)}
}

// digest hashes values so that no two sequences of them look alike: each has its length in front.
type digest struct {
	hash.Hash
	number [8]byte
}

func (w *digest) int(n int64) {
	binary.BigEndian.PutUint64(w.number[:], uint64(n))
	_, _ = w.Write(w.number[:]) // a hash takes everything
}

func (w *digest) text(s string) { w.bytes([]byte(s)) }

// bytes tells nil from nothing.
func (w *digest) bytes(b []byte) {
	if b == nil {
		w.int(-1)
		return
	}
	w.int(int64(len(b)))
	_, _ = w.Write(b)
}

// whole hashes a commit with its documents in full.
func (w *digest) whole(c fleet.Commit) {
	w.commit(c)
	for _, ch := range c.Changes {
		w.bytes(ch.Before)
		w.bytes(ch.After)
	}
}

func (w *digest) commit(c fleet.Commit) {
	w.int(int64(c.Revision))
	_, _ = w.Write(c.ID[:])
	w.int(c.At.UnixMicro())
	for _, s := range []string{c.Actor, c.Author, c.Reason, c.RequestID, string(c.Operations)} {
		w.text(s)
	}
	w.int(int64(len(c.Changes)))
	for _, ch := range c.Changes {
		w.text(string(ch.Kind))
		w.text(ch.ID)
		w.change(ch.Before, ch.After)
	}
}

// change hashes the way from one document to another: how many bytes they have in common at the start and at the end, and what is
// between, of both.
func (w *digest) change(before, after []byte) {
	prefix := commonPrefix(before, after)
	suffix := commonSuffix(before[prefix:], after[prefix:])
	w.int(int64(prefix))
	w.int(int64(suffix))
	for _, body := range [][]byte{before, after} {
		if body == nil {
			w.int(-1)
			continue
		}
		w.bytes(body[prefix : len(body)-suffix])
	}
}

// commonPrefix counts the bytes that a and b have in common at their start: large pieces first, which are quick to compare.
func commonPrefix(a, b []byte) int {
	n := 0
	for size := 1 << 12; size > 0; size /= 8 {
		for n+size <= min(len(a), len(b)) && bytes.Equal(a[n:n+size], b[n:n+size]) {
			n += size
		}
	}
	return n
}

// commonSuffix counts those at their end.
func commonSuffix(a, b []byte) int {
	n := 0
	for size := 1 << 12; size > 0; size /= 8 {
		for n+size <= min(len(a), len(b)) && bytes.Equal(a[len(a)-n-size:len(a)-n], b[len(b)-n-size:len(b)-n]) {
			n += size
		}
	}
	return n
}

// CheckpointFor is the checkpoint for a log that is whole from a revision on, with a sum over what is kept from before, or
// without one yet.
func CheckpointFor(oldest fleet.Revision, sum []byte) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(oldest)), sum...)
}

// IsCheckpointFor tells whether a checkpoint is for a log that is whole from a revision on.
func IsCheckpointFor(checkpoint []byte, oldest fleet.Revision) bool {
	return len(checkpoint) >= 8 && binary.BigEndian.Uint64(checkpoint) == uint64(oldest)
}

// chainCheck compares a log with its hashes, commit by commit, and with the documents that it adds up to. The zero value is at
// the beginning of a log.
type chainCheck struct {
	oldest    fleet.Revision
	first     Link // at oldest, as the store has it
	last      Link
	at        time.Time // of the last commit
	unhashed  int       // commits that the store had no hash of
	folded    digest    // over what is kept of the commits before oldest
	documents map[documentName]documentSum
}

type documentName struct {
	kind fleet.Kind
	id   string
}

// documentSum is what a record must be.
type documentSum struct {
	revision         fleet.Revision
	commit           uuid.UUID
	created, updated time.Time
	body             [sha256.Size]byte
}

func newChainCheck(oldest fleet.Revision) *chainCheck {
	return &chainCheck{oldest: oldest, folded: digest{Hash: sha256.New()}, documents: map[documentName]documentSum{}}
}

// add takes the next commit. One that has no hash gets the one that it would have. ErrCorrupt when the commit is not the one
// that its hash is of, or does not follow the one before.
func (k *chainCheck) add(e *Entry) error {
	if k.oldest > 1 && e.Revision <= k.oldest {
		k.folded.whole(e.Commit)
	}
	if e.Revision < k.oldest {
		return k.apply(e.Commit)
	}
	if k.last.Hash == nil {
		k.first = e.Link
	}
	next := NextLink(k.last.Hash, nil, e.Commit)
	switch first := k.last.Hash == nil; {
	case e.Link.Hash == nil:
		k.unhashed++
		e.Link = next
	case first && e.Revision > 1: // the one before is gone, and its hash is what the first one says that it was
		next = NextLink(e.Link.Previous, e.Link.Checkpoint, e.Commit)
	case !bytes.Equal(e.Link.Previous, next.Previous):
		return fmt.Errorf("%w: revision %d does not follow the revision before it in the hash chain: history was altered", ErrCorrupt, e.Revision)
	default:
		next = NextLink(next.Previous, e.Link.Checkpoint, e.Commit)
	}
	if !bytes.Equal(e.Link.Hash, next.Hash) {
		return fmt.Errorf("%w: revision %d is not the one that the hash chain has: history was altered", ErrCorrupt, e.Revision)
	}
	k.last = e.Link
	return k.apply(e.Commit)
}

// apply changes the documents, each of which must be what the commits before have left. A shortened log does not have what its
// oldest commit found, nor clusters that were decommissioned before.
func (k *chainCheck) apply(c fleet.Commit) error {
	k.at = c.At
	for _, ch := range c.Changes {
		name := documentName{ch.Kind, ch.ID}
		if old, ok := k.documents[name]; (k.oldest <= 1 || c.Revision > k.oldest) && (ok != (ch.Before != nil) || ok && old.body != sha256.Sum256(ch.Before)) &&
			(ok || k.oldest <= 1 || !isTombstone(ch.Kind, ch.Before)) {
			return fmt.Errorf("%w: revision %d finds another %s %q than there was: history was altered", ErrCorrupt, c.Revision, ch.Kind, ch.ID)
		}
		if ch.After == nil {
			delete(k.documents, name)
			continue
		}
		sum := documentSum{c.Revision, c.ID, c.At, c.At, sha256.Sum256(ch.After)}
		if old, ok := k.documents[name]; ok && ch.Before != nil && ch.Action() != "create" {
			sum.created = old.created
		} else if ch.Before != nil && ch.Action() != "create" {
			sum.created = time.Time{} // a decommissioned cluster, of which a shortened log does not say when it was created
		}
		k.documents[name] = sum
	}
	return nil
}

// isTombstone tells whether a document is a decommissioned cluster.
func isTombstone(kind fleet.Kind, body []byte) bool {
	return body != nil && (fleet.Change{Kind: kind, After: body}).Action() == "delete"
}

// finish returns ErrCorrupt unless the documents of a snapshot are those that the log adds up to, and what was kept of older
// commits is what the checkpoint covers.
func (k *chainCheck) finish(snap Snapshot) error {
	if !snap.At.Equal(k.at) {
		return fmt.Errorf("%w: the head was made at %s, and the last commit at %s", ErrCorrupt, snap.At, k.at)
	}
	known := 0
	for _, r := range snap.Records {
		want, ok := k.documents[documentName{r.Kind, r.ID}]
		if ok {
			known++
		}
		if !ok && r.Revision < k.oldest && isTombstone(r.Kind, r.Body) {
			continue // a cluster that was decommissioned before the oldest revision: a shortened log does not have it
		}
		is := documentSum{r.Revision, r.CommitID, r.CreatedAt, r.UpdatedAt, sha256.Sum256(r.Body)}
		if want.created.IsZero() {
			want.created = is.created
		}
		if !ok || is.revision != want.revision || is.commit != want.commit || is.body != want.body ||
			!is.created.Equal(want.created) || !is.updated.Equal(want.updated) {
			return fmt.Errorf("%w: %s %q is not what the log says", ErrCorrupt, r.Kind, r.ID)
		}
	}
	if known != len(k.documents) {
		return fmt.Errorf("%w: the log adds up to %d documents that are not there", ErrCorrupt, len(k.documents)-known)
	}
	if k.oldest <= 1 {
		return nil
	}
	if !IsCheckpointFor(snap.Checkpoint, k.oldest) && k.first.Previous != nil && !bytes.Equal(k.first.Previous, genesis) {
		return fmt.Errorf("%w: the log begins with revision %d, and was not shortened to there: history was altered", ErrCorrupt, k.oldest)
	}
	sum := CheckpointFor(k.oldest, k.folded.Sum(nil))
	for _, checkpoint := range [][]byte{snap.Checkpoint, k.last.Checkpoint} {
		if IsCheckpointFor(checkpoint, k.oldest) && !bytes.HasPrefix(sum, checkpoint) {
			return fmt.Errorf("%w: what is kept of the revisions before %d is not what the checkpoint covers: history was altered", ErrCorrupt, k.oldest)
		}
	}
	return nil
}

// FormatHash shows a hash of the chain; one that is not there as "none".
func FormatHash(sum []byte) string {
	if sum == nil {
		return "none"
	}
	return "sha256:" + hex.EncodeToString(sum)
}

var _ Chained = (*Lazy)(nil)

// chained runs one method of the opened store, which must keep the chain.
func chained[T any](ctx context.Context, l *Lazy, f func(Chained) (T, error)) (T, error) {
	return with(ctx, l, func(s Store) (T, error) {
		c, ok := s.(Chained)
		if !ok {
			var none T
			return none, fmt.Errorf("a store of type %T keeps no hash chain", s)
		}
		return f(c)
	})
}

// ChainHead implements Chained.
func (l *Lazy) ChainHead(ctx context.Context) (ChainHead, error) {
	return chained(ctx, l, func(c Chained) (ChainHead, error) { return c.ChainHead(ctx) })
}

// Links implements Chained.
func (l *Lazy) Links(ctx context.Context, after fleet.Revision, limit int) ([]Link, error) {
	return chained(ctx, l, func(c Chained) ([]Link, error) { return c.Links(ctx, after, limit) })
}

// FillChain implements Chained.
func (l *Lazy) FillChain(ctx context.Context, after fleet.Revision, limit int) (fleet.Revision, error) {
	return chained(ctx, l, func(c Chained) (fleet.Revision, error) { return c.FillChain(ctx, after, limit) })
}

// SetCheckpoint implements Chained.
func (l *Lazy) SetCheckpoint(ctx context.Context, checkpoint []byte) error {
	_, err := chained(ctx, l, func(c Chained) (struct{}, error) { return struct{}{}, c.SetCheckpoint(ctx, checkpoint) })
	return err
}
