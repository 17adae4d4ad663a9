package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/clusterstatus/statustest"
)

func TestObservations(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, path string){
		"deleted": func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		"no database": func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("nonsense", 1000)), 0o600))
		},
		"cut off": func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 5000)) },
		"somebody else": func(t *testing.T, path string) {
			require.NoError(t, os.Remove(path))
			execFile(t, path, `CREATE TABLE observations (x)`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			statustest.Run(t, func(t *testing.T) statustest.Fixture {
				path := filepath.Join(t.TempDir(), "a dir?", "fleet #1%41.db")
				require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
				return statustest.Fixture{
					Store:  NewObservations(path),
					Reopen: func(*testing.T) clusterstatus.Store { return NewObservations(path) },
					Lose:   func(t *testing.T) { lose(t, path+observationsSuffix) },
				}
			})
		})
	}
}

// The file is readable by its owner only.
func TestObservationsAreTheirOwners(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fleet.db")
	require.NoError(t, NewObservations(path).Put(t.Context(), nil))
	info, err := os.Stat(path + observationsSuffix)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// A malformed row, written by another program, does not prevent reading the others.
func TestRowsThatSomebodyElseWrote(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fleet.db")
	table := NewObservations(path)
	want := clusterstatus.Row{Cluster: "x", Subject: "seen", Body: "{}", ObservedAt: time.UnixMicro(1)}
	require.NoError(t, table.Put(t.Context(), []clusterstatus.Row{want}))
	execFile(t, path+observationsSuffix, `INSERT INTO observations (cluster_id, subject, body, said, at)
		VALUES ('a', 'seen', '{}', 'noon', 9e18), (x'ff00', 5, x'ff', 1.5, 9e18), ('b', 'seen', 7, 9e18, 'now')`)
	var got []clusterstatus.Row
	_, err := table.Since(t.Context(), time.Time{}, nil, func(r clusterstatus.Row) { got = append(got, r) })
	require.NoError(t, err)
	require.Contains(t, got, want)
	require.Len(t, got, 4)
}
