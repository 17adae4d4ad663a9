package ui_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// TestControlCharactersEscaped: invisible and bidirectional control characters are shown as escapes; &, < and > as themselves.
func TestControlCharactersEscaped(t *testing.T) {
	t.Parallel()
	env := setupWith(t, 45, "evil\u202etxt\u2066\u200b")
	env.signIn(readToken)
	env.edit(func(tx *fleet.Tx) error {
		_, err := tx.Patch(fleet.KindCluster, "cluster-0000", []byte(`{"patches":{"podinfo":{"args":"a && b < c > d"}}}`))
		return err
	})
	for _, path := range []string{"/ui/", "/ui/clusters/cluster-0003", "/ui/changes", "/ui/changes/2", "/ui/search?q=a%E2%80%AEb"} {
		page := env.get(path).body
		require.NotContains(t, page, "\u202e", path)
		require.NotContains(t, page, "\u2066", path)
		require.Contains(t, page, `\u202e`, path)
	}
	for _, path := range []string{"/ui/changes/4", "/ui/changes/4/revert", "/ui/clusters/cluster-0000/inputs/platform-components/podinfo"} {
		require.Contains(t, env.get(path).body, "a &amp;&amp; b &lt; c &gt; d", path)
	}
	require.Contains(t, env.get("/ui/changes/4").body, `UTC">2 h ago</time>`, "the age, and the time on hover")
}
