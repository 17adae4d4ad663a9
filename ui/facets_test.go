package ui_test

import (
	"html"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// TestFacetsLeadToTheirClusters: each value of a facet leads to as many clusters as it shows, and the selected value leads back.
func TestFacetsLeadToTheirClusters(t *testing.T) {
	t.Parallel()
	env := setupWith(t, 60, "")
	env.signIn(readToken)
	for i, doc := range env.replica.State().All(fleet.KindCluster) {
		if i%10 == 4 {
			env.fail(doc, "podinfo", 2, fleetCreatedAt())
		}
	}
	values := regexp.MustCompile(`<(?:li><a|a class="pinned") href="([^"]+)"(?: title="[^"]*")? >(?:<span>)?([^<]*?)(?:</span>)? <b>(\d+)</b>`)
	shown := regexp.MustCompile(`–\d+ of (\d+)`)
	cause := regexp.MustCompile(`/ui/clusters\?[^"]*cause=[0-9a-f]{12}[^"]*`).FindString(env.get("/ui/").body)
	require.NotEmpty(t, cause)
	for _, page := range []string{html.UnescapeString(cause), "/ui/clusters?state=failed", "/ui/clusters?overrides=version", "/ui/clusters", "/ui/clusters?component=grafana", "/ui/clusters?state=confirmed&environment=qa", "/ui/clusters?selector=region+in+%28eu-1%2Ceu-2%29"} {
		found := values.FindAllStringSubmatch(env.get(page).body, -1)
		require.Greater(t, len(found), 2, page)
		for _, value := range found {
			list := env.get(html.UnescapeString(value[1]))
			require.Equal(t, 200, list.status)
			rows := strings.Count(list.body, `<th scope="row">`)
			if of := shown.FindStringSubmatch(list.body); of != nil {
				require.Equal(t, value[3], of[1], "%s: %s", page, value[1])
			} else {
				require.Equal(t, value[3], strconv.Itoa(rows), "%s: %s", page, value[1])
			}
			if strings.HasPrefix(value[0], "<li>") {
				require.Contains(t, list.body, "<b>"+value[2]+"</b></summary>", "it is shown as selected")
			}
		}
	}
	gold := html.UnescapeString(env.get("/ui/clusters?selector=region+in+%28eu-1%2Ceu-2%29%2Ctier%3Dgold").body)
	require.Contains(t, gold, `<li><a href="/ui/clusters?selector=region+in+%28eu-1%2Ceu-2%29">Any</a></li>`)
	require.Contains(t, env.get("/ui/clusters?environment=dev&state=failed&selector=tier").body, `<input type="hidden" name="environment" value="dev"><input type="hidden" name="state" value="failed">`)
}

// TestClustersThatDifferFromTheirLayers: two clicks lead from the overview to them, and each to its comparison.
func TestClustersThatDifferFromTheirLayers(t *testing.T) {
	t.Parallel()
	env := setup(t, 60)
	env.signIn(readToken)
	page := html.UnescapeString(env.get("/ui/clusters").body)
	require.Regexp(t, `<a class="pinned" href="/ui/clusters\?overrides=version" title="[^"]+" >Differ from their layers <b>1</b></a>`, page)
	require.Contains(t, page, ">Own patches <b>1</b></a>")
	require.NotContains(t, page, "Compare with its layers")
	page = html.UnescapeString(env.get("/ui/clusters?overrides=version").body)
	require.Equal(t, 1, strings.Count(page, `<th scope="row">`))
	require.Contains(t, page, `All <b>1</b></a>`)
	require.Contains(t, page, `<a class="more" href="/ui/compare?layer=%2A&left=cluster-0001">Compare with its layers</a>`)
	page = env.get("/ui/compare?left=cluster-0001&layer=%2A").body
	require.Contains(t, page, "Components › grafana › /component_version")
	require.Contains(t, page, "<del>&#34;8.1.0&#34;</del>")
	require.NotContains(t, page, "podinfo ›")
	require.NotContains(t, page, "hunter2")
	require.Contains(t, env.get("/ui/clusters?overrides=all").body, `role="alert"`)
}

// TestColumns: the address has the hidden columns, filters keep them, and unknown names are ignored.
func TestColumns(t *testing.T) {
	t.Parallel()
	env := setupWith(t, 10, "")
	env.signIn(readToken)
	page := html.UnescapeString(env.get("/ui/clusters?hide=agent,x%22%3E").body)
	require.Contains(t, page, `<div class="hide-agent">`)
	require.Contains(t, page, `<a href="/ui/clusters?hide=message%2Cagent" aria-current="true"><span>Message</span>`)
	require.Contains(t, page, `<a href="/ui/clusters?" ><span>Agent</span>`)
	require.Contains(t, page, `href="/ui/clusters?environment=dev&hide=`)
}
