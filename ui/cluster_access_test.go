package ui_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// access creates an access document for a token of its name.
func (env *testEnv) access(id, may, more string) {
	env.t.Helper()
	env.call(http.MethodPost, "/access", fmt.Sprintf(`{"id":%q,"subjects":[{"token":%q}],"may":[%s]%s}`, id, id, may, more))
}

// TestWhoMayChange: the access documents whose rights and limits include a cluster, those of its own document and those of others apart, and the
// tokens that may change everything.
func TestWhoMayChange(t *testing.T) {
	t.Parallel()
	env := setup(t, 8)
	require.Equal(t, http.StatusSeeOther, env.signIn(env.issueToken("root", "admin")).status)
	until := env.now().Add(time.Hour).UTC().Format(time.RFC3339)
	env.access("gold-team", `"read","write"`, `,"on":{"selector":"tier=gold","kinds":["cluster"],"labels":["x"]},"description":"<script>alert(1)</script>"`)
	env.access("silver-team", `"read","write"`, `,"on":{"selector":"tier=silver"}`)
	env.access("gold-layers", `"read","write"`, `,"on":{"selector":"tier=gold","kinds":["layer"]}`)
	env.access("all-people", `"read","write"`, `,"expires_at":"`+until+`"`)
	env.access("readers", `"read","plan"`, ``)
	env.access("freezers", `"read","write"`, `,"on":{"kinds":["freeze"]}`)
	env.access("ci-podinfo", `"read","push_version"`, `,"on":{"components":["podinfo"]}`)
	env.issueToken("deploy-everything", "write")
	env.issueToken("only-reads", "read")

	const page = "/ui/clusters/cluster-0000/access" // gold
	require.Contains(t, env.get("/ui/clusters/cluster-0000").body, page)
	body := env.get(page).body
	direct, rest, found := strings.Cut(body, "<h2>Through layers")
	require.True(t, found, body)
	through, tokens, found := strings.Cut(rest, "<h2>Tokens that may change everything")
	require.True(t, found)
	for _, id := range []string{"gold-team", "all-people"} {
		require.Contains(t, direct, ">"+id+"</a>")
	}
	for _, id := range []string{"gold-layers", "ci-podinfo"} {
		require.Contains(t, through, ">"+id+"</a>")
	}
	for _, id := range []string{"silver-team", "readers", "freezers"} {
		require.NotContains(t, body, ">"+id+"</a>")
	}
	require.Contains(t, tokens, ">deploy-everything</a>")
	require.Contains(t, tokens, ">root</a>")
	require.NotContains(t, tokens, "only-reads")
	require.Contains(t, body, "frs auth can-i write cluster/cluster-0000 --as token:NAME")
	require.NotContains(t, body, "<script>alert")
	require.Contains(t, env.get("/ui/clusters/cluster-0001/access").body, ">silver-team</a>")
	env.advance(2 * time.Hour)
	require.NotContains(t, env.get(page).body, ">all-people</a>", "it has expired")
	require.Equal(t, http.StatusNotFound, env.get("/ui/clusters/nobody/access").status)

	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	require.NotContains(t, env.get("/ui/clusters/cluster-0000").body, page)
	require.Equal(t, http.StatusForbidden, env.get(page).status)
}

// TestWhoMayChangeInBrowser: who may change a cluster is two clicks from the overview, and the page fits the screen.
func TestWhoMayChangeInBrowser(t *testing.T) {
	t.Parallel()
	env := setup(t, 60)
	env.access("gold-team", `"read","write"`, `,"on":{"selector":"tier in (gold, silver, bronze)","kinds":["cluster","layer"],"labels":["web/*"]},"description":"a long description of the team"`)
	env.access("ci-podinfo", `"read","push_version"`, `,"on":{"components":["podinfo"]},"expires_at":"2999-01-01T00:00:00Z"`)
	env.issueToken("deploy-everything", "write")
	a := &user{Browser: signInBrowserAs(t, env, writeToken, true), env: env}
	a.task("who may change a cluster", func() {
		a.follow("tbody .says a")
		a.follow(`.actions a[href$="/access"]`)
		a.sees("main", "gold-team", "token gold-team", "ci-podinfo", "deploy-everything")
		require.Equal(t, 2, a.clicks)
	})
	env.looksGood(a.Browser, "access")
	require.Empty(t, a.Complaints())
}
