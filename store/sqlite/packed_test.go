package sqlite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store/storetest"
)

func TestGrowth(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	grown := storetest.Growth(t, openStore(t, Config{Path: path}), func() { execFile(t, path, `PRAGMA wal_checkpoint(TRUNCATE)`) })
	t.Logf("%d bytes for one change of one label", grown)
	require.Less(t, grown, int64(6<<10))
}
