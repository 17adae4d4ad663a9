package ui_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// TestDefinitionsAndSearch: all kinds of definitions have pages. The search finds them, revisions and failures.
func TestDefinitionsAndSearch(t *testing.T) {
	t.Parallel()
	env := setup(t, 50)
	env.signIn(readToken)
	env.edit(func(tx *fleet.Tx) error {
		for kind, document := range map[fleet.Kind]string{
			fleet.KindRoleBinding:  `{"id":"admins","role":"cluster-admin","subjects":[{"kind":"Group","name":"ops<b>"}]}`,
			fleet.KindResourceType: `{"id":"policies","schema":{"type":"object","additionalProperties":false,"properties":{"size":{"type":"integer","default":1}}}}`,
		} {
			if _, err := tx.Create(kind, []byte(document)); err != nil {
				return err
			}
		}
		return nil
	})
	env.call(http.MethodPost, "/resources/policies", `{"id":"strict","spec":{"size":3}}`)

	page := env.get("/ui/definitions").body
	for path, title := range map[string]string{"namespaces/team-red": "team-red", "rolebindings/admins": "admins", "resource-types/policies": "policies", "policies/strict": "strict"} {
		require.Contains(t, page, `href="/ui/definitions/`+path+`"`)
		shown := env.get("/ui/definitions/" + path)
		require.Equal(t, 200, shown.status, path)
		require.Contains(t, shown.body, `<h1 class="name">`+title+`</h1>`)
		require.Contains(t, shown.body, `class="changes"`, path)
		require.NotContains(t, shown.body, "ops<b>", path)
		require.Equal(t, "/ui/definitions/"+path, env.get("/ui/search?q="+title).header.Get("Location"))
	}
	require.Equal(t, 404, env.get("/ui/definitions/namespaces/nothing").status)
	require.Equal(t, 404, env.get("/ui/definitions/nothing/nothing").status)
	env.call(http.MethodDelete, "/resources/policies/strict", "")
	require.Contains(t, env.get("/ui/definitions/policies/strict").body, "This definition was deleted.")

	require.Contains(t, env.get("/ui/search?q=cluster-00").body, `<a href="/ui/clusters/cluster-0000" autofocus>`, "Enter opens the first result")
	require.Equal(t, "/ui/changes/3", env.get("/ui/search?q=3").header.Get("Location"))
	require.Equal(t, 200, env.get("/ui/search?q=9999").status, "there is no such revision")
	require.Contains(t, env.get("/ui/search?q=chg-7").body, `href="/ui/changes/3"`, "a reason")
	require.Contains(t, env.get("/ui/search?q=ada").body, `href="/ui/changes/2"`, "an author")
	require.Contains(t, env.get("/ui/search?q=9.0.0").header.Get("Location"), "/ui/clusters?component=grafana", "a version of one cluster")
	require.Equal(t, "/ui/components/podinfo", env.get("/ui/search?q=6.9.0").header.Get("Location"), "a version of the catalog")
	require.Contains(t, env.get("/ui/search?q=already+exists").header.Get("Location")+env.get("/ui/search?q=already+exists").body, "/ui/clusters/cluster-0043", "an error text")
}
