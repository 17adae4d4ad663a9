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

// everyPage is a page of each sort.
var everyPage = []string{
	"/ui/", "/ui/clusters", "/ui/clusters?state=failed", "/ui/clusters?selector=tier%3Dgold&environment=dev&component=grafana", "/ui/clusters?offset=50",
	"/ui/clusters/cluster-0003", "/ui/clusters/cluster-0001/inputs/platform-components/grafana", "/ui/clusters/cluster-0011",
	"/ui/components", "/ui/components/grafana", "/ui/layers", "/ui/layers/gold",
	"/ui/changes", "/ui/changes?kind=cluster&id=cluster-0001", "/ui/changes/1", "/ui/changes/2", "/ui/changes/3", "/ui/changes/3/revert",
	"/ui/changes/2/restore?kind=cluster&id=cluster-0001", "/ui/clusters/cluster-0001/delete", "/ui/clusters/cluster-0001/protect", "/ui/components/grafana/delete",
	"/ui/components/grafana/delete?cascade=true", "/ui/layers/gold/delete", "/ui/search?q=cluster-00",
}

// Texts from outside are text, and never a part of the page.
func TestPagesHoldNothingForeign(t *testing.T) {
	t.Parallel()
	w := setup(t, 120)
	require.Equal(t, http.StatusSeeOther, w.signIn(readToken).status)
	told := 0
	for _, path := range everyPage {
		page := w.get(path)
		require.Equal(t, 200, page.status, "%s: %s %s", path, page.body, w.logs)
		require.NotContains(t, page.body, "<script>alert", path)
		require.NotContains(t, page.body, "<img src=x", path)
		require.NotContains(t, page.body, readToken, path)
		told += strings.Count(page.body, "&lt;script&gt;alert")
		require.Contains(t, page.header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'; style-src 'self';")
		require.NotContains(t, page.header.Get("Content-Security-Policy"), "unsafe")
		require.NotContains(t, page.body, " style=", path)
		require.NotRegexp(t, ` on[a-z]+="`, page.body, "handlers are in our script: %s", path)
		require.Equal(t, "no-store", page.header.Get("Cache-Control"))
	}
	require.Positive(t, told, "the hostile text was on some page")
	for _, path := range []string{"/ui/clusters?selector=" + url.QueryEscape(`"><script>alert(1)</script>`), "/ui/search?q=" + url.QueryEscape(`<script>alert(1)</script>`)} {
		require.NotContains(t, w.get(path).body, "<script>alert", path)
	}
}

// Whoever is not signed in is asked who it is, and comes back to where they were going, if that is here.
func TestSignIn(t *testing.T) {
	t.Parallel()
	w := setup(t, 3)
	require.Equal(t, "/ui/", w.get("/", "Accept", "text/html,*/*").header.Get("Location"))
	require.Equal(t, 404, w.get("/").status, "no browser")
	for _, path := range everyPage {
		rsp := w.get(path)
		require.Equal(t, http.StatusSeeOther, rsp.status, path)
		require.Equal(t, "/ui/sign-in?to="+url.QueryEscape(path), rsp.header.Get("Location"))
	}
	form := w.get("/ui/sign-in?to=%2Fui%2Fclusters%3Fstate%3Dfailed")
	require.Contains(t, form.body, `value="/ui/clusters?state=failed"`)
	for _, token := range []string{"", "wrong", "two\nlines", strings.Repeat("x", 2000), readToken + "x"} {
		rsp := w.signIn(token)
		require.GreaterOrEqual(t, rsp.status, 400, token)
		require.Empty(t, rsp.header.Values("Set-Cookie"))
		require.Contains(t, rsp.body, `role="alert"`)
		w.advance(2 * time.Second) // guessing is slow
	}
	for _, away := range []string{"https://evil.example/", "//evil.example/", `/\evil.example`, "/ui/../clusters", "javascript:alert(1)", "/ui/sign-out", "/clusters", ""} {
		rsp := w.send(w.visitor(t), http.MethodPost, "/ui/sign-in", url.Values{"token": {readToken}, "to": {away}})
		require.Equal(t, "/ui/", rsp.header.Get("Location"), away)
	}
	rsp := w.send(w.client, http.MethodPost, "/ui/sign-in", url.Values{"token": {readToken}, "to": {"/ui/clusters?state=failed"}})
	require.Equal(t, http.StatusSeeOther, rsp.status)
	require.Equal(t, "/ui/clusters?state=failed", rsp.header.Get("Location"))
	cookie := rsp.header.Get("Set-Cookie")
	for _, part := range []string{"fleet-session=", "HttpOnly", "SameSite=Strict", "Path=/"} {
		require.Contains(t, cookie, part)
	}
	require.NotContains(t, cookie, readToken)
	require.Equal(t, 200, w.get("/ui/").status)
	require.Equal(t, 200, w.get("/ui/clusters", "Sec-Fetch-Site", "cross-site").status)
	require.NotContains(t, w.logs.String(), readToken)

	// From a chat the cookie is not sent; the page then sends itself there.
	arrival := w.send(w.visitor(t), http.MethodGet, "/ui/changes/3?a=b", nil, "Sec-Fetch-Site", "cross-site")
	require.Equal(t, 200, arrival.status)
	require.Contains(t, arrival.body, `content="0;url=/ui/changes/3?a=b"`)

	require.Equal(t, http.StatusSeeOther, w.send(w.client, http.MethodPost, "/ui/sign-out", url.Values{}).status)
	require.Equal(t, http.StatusSeeOther, w.get("/ui/").status)
}

// Who signs out has signed out everywhere: in another process, and with a copy of the cookie.
func TestSignOutEndsTheSessionEverywhere(t *testing.T) {
	t.Parallel()
	w := setup(t, 3)
	pages := []http.Handler{w.page(sessionKey), w.page(sessionKey)}
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
	stolen, other := signIn(), signIn()
	before := w.replica.State().Revision()
	for _, page := range pages {
		require.Equal(t, 200, ask(page, http.MethodGet, "/ui/", nil, stolen).StatusCode)
	}
	ask(pages[0], http.MethodPost, "/ui/sign-out", nil, stolen)
	for i, page := range pages {
		require.Equal(t, http.StatusSeeOther, ask(page, http.MethodGet, "/ui/", nil, stolen).StatusCode, "process %d", i)
		require.Equal(t, 200, ask(page, http.MethodGet, "/ui/", nil, other).StatusCode, "another session of the token goes on")
	}
	require.Equal(t, before, w.replica.State().Revision(), "a sign-out is no revision")
}

// A session is no better than its token, and ends by itself.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	w := setup(t, 3)
	secret := w.issue("viewer", "read")
	require.Equal(t, http.StatusSeeOther, w.signIn(secret).status)
	require.Equal(t, 200, w.get("/ui/").status)
	w.revoke("viewer")
	require.Equal(t, http.StatusSeeOther, w.get("/ui/").status, "a revoked token ends its sessions at once")

	refused := w.signIn(w.poller("cluster-0001"))
	require.Equal(t, http.StatusForbidden, refused.status, refused.body)

	require.Equal(t, http.StatusSeeOther, w.signIn(readToken).status)
	w.advance(7 * time.Hour)
	require.Equal(t, 200, w.get("/ui/").status)
	w.advance(7 * time.Hour)
	require.Equal(t, 200, w.get("/ui/").status, "it was used since")
	w.advance(9 * time.Hour)
	require.Equal(t, http.StatusSeeOther, w.get("/ui/").status, "it was not used")

	require.Equal(t, http.StatusSeeOther, w.signIn(readToken).status)
	for range 4 {
		w.advance(6*time.Hour - time.Minute)
		require.Equal(t, 200, w.get("/ui/").status)
	}
	w.advance(time.Hour)
	require.Equal(t, http.StatusSeeOther, w.get("/ui/").status, "not for more than a day")
}

// How far a revision has come is known of all clusters, however many it changed.
func TestArrival(t *testing.T) {
	t.Parallel()
	w := setup(t, 120)
	require.Equal(t, http.StatusSeeOther, w.signIn(readToken).status)
	require.Contains(t, w.get("/ui/changes/2").body, "of 120 clusters whose inputs it changed", "fifty documents of it are shown")
	require.Contains(t, w.get("/ui/changes/3").body, "of 1 cluster whose")
	w.edit(patched(fleet.KindComponent, "grafana", `{"component_version":"8.2.0"}`))
	require.Contains(t, w.get("/ui/changes/4").body, "of 119 clusters whose", "one has a version of its own")
	w.edit(patched(fleet.KindCluster, "cluster-0001", `{"platform_components":[{"id":"podinfo"},{"id":"grafana","component_version":"9.1.0"}]}`))
	require.Contains(t, w.get("/ui/changes/3").body, "have been changed again since")
	w.edit(patched(fleet.KindLayer, "gold", `{"description":"x"}`))
	require.NotContains(t, w.get("/ui/changes/6").body, "How far")
}

// How long ago something was is by the clock of the service, which need not be that of whoever looks.
func TestAges(t *testing.T) {
	t.Parallel()
	w := setup(t, 3)
	require.Equal(t, http.StatusSeeOther, w.signIn(readToken).status)
	require.Contains(t, w.get("/ui/changes").body, ">2 h ago<")
	w.advance(5 * time.Hour)
	require.Contains(t, w.get("/ui/changes").body, ">7 h ago<")
}

// Another process opens a session with the same key, and none with another one; nobody else makes or changes one.
func TestSessionsAreSealed(t *testing.T) {
	t.Parallel()
	w := setup(t, 3)
	pages := map[string]http.Handler{"same": w.page(sessionKey), "same again": w.page(sessionKey), "other": w.page(sessionKey + "x"), "none": w.page("")}
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
	_, err := ui.New(ui.Config{API: w.api})
	require.NoError(t, err)
}

// local is a request from the same machine.
func local(method, address, form string) *http.Request {
	req := httptest.NewRequest(method, address, strings.NewReader(form))
	req.RemoteAddr = "127.0.0.1:4711"
	if form != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return req
}

// The cookie goes over HTTPS only, but from a browser on the same machine.
func TestCookieOverHTTPS(t *testing.T) {
	t.Parallel()
	w := setup(t, 2)
	for host, secure := range map[string]bool{"127.0.0.1:8080": false, "localhost": false, "[::1]:8080": false, "fleet.example.com": true, "10.0.0.1": true, "localhost.evil.example": true} {
		req := local(http.MethodPost, "http://"+host+"/ui/sign-in", url.Values{"token": {readToken}}.Encode())
		rec := httptest.NewRecorder()
		w.page("").ServeHTTP(rec, req)
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
		w.page("").ServeHTTP(rec, req)
		require.True(t, rec.Result().Cookies()[0].Secure, name)
	}
	req := httptest.NewRequest(http.MethodGet, "http://fleet.example.com/ui/sign-in", nil)
	rec := httptest.NewRecorder()
	w.page("").ServeHTTP(rec, req)
	require.Contains(t, rec.Body.String(), "will not keep a session")
}

// A form of another site does nothing here.
func TestFormsOfOtherSites(t *testing.T) {
	t.Parallel()
	w := setup(t, 2)
	require.Equal(t, http.StatusSeeOther, w.signIn(readToken).status)
	for _, from := range [][]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "null"}} {
		for _, path := range []string{"/ui/sign-in", "/ui/sign-out"} {
			rsp := w.send(w.client, http.MethodPost, path, url.Values{"token": {readToken}}, from...)
			require.Equal(t, http.StatusForbidden, rsp.status, "%s %v", path, from)
			require.Empty(t, rsp.header.Values("Set-Cookie"))
		}
	}
	require.Equal(t, 200, w.get("/ui/").status)
	for _, path := range everyPage {
		require.Equal(t, http.StatusMethodNotAllowed, w.send(w.client, http.MethodPost, path, url.Values{}).status, path)
	}
}

// What cannot be shown is said, with what to do, and never half of a page.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	w := setup(t, 120)
	require.Equal(t, http.StatusSeeOther, w.signIn(readToken).status)
	for path, status := range map[string]int{
		"/ui/clusters/nobody": 404, "/ui/clusters/cluster-0001/inputs/platform-components/nothing": 404, "/ui/clusters/cluster-0001/inputs/nothing/podinfo": 404,
		"/ui/components/nothing": 404, "/ui/layers/nothing": 404, "/ui/changes/99999": 404, "/ui/changes/0": 404, "/ui/changes/x": 404, "/ui/changes/-1/revert": 404,
		"/ui/nothing": 404, "/ui/changes?cursor=x": 400, "/ui/changes?id=x": 400, "/ui/clusters/%00": 404,
	} {
		rsp := w.get(path)
		require.Equal(t, status, rsp.status, path)
		require.Contains(t, rsp.body, "<h1>", path)
		require.Contains(t, rsp.body, "</html>", path)
	}
	bad := w.get("/ui/clusters?selector=" + url.QueryEscape("tier in gold)"))
	require.Equal(t, 200, bad.status)
	require.Contains(t, bad.body, `role="alert"`, "said under the field")
	require.Contains(t, bad.body, `value="tier in gold)"`, "and what was typed is there to be mended")
	require.Contains(t, w.get("/ui/clusters?component=nothing").body, `role="alert"`)
	require.Contains(t, w.get("/ui/clusters?state=fine").body, `role="alert"`)
	require.Equal(t, 200, w.get("/ui/clusters?offset=99999999").status)
	require.Equal(t, 200, w.get("/ui/clusters?offset=-7").status)
	big := w.send(w.client, http.MethodPost, "/ui/sign-in", url.Values{"token": {strings.Repeat("x", 1<<20)}})
	require.Equal(t, 400, big.status)
}

// Every word that may be a secret is masked until it is asked for.
func TestMasked(t *testing.T) {
	t.Parallel()
	w := setup(t, 3)
	require.Equal(t, http.StatusSeeOther, w.signIn(readToken).status)
	for _, path := range []string{"/ui/changes/3", "/ui/clusters/cluster-0001/inputs/platform-components/grafana"} {
		require.NotContains(t, w.get(path).body, "hunter2", path)
		require.Contains(t, w.get(path).body, "••••••", path)
		require.Contains(t, w.get(path+"?reveal=true").body, "hunter2", path)
	}
}

// A count leads to the clusters that it counts, whoever says what they run.
func TestACellLeadsToItsClusters(t *testing.T) {
	t.Parallel()
	w := setup(t, 30)
	_, err := w.replica.Update(t.Context(), store.Meta{Actor: "ci"}, func(tx *fleet.Tx) error {
		if _, err := tx.Patch(fleet.KindLayer, "gold", []byte(`{"overrides":{"podinfo":{"component_version":"6.8.0"}}}`)); err != nil {
			return err
		}
		_, err := tx.Patch(fleet.KindCluster, "cluster-0002", []byte(`{"platform_components":[{"id":"podinfo","oci_tag":"v7"}]}`))
		return err
	})
	require.NoError(t, err)
	require.Equal(t, http.StatusSeeOther, w.signIn(readToken).status)
	cell := regexp.MustCompile(`class="cell[^"]*" href="([^"]+)"[^>]*><span>([^<]+).*?/(\d+)<`)
	cells := cell.FindAllStringSubmatch(w.get("/ui/components").body, -1)
	require.Len(t, cells, 5, "grafana 8.1.0 and 9.0.0; podinfo 6.8.0, 6.9.0 and its other tag")
	for _, c := range cells {
		page := w.get(html.UnescapeString(c[1]))
		require.Equal(t, 200, page.status)
		require.Contains(t, page.body, "All <b>"+c[3]+"</b>", "%s", c[1])
		require.Contains(t, page.body, `name="component_version" value="`+c[2][:3])
	}
	require.Contains(t, w.get("/ui/clusters?component_version=6.9.0").body, `role="alert"`, "of which component?")
	require.Contains(t, w.get("/ui/clusters/cluster-0000").body, "6.8.0", "the layer's word")
}

// Search leads where the name says, and lists what it may mean otherwise.
func TestSearch(t *testing.T) {
	t.Parallel()
	w := setup(t, 120)
	require.Equal(t, http.StatusSeeOther, w.signIn(readToken).status)
	for query, page := range map[string]string{
		"cluster-0007": "/ui/clusters/cluster-0007", "cluster-0007.k8s.example.com": "/ui/clusters/cluster-0007", "grafana": "/ui/components/grafana",
		"tier=gold": "/ui/clusters?selector=tier%3Dgold", "": "/ui/clusters", "0117": "/ui/clusters/cluster-0117",
	} {
		require.Equal(t, page, w.get("/ui/search?q="+url.QueryEscape(query)).header.Get("Location"), query)
	}
	many := w.get("/ui/search?q=CLUSTER-00")
	require.Contains(t, many.body, "cluster-0049")
	require.Contains(t, many.body, "and 50 more")
	require.Contains(t, w.get("/ui/search?q=nothing-like-it").body, "Nothing found")
}

// The page is in front of the API, and in nobody's way.
func TestTheRestIsTheAPIs(t *testing.T) {
	t.Parallel()
	w := setup(t, 3)
	poll := w.get("/api/v2/flux/clusters/cluster-0001.k8s.example.com/platform-components", "Authorization", "Bearer "+readToken)
	require.Equal(t, 200, poll.status)
	require.Contains(t, poll.body, `{"inputs":[`)
	require.Equal(t, 401, w.get("/clusters").status)
	require.Equal(t, 404, w.get("/uiX").status)
}
