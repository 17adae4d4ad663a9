package server_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
)

// All problems of a seed are reported, each at its place, also equal ones.
func TestSeedReportsAllProblems(t *testing.T) {
	t.Parallel()
	cluster := func(n int, lists string) string {
		return fmt.Sprintf(`{"id":"c%d","cluster_dns":"c%d.example.com","environment":"dev",%s}`, n, n, lists)
	}
	problems := func(text string) (at []string) {
		t.Helper()
		seed, err := fleet.ParseSeed([]byte(text))
		require.NoError(t, err)
		err = server.CheckSeed(seed, fleet.Rules{})
		require.False(t, seed.Checked())
		invalid, ok := errors.AsType[*fleet.Error](err)
		require.True(t, ok, "%v", err)
		for _, p := range invalid.Problems {
			at = append(at, p.Pointer)
		}
		return at
	}
	require.Equal(t, []string{
		"/clusters/1/namespaces/1/id", "/clusters/2/namespaces/0/id", "/clusters/2/namespaces/1/x", "/clusters/2/namespaces/2/id", "/clusters/3/id", "/clusters/4/namespaces/0", "/clusters/5/id", "/clusters/6",
	}, problems(`{"namespaces":[{"id":"web"}],"clusters":[`+strings.Join([]string{
		cluster(0, `"namespaces":[{"id":"web"}]`),
		cluster(1, `"namespaces":[{"id":"web"},{"id":1}]`),
		cluster(2, `"namespaces":[{"id":1},{"id":"web","x":1},{"id":1}]`),
		`{"id":"c3","id":"c3"}`,
		cluster(4, `"namespaces":["web"]`),
		`{"id":5,"cluster_dns":"c5.example.com","environment":"dev"}`,
		`{"id":"c6","deleted_at":"2026-01-02T03:04:05Z"}`,
	}, ",")+`]}`))
	require.Equal(t, []string{"/clusters/1/namespaces/1/id"}, problems(`{"namespaces":[{"id":"web"}],"clusters":[`+
		cluster(0, `"namespaces":[{"id":"web"}]`)+","+cluster(1, `"namespaces":[{"id":"web"},{"id":"web"}]`)+`]}`), "what the contract lets pass, the fleet does not")
}
