package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Link is the position of a commit in the hash chain over the log. The hash of a commit covers the hash of the previous commit
// and every logged field of the commit: revision, id, time, actor, author, reason, request id, operations, and for each change
// the kind, the id and the difference between both versions of the document. The previous version itself is covered by the hash
// of the commit that wrote it, so the cost depends on the size of the change. The hash of the newest commit covers the whole log:
// an auditor that recorded it can later detect any alteration up to that commit.
type Link struct {
	Revision fleet.Revision
	// Previous is the hash of the previous commit; 32 zero bytes for the first commit of a chain.
	Previous []byte
	Hash     []byte
	// Checkpoint is the checkpoint of the store at the time of the commit; nil without one. See [ChainHead].
	Checkpoint []byte
}

// Entry is a commit with its link.
type Entry struct {
	fleet.Commit
	Link Link
}

// ChainHead is the newest commit of the hash chain.
type ChainHead struct {
	fleet.Head
	Hash   []byte         // of the head commit; nil if the log is empty
	Oldest fleet.Revision // oldest complete revision of the log; 0 or 1 if the log was never shortened
	// Checkpoint covers the remains of the commits before Oldest. Their hashes no longer apply because the commits are
	// incomplete. It consists of the revision Oldest in eight bytes and a SHA-256 over the result of [Store.Kept] and the
	// commit at Oldest with complete documents. Compact writes the first eight bytes, SetCheckpoint the rest. It is nil if the
	// log was never shortened.
	Checkpoint []byte
}

// genesis is the previous hash of the first commit of a chain.
var genesis = make([]byte, sha256.Size)

// NextLink returns the link of a commit after the commit with the hash previous, which is nil for the first commit.
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

// digest hashes a sequence of values, each with its length in front, so that different sequences have different input bytes.
type digest struct {
	hash.Hash
	number [8]byte
}

func (w *digest) int(n int64) {
	binary.BigEndian.PutUint64(w.number[:], uint64(n))
	_, _ = w.Write(w.number[:]) // hash.Hash never returns an error
}

func (w *digest) text(s string) { w.bytes([]byte(s)) }

// bytes hashes nil and an empty slice differently.
func (w *digest) bytes(b []byte) {
	if b == nil {
		w.int(-1)
		return
	}
	w.int(int64(len(b)))
	_, _ = w.Write(b)
}

// whole hashes a commit with its complete documents.
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

// change hashes the difference between two documents: the lengths of their common prefix and suffix, and the bytes in between
// of each.
func (w *digest) change(before, after []byte) {
	prefix, suffix := CommonEnds(before, after)
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

// CommonEnds returns the lengths of the common prefix of a and b, and of the common suffix of the rest. It compares large blocks
// first, since bytes.Equal is fast on them.
func CommonEnds(a, b []byte) (prefix, suffix int) {
	const largest = 1 << 12
	for size := largest; size > 0; size /= 8 {
		for prefix+size <= min(len(a), len(b)) && bytes.Equal(a[prefix:prefix+size], b[prefix:prefix+size]) {
			prefix += size
		}
	}
	a, b = a[prefix:], b[prefix:]
	for size := largest; size > 0; size /= 8 {
		for suffix+size <= min(len(a), len(b)) && bytes.Equal(a[len(a)-suffix-size:len(a)-suffix], b[len(b)-suffix-size:len(b)-suffix]) {
			suffix += size
		}
	}
	return prefix, suffix
}

// CheckpointFor returns the checkpoint of a log that is complete from the revision oldest on. sum covers the remains of earlier
// commits; it is nil until it is computed.
func CheckpointFor(oldest fleet.Revision, sum []byte) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(oldest)), sum...)
}

// IsCheckpointFor reports whether a checkpoint belongs to a log that is complete from the revision oldest on.
func IsCheckpointFor(checkpoint []byte, oldest fleet.Revision) bool {
	return len(checkpoint) >= 8 && binary.BigEndian.Uint64(checkpoint) == uint64(oldest)
}

// chainCheck verifies a log commit by commit against its hashes, and computes the documents that result from the log.
type chainCheck struct {
	oldest    fleet.Revision
	last      Link
	at        time.Time // of the last commit
	folded    digest    // over the remains of the commits before oldest
	documents map[documentName]documentSum
}

type documentName struct {
	kind fleet.Kind
	id   string
}

// documentSum is the expected content of a record.
type documentSum struct {
	revision         fleet.Revision
	commit           uuid.UUID
	created, updated time.Time
	body             [sha256.Size]byte
}

func newChainCheck(oldest fleet.Revision) *chainCheck {
	return &chainCheck{oldest: oldest, folded: digest{Hash: sha256.New()}, documents: map[documentName]documentSum{}}
}

// add verifies the next commit. It returns ErrCorrupt if the commit does not match its hash, or its link does not match the
// previous commit.
func (k *chainCheck) add(e Entry) error {
	if k.oldest > 1 && e.Revision <= k.oldest {
		k.folded.whole(e.Commit)
	}
	if e.Revision < k.oldest {
		return k.apply(e.Commit)
	}
	previous := k.last.Hash
	if previous == nil && e.Revision > 1 { // the previous commit was removed; only this link still has its hash
		previous = e.Link.Previous
	}
	switch want := NextLink(previous, e.Link.Checkpoint, e.Commit); {
	case !bytes.Equal(e.Link.Previous, want.Previous):
		return fmt.Errorf("%w: revision %d does not continue the hash chain: history was altered", ErrCorrupt, e.Revision)
	case !bytes.Equal(e.Link.Hash, want.Hash):
		return fmt.Errorf("%w: revision %d does not match its hash: history was altered", ErrCorrupt, e.Revision)
	}
	k.last = e.Link
	return k.apply(e.Commit)
}

// apply changes the documents. The previous version of each must be the result of the earlier commits, except where a shortened
// log lacks it: at its oldest commit, and for clusters that were decommissioned earlier.
func (k *chainCheck) apply(c fleet.Commit) error {
	k.at = c.At
	for _, ch := range c.Changes {
		name := documentName{ch.Kind, ch.ID}
		if old, ok := k.documents[name]; (k.oldest <= 1 || c.Revision > k.oldest) && (ok != (ch.Before != nil) || ok && old.body != sha256.Sum256(ch.Before)) &&
			(ok || k.oldest <= 1 || !isTombstone(ch.Kind, ch.Before)) {
			return fmt.Errorf("%w: revision %d changes another version of %s %q than its predecessors left: history was altered", ErrCorrupt, c.Revision, ch.Kind, ch.ID)
		}
		if ch.After == nil {
			delete(k.documents, name)
			continue
		}
		sum := documentSum{c.Revision, c.ID, c.At, c.At, sha256.Sum256(ch.After)}
		if old, ok := k.documents[name]; ok && ch.Before != nil && ch.Action() != "create" {
			sum.created = old.created
		} else if ch.Before != nil && ch.Action() != "create" {
			sum.created = time.Time{} // a decommissioned cluster: a shortened log lacks its creation
		}
		k.documents[name] = sum
	}
	return nil
}

// isTombstone reports whether a document is a decommissioned cluster.
func isTombstone(kind fleet.Kind, body []byte) bool {
	return body != nil && (fleet.Change{Kind: kind, After: body}).Action() == "delete"
}

// finish compares the verified log with a snapshot. It returns ErrCorrupt unless the documents of the snapshot are the result of
// the log, and the checkpoint covers the remains of older commits.
func (k *chainCheck) finish(snap Snapshot) error {
	if !snap.At.Equal(k.at) {
		return fmt.Errorf("%w: the head is of %s, but the last commit of %s", ErrCorrupt, snap.At, k.at)
	}
	known := 0
	for _, r := range snap.Records {
		want, ok := k.documents[documentName{r.Kind, r.ID}]
		if ok {
			known++
		}
		if !ok && r.Revision < k.oldest && isTombstone(r.Kind, r.Body) {
			continue // decommissioned before the oldest revision: not in a shortened log
		}
		is := documentSum{r.Revision, r.CommitID, r.CreatedAt, r.UpdatedAt, sha256.Sum256(r.Body)}
		if want.created.IsZero() {
			want.created = is.created
		}
		if !ok || is.revision != want.revision || is.commit != want.commit || is.body != want.body ||
			!is.created.Equal(want.created) || !is.updated.Equal(want.updated) {
			return fmt.Errorf("%w: %s %q is not the result of the log", ErrCorrupt, r.Kind, r.ID)
		}
	}
	if known != len(k.documents) {
		return fmt.Errorf("%w: %d documents that result from the log are missing", ErrCorrupt, len(k.documents)-known)
	}
	if k.oldest < 0 || k.oldest > max(snap.Head.Revision, 1) {
		return fmt.Errorf("%w: the log ends with revision %d, but its oldest complete revision is stored as %d", ErrCorrupt, snap.Head.Revision, k.oldest)
	}
	if k.oldest <= 1 {
		return nil
	}
	if !IsCheckpointFor(snap.Checkpoint, k.oldest) {
		return fmt.Errorf("%w: the log begins with revision %d without having been shortened: history was altered", ErrCorrupt, k.oldest)
	}
	sum := CheckpointFor(k.oldest, k.folded.Sum(nil))
	for _, checkpoint := range [][]byte{snap.Checkpoint, k.last.Checkpoint} {
		if IsCheckpointFor(checkpoint, k.oldest) && !bytes.HasPrefix(sum, checkpoint) {
			return fmt.Errorf("%w: the remains of the revisions before %d do not match the checkpoint: history was altered", ErrCorrupt, k.oldest)
		}
	}
	return nil
}

// FormatHash formats a hash of the chain; nil as "none".
func FormatHash(sum []byte) string {
	if sum == nil {
		return "none"
	}
	return "sha256:" + hex.EncodeToString(sum)
}
