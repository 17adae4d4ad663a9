package ui_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// addVersions gives podinfo policies, known, held and pinned versions, and the rollout auto-podinfo; setup has made the fleet.
func (env *testEnv) addVersions() {
	env.t.Helper()
	const component = "/platform_components/podinfo"
	env.call(http.MethodPost, "/strategies", `{"id":"waves","stages":[{"name":"one","selector":"environment=dev"}]}`)
	env.call(http.MethodPatch, component, `{"version_policies":{"catalog":{"range":">=6","exclude":"<img src=x","strategy":"waves","interval":"0s"}},"image_policies":[
		{"name":"app","image":"ghcr.io/stefanprodan/podinfo","track":{"tag":"latest"},"writes":{"image.tag":"{tag}@{digest}"},"suspended":true}]}`)
	env.call(http.MethodPost, "/layers", `{"id":"pinned","priority":20,"selector":"tier=bronze","platform_components":[{"id":"podinfo","component_version":"6.1.0"}]}`)
	env.call(http.MethodPatch, "/clusters/cluster-0000", `{"platform_components":[{"id":"podinfo","component_version":"6.2.0"},{"id":"grafana"}]}`)
	for i := range 14 {
		env.call(http.MethodPost, component+"/versions", fmt.Sprintf(`{"version":"6.%d.0"}`, i))
	}
	env.call(http.MethodPost, component+"/versions", `{"version":"latest","image":"app","digest":"sha256:`+strings.Repeat("a", 64)+`"}`)
	held, err := json.Marshal(map[string]string{"version": "6.13.0", "reason": "INC-7 " + htmlPayload})
	require.NoError(env.t, err)
	env.call(http.MethodPost, component+"/versions/holds", string(held))
	env.api.MoveVersions(env.t.Context())
}

// alterVersions changes the versions of components in the answers of the API.
func alterVersions(change func(*api.ComponentVersions)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/versions") {
				next.ServeHTTP(w, r)
				return
			}
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			var known api.ComponentVersions
			_ = json.Unmarshal(rec.Body.Bytes(), &known)
			change(&known)
			body, _ := json.Marshal(known) //nolint:errchkjson // as it was read
			rec.Header().Del("Content-Length")
			maps.Copy(w.Header(), rec.Header())
			w.WriteHeader(rec.Code)
			_, _ = w.Write(body)
		})
	}
}

// TestVersionsOfComponent: the page of a component has its policies, known versions with the decision, holds, pins and the rollout.
func TestVersionsOfComponent(t *testing.T) {
	t.Parallel()
	env := setup(t, 12)
	env.signIn(readToken)
	const path = "/ui/components/podinfo"
	require.NotContains(t, env.get(path).body, "New versions", "neither policies nor versions")
	env.addVersions()
	page := env.get(path).body
	_, page, found := strings.Cut(page, "New versions")
	require.True(t, found)
	require.NotContains(t, env.get("/ui/components/grafana").body, "New versions")

	for _, text := range []string{
		`<code>&gt;=6</code>`, `<code>propose</code>`, `<a href="/ui/definitions/strategies/waves">waves</a>`, `<code>&lt;img src=x</code>`, "<dt>Candidate</dt><dd>6.12.0</dd>",
		`Image app <span class="chip">suspended</span>`, `<code>ghcr.io/stefanprodan/podinfo</code>`, "sha256:aaaaaaaaaaa…",
		"INC-7 &lt;script&gt;alert", `href="/ui/layers/pinned">layer pinned 6.1.0</a>`, `href="/ui/clusters/cluster-0000">cluster cluster-0000 6.2.0</a>`,
		`<a href="/ui/rollouts/auto-podinfo">auto-podinfo</a>`, "<b>candidate</b>",
	} {
		require.Contains(t, page, text)
	}
	for _, text := range []string{"<script>alert", "<img src=x"} {
		require.NotContains(t, page, text)
	}
	shown, collapsed, found := strings.Cut(page, "<summary>4 more versions</summary>")
	require.True(t, found)
	require.Contains(t, shown, `<th scope="row">6.13.0</th>`, "the highest first")
	require.NotContains(t, shown, `<th scope="row">6.3.0</th>`)
	require.Contains(t, collapsed, `<th scope="row">6.3.0</th>`)

	rollout := env.get("/ui/rollouts/auto-podinfo").body
	require.Contains(t, rollout, `Proposed by the version policy of podinfo: <a class="chip" href="/ui/components/podinfo">podinfo</a>`)
	env.createRollout("by-hand")
	require.NotContains(t, env.get("/ui/rollouts/by-hand").body, "Proposed by")
}

// TestVersionsForLimitedReaders: the page names only documents that the API shows to a reader with limits.
func TestVersionsForLimitedReaders(t *testing.T) {
	t.Parallel()
	env := setup(t, 12)
	env.addVersions()
	env.call(http.MethodPost, "/access", `{"id":"team","subjects":[{"token":"team"}],"may":["read"],"on":{"components":["podinfo"]}}`)
	env.signIn(env.issueToken("team", "scoped"))
	page := env.get("/ui/components/podinfo")
	require.Equal(t, http.StatusOK, page.status, page.body)
	require.Contains(t, page.body, "<dt>Candidate</dt><dd>6.12.0</dd>")
	require.NotContains(t, page.body, "/ui/layers/pinned")
	require.NotContains(t, page.body, "cluster-0000")
}

// TestProblemsOfVersions: problems of policies and scans are shown and escaped, and the list of pins is bounded.
func TestProblemsOfVersions(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	env.wrapAPI = alterVersions(func(known *api.ComponentVersions) {
		next := env.now().Add(time.Hour)
		s := &known.Sources[0]
		s.Problem, s.Warning, s.Scan = "stored "+htmlPayload, "moved "+htmlPayload, &api.VersionScan{Failures: 3, NextAt: &next, Error: "status 401 " + htmlPayload}
		s.Versions = []api.KnownVersion{{Version: htmlPayload, Digest: htmlPayload, PreviousDigest: htmlPayload, Reason: "too young " + htmlPayload}, {Version: "1.0.0", Withdrawn: true}}
		known.Holds = []api.VersionHold{{Version: htmlPayload, Image: htmlPayload, Digest: htmlPayload, By: htmlPayload, Reason: htmlPayload}}
		for i := range 60 {
			known.Pins = append(known.Pins, api.VersionPin{Kind: "cluster", ID: clusterID(i), Version: htmlPayload})
		}
	})
	env.http.Close()
	env.http = httptest.NewServer(env.page(""))
	t.Cleanup(env.http.Close)
	env.signIn(readToken)
	page := env.get("/ui/components/podinfo")
	require.Equal(t, http.StatusOK, page.status, page.body)
	for _, text := range []string{"<script>alert", "<img src=x"} {
		require.NotContains(t, page.body, text)
	}
	for _, text := range []string{"stored &lt;", "moved &lt;", "The last scan failed: status 401 &lt;", "3 failures", "too young &lt;", "withdrawn", "and 10 more"} {
		require.Contains(t, page.body, text)
	}
	require.Contains(t, page.body, "cluster-0049")
	require.NotContains(t, page.body, "cluster-0050")
}
