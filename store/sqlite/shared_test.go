package sqlite

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Two stores write to one file alternately while its WAL is manipulated: every write that either acknowledges is found by the
// next process. If the WAL was only removed, earlier commits are kept as well.
func TestDamagedUnderTwo(t *testing.T) {
	t.Parallel()
	for what, do := range map[string]func(*testing.T, string){
		"removed": func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		"replaced": func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path+".other", make([]byte, 64<<10), 0o600))
			require.NoError(t, os.Rename(path+".other", path))
		},
		"truncated": func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 0)) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			path := newFile(t)
			stores := [2]*Store{}
			for i := range stores {
				s, err := Open(t.Context(), Config{Path: path})
				require.NoError(t, err)
				stores[i] = s
			}
			acknowledged := map[fleet.Head]bool{}
			write := func(s *Store, name string) error {
				at, err := s.Head(t.Context())
				if err != nil {
					return err
				}
				c := namespace(at, name)
				if err = s.Commit(t.Context(), at, c); err == nil {
					acknowledged[c.Head()] = true
				}
				return err
			}
			for i := range 20 {
				require.NoError(t, write(stores[i%2], fmt.Sprint("before", i)))
			}
			if what == "truncated" {
				clear(acknowledged) // commits that were only in there are lost
			}
			before := len(acknowledged)
			do(t, path+"-wal")
			for i := range 40 {
				if err := write(stores[i%2], fmt.Sprint("after", i)); err != nil {
					require.True(t, errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrStale), err)
				}
			}
			for _, s := range stores {
				require.NoError(t, s.Close())
			}
			t.Logf("%d acknowledged afterwards", len(acknowledged)-before)
			fresh, err := Open(t.Context(), Config{Path: path})
			if err != nil {
				require.Empty(t, acknowledged, err)
				return
			}
			log, err := fresh.Since(t.Context(), fleet.Head{}, 1000)
			require.NoError(t, err)
			known := map[fleet.Head]bool{}
			for _, c := range log {
				known[c.Head()] = true
			}
			for head := range acknowledged {
				require.True(t, known[head], "revision %d was acknowledged and is lost", head.Revision)
			}
			require.NoError(t, fresh.Close())
		})
	}
}
