package ui_test

import (
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// TestCauseOnClusterPage: a failure has the change of its input before it, the values before and after, and the clusters that fail for the
// same reason, each one click away. All changes of the last day are listed.
func TestCauseOnClusterPage(t *testing.T) {
	t.Parallel()
	env := setup(t, 60)
	env.signIn(readToken)
	env.confirmAll()
	for _, patch := range []string{`{"component_version":"8.2.0"}`, `{"component_version":"8.3.0"}`} {
		env.edit(func(tx *fleet.Tx) error {
			_, err := tx.Patch(fleet.KindComponent, "grafana", []byte(patch))
			return err
		})
	}
	env.edit(updatePodinfo) // of another input
	all := env.replica.State().All(fleet.KindCluster)
	at := fleetCreatedAt().Add(time.Minute)
	env.fail(all[0], "grafana", 0, at)
	env.fail(all[2], "grafana", 0, at)
	env.fail(all[5], "podinfo", 1, at)
	page := env.get("/ui/clusters/cluster-0000").body
	require.Regexp(t, `Began (1 min|\d+ s) after <a href="/ui/changes/5">revision 5</a>: changed component/grafana`, page)
	require.Contains(t, page, `<a href="/ui/compare?left=cluster-0000&amp;left_revision=4&amp;right_revision=5">before and after</a>`)
	require.Contains(t, env.get("/ui/compare?left=cluster-0000&left_revision=4&right_revision=5").body, "<del>&#34;8.2.0&#34;</del>")
	similar := regexp.MustCompile(`<a href="([^"]+)">Clusters with the same cause</a>`).FindStringSubmatch(page)
	require.Len(t, similar, 2)
	list := env.get(html.UnescapeString(similar[1])).body
	require.Contains(t, list, "cluster-0000")
	require.Contains(t, list, "cluster-0002")
	require.NotContains(t, list, "cluster-0005")
	require.Contains(t, page, "4 in the last 24 hours")
	require.Equal(t, 3, strings.Count(page, "Before and after"), "not of the revision that created it")

	for range 12 {
		for _, patch := range []string{`{"patches":{"podinfo":{"a":"1"}}}`, `{"patches":{"podinfo":{"a":"2"}}}`} {
			env.edit(func(tx *fleet.Tx) error {
				_, err := tx.Patch(fleet.KindCluster, "cluster-0000", []byte(patch))
				return err
			})
		}
	}
	page = env.get("/ui/clusters/cluster-0000").body
	require.Contains(t, page, "28 in the last 24 hours")
	require.Contains(t, page, `href="/ui/changes/2"`)
	env.advance(23*time.Hour + 30*time.Minute)
	env.signIn(readToken)
	page = env.get("/ui/clusters/cluster-0000").body
	require.Contains(t, page, "none in the last 24 hours")
	require.NotContains(t, page, `href="/ui/changes/20"`, "only the newest")
}

// TestDriftOnClusterPage: the row of an input has the last report of its drift.
func TestDriftOnClusterPage(t *testing.T) {
	t.Parallel()
	env := setup(t, 60)
	env.signIn(readToken)
	env.confirmAll()
	at := fleetCreatedAt().Add(time.Minute)
	env.tracker.RecordEvent("cluster-0000", fleet.KindComponent.Endpoint(), "grafana", clusterstatus.Event{
		Severity: "error", Reason: "DriftDetected", At: at, Message: "Cluster state of release <b>grafana</b> has drifted",
	}, at)
	page := env.get("/ui/clusters/cluster-0000").body
	require.Contains(t, page, `<bdi>DriftDetected</bdi>`)
	require.Contains(t, page, `: Cluster state of release &lt;b&gt;grafana&lt;/b&gt; has drifted`)
}
