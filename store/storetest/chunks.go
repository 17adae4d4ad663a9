package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// badLine is a store behind a line that does not last for a whole commit, and breaks after every second part of one.
type badLine struct {
	store.Store
	asked int
	came  []int // how many changes came, and every time where they began
}

var errLine = errors.New("the line broke")

func (*badLine) Since(context.Context, fleet.Head, int) ([]fleet.Commit, error) { return nil, errLine }

func (l *badLine) Changes(ctx context.Context, rev fleet.Revision, offset, limit int) ([]fleet.Change, error) {
	if l.asked++; l.asked%3 == 0 {
		return nil, errLine
	}
	changes, err := l.Store.Changes(ctx, rev, offset, limit)
	l.came = append(l.came, offset, len(changes))
	return changes, err
}

// testChunks: a Replica on a connection that always breaks within a commit gets the commit all the same, applies it only when
// it is complete, and does not request any chunk twice.
func testChunks(t *testing.T, b *bench) {
	const n = 1000
	line := &badLine{Store: b.Store}
	r := store.NewReplica(store.Config{Store: line})
	b.commit(create(fleet.KindNamespace, "first", body(`{"id":"first"}`)))
	require.NoError(t, r.Load(b.ctx()))
	for round := range 2 {
		var changes []fleet.Change
		for i := range n {
			id := fmt.Sprintf("n%d-%d", round, i)
			changes = append(changes, create(fleet.KindNamespace, id, body(`{"id":%q}`, id)))
		}
		before := r.State()
		c := b.commit(changes...)
		line.came = nil
		attempts := 0
		for r.Load(b.ctx()) != nil {
			require.Same(t, before, r.State(), "nothing of it is seen before it is whole")
			attempts++
			require.Less(t, attempts, n, "it gets there")
		}
		require.Equal(t, c.Head(), r.State().Head())
		at := 0
		for i := 0; i < len(line.came); i += 2 {
			require.Equal(t, at, line.came[i], "nothing comes twice")
			at += line.came[i+1]
		}
		require.Equal(t, n, at)
		for _, ch := range changes {
			got, ok := r.State().Record(ch.Kind, ch.ID)
			require.True(t, ok)
			require.Equal(t, string(ch.After), string(got.Body))
		}
	}
}
