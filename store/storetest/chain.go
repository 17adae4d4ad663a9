package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

func (b *bench) links() []store.Link {
	b.t.Helper()
	links, err := b.Store.Links(b.ctx(), 0, 1000)
	require.NoError(b.t, err)
	return links
}

func (b *bench) verified() store.Verified {
	b.t.Helper()
	var found store.Verified
	require.NoError(b.t, b.answered(func() (err error) { found, err = store.Verify(b.ctx(), b.Store, nil); return err }))
	return found
}

// answered repeats a query until the store is available: on a busy machine a database may exceed the timeout of a query.
func (b *bench) answered(question func() error) error {
	for {
		if err := question(); !errors.Is(err, store.ErrUnavailable) || b.t.Context().Err() != nil {
			return err
		}
	}
}

// testChain: each commit has the hash of the one before, however it was made, and a copy has the same hashes.
func testChain(t *testing.T, b *bench) {
	s := b.Store
	empty, err := s.ChainHead(b.ctx())
	require.NoError(t, err)
	require.Nil(t, empty.Hash)
	require.Equal(t, store.Verified{}, b.verified())
	b.fill()
	id := uuid.New()
	require.NoError(t, b.Store.CommitLocked(b.ctx(), id, func(_ context.Context, base fleet.Head) (fleet.Commit, error) {
		c := next(base, create(fleet.KindNamespace, "locked", body(`{}`)))
		c.ID = id
		b.head = c.Head()
		return c, nil
	}))
	links := b.links()
	require.Len(t, links, int(b.head.Revision))
	var previous []byte
	for i, c := range b.since(fleet.Head{}, 1000) {
		want := store.NextLink(previous, nil, c)
		require.Equal(t, want, links[i], "revision %d", c.Revision)
		previous = want.Hash
	}
	found := b.verified()
	require.Equal(t, previous, found.Hash)
	head, err := s.ChainHead(b.ctx())
	require.NoError(t, err)
	require.Equal(t, store.ChainHead{Head: b.head, Hash: previous, Oldest: head.Oldest}, head)

	target := b.importer()
	require.NoError(t, target.imports(b))
	require.Equal(t, links, target.links())
	target.head = b.head
	target.commit(create(fleet.KindNamespace, "more", body(`{}`)))
	target.verified() // the chain goes on in the copy
}

// testChainAltered: every alteration of the log or the documents is detected, and such a store is not copied.
func testChainAltered(t *testing.T, b *bench) {
	b.commit(create(fleet.KindNamespace, "1", body(`{"n":1}`)), create(fleet.KindCluster, "1", body(`{ "n" : 1 }`)))
	b.commit(update(fleet.KindNamespace, "1", body(`{"n":1}`), body(`{"n":2}`)))
	b.commit(update(fleet.KindNamespace, "1", body(`{"n":2}`), body(`{"n":3}`)), create(fleet.KindNamespace, "2", body(`{}`)))
	b.commit(remove(fleet.KindNamespace, "2", body(`{}`)))
	b.commit(create(fleet.KindNamespace, "3", body(`{}`)))
	b.verified()
	b.exec(`CREATE TABLE saved_head AS SELECT * FROM head; CREATE TABLE saved_commits AS SELECT * FROM commits;
		CREATE TABLE saved_changes AS SELECT * FROM changes; CREATE TABLE saved_documents AS SELECT * FROM documents`)
	target := b.importer() // it stays empty
	for _, damage := range []string{
		`UPDATE commits SET id = '00000000-0000-0000-0000-000000000001' WHERE revision = 3`,
		`UPDATE commits SET at = at + 1 WHERE revision = 3`,
		`UPDATE commits SET actor = 'ci ' WHERE revision = 3`,
		`UPDATE commits SET author = '' WHERE revision = 3`,
		`UPDATE commits SET reason = 'another reason' WHERE revision = 3`,
		`UPDATE commits SET request_id = request_id || '1' WHERE revision = 3`,
		`UPDATE commits SET operations = '' WHERE revision = 3`,
		`UPDATE commits SET hash = previous WHERE revision = 3`,
		`UPDATE commits SET previous = hash WHERE revision = 3`,
		`UPDATE commits SET checkpoint = hash WHERE revision = 3`,
		`UPDATE commits SET hash = NULL, previous = NULL, actor = 'x' WHERE revision = 3`,
		`UPDATE commits SET hash = NULL, previous = NULL, checkpoint = NULL; UPDATE head SET hash = NULL`,
		`UPDATE commits SET hash = previous WHERE revision = (SELECT revision FROM head)`,
		`UPDATE changes SET kind = 'component' WHERE revision = 1 AND kind = 'namespace'`,
		`UPDATE changes SET id = 'other' WHERE revision = 1 AND kind = 'namespace'`,
		`UPDATE changes SET seq = 1 - seq + 10 WHERE revision = 1`,
		`DELETE FROM changes WHERE revision = 3`,
		`UPDATE documents SET body = '{"n":4}' WHERE kind = 'namespace' AND id = '1'`,
		`UPDATE documents SET revision = revision - 1 WHERE kind = 'namespace' AND id = '1'`,
		`UPDATE documents SET commit_id = '00000000-0000-0000-0000-000000000001' WHERE kind = 'namespace' AND id = '1'`,
		`UPDATE documents SET created_at = created_at - 1 WHERE kind = 'namespace' AND id = '1'`,
		`UPDATE documents SET updated_at = updated_at + 1 WHERE kind = 'namespace' AND id = '1'`,
		`UPDATE documents SET id = 'other' WHERE kind = 'namespace' AND id = '1'`,
		`UPDATE head SET at = at + 1`,
		`UPDATE head SET oldest = 4`,
	} {
		b.exec(damage)
		require.Error(t, b.answered(func() error { _, err := store.Verify(b.ctx(), b.Store, nil); return err }), damage)
		require.Error(t, b.answered(func() error { return target.imports(b) }), damage)
		require.Equal(t, store.Snapshot{}, target.load(), damage)
		b.exec(`DELETE FROM changes; DELETE FROM commits; DELETE FROM documents; DELETE FROM head;
			INSERT INTO head SELECT * FROM saved_head; INSERT INTO commits SELECT * FROM saved_commits;
			INSERT INTO changes SELECT * FROM saved_changes; INSERT INTO documents SELECT * FROM saved_documents`)
		b.verified()
	}
}

// testChainLost: no commit follows a head without a hash, because it would begin another chain.
func testChainLost(t *testing.T, b *bench) {
	b.fill()
	b.exec(`UPDATE head SET hash = NULL`)
	err := b.answered(func() error { return b.Store.Commit(b.ctx(), b.head, next(b.head)) })
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.ErrorIs(t, b.answered(func() error { return b.Store.Probe(b.ctx()) }), store.ErrCorrupt)
	require.ErrorIs(t, b.answered(func() error { _, err := store.Verify(b.ctx(), b.Store, nil); return err }), store.ErrCorrupt)
	require.Equal(t, b.head, b.load().Head)
}

// testChainShortened: a checkpoint covers the remains of the incomplete commits.
func testChainShortened(t *testing.T, b *bench) {
	s := b.Store
	l := live(b, 3, 30)
	audit := store.Audit{Store: s}
	require.NoError(t, audit.Check(b.ctx()))
	_, _, err := s.Compact(b.ctx(), l.commits[14].At)
	require.NoError(t, err)
	require.False(t, b.verified().Covered)
	require.NoError(t, audit.Check(b.ctx()))
	found := b.verified()
	require.True(t, found.Covered)
	b.commit(create(fleet.KindNamespace, "more", body(`{}`)))
	links := b.links()
	require.Equal(t, found.Folded, links[len(links)-1].Checkpoint, "the next commit covers the checkpoint")
	require.NoError(t, audit.Check(b.ctx()))
	require.True(t, audit.Status().OK)

	target := b.importer()
	require.NoError(t, target.imports(b))
	require.Equal(t, b.verified(), target.verified())
	require.Equal(t, b.links(), target.links())

	for _, damage := range []string{
		`UPDATE commits SET reason = 'x' WHERE revision = (SELECT min(revision) FROM commits)`,
		`UPDATE head SET checkpoint = (SELECT hash FROM commits WHERE revision = head.revision)`,
		`UPDATE commits SET previous = hash WHERE revision = 16`,
	} {
		altered := b.importer()
		require.NoError(t, altered.imports(b))
		altered.exec(damage)
		found, err := store.Verify(b.ctx(), altered.Store, nil)
		require.True(t, err != nil || !found.Covered, damage)
	}
}

// testAudit: a history that was verified once must remain in the store.
func testAudit(t *testing.T, b *bench) {
	s := b.Store
	b.fill()
	audit := store.Audit{Store: s}
	require.NoError(t, audit.Check(b.ctx()))
	require.Equal(t, b.head, audit.Status().Head)
	b.exec(`CREATE TABLE saved_head AS SELECT * FROM head`)
	before := b.head
	b.commit(create(fleet.KindNamespace, "more", body(`{}`)))
	require.NoError(t, audit.Check(b.ctx()))
	require.Equal(t, b.head, audit.Status().Head)
	require.Equal(t, b.verified().Hash, audit.Status().Hash)

	// A user with write access to the database can forge a consistent history.
	b.exec(fmt.Sprintf(`DELETE FROM changes WHERE revision = %[1]d; DELETE FROM commits WHERE revision = %[1]d; DELETE FROM documents WHERE id = 'more';
		DELETE FROM head; INSERT INTO head SELECT * FROM saved_head`, b.head.Revision))
	b.head = before
	b.commit(create(fleet.KindNamespace, "another one", body(`{}`)))
	require.ErrorIs(t, audit.Check(b.ctx()), store.ErrDiverged)
	require.False(t, audit.Status().OK)
	require.Equal(t, 1, audit.Status().Altered)
	require.NoError(t, audit.Check(b.ctx()), "it agrees with itself")
	require.Equal(t, 1, audit.Status().Altered, "and that it was altered is not forgotten")

	// An alteration that remains is found again after an hour, or when the head changes, not at every check.
	b.exec(`UPDATE commits SET reason = 'altered' WHERE revision = 1`)
	now := time.Now()
	audit = store.Audit{Store: s, Now: func() time.Time { return now }}
	require.ErrorIs(t, audit.Check(b.ctx()), store.ErrCorrupt)
	require.NoError(t, audit.Check(b.ctx()))
	require.Equal(t, 1, audit.Status().Altered)
	require.False(t, audit.Status().OK)
	now = now.Add(2 * time.Hour)
	require.ErrorIs(t, audit.Check(b.ctx()), store.ErrCorrupt)
	b.commit(create(fleet.KindNamespace, "next", body(`{}`)))
	require.ErrorIs(t, audit.Check(b.ctx()), store.ErrCorrupt)
	require.Equal(t, 3, audit.Status().Altered)
}
