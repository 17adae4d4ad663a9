package ui_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// rowsOf counts the clusters in the table of a page.
func rowsOf(page string) int { return strings.Count(page, `<th scope="row"><a href="/ui/clusters/`) }

// TestRoutineChangeNeedsNoAttention: after a change, clusters count as needing attention only if their next poll is overdue.
func TestRoutineChangeNeedsNoAttention(t *testing.T) {
	t.Parallel()
	env := setup(t, 30)
	env.signIn(readToken)
	env.confirmAll()
	require.Contains(t, env.get("/ui/").body, "<h1>No cluster needs attention</h1>")
	env.edit(updatePodinfo)
	page := env.get("/ui/").body
	require.Contains(t, page, "<h1>No cluster needs attention</h1>")
	require.Contains(t, page, ">30 clusters</a> receive their new desired state")
	require.Equal(t, 30, rowsOf(env.get("/ui/clusters?state=progressing").body))
	env.advance(2*time.Minute + 10*time.Second) // their interval is a minute
	require.Contains(t, env.get("/ui/").body, "<h1>30 clusters need attention</h1>")
	require.Equal(t, 30, rowsOf(env.get("/ui/clusters?state=behind").body))
}

// TestSilentClusters: a cluster that failed and stopped polling is in both lists and counted once. If all clusters are silent, the overview
// shows one problem.
func TestSilentClusters(t *testing.T) {
	t.Parallel()
	env := setup(t, 60) // 3 and 43 fail, 7 and 57 are silent, 9 is behind, 11 has never polled
	env.signIn(readToken)
	env.advance(4 * time.Minute)
	for i, doc := range env.replica.State().All(fleet.KindCluster) {
		if i != 3 { // failed before, silent now
			env.report(i, doc, env.now())
		}
	}
	failed := env.get("/ui/clusters?state=failed").body
	require.Equal(t, 2, rowsOf(failed))
	require.Contains(t, failed, `cluster-0003`)
	require.Contains(t, failed, `<strong>UpgradeFailed</strong> <b>grafana</b> <span>timed out waiting`)
	require.Equal(t, 3, rowsOf(env.get("/ui/clusters?state=silent").body))
	require.Equal(t, 4, rowsOf(env.get("/ui/clusters?state=silent,failed").body))
	page := env.get("/ui/").body
	require.Contains(t, page, "<h1>5 clusters need attention</h1>", "each is counted once")
	require.NotContains(t, page, "All clusters are silent")

	env.advance(time.Hour)
	page = env.get("/ui/").body
	require.Contains(t, page, "<h1>All clusters are silent</h1>")
	require.Contains(t, page, "Check the address of this service")
	require.Zero(t, rowsOf(page))
}

// TestSharedTokens: the overview counts and lists the clusters that poll with a shared token, and a cluster shows it with the age of
// its own token.
func TestSharedTokens(t *testing.T) {
	t.Parallel()
	env := setup(t, 30)
	env.signIn(readToken)
	env.edit(func(tx *fleet.Tx) error {
		_, err := tx.CreateToken(fleet.NewToken{ID: "t1", Secret: fleet.Digest{1}, Name: "own", Role: fleet.RolePoll, ClusterID: "cluster-0005"}, env.now())
		return err
	})
	require.NotContains(t, env.get("/ui/").body, "not their own")
	for _, id := range []string{"cluster-0002", "cluster-0005"} {
		env.tracker.RecordPoll(clusterstatus.Poll{Cluster: id, List: "namespaces", ETag: `"x"`, Agent: "flux-operator/v0.58.0", Shared: true}, env.now())
	}
	require.Contains(t, env.get("/ui/").body, `shared_token=true">2 clusters</a> poll with tokens that are not their own`)
	require.Equal(t, 2, rowsOf(env.get("/ui/clusters?shared_token=true").body))
	page := env.get("/ui/clusters/cluster-0005").body
	require.Regexp(t, `<dt>Token</dt><dd>created <time [^>]*>.* <span class="faint">· shared token used <time `, page)
	require.Contains(t, env.get("/ui/clusters/cluster-0001").body, `<span class="faint">none of its own</span></dd>`)
	env.advance(2 * time.Hour)
	require.Zero(t, rowsOf(env.get("/ui/clusters?shared_token=true").body))
}

// TestCausesOnOverview: the overview has one row for each cause, with the revision before it, and each leads to exactly its clusters.
func TestCausesOnOverview(t *testing.T) {
	t.Parallel()
	env := setup(t, 130) // 3, 43, 83 and 123 fail, with three messages
	env.signIn(readToken)
	env.confirmAll()
	require.NotContains(t, env.get("/ui/").body, "Needs attention")
	env.edit(updatePodinfo)
	began := fleetCreatedAt().Add(40 * time.Second)
	for i, doc := range env.replica.State().All(fleet.KindCluster) {
		if failing(i) {
			env.fail(doc, "podinfo", i/40%3, began)
		}
	}
	page := env.get("/ui/").body
	link := regexp.MustCompile(`<th scope="row"><a href="(/ui/clusters\?[^"]*cause=[0-9a-f]{12}[^"]*)">podinfo</a> <span class="faint">6.9.1</span></th>`).FindAllStringSubmatch(page, -1)
	require.Len(t, link, 3)
	require.Regexp(t, `(39|40) s after <a href="/ui/changes/4">revision 4</a>`, page)
	require.Contains(t, page, `<strong>UpgradeFailed</strong> <span>timed out waiting for the condition`)
	require.Contains(t, page, `401 Unauthorized`)
	require.Contains(t, page, `<p class="first"><a href="/ui/clusters/cluster-0003">cluster-0003</a>, <a href="/ui/clusters/cluster-0123">cluster-0123</a></p>`)
	require.Contains(t, page, `>2 clusters</a><p class="first">prod 2</p>`)
	list := env.get(strings.ReplaceAll(link[0][1], "&amp;", "&")).body
	require.Equal(t, 2, rowsOf(list))
	require.Contains(t, list, "2 clusters with the same cause of failure")
	require.Contains(t, list, "cluster-0123")
	require.Contains(t, env.get("/ui/clusters?cause=nonsense").body, `role="alert"`)
	require.Zero(t, rowsOf(env.get("/ui/clusters?cause=0123456789ab").body))
}
