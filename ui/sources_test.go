package ui_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// artifacts has the artifact to which every source refers.
type artifacts struct {
	digest    string
	documents []fleet.FileDocument
	err       error
}

func (a *artifacts) Resolve(context.Context, *fleet.Source) (string, error) { return a.digest, a.err }

func (a *artifacts) Read(_ context.Context, source *fleet.Source, digest string) (fleet.FollowedArtifact, error) {
	found := fleet.SourceArtifact{Digest: digest, Tag: source.Tag, Revision: "main@sha1:" + digest[7:11] + htmlPayload}
	return fleet.FollowedArtifact{SourceArtifact: found, Documents: a.documents}, a.err
}

// push replaces the artifact by one with these namespaces.
func (a *artifacts) push(digit string, namespaces ...string) {
	a.digest, a.documents = "sha256:"+strings.Repeat(digit, 64), nil
	for _, id := range namespaces {
		fields, _ := json.Marshal(map[string]string{"id": id})
		a.documents = append(a.documents, fleet.FileDocument{Kind: fleet.KindNamespace, ID: id, File: "fleet/" + id + ".yaml", Fields: fields})
	}
}

// followSources makes the next check of all sources.
func (env *testEnv) followSources() {
	env.advance(2 * time.Minute)
	env.api.FollowSources(env.t.Context())
}

// holdArtifact creates the source platform, whose first artifact would adopt the namespace team-red.
func (env *testEnv) holdArtifact() {
	env.artifacts.push("a", "team-red", "shop")
	env.call(http.MethodPost, "/access", `{"id":"platform","subjects":[{"source":"platform"}],"may":["write"]}`)
	env.call(http.MethodPost, "/sources", `{"id":"platform","url":"oci://registry.example.com/platform/fleet","tag":"prod"}`)
	env.followSources()
}

// TestSourcesPage: administrators see what is applied, held and drifted, and approve the plan that they see.
func TestSourcesPage(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	env.signIn(env.issueToken("reader", "read"))
	require.Equal(t, http.StatusForbidden, env.get("/ui/sources").status)
	require.Equal(t, http.StatusForbidden, env.get("/ui/sources/platform/approve").status)
	env.signIn(env.issueToken("admin", "admin"))
	require.Contains(t, env.get("/ui/sources").body, "No sources")
	env.holdArtifact()
	page := env.get("/ui/sources").body
	for _, want := range []string{"1 source needs attention", "Held", "it would adopt 1 document", "Show the plan", "main@sha1:aaaa&lt;script&gt;"} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "Suspend…")
	require.Contains(t, env.get("/ui/sources/platform/approve").body, "Read-only. To apply this change: <code class=\"command\">frs source approve platform</code>")

	env.enableChanges()
	env.signIn(env.issueToken("admin-2", "admin"))
	require.Contains(t, env.get("/ui/sources").body, `aria-label="Approve the held artifact of platform"`)
	plan := env.get("/ui/sources/platform/approve").body
	for _, want := range []string{"The source would manage 1 existing document", "namespace team-red", "fleet/team-red.yaml", "1 document would change", "shop"} {
		require.Contains(t, plan, want)
	}
	approve := func(hash string) response {
		return env.send(env.client, http.MethodPost, "/ui/sources/platform/approve", url.Values{"plan_hash": {hash}, "reason": {"CHG-1"}})
	}
	require.Contains(t, approve("another").body, "so nothing was done. This is the new plan.")
	require.Equal(t, "/ui/sources", approve(env.planHash("/ui/sources/platform/approve")).header.Get("Location"))
	require.Contains(t, env.get("/ui/sources").body, "approved, and applied at the next check")
	env.followSources()
	page = env.get("/ui/sources").body
	require.Contains(t, page, "Synced")
	require.NotContains(t, page, "Approve…")
	shop := env.get("/ui/definitions/namespaces/shop").body
	require.Contains(t, shop, `by source <a href="/ui/sources">platform</a>, in its file <code>fleet/shop.yaml</code>`)
	require.NotContains(t, shop, "drifted")
	require.NotContains(t, env.get("/ui/layers/gold").body, "by source")
	env.edit(func(tx *fleet.Tx) error {
		tx.Guard(fleet.Guard{Off: true, OverrideSources: []string{"platform"}})
		_, err := tx.Patch(fleet.KindNamespace, "shop", []byte(`{"labels":{"a":"b"}}`))
		return err
	})
	require.Contains(t, env.get("/ui/definitions/namespaces/shop").body, "drifted")
	require.Contains(t, env.get("/ui/sources").body, `Drifted: <a class="chip" href="/ui/definitions/namespaces/shop" title="fleet/shop.yaml">namespace shop</a>`)
	require.Contains(t, env.get("/ui/sources/platform/approve").body, "no artifact of source &#34;platform&#34; is held")

	env.artifacts.err = errors.New("registry.example.com: connection refused")
	env.followSources()
	page = env.get("/ui/sources").body
	require.Contains(t, page, "Failed")
	require.Contains(t, page, "connection refused")

	hash := env.planHash("/ui/sources/platform/suspend")
	require.Contains(t, env.send(env.client, http.MethodPost, "/ui/sources/platform/suspend", url.Values{"plan_hash": {hash}, "reason": {"INC-1"}}).header.Get("Location"), "/ui/changes/")
	page = env.get("/ui/sources").body
	require.Contains(t, page, "Suspended")
	require.Contains(t, page, "Resume…")
	require.Contains(t, env.get("/ui/definitions").body, `href="/ui/sources"`)
}

// TestSourcesInBrowser: a person approves a held artifact. The pages fit the screen.
func TestSourcesInBrowser(t *testing.T) {
	t.Parallel()
	env := setupWith(t, 3, "")
	env.holdArtifact()
	b := signInBrowserAs(t, env, writeToken, true)
	pages := map[string]string{"sources": "/ui/sources", "source-plan": "/ui/sources/platform/approve"}
	for style, scheme := range map[string]chromedp.Action{"": light, "dark-": dark} {
		b.Run(scheme)
		screenshots(t, b, env, style, pages)
		for _, path := range pages {
			b.Run(chromedp.Navigate(env.http.URL+path), chromedp.WaitReady("main", chromedp.ByQuery))
			require.Empty(t, violations(t, b), "%s%s", style, path)
		}
	}
	b.Run(chromedp.Tasks{light, phone})
	screenshots(t, b, env, "phone-", pages)
	b.Run(chromedp.Navigate(env.http.URL+"/ui/sources"), chromedp.Click(`//a[contains(., "Approve")]`, chromedp.BySearch))
	b.At("/ui/sources/platform/approve")
	b.Run(chromedp.SendKeys("#reason", "CHG-1\r", chromedp.ByQuery))
	b.At("/ui/sources")
	env.followSources()
	b.Run(chromedp.Reload(), chromedp.WaitVisible(`//span[contains(., "Synced")]`, chromedp.BySearch))
	require.Empty(t, b.Complaints())
}

// TestManagedDocuments: pages of documents name the source that manages them; only administrators get a link to it.
func TestManagedDocuments(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	env.wrapAPI = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				w.Header().Set("X-Fleet-Managed-By", url.Values{"source": {"platform"}, "file": {htmlPayload}, "drifted": {"true"}}.Encode())
			}
			next.ServeHTTP(w, r)
		})
	}
	env.enableChanges()
	env.signIn(env.issueToken("reader", "read"))
	for _, path := range []string{"/ui/clusters/cluster-0001", "/ui/components/podinfo", "/ui/layers/gold", "/ui/definitions/namespaces/team-red"} {
		page := env.get(path).body
		require.Contains(t, page, "by source platform, in its file <code>&lt;script&gt;", path)
		require.Contains(t, page, "drifted", path)
		require.NotContains(t, page, `href="/ui/sources"`, path)
	}
}
