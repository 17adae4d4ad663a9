package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/knownversions"
	"github.com/flux-resourceset/flux-resourceset/server"
)

const (
	versionsPath = "/platform_components/podinfo/versions"
	digestA      = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	digestB      = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// knownOf returns the versions of a source in an answer.
func knownOf(a *answer, source int) (out []string) {
	a.t.Helper()
	list, ok := at(a.json(), "sources", source, "versions").([]any)
	require.True(a.t, ok, "%s", a.body)
	for _, v := range list {
		out = append(out, fmt.Sprint(at(v, "version")))
	}
	return out
}

// TestPushVersion: CI announces versions; that is idempotent, and changes no document.
func TestPushVersion(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.Empty(t, knownOf(w.get(versionsPath).want(200), 0))
	w.unchanged(func() {
		first := w.post(versionsPath, `{"version":"6.9.0"}`).want(202)
		require.Equal(t, []string{"6.9.0"}, knownOf(first, 0))
		w.clock.advance(time.Hour)
		require.Equal(t, first.body, w.post(versionsPath, `{"version":"6.9.0"}`).want(202).body)
		require.Equal(t, first.body, w.get(versionsPath).want(200).body)
		got := w.post(versionsPath, `{"version":"6.10.0","digest":"`+digestA+`","created_at":"2026-01-02T00:00:00Z"}`).want(202)
		require.Equal(t, []string{"6.10.0", "6.9.0"}, knownOf(got, 0))
		require.Equal(t, digestA, at(got.json(), "sources", 0, "versions", 0, "digest"))
		moved := w.post(versionsPath, `{"version":"6.10.0","digest":"`+digestB+`"}`).want(202)
		require.Equal(t, digestB, at(moved.json(), "sources", 0, "versions", 0, "digest"))
		require.Equal(t, digestA, at(moved.json(), "sources", 0, "versions", 0, "previous_digest"), "a moved tag is visible")
	})
	require.Len(t, w.logs.lines(t, "version pushed"), 3, "only what is new is logged")

	for body, pointer := range map[string]string{
		`{}`:                "/version",
		`{"version":""}`:    "/version",
		`{"version":"a b"}`: "/version",
		`{"version":"1\n"}`: "/version",
		`{"version":"` + strings.Repeat("1", 129) + `"}`:      "/version",
		`{"version":"1","digest":"sha256:1"}`:                 "/digest",
		`{"version":"1","created_at":"1969-12-31T23:59:59Z"}`: "/created_at",
		`{"version":"1","created_at":"yesterday"}`:            "/created_at",
		`{"version":"1","image":"redis"}`:                     "/image",
		`{"version":"1","other":1}`:                           "/other",
	} {
		require.Equal(t, []string{pointer}, slices.Compact(w.post(versionsPath, body).problem(400, "validation_error").pointers()), body)
	}
	w.post("/platform_components/none/versions", `{"version":"1"}`).problem(404, "not_found")
	w.get("/platform_components/none/versions").problem(404, "not_found")
	w.post(versionsPath+"/refresh", "").problem(409, "conflict")
	w.post("/platform_components/none/versions/refresh", "").problem(404, "not_found")
	w.do("POST", versionsPath, `{"version":"1"}`, "Authorization", "Bearer "+readToken).problem(401, "unauthorized")
}

// TestPushVersionOfImage: tags of an image are known by the image or by the name of its policy, and apart from the component's own.
func TestPushVersionOfImage(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.patch("/platform_components/podinfo", `{"image_policies":[{"name":"app","image":"ghcr.io/stefanprodan/podinfo","track":{"tag":"latest"},"writes":{"image.tag":"{tag}@{digest}"}},
		{"name":"cache","image":"redis","track":{"range":">=7"},"writes":{"redis.tag":"{tag}"}}]}`).want(200)
	w.post(versionsPath, `{"version":"latest","digest":"`+digestA+`","image":"app"}`).want(202)
	got := w.post(versionsPath, `{"version":"7.2.0","image":"redis"}`).want(202)
	require.Empty(t, knownOf(got, 0))
	w.patch("/platform_components/podinfo", `{"image_policies":null}`).want(200)
	w.post(versionsPath, `{"version":"7.2.0","image":"redis"}`).problem(400, "validation_error")
}

// TestPushesAreLimited: a flood of new versions of one component is refused; others and known versions are not.
func TestPushesAreLimited(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/platform_components", `{"id":"web","component_path":"web","oci_url":"https://charts.example.com"}`)
	for i := range 600 {
		w.post(versionsPath, fmt.Sprintf(`{"version":"1.%d.0"}`, i)).want(202)
	}
	got := w.post(versionsPath, `{"version":"2.0.0"}`).problem(429, "too_many_requests")
	require.Equal(t, "1", got.header.Get("Retry-After"))
	require.Len(t, knownOf(w.post(versionsPath, `{"version":"1.599.0"}`).want(202), 0), knownversions.MaxVersions)
	w.post("/platform_components/web/versions", `{"version":"2.0.0"}`).want(202)
	w.clock.advance(time.Second)
	w.post(versionsPath, `{"version":"2.0.0"}`).want(202)
	w.post(versionsPath, `{"version":"3.0.0"}`).problem(429, "too_many_requests")
}

// TestPushVersionRights: the CI of a team announces versions of its own component, and changes nothing else.
func TestPushVersionRights(t *testing.T) {
	t.Parallel()
	w := setup(t)
	as := bearer(w.issue(scopedBody).secret)
	w.create("/platform_components", `{"id":"web","component_path":"web","oci_url":"https://charts.example.com"}`)
	w.create("/platform_components", `{"id":"other","component_path":"web","oci_url":"https://charts.example.com"}`)
	w.post(versionsPath, `{"version":"1.0.0"}`, as...).problem(403, "forbidden")
	w.create("/access", accessFor("reads", `["read"]`, `{"components":["podinfo","web"]}`))
	w.post(versionsPath, `{"version":"1.0.0"}`, as...).problem(403, "forbidden")
	w.create("/access", accessFor("pushes", `["push_version"]`, `{"components":["podinfo"]}`))
	w.post(versionsPath, `{"version":"1.0.0"}`, as...).want(202)
	w.get(versionsPath, as...).want(200)
	for _, path := range []string{"", "/refresh"} {
		w.post("/platform_components/web/versions"+path, `{"version":"1.0.0"}`, as...).problem(403, "out_of_scope")
	}
	w.post("/platform_components/other/versions", `{"version":"1.0.0"}`, as...).problem(404, "not_found")
	w.patch("/platform_components/podinfo", `{"version_policies":{"catalog":{"range":"*"}}}`, as...).problem(403, "out_of_scope")
	require.Empty(t, knownOf(w.get("/platform_components/web/versions").want(200), 0))
}

// TestVersionsInReadOnlyMode: a read-only process neither has nor accepts versions.
func TestVersionsInReadOnlyMode(t *testing.T) {
	t.Parallel()
	w := setupWith(t, options{mode: server.ModeReadOnly})
	w.get(versionsPath).problem(404, "not_found")
	w.post(versionsPath, `{"version":"1.0.0"}`).problem(405, "method_not_allowed")
	w.post(versionsPath+"/refresh", "").problem(405, "method_not_allowed")
}

// TestVersionsOfRecreatedComponent: a component that is created again, or that gets another source, has no versions.
func TestVersionsOfRecreatedComponent(t *testing.T) {
	t.Parallel()
	w := setup(t)
	doc := `{"id":"web","component_path":"web","oci_url":"https://charts.example.com"}`
	w.create("/platform_components", doc)
	const path = "/platform_components/web/versions"
	w.post(path, `{"version":"1.0.0"}`).want(202)
	w.patch("/platform_components/web", `{"component_version":"0.9.0"}`).want(200)
	require.Len(t, knownOf(w.get(path).want(200), 0), 1)
	w.patch("/platform_components/web", `{"oci_url":"https://mirror.example.com"}`).want(200)
	require.Empty(t, knownOf(w.get(path).want(200), 0))
	w.post(path, `{"version":"1.0.0"}`).want(202)
	w.delete("/platform_components/web").want(200)
	w.clock.advance(time.Second)
	w.create("/platform_components", doc)
	require.Empty(t, knownOf(w.get(path).want(200), 0))
}

// TestClockBehind: a process whose clock is behind the last commit does not make a version older than that.
func TestClockBehind(t *testing.T) {
	t.Parallel()
	w := setup(t)
	before := w.post(versionsPath, `{"version":"1.0.0"}`).want(202)
	w.clock.advance(-365 * 24 * time.Hour)
	got := w.post(versionsPath, `{"version":"2.0.0"}`).want(202)
	require.Equal(t, at(before.json(), "sources", 0, "versions", 0, "first_seen_at"), at(got.json(), "sources", 0, "versions", 0, "first_seen_at"))
}

// policies sets the version policy of podinfo, with its stored version 6.8.0.
func (w *world) policy(policy string) {
	w.t.Helper()
	w.patch("/platform_components/podinfo", `{"component_version":"6.8.0","oci_url":"https://charts.example.com","version_policies":{"catalog":`+policy+`}}`).want(200)
}

// runVersions lets processes evaluate the policies. A later evaluation is of all of them.
func (w *world) runVersions(servers ...*server.Server) {
	w.t.Helper()
	w.clock.advance(5 * time.Minute)
	for _, s := range servers {
		s.MoveVersions(w.t.Context())
	}
}

// versionWorld returns a world and a server of the same process, which runs policies.
func versionWorld(t *testing.T) (*world, *server.Server) {
	t.Helper()
	var cfg server.Config
	w := setupWith(t, options{configure: func(c *server.Config) {
		c.ClusterStatus, c.Versions = clusterstatus.NewTracker(clusterstatus.Config{}), knownversions.New()
		cfg = *c
	}})
	s, err := server.New(cfg)
	require.NoError(t, err)
	return w, s
}

// TestVersionAutomation: a pushed version becomes a proposal, once, and the answer to a push says what will happen.
func TestVersionAutomation(t *testing.T) {
	t.Parallel()
	w, s := versionWorld(t)
	w.unchanged(func() { w.runVersions(s) })
	w.policy(`{"range":">=6","min_age":"1h"}`)
	w.unchanged(func() {
		w.runVersions(s)
		got := w.post(versionsPath, `{"version":"6.9.0"}`).want(202).json()
		require.NotContains(t, at(got, "sources", 0), "candidate")
		require.Contains(t, at(got, "sources", 0, "versions", 0, "reason"), "1h")
		w.post(versionsPath, `{"version":"7.0.0-rc.1"}`).want(202)
		w.runVersions(s)
	})
	w.clock.advance(time.Hour)
	w.runVersions(s)
	rollout := w.get("/rollouts/auto-podinfo").want(200).json()
	require.Equal(t, "proposed", rollout["state"])
	require.Equal(t, "podinfo", rollout["automation"])
	require.Equal(t, []any{map[string]any{"component": "podinfo", "version": "6.9.0"}}, rollout["versions"])
	newest := w.get("/revisions?limit=1").want(200).list()[0]
	require.Equal(t, "version-automation", newest["actor"])
	got := w.get(versionsPath).want(200).json()
	require.Equal(t, "6.9.0", at(got, "sources", 0, "candidate"))
	require.Equal(t, "auto-podinfo", at(got, "sources", 0, "rollout"))
	w.unchanged(func() { w.runVersions(s); w.runVersions(s) })

	w.post("/rollouts/auto-podinfo/abort", "").want(200)
	w.unchanged(func() { w.runVersions(s) })
	got = w.get(versionsPath).want(200).json()
	require.Equal(t, "6.9.0", at(got, "holds", 0, "version"))
	require.NotContains(t, at(got, "sources", 0), "candidate")
	w.delete(versionsPath+"/holds?version=6.0.0").problem(404, "not_found")
	got = w.delete(versionsPath + "/holds?version=6.9.0").want(200).json()
	require.Empty(t, got["holds"])
	require.Equal(t, "6.9.0", at(got, "sources", 0, "candidate"))
}

// TestVersionAutomationUnderPolicies: a version that a policy refuses to apply is proposed once, and nothing is logged as refused. The
// reader of the rollout learns the id of the policy, not its message.
func TestVersionAutomationUnderPolicies(t *testing.T) {
	t.Parallel()
	w, s := versionWorld(t)
	w.create("/policies", `{"id":"no-versions","rule":"change.kind != 'version'","message":"'quokka'","action":"deny"}`)
	w.policy(`{"range":">=6","action":"apply"}`)
	w.post(versionsPath, `{"version":"6.9.0"}`).want(202)
	w.runVersions(s)
	require.Equal(t, "6.8.0", w.get("/platform_components/podinfo").want(200).json()["component_version"])
	rollout := w.get("/rollouts/auto-podinfo").want(200)
	require.Equal(t, "proposed", rollout.json()["state"])
	require.Equal(t, "refused by no-versions; new versions: podinfo 6.9.0", rollout.json()["description"])
	require.NotContains(t, string(rollout.body), "quokka")
	w.unchanged(func() { w.runVersions(s); w.runVersions(s) })
	require.Empty(t, w.logs.lines(t, "a version cannot move"))
}

// TestVersionAutomationIsLimited: a policy gives nobody rights, and the refusal is visible and logged once.
func TestVersionAutomationIsLimited(t *testing.T) {
	t.Parallel()
	w, s := versionWorld(t)
	as := bearer(w.issue(scopedBody).secret)
	w.create("/access", accessFor("reads", `["read"]`, ""))
	w.create("/access", accessFor("one", `["write"]`, `{"components":["podinfo"]}`))
	w.patch("/platform_components/podinfo", `{"component_version":"6.8.0","oci_url":"https://charts.example.com"}`).want(200)
	w.patch("/platform_components/podinfo", `{"version_policies":{"catalog":{"range":">=6","action":"apply"}}}`, as...).want(200)
	w.post(versionsPath, `{"version":"6.9.0"}`).want(202)
	w.delete("/access/one").want(200)
	w.unchanged(func() {
		w.runVersions(s)
		w.runVersions(s)
	})
	require.Len(t, w.logs.lines(t, "a version cannot move"), 1)
	w.create("/access", accessFor("one", `["write"]`, `{"components":["podinfo"]}`))
	w.runVersions(s)
	require.Equal(t, "6.9.0", w.get("/platform_components/podinfo").want(200).json()["component_version"])
}

// TestVersionRefusalsAreLimited: the refusal of a group names its components, which a limited reader may not read. The layer of a policy
// is for it one that does not exist.
func TestVersionRefusalsAreLimited(t *testing.T) {
	t.Parallel()
	w, s := versionWorld(t)
	w.http = httptest.NewServer(s) // this process knows the refusal
	t.Cleanup(w.http.Close)
	w.create("/layers", `{"id":"hidden-layer","priority":10,"selector":"team=secret","platform_components":[{"id":"podinfo","component_version":"6.1.0"}]}`)
	w.create("/platform_components", `{"id":"hidden-component","component_path":"x","oci_url":"https://charts.example.com","component_version":"6.8.0","version_policies":{"catalog":{"range":">=6","action":"apply","group":"shared"}}}`)
	w.policy(`{"range":">=6","action":"propose","group":"shared"}`)
	for _, path := range []string{versionsPath, "/platform_components/hidden-component/versions"} {
		w.post(path, `{"version":"6.9.0"}`).want(202)
	}
	w.runVersions(s)
	require.Contains(t, string(w.get(versionsPath).want(200).body), "hidden-component")
	as := bearer(w.issue(scopedBody).secret)
	w.create("/access", accessFor("reads", `["read"]`, `{"components":["podinfo"]}`))
	limited := w.get(versionsPath, as...).want(200)
	require.NotContains(t, string(limited.body), "hidden")
	require.Contains(t, at(limited.json(), "sources", 0, "problem"), "the last move was refused")

	w.patch("/platform_components/podinfo", `{"version_policies":{"catalog":null,"layer/hidden-layer":{"range":">=6"}}}`).want(200)
	require.Equal(t, "6.1.0", at(w.get(versionsPath).want(200).json(), "sources", 0, "stored"))
	layer := w.get(versionsPath, as...).want(200).json()
	require.NotContains(t, fmt.Sprint(layer), "6.1.0")
	require.Contains(t, at(layer, "sources", 0, "problem"), "there is no layer")
}

// TestVersionPinsAreLimited: a limited reader sees no pins of documents that it may not read.
func TestVersionPinsAreLimited(t *testing.T) {
	t.Parallel()
	w, s := versionWorld(t)
	w.policy(`{"range":">=6","action":"notify"}`)
	w.create("/layers", `{"id":"hidden-layer","priority":10,"selector":"team=secret","platform_components":[{"id":"podinfo","component_version":"6.1.0"}]}`)
	w.put(demoCluster+"/platform_components/podinfo", `{"component_version":"6.2.0"}`).want(200)
	w.post(versionsPath, `{"version":"6.9.0"}`).want(202)
	w.unchanged(func() { w.runVersions(s) })
	all := w.get(versionsPath).want(200)
	require.Contains(t, string(all.body), "hidden-layer")
	require.Contains(t, string(all.body), "demo-cluster-01")
	as := bearer(w.issue(scopedBody).secret)
	w.create("/access", accessFor("reads", `["read"]`, `{"components":["podinfo"]}`))
	limited := w.get(versionsPath, as...).want(200)
	require.NotContains(t, string(limited.body), "hidden-layer")
	require.NotContains(t, string(limited.body), "demo-cluster-01")
	require.Equal(t, "6.9.0", at(limited.json(), "sources", 0, "candidate"))
}

// TestVersionsOfLayers: each version policy has sources of its own, from the lowest layer, and the rollout of one is not that of another.
func TestVersionsOfLayers(t *testing.T) {
	t.Parallel()
	w, s := versionWorld(t)
	w.create("/layers", `{"id":"dev","priority":100,"selector":"environment=dev","platform_components":[{"id":"podinfo","component_version":"6.8.0"}]}`)
	w.create("/layers", `{"id":"aprod","priority":200,"selector":"environment=prod","platform_components":[{"id":"podinfo","component_version":"6.8.0"}]}`)
	w.patch("/platform_components/podinfo", `{"oci_url":"https://charts.example.com","version_policies":{"layer/aprod":{"range":"^6"},"layer/dev":{"range":"~6.8","action":"apply"}}}`).want(200)
	for _, version := range []string{"6.8.1", "6.9.0"} {
		w.post(versionsPath, `{"version":"`+version+`"}`).want(202)
	}
	w.runVersions(s)
	got := w.get(versionsPath).want(200).json()
	require.Equal(t, "layer/dev", at(got, "sources", 0, "target"))
	require.Equal(t, "6.8.1", at(got, "sources", 0, "stored"))
	require.Equal(t, "layer/aprod", at(got, "sources", 1, "target"))
	require.Equal(t, "6.9.0", at(got, "sources", 1, "candidate"))
	require.Equal(t, "auto-podinfo.aprod", at(got, "sources", 1, "rollout"))
	require.NotContains(t, at(got, "sources", 0), "rollout")
	require.Equal(t, "podinfo@aprod", w.get("/rollouts/auto-podinfo.aprod").want(200).json()["automation"])

	// Who may read the component and neither its layers nor their rollouts learns no version of them.
	as := bearer(w.issue(scopedBody).secret)
	w.create("/access", accessFor("reads", `["read"]`, `{"components":["podinfo"]}`))
	limited := w.get(versionsPath, as...).want(200)
	for _, hidden := range []string{`"stored"`, "auto-podinfo", `"candidate"`} {
		require.NotContains(t, string(limited.body), hidden)
	}
	w.get("/rollouts/auto-podinfo.aprod", as...).problem(404, "not_found")
	w.patch("/platform_components/podinfo", `{"version_policy":{"range":">=6"}}`).problem(400, "validation_error")
}

// TestPlacesOfVersions: with two places for five components, the versions that are known for the longest are proposed first, then by name.
// The others say that they wait, to limited readers too, and follow when a place is free.
func TestPlacesOfVersions(t *testing.T) {
	t.Parallel()
	limit := rules
	limit.VersionRollouts = 2
	var cfg server.Config
	w := setupWith(t, options{rules: &limit, configure: func(c *server.Config) {
		c.ClusterStatus, c.Versions = clusterstatus.NewTracker(clusterstatus.Config{}), knownversions.New()
		cfg = *c
	}})
	s, err := server.New(cfg)
	require.NoError(t, err)
	w.http = httptest.NewServer(s)
	t.Cleanup(w.http.Close)
	push := func(id string) { w.post("/platform_components/"+id+"/versions", `{"version":"1.1.0"}`).want(202) }
	order := []string{"d", "b", "c", "e", "a"} // c and e are known since the same time
	for _, id := range order {
		w.create("/platform_components", `{"id":"`+id+`","component_path":"x","oci_url":"https://charts.example.com","component_version":"1.0.0","version_policies":{"catalog":{"range":"1.x"}}}`)
	}
	for _, id := range order {
		if id != "e" {
			w.clock.advance(time.Second)
		}
		push(id)
	}
	open := func() (ids []string) {
		for _, r := range w.get("/rollouts").want(200).list() {
			if r["state"] == "proposed" {
				ids = append(ids, strings.TrimPrefix(r["id"].(string), "auto-"))
			}
		}
		slices.Sort(ids)
		return ids
	}
	w.runVersions(s)
	require.Equal(t, []string{"b", "d"}, open())
	w.unchanged(func() { w.runVersions(s); w.runVersions(s) })
	require.Contains(t, at(w.get("/platform_components/a/versions").want(200).json(), "sources", 0, "problem"), "waits for its place")
	as := bearer(w.issue(scopedBody).secret)
	w.create("/access", accessFor("reads", `["read"]`, `{"components":["a"]}`))
	require.Contains(t, at(w.get("/platform_components/a/versions", as...).want(200).json(), "sources", 0, "problem"), "waits for its place")
	for i, want := range [][]string{{"b", "c"}, {"b", "e"}, {"a", "b"}} {
		w.post("/rollouts/auto-"+[]string{"d", "c", "e"}[i]+"/abort", "").want(200)
		s.MoveVersions(t.Context()) // at once
		require.Equal(t, want, open())
	}
	require.NotContains(t, at(w.get("/platform_components/a/versions").want(200).json(), "sources", 0), "problem")
}

// TestHiddenLayersOfPolicies: a policy of a layer that the writer may not read has the answer of one of a layer that does not exist.
func TestHiddenLayersOfPolicies(t *testing.T) {
	t.Parallel()
	w := hiddenWorld(t)
	w.create("/access", accessFor("team", `["read","plan"]`, teamRead))
	w.create("/access", accessFor("wide", `["write","plan"]`, ""))
	as := bearer(w.issue(scopedBody).secret)
	send := func(method, path, body string) string {
		headers := append([]string{"Content-Type", "application/json"}, as...)
		if method == http.MethodPatch {
			headers[1] = mergePatchType
		}
		return hashOfPlan.ReplaceAllString(lasting(w.do(method, path, body, headers...)), "")
	}
	w.unchanged(func() {
		for _, policy := range []string{`{"range":"1.x"}`, `{"range":"nonsense"}`, `{}`, `null`} {
			patch := `{"version_policies":{"layer/zebra":` + policy + `}}`
			operation := `{"operations":[{"op":"patch","kind":"platform_component","id":"web-app","patch":` + patch + `}]}`
			for _, of := range [][]string{{"PATCH", "/platform_components/web-app", patch}, {"POST", "/batch", operation}, {"POST", "/plan", operation}} {
				hidden := send(of[0], of[1], of[2])
				require.Equal(t, send(of[0], of[1], missing(of[2])), missing(hidden))
				require.Equal(t, policy != "null", strings.Contains(hidden, "there is no layer"), hidden)
			}
		}
	})
	for _, component := range []string{"zebra", "web-app"} {
		w.patch("/platform_components/"+component, `{"version_policies":{"layer/web":{"range":"1.x"}}}`).want(200)
	}
	warning := strings.Join(w.do("DELETE", "/layers/web?dry_run=true", "", as...).want(200).warnings(), "\n")
	require.Contains(t, warning, `component "web-app" names layer`)
	require.NotContains(t, warning, "zebra")
}
