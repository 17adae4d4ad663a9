package ui_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTablesOfDocuments: tokens, access documents, strategies and freezes are tables with a search, an order by each column, and pages.
func TestTablesOfDocuments(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	for i := range 60 {
		env.call("POST", "/tokens", fmt.Sprintf(`{"name":"ci-%02d","role":"read","description":"job %d","expires_at":"2099-01-%02dT00:00:00Z"}`, i, i, 1+i%28))
	}
	env.call("POST", "/tokens", `{"name":"soon","role":"write","description":"`+strings.ReplaceAll(htmlPayload, `"`, `\"`)+`","expires_at":"2098-12-31T00:00:00Z"}`)
	env.call("POST", "/access", `{"id":"team-web","subjects":[{"token":"ci-01"},{"issuer":"https://id.example.com","groups":["web"]}],"may":["read","write"],"on":{"selector":"team=web"},"expires_at":"2099-05-06T07:08:09Z"}`)
	env.call("POST", "/freezes", `{"id":"year-end","reason":"CHG-1","selector":"environment=prod","until":"2099-01-04T06:00:00Z"}`)
	env.signIn(env.issueToken("ops", "admin"))

	first := env.get("/ui/definitions").body
	for _, text := range []string{
		`href="/ui/definitions/tokens">All</a>`, ">2098-12-31</time>", "groups web issuer https://id.example.com", ">read, write</td>", ">selector team=web</td>",
		">2099-05-06</time>", ">CHG-1</td>", ">2099-01-04</time>", ">active</td>",
	} {
		require.Contains(t, first, text)
	}
	require.Less(t, strings.Index(first, ">soon</a>"), strings.Index(first, ">ci-00</a>"), "the token that expires first comes first")
	require.NotContains(t, first, ">ci-59</a>", "the others are on the page of tokens")

	names := func(path string) (out []string) {
		t.Helper()
		page := env.get(path)
		require.Equal(t, 200, page.status)
		require.NotContains(t, page.body, "<script>alert")
		for _, part := range strings.Split(page.body, `<tr><th scope="row">`)[1:] {
			_, name, _ := strings.Cut(strings.SplitN(part, "</a>", 2)[0], ">")
			out = append(out, name)
		}
		return out
	}
	all := names("/ui/definitions/tokens")
	require.Len(t, all, 50)
	require.Equal(t, "soon", all[0])
	more := names("/ui/definitions/tokens?offset=50")
	require.Equal(t, "ops", more[len(more)-1], "a token that does not expire comes last")
	require.Equal(t, "ops", names("/ui/definitions/tokens?sort=-expires_at&offset=50")[len(more)-1])
	require.Equal(t, []string{"soon"}, names("/ui/definitions/tokens?q=SOON"))
	require.Equal(t, []string{"ci-17"}, names("/ui/definitions/tokens?q=job+17"))
	require.Equal(t, "soon", names("/ui/definitions/tokens?sort=-id")[0])
	require.Equal(t, "ci-00", names("/ui/definitions/tokens?sort=id")[0])

	env.call("POST", "/tokens", `{"name":"next-week","role":"read","description":"job x","expires_at":"`+env.now().AddDate(0, 0, 7).UTC().Format(time.RFC3339)+`"}`)
	require.Equal(t, []string{"next-week"}, names("/ui/definitions/tokens?expires=soon"))
	require.Empty(t, names("/ui/definitions/tokens?expires=soon&q=ci"))
	soon := env.get("/ui/definitions/tokens?expires=soon&q=job").body
	require.Contains(t, soon, `<a href="/ui/definitions/tokens?expires=soon" aria-current="true">Expire within 30 days</a>`)
	require.Contains(t, soon, `<input type="hidden" name="expires" value="soon">`)
	require.Contains(t, soon, `href="/ui/definitions/tokens?expires=soon&amp;q=job&amp;sort=id"`)
	require.Contains(t, env.get("/ui/").body, `<a href="/ui/definitions/tokens?expires=soon">1 token</a> expires within 30 days.`)
	require.Contains(t, env.get("/ui/definitions/tokens?sort=id").body, `<th scope="col" aria-sort="ascending"><a href="/ui/definitions/tokens?sort=-id">Name</a>`)
	require.Contains(t, env.get("/ui/definitions/tokens?q=%3Cb%3E").body, "Nothing matches.")
	require.Empty(t, names("/ui/definitions/tokens?offset=1000000"))
	require.Equal(t, 404, env.get("/ui/definitions/namespaces").status)
	require.Equal(t, 404, env.get("/ui/definitions/nothing").status)
	require.Equal(t, []string{"year-end"}, names("/ui/definitions/freezes"))

	env.signIn(env.issueToken("reader", "read"))
	require.NotContains(t, env.get("/ui/").body, "within 30 days")
	for _, list := range []string{"tokens", "access"} {
		require.NotContains(t, env.get("/ui/definitions/"+list).body, "team-web")
		require.Equal(t, 403, env.get("/ui/definitions/"+list).status)
	}
}
