package ui_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDefinitionShowsItsUse: a definition has its clusters by state, the layers that assign it, and the preview of its deletion.
func TestDefinitionShowsItsUse(t *testing.T) {
	t.Parallel()
	env := setup(t, 60)
	env.signIn(readToken)
	page := env.get("/ui/definitions/namespaces/team-red").body
	require.Contains(t, page, ">All 20</a>", "the clusters of the layer")
	require.Contains(t, page, `href="/ui/clusters?input=team-red&amp;list=namespaces&amp;state=confirmed"`)
	require.Contains(t, page, `<a class="chip" href="/ui/layers/gold">gold</a>`)
	require.Contains(t, page, ">Preview deletion</a>")
	list := env.get("/ui/clusters?input=team-red&list=namespaces").body
	require.Equal(t, 20, strings.Count(list, `<th scope="row">`))
	require.Contains(t, list, "Clusters with team-red of Namespaces")
	refused := env.get("/ui/definitions/namespaces/team-red/delete").body
	require.Contains(t, refused, "cascade=true")
	cascade := env.get("/ui/definitions/namespaces/team-red/delete?cascade=true").body
	require.Contains(t, cascade, "On 20 clusters")
	require.Contains(t, cascade, "Read-only")
	require.Equal(t, 404, env.get("/ui/definitions/access/x/delete").status)
}

// TestPagesOfKindsOfAdministrators: access documents, webhooks, sources, tokens, strategies and freezes have pages for those who may read them.
func TestPagesOfKindsOfAdministrators(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	env.call("POST", "/access", `{"id":"team-web","description":"`+strings.ReplaceAll(htmlPayload, `"`, `\"`)+`","subjects":[{"token":"ci-web"}],"may":["plan"]}`)
	env.call("POST", "/strategies", `{"id":"waves","stages":[{"name":"one","selector":"environment=dev"}]}`)
	env.call("POST", "/freezes", `{"id":"year-end","reason":"CHG-1","selector":"environment=prod"}`)
	env.call("POST", "/sources", `{"id":"platform","url":"oci://registry.example.com/fleet","tag":"prod"}`)
	env.issueToken("ci-web", "scoped")
	admin := env.issueToken("ops", "admin")

	env.signIn(admin)
	list := env.get("/ui/definitions").body
	for _, one := range []string{"/ui/definitions/access/team-web", "/ui/definitions/strategies/waves", "/ui/definitions/freezes/year-end", "/ui/definitions/sources/platform"} {
		require.Contains(t, list, `href="`+one+`"`)
		page := env.get(one)
		require.Equal(t, 200, page.status, one)
		require.NotContains(t, page.body, "<script>alert")
		require.NotContains(t, page.body, "delete")
		require.Contains(t, page.body, "All changes")
	}
	require.Contains(t, list, ">ci-web</a>", "a token by its name")
	require.Contains(t, env.get("/ui/search?q=team-w").header.Get("Location"), "/ui/definitions/access/team-web")

	env.signIn(env.issueToken("reader", "read"))
	list = env.get("/ui/definitions").body
	require.NotContains(t, list, "team-web")
	require.NotContains(t, list, "/sources/platform")
	require.NotContains(t, list, ">ci-web</a>")
	require.Contains(t, list, "waves")
	require.Equal(t, "/ui/changes?id=team-web&kind=access", env.get("/ui/definitions/access/team-web").header.Get("Location"))
}
