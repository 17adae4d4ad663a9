package sqlstore

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// batches counts the batches that an import writes. Its other methods are not called.
type batches struct {
	WriteTx
	commits int
}

func (b *batches) QueueRows(_ context.Context, _ *int64, s RowStatement, _ []any, _ iter.Seq[[]any]) error {
	if s.Each == insertCommits.Each {
		b.commits++
	}
	return nil
}

// TestImportOfLargeCommits requires that an import holds a bounded number of bytes of the log in memory.
func TestImportOfLargeCommits(t *testing.T) {
	t.Parallel()
	const commits, size = 64, 1 << 20
	body := json.RawMessage(`"` + strings.Repeat("x", size) + `"`)
	tx := &batches{}
	require.NoError(t, importLog(t.Context(), tx, func(yield func(store.Entry, error) bool) {
		for rev := range fleet.Revision(commits) {
			c := fleet.Commit{Revision: rev + 1, ID: uuid.New(), Changes: []fleet.Change{{Kind: fleet.KindNamespace, ID: "n", After: body}}}
			if !yield(store.Entry{Commit: c}, nil) {
				return
			}
		}
	}))
	require.GreaterOrEqual(t, tx.commits, commits*size/pageBytes)
}
