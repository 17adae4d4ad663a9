package ui_test

import (
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/ui"
)

// allPages has an address of each page.
var allPages = []string{
	"/ui/", "/ui/clusters", "/ui/clusters?state=failed", "/ui/clusters?selector=tier%3Dgold&environment=dev&component=grafana", "/ui/clusters?offset=50",
	"/ui/clusters/cluster-0003", "/ui/clusters/cluster-0001/inputs/platform-components/grafana", "/ui/clusters/cluster-0011",
	"/ui/components", "/ui/components/grafana", "/ui/components/grafana/version?version=8.2.0&strategy=-&stages=dev%3Denvironment%3Ddev", "/ui/layers", "/ui/layers/gold", "/ui/rollouts",
	"/ui/changes", "/ui/changes?kind=cluster&id=cluster-0001", "/ui/changes/1", "/ui/changes/2", "/ui/changes/3", "/ui/changes/3/revert",
	"/ui/changes/2/restore?kind=cluster&id=cluster-0001", "/ui/clusters/cluster-0001/delete", "/ui/clusters/cluster-0001/protect", "/ui/components/grafana/delete",
	"/ui/components/grafana/delete?cascade=true", "/ui/layers/gold/delete", "/ui/search?q=cluster-00",
	"/ui/definitions", "/ui/definitions/freezes", "/ui/definitions/strategies?q=waves&sort=-updated_at", "/ui/definitions/namespaces/team-red", "/ui/definitions/namespaces/team-red/delete", "/ui/clusters?list=namespaces&input=team-red",
	"/ui/help", "/ui/freezes/create-all", "/ui/freezes/create-all?environment=prod", "/ui/compare", "/ui/compare?left=cluster-0001&right=cluster-0002", "/ui/compare?left=cluster-0001&left_revision=2&right_revision=3", "/ui/compare?left=cluster-0001&left_revision=1", "/ui/compare?left=cluster-0000&layer=gold",
	"/ui/add/cluster", "/ui/add/cluster?id=new-01&dns=new-01.k8s.example.com&environment=dev&labels=tier", "/ui/clusters/cluster-0003/connect", "/ui/changes?source=platform",
	"/ui/matrix", "/ui/matrix?by=tier", "/ui/matrix?by=region&selector=tier%3Dgold", "/ui/matrix?wall=1", "/ui/?wall=1",
}

// TestHTMLEscaped: texts from outside are escaped on every page.
func TestHTMLEscaped(t *testing.T) {
	t.Parallel()
	env := setup(t, 120)
	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	escaped := 0
	for _, path := range allPages {
		page := env.get(path)
		require.Equal(t, 200, page.status, "%s: %s %s", path, page.body, env.logs)
		require.NotContains(t, page.body, "<script>alert", path)
		require.NotContains(t, page.body, "<img src=x", path)
		require.NotContains(t, page.body, readToken, path)
		if !strings.Contains(path, "wall=1") {
			require.Contains(t, page.body, "<span>flux-resourceset v2.0.0-test</span>", path)
		}
		escaped += strings.Count(page.body, "&lt;script&gt;alert")
		require.Contains(t, page.header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'; style-src 'self';")
		require.NotContains(t, page.header.Get("Content-Security-Policy"), "unsafe")
		require.NotContains(t, page.body, " style=", path)
		require.NotRegexp(t, ` on[a-z]+="`, page.body, "event handlers belong in the script: %s", path)
		require.Equal(t, "no-store", page.header.Get("Cache-Control"))
	}
	require.Positive(t, escaped, "some page has the text")
	for _, path := range []string{"/ui/clusters?selector=" + url.QueryEscape(`"><script>alert(1)</script>`), "/ui/search?q=" + url.QueryEscape(`<script>alert(1)</script>`)} {
		require.NotContains(t, env.get(path).body, "<script>alert", path)
	}
}

// TestSignIn: without a session every page redirects to the sign-in form, which returns to the page if it belongs to this site.
func TestSignIn(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	require.Equal(t, "/ui/", env.get("/", "Accept", "text/html,*/*").header.Get("Location"))
	require.Equal(t, 404, env.get("/").status, "no browser")
	for _, path := range allPages {
		rsp := env.get(path)
		require.Equal(t, http.StatusSeeOther, rsp.status, path)
		require.Equal(t, "/ui/sign-in?to="+url.QueryEscape(path), rsp.header.Get("Location"))
	}
	form := env.get("/ui/sign-in?to=%2Fui%2Fclusters%3Fstate%3Dfailed")
	require.Contains(t, form.body, `value="/ui/clusters?state=failed"`)
	for _, token := range []string{"", "wrong", "two\nlines", strings.Repeat("x", 2000), readToken + "x"} {
		rsp := env.signIn(token)
		require.GreaterOrEqual(t, rsp.status, 400, token)
		require.Empty(t, rsp.header.Values("Set-Cookie"))
		require.Contains(t, rsp.body, `role="alert"`)
		env.advance(2 * time.Second) // guessing is slow
	}
	for _, foreign := range []string{"https://evil.example/", "//evil.example/", `/\evil.example`, "/ui/../clusters", "javascript:alert(1)", "/ui/sign-out", "/clusters", ""} {
		rsp := env.send(env.newClient(t), http.MethodPost, "/ui/sign-in", url.Values{"token": {readToken}, "to": {foreign}})
		require.Equal(t, "/ui/", rsp.header.Get("Location"), foreign)
	}
	rsp := env.send(env.client, http.MethodPost, "/ui/sign-in", url.Values{"token": {readToken}, "to": {"/ui/clusters?state=failed"}})
	require.Equal(t, http.StatusSeeOther, rsp.status)
	require.Equal(t, "/ui/clusters?state=failed", rsp.header.Get("Location"))
	cookie := rsp.header.Get("Set-Cookie")
	for _, part := range []string{"fleet-session=", "HttpOnly", "SameSite=Strict", "Path=/"} {
		require.Contains(t, cookie, part)
	}
	require.NotContains(t, cookie, readToken)
	require.Equal(t, 200, env.get("/ui/").status)
	require.Equal(t, 200, env.get("/ui/clusters", "Sec-Fetch-Site", "cross-site").status)
	require.NotContains(t, env.logs.String(), readToken)

	// After a link from another site the cookie is missing; a page of this site redirects.
	arrival := env.send(env.newClient(t), http.MethodGet, "/ui/changes/3?a=b", nil, "Sec-Fetch-Site", "cross-site")
	require.Equal(t, 200, arrival.status)
	require.Contains(t, arrival.body, `content="0;url=/ui/changes/3?a=b"`)

	require.Equal(t, http.StatusSeeOther, env.send(env.client, http.MethodPost, "/ui/sign-out", url.Values{}).status)
	require.Equal(t, http.StatusSeeOther, env.get("/ui/").status)
}

// TestSignOutEndsSessionEverywhere: a sign-out ends copies of the cookie, also in other processes.
func TestSignOutEndsSessionEverywhere(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	pages := []http.Handler{env.page(sessionKey), env.page(sessionKey)}
	ask := func(page http.Handler, method, path string, form url.Values, cookies ...*http.Cookie) *http.Response {
		req := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(form.Encode()))
		req.RemoteAddr = "127.0.0.1:1234"
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for _, c := range cookies {
			req.AddCookie(c)
		}
		rsp := httptest.NewRecorder()
		page.ServeHTTP(rsp, req)
		return rsp.Result()
	}
	signIn := func() *http.Cookie {
		got := ask(pages[0], http.MethodPost, "/ui/sign-in", url.Values{"token": {readToken}})
		require.Len(t, got.Cookies(), 1)
		return got.Cookies()[0]
	}
	copied, other := signIn(), signIn()
	before := env.replica.State().Revision()
	for _, page := range pages {
		require.Equal(t, 200, ask(page, http.MethodGet, "/ui/", nil, copied).StatusCode)
	}
	ask(pages[0], http.MethodPost, "/ui/sign-out", nil, copied)
	for i, page := range pages {
		require.Equal(t, http.StatusSeeOther, ask(page, http.MethodGet, "/ui/", nil, copied).StatusCode, "process %d", i)
		require.Equal(t, 200, ask(page, http.MethodGet, "/ui/", nil, other).StatusCode, "another session of the token goes on")
	}
	require.Equal(t, before, env.replica.State().Revision(), "a sign-out is no revision")
}

// TestSessionExpiry: a session ends with its token, eight hours after its last use, and a day after the sign-in.
func TestSessionExpiry(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	secret := env.issueToken("viewer", "read")
	require.Equal(t, http.StatusSeeOther, env.signIn(secret).status)
	require.Equal(t, 200, env.get("/ui/").status)
	env.revoke("viewer")
	require.Equal(t, http.StatusSeeOther, env.get("/ui/").status, "a revoked token ends its sessions at once")

	refused := env.signIn(env.pollToken("cluster-0001"))
	require.Equal(t, http.StatusForbidden, refused.status, refused.body)
	require.Contains(t, refused.body, "no access document permits it to you, or the token is a poll token of a cluster")

	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	env.advance(7 * time.Hour)
	require.Equal(t, 200, env.get("/ui/").status)
	env.advance(7 * time.Hour)
	require.Equal(t, 200, env.get("/ui/").status, "it was used since")
	env.advance(9 * time.Hour)
	require.Equal(t, http.StatusSeeOther, env.get("/ui/").status, "it was not used")

	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	for range 4 {
		env.advance(6*time.Hour - time.Minute)
		require.Equal(t, 200, env.get("/ui/").status)
	}
	env.advance(time.Hour)
	require.Equal(t, http.StatusSeeOther, env.get("/ui/").status, "not for more than a day")
}

// TestRevisionProgress: the progress of a revision counts all clusters whose inputs it changed.
func TestRevisionProgress(t *testing.T) {
	t.Parallel()
	env := setup(t, 120)
	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	require.Contains(t, env.get("/ui/changes/2").body, "of 120 clusters whose inputs it changed", "not only the shown documents")
	require.Contains(t, env.get("/ui/changes/3").body, "Reached 1 of 1 cluster whose")
	env.edit(patched(fleet.KindComponent, "grafana", `{"component_version":"8.2.0"}`))
	require.Contains(t, env.get("/ui/changes/4").body, "of 119 clusters whose", "one has a version of its own")
	env.edit(patched(fleet.KindCluster, "cluster-0001", `{"platform_components":[{"id":"podinfo"},{"id":"grafana","component_version":"9.1.0"}]}`))
	for _, text := range []string{"Reached 1 of 1 cluster whose inputs it changed", "Later revisions changed all of these inputs again."} {
		require.Contains(t, env.get("/ui/changes/3").body, text)
	}
	require.Contains(t, env.get("/ui/changes/5").body, "Reached 0 of 1 cluster whose")
	env.edit(patched(fleet.KindLayer, "gold", `{"description":"x"}`))
	require.NotContains(t, env.get("/ui/changes/6").body, "<h2>Progress")
}

// TestAgesUseServerClock: ages depend on the clock of the service, not of the browser.
func TestAgesUseServerClock(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	require.Contains(t, env.get("/ui/changes").body, ">2 h ago<")
	env.advance(5 * time.Hour)
	require.Contains(t, env.get("/ui/changes").body, ">7 h ago<")
}

// TestSessionEncryption: a process with the same key accepts a session; another key, a changed value or another name invalidates it.
func TestSessionEncryption(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	pages := map[string]http.Handler{"same": env.page(sessionKey), "same again": env.page(sessionKey), "other": env.page(sessionKey + "x"), "none": env.page("")}
	ask := func(page http.Handler, cookie *http.Cookie) int {
		req := local(http.MethodGet, "http://127.0.0.1/ui/", "")
		req.AddCookie(cookie)
		rec := httptest.NewRecorder()
		page.ServeHTTP(rec, req)
		return rec.Code
	}
	req := local(http.MethodPost, "http://127.0.0.1/ui/sign-in", url.Values{"token": {readToken}}.Encode())
	rec := httptest.NewRecorder()
	pages["same"].ServeHTTP(rec, req)
	cookie := rec.Result().Cookies()[0]
	require.Equal(t, 200, ask(pages["same"], cookie))
	require.Equal(t, 200, ask(pages["same again"], cookie))
	require.Equal(t, http.StatusSeeOther, ask(pages["other"], cookie))
	require.Equal(t, http.StatusSeeOther, ask(pages["none"], cookie))
	for i := range len(cookie.Value) {
		changed := []byte(cookie.Value)
		changed[i] ^= 4
		require.Equal(t, http.StatusSeeOther, ask(pages["same"], &http.Cookie{Name: cookie.Name, Value: string(changed)}), i)
	}
	require.Equal(t, http.StatusSeeOther, ask(pages["same"], &http.Cookie{Name: "__Host-fleet-session", Value: cookie.Value}))
	_, err := ui.New(ui.Config{API: env.api})
	require.NoError(t, err)
}

// local returns a request from the same machine.
func local(method, address, form string) *http.Request {
	req := httptest.NewRequest(method, address, strings.NewReader(form))
	req.RemoteAddr = "127.0.0.1:4711"
	if form != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return req
}

// TestCookieOverHTTPS: the cookie is for HTTPS only, unless the browser is on the same machine.
func TestCookieOverHTTPS(t *testing.T) {
	t.Parallel()
	env := setup(t, 2)
	for host, secure := range map[string]bool{"127.0.0.1:8080": false, "localhost": false, "[::1]:8080": false, "fleet.example.com": true, "10.0.0.1": true, "localhost.evil.example": true} {
		req := local(http.MethodPost, "http://"+host+"/ui/sign-in", url.Values{"token": {readToken}}.Encode())
		rec := httptest.NewRecorder()
		env.page("").ServeHTTP(rec, req)
		cookie := rec.Result().Cookies()[0]
		require.Equal(t, secure, cookie.Secure, host)
		require.Equal(t, secure, strings.HasPrefix(cookie.Name, "__Host-"), host)
	}
	for name, elsewhere := range map[string]func(*http.Request){
		"another machine": func(r *http.Request) { r.RemoteAddr = "192.0.2.1:4711" },
		"a proxy":         func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.1") },
		"an old proxy":    func(r *http.Request) { r.Header.Set("Via", "1.1 proxy") },
	} {
		req := local(http.MethodPost, "http://127.0.0.1:8080/ui/sign-in", url.Values{"token": {readToken}}.Encode())
		elsewhere(req)
		rec := httptest.NewRecorder()
		env.page("").ServeHTTP(rec, req)
		require.True(t, rec.Result().Cookies()[0].Secure, name)
	}
	req := httptest.NewRequest(http.MethodGet, "http://fleet.example.com/ui/sign-in", nil)
	rec := httptest.NewRecorder()
	env.page("").ServeHTTP(rec, req)
	require.Contains(t, rec.Body.String(), "will not keep a session")
}

// TestCrossSiteFormsRefused: forms of other sites have no effect.
func TestCrossSiteFormsRefused(t *testing.T) {
	t.Parallel()
	env := setup(t, 2)
	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	for _, from := range [][]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "null"}} {
		for _, path := range []string{"/ui/sign-in", "/ui/sign-out"} {
			rsp := env.send(env.client, http.MethodPost, path, url.Values{"token": {readToken}}, from...)
			require.Equal(t, http.StatusForbidden, rsp.status, "%s %v", path, from)
			require.Empty(t, rsp.header.Values("Set-Cookie"))
		}
	}
	require.Equal(t, 200, env.get("/ui/").status)
	for _, path := range allPages {
		require.Equal(t, http.StatusMethodNotAllowed, env.send(env.client, http.MethodPost, path, url.Values{}).status, path)
	}
}

// TestBadRequests: invalid addresses and filters get a complete error page or a message beside the form.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	env := setup(t, 120)
	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	for path, status := range map[string]int{
		"/ui/clusters/nobody": 404, "/ui/clusters/cluster-0001/inputs/platform-components/nothing": 404, "/ui/clusters/cluster-0001/inputs/nothing/podinfo": 404,
		"/ui/components/nothing": 404, "/ui/layers/nothing": 404, "/ui/changes/99999": 404, "/ui/changes/0": 404, "/ui/changes/x": 404, "/ui/changes/-1/revert": 404,
		"/ui/nothing": 404, "/ui/changes?cursor=x": 400, "/ui/changes?id=x": 400, "/ui/clusters/%00": 404,
	} {
		rsp := env.get(path)
		require.Equal(t, status, rsp.status, path)
		require.Contains(t, rsp.body, "<h1>", path)
		require.Contains(t, rsp.body, "</html>", path)
	}
	bad := env.get("/ui/clusters?selector=" + url.QueryEscape("tier in gold)"))
	require.Equal(t, 200, bad.status)
	require.Contains(t, bad.body, `role="alert"`, "below the field")
	require.Contains(t, bad.body, `value="tier in gold)"`, "the invalid input is kept")
	require.Contains(t, env.get("/ui/clusters?component=nothing").body, `role="alert"`)
	require.Contains(t, env.get("/ui/clusters?state=fine").body, `role="alert"`)
	require.Contains(t, env.get("/ui/clusters?offset=99999999").body, "The list ends before this page")
	require.Equal(t, 200, env.get("/ui/clusters?offset=-7").status)
	big := env.send(env.client, http.MethodPost, "/ui/sign-in", url.Values{"token": {strings.Repeat("x", 1<<20)}})
	require.Equal(t, 400, big.status)
}

// TestSecretsMaskedUntilRevealed: values that may be secrets are shown only with reveal=true.
func TestSecretsMaskedUntilRevealed(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	for _, path := range []string{"/ui/changes/3", "/ui/clusters/cluster-0001/inputs/platform-components/grafana"} {
		require.NotContains(t, env.get(path).body, "hunter2", path)
		require.Contains(t, env.get(path).body, "••••••", path)
		require.Contains(t, env.get(path+"?reveal=true").body, "hunter2", path)
	}
}

// TestVersionCountLinks: the number of clusters with a version links to exactly these clusters, whichever document sets the version.
func TestVersionCountLinks(t *testing.T) {
	t.Parallel()
	env := setup(t, 30)
	_, err := env.replica.Update(t.Context(), store.Meta{Actor: "ci"}, func(tx *fleet.Tx) error {
		if _, err := tx.Patch(fleet.KindLayer, "gold", []byte(`{"overrides":{"podinfo":{"component_version":"6.8.0"}}}`)); err != nil {
			return err
		}
		_, err := tx.Patch(fleet.KindCluster, "cluster-0002", []byte(`{"platform_components":[{"id":"podinfo","oci_tag":"v7"}]}`))
		return err
	})
	require.NoError(t, err)
	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	cell := regexp.MustCompile(`class="cell[^"]*" href="([^"]+)"[^>]*><span>([^<]+).*?/(\d+)<`)
	cells := cell.FindAllStringSubmatch(env.get("/ui/components").body, -1)
	require.Len(t, cells, 5, "grafana 8.1.0 and 9.0.0; podinfo 6.8.0, 6.9.0 and its other tag")
	for _, c := range cells {
		page := env.get(html.UnescapeString(c[1]))
		require.Equal(t, 200, page.status)
		require.Contains(t, page.body, "All <b>"+c[3]+"</b>", "%s", c[1])
		require.Contains(t, page.body, `name="component_version" value="`+c[2][:3])
	}
	require.Contains(t, env.get("/ui/clusters?component_version=6.9.0").body, `role="alert"`, "the component is missing")
	require.Contains(t, env.get("/ui/clusters/cluster-0000").body, "6.8.0", "set by the layer")
}

// TestSearch: an id, DNS name or selector redirects to its page; other queries list results.
func TestSearch(t *testing.T) {
	t.Parallel()
	env := setup(t, 120)
	require.Equal(t, http.StatusSeeOther, env.signIn(readToken).status)
	for query, page := range map[string]string{
		"cluster-0007": "/ui/clusters/cluster-0007", "cluster-0007.k8s.example.com": "/ui/clusters/cluster-0007", "grafana": "/ui/components/grafana",
		"tier=gold": "/ui/clusters?selector=tier%3Dgold", "": "/ui/clusters", "0117": "/ui/clusters/cluster-0117",
	} {
		require.Equal(t, page, env.get("/ui/search?q="+url.QueryEscape(query)).header.Get("Location"), query)
	}
	many := env.get("/ui/search?q=CLUSTER-00")
	require.Contains(t, many.body, "cluster-0049")
	require.NotContains(t, many.body, "cluster-0050")
	require.Contains(t, many.body, "There are more results.")
	require.Contains(t, env.get("/ui/search?q=nothing-like-it").body, "Nothing found")
}

// TestOtherPathsReachAPI: requests outside /ui/ reach the API.
func TestOtherPathsReachAPI(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	poll := env.get("/api/v2/flux/clusters/cluster-0001.k8s.example.com/platform-components", "Authorization", "Bearer "+readToken)
	require.Equal(t, 200, poll.status)
	require.Contains(t, poll.body, `{"inputs":[`)
	require.Equal(t, 401, env.get("/clusters").status)
	require.Equal(t, 404, env.get("/uiX").status)
}
