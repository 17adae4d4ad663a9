package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
	"github.com/flux-resourceset/flux-resourceset/store/storetest"
)

func TestGrowth(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	grown := storetest.Growth(t, openStore(t, Config{URL: url}), func() { pgtest.Exec(t, url, `VACUUM`) })
	t.Logf("%d bytes for one change of one label", grown)
	require.Less(t, grown, int64(25<<10)) // 3 KiB when quiet, 9 KiB when busy; 50 KiB if each version were stored whole
}
