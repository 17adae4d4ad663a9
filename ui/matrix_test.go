package ui_test

import (
	"html"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// TestMatrixCellsLinkToTheirClusters: each cell and version leads to a list of as many clusters as it shows.
func TestMatrixCellsLinkToTheirClusters(t *testing.T) {
	t.Parallel()
	env := setupWith(t, 60, "")
	env.signIn(readToken)
	env.edit(func(tx *fleet.Tx) error {
		_, err := tx.Patch(fleet.KindCluster, "cluster-0004", []byte(`{"labels":{"tier":null}}`))
		return err
	})
	versions := regexp.MustCompile(`<a class="cell[^"]*" href="([^"]+)"><span>[^<]*</span><b>(\d+)</b>`)
	listed := regexp.MustCompile(`All <b>(\d+)</b>`)
	for _, page := range []string{"/ui/matrix", "/ui/matrix?by=tier", "/ui/matrix?by=region&selector=environment%3Ddev"} {
		found := versions.FindAllStringSubmatch(env.get(page).body, -1)
		require.Greater(t, len(found), 6, page)
		for _, cell := range found {
			list := env.get(html.UnescapeString(cell[1]))
			require.Equal(t, 200, list.status)
			require.Equal(t, cell[2], listed.FindStringSubmatch(list.body)[1], cell[1])
		}
	}
	require.Contains(t, env.get("/ui/matrix?by=tier").body, "no label")
	dev := env.get("/ui/matrix").body
	require.Contains(t, dev, `<i>1 own</i>`, "cluster-0001 has its own version")
	require.Regexp(t, strconv.Quote("cell pinned")+`[^>]*><span>9\.0\.0`, dev)
	require.Equal(t, 400, env.get("/ui/matrix?selector=in+in").status)
}

// TestWallMode: without navigation, links leave it, and the address of a refresh keeps it.
func TestWallMode(t *testing.T) {
	t.Parallel()
	env := setupWith(t, 20, "")
	env.signIn(readToken)
	wall := env.get("/ui/matrix?by=tier&wall=1").body
	require.NotContains(t, wall, "<nav")
	require.Contains(t, wall, `class="wall"`)
	require.Contains(t, wall, `href="/ui/matrix?by=tier"`)
	require.Contains(t, wall, `id="live"`)
}
