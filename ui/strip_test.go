package ui_test

import (
	"bytes"
	"compress/gzip"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// TestStrip: the overview shows the counts of the last day, with changes, stages and freezes as links, and intervals without a count.
func TestStrip(t *testing.T) {
	t.Parallel()
	env := setup(t, 60)
	env.signIn(readToken)
	require.NotContains(t, env.get("/ui/").body, `class="strip"`, "there are no counts")
	env.api.CountClusters()
	env.api.CountClusters()
	env.edit(func(tx *fleet.Tx) error {
		_, err := tx.Patch(fleet.KindComponent, "podinfo", []byte(`{"component_version":"6.9.1"}`))
		return err
	})
	env.call("POST", "/freezes", `{"id":"year-end","reason":"CHG-1 <b>","selector":"environment=prod"}`)
	env.advance(20 * time.Minute)
	env.api.CountClusters()
	page := env.get("/ui/").body
	require.Contains(t, page, `class="strip"`)
	require.Regexp(t, `<path class="s-failed" d="M\d+ 40V[\d.]+h1V40z`, page)
	require.Contains(t, page, `class="gap"`)
	require.Regexp(t, `<a href="/ui/changes/4" aria-label="Revision 4: [^"]+">`, page)
	require.Contains(t, page, `<a href="/ui/definitions/freezes/year-end" aria-label="Freeze year-end: CHG-1 &lt;b&gt;">`)
	counts := regexp.MustCompile(`data-counts="([^"]*)"`).FindStringSubmatch(page)[1]
	require.Regexp(t, `^;+2,2,0;+\d+,\d+,\d+$`, counts, "287 separators, two counts")
	require.Less(t, len(page), 60_000)

	env.advance(25 * time.Hour)
	require.NotContains(t, env.get("/ui/").body, `class="strip"`, "the session has ended, and the counts are too old")
}

// TestStripNeedsAllClusters: the counts are of all clusters, so visitors with limited access do not see them.
func TestStripNeedsAllClusters(t *testing.T) {
	t.Parallel()
	env := setup(t, 20)
	env.api.CountClusters()
	env.call("POST", "/access", `{"id":"team","subjects":[{"token":"team"}],"may":["read"],"on":{"selector":"tier=gold"}}`)
	env.signIn(env.issueToken("team", "scoped"))
	page := env.get("/ui/")
	require.Equal(t, 200, page.status)
	require.NotContains(t, page.body, `class="strip"`)
}

// TestFirstPageIsSmall: the overview with a full day of changing counts, and all files that it loads, is at most 20 kB compressed.
func TestFirstPageIsSmall(t *testing.T) {
	t.Parallel()
	env := setupWith(t, 200, "")
	env.signIn(readToken)
	for n := range 288 {
		env.tracker.RecordCount(clusterstatus.StateCount{Total: 10_000, Failed: n * 7919 % 83, Silent: n * 104729 % 89, Progressing: n * 1299709 % 9973}, env.now())
		env.advance(-5 * time.Minute)
	}
	env.advance(288 * 5 * time.Minute)
	page := env.get("/ui/").body
	require.Contains(t, page, `class="strip"`)
	size := compressed(t, page)
	files := regexp.MustCompile(`"(/ui/static/[^"]+)"`).FindAllStringSubmatch(page, -1)
	require.Len(t, files, 3)
	for _, file := range files {
		size += compressed(t, env.get(file[1]).body)
	}
	t.Logf("%d bytes", size)
	require.Less(t, size, 20_000)
}

func compressed(t *testing.T, text string) int {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Len()
}
