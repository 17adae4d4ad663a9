package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAssignComponent(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/platform_components", `{"id":"grafana","component_path":"grafana","oci_url":"https://charts.example.com","depends_on":["traefik"]}`)
	at4 := func(a *answer) any { return at(a.want(200).json(), "platform_components", 3) }
	path := demoCluster + "/platform_components/grafana"

	require.Equal(t, map[string]any{"id": "grafana", "enabled": true}, at4(w.put(path, "")), "no body: assigned with the catalog's values")
	w.unchanged(func() {
		again := w.put(path, "")
		at4(again)
		require.Equal(t, w.get(demoCluster).etag(), again.etag())
		at4(w.put(path, `{}`))
		at4(w.put(path, `{"enabled":true}`))
	})
	require.Equal(t, map[string]any{"id": "grafana", "enabled": true, "oci_tag": "v1", "component_version": "9.0.0"},
		at4(w.put(path, `{"oci_tag":"v1","component_version":"9.0.0"}`)))
	require.Equal(t, map[string]any{"id": "grafana", "enabled": false, "oci_tag": "v1", "component_version": "9.0.0"},
		at4(w.put(path, `{"enabled":false}`)), "what is absent stays")
	require.Equal(t, map[string]any{"id": "grafana", "enabled": false, "component_version": "9.0.0"},
		at4(w.put(path, `{"oci_tag":null,"component_path":""}`)), "null clears")
	require.Equal(t, "9.0.0", at(w.poll(demoPolls+"/platform-components").json(), "inputs", 3, "component_version"))

	w.unchanged(func() {
		w.put(demoCluster+"/platform_components/nobody", "").problem(404, "not_found")
		w.put("/clusters/nobody/platform_components/grafana", "").problem(404, "not_found")
		require.Equal(t, []string{"/id"}, w.put(path, `{"id":"grafana"}`).problem(400, "validation_error").pointers())
		require.Equal(t, []string{"/enabled"}, w.put(path, `{"enabled":"yes"}`).problem(400, "validation_error").pointers())
		require.Equal(t, []string{"/enabled"}, w.put(path, `{"enabled":null}`).problem(400, "validation_error").pointers())
		w.put(path, `[]`).problem(400, "validation_error")
		w.put(path+"?dry_run=true", `{"enabled":true}`).want(200)
		w.put(path, `{"enabled":true}`, "If-Match", `"1-00000000"`).problem(412, "stale")
	})
}

func TestUnassignComponentDropsPatches(t *testing.T) {
	t.Parallel()
	w := setup(t)
	path := demoCluster + "/platform_components/podinfo"
	w.unchanged(func() { w.delete(path + "?dry_run=true").want(200) })
	after := w.delete(path, "If-Match", w.get(demoCluster).etag()).want(200)
	require.Nil(t, at(after.json(), "patches", "podinfo"))
	require.NotNil(t, at(after.json(), "patches", "traefik"))
	require.Equal(t, 2, w.revision(), "in the same commit")
	w.unchanged(func() {
		require.Equal(t, after.etag(), w.delete(path).want(200).etag(), "idempotent")
		w.delete("/clusters/nobody/platform_components/podinfo").problem(404, "not_found")
	})
	again := w.put(path, "").want(200).json()
	require.Nil(t, at(again, "patches", "podinfo"), "assigned again, it starts afresh")
	require.Equal(t, map[string]any{}, at(w.poll(demoPolls+"/platform-components").json(), "inputs", 2, "patches"))
}

func TestAssignReference(t *testing.T) {
	t.Parallel()
	for kind, create := range map[string]string{
		"namespaces":   `{"id":"extra"}`,
		"rolebindings": `{"id":"extra","role":"view","subjects":[{"kind":"User","name":"ann"}]}`,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.create("/"+kind, create)
			path := demoCluster + "/" + kind + "/extra"
			before := w.poll(demoPolls + "/" + kind).ids()

			assigned := w.put(path, "").want(200)
			require.Equal(t, append(before, "extra"), w.poll(demoPolls+"/"+kind).ids())
			w.unchanged(func() {
				require.Equal(t, assigned.etag(), w.put(path, "").want(200).etag())
				w.put(demoCluster+"/"+kind+"/nobody", "").problem(404, "not_found")
				w.put("/clusters/nobody/"+kind+"/extra", "").problem(404, "not_found")
				w.delete(path, "If-Match", `"1-00000000"`).problem(412, "stale")
			})
			removed := w.delete(path).want(200)
			require.Equal(t, before, w.poll(demoPolls+"/"+kind).ids())
			w.unchanged(func() {
				require.Equal(t, removed.etag(), w.delete(path).want(200).etag())
				w.delete(demoCluster + "/" + kind + "/nobody").want(200)
			})
		})
	}
}

func TestDeleteInUse(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/clusters", `{"id":"second","cluster_dns":"second.example.com","environment":"dev","namespaces":[{"id":"podinfo"}]}`)
	w.unchanged(func() {
		for path, users := range map[string][]string{
			"/namespaces/podinfo":               {"2 clusters", "demo-cluster-01", "second"},
			"/rolebindings/dev-readers":         {"1 cluster", "demo-cluster-01"},
			"/platform_components/podinfo":      {"1 cluster", "demo-cluster-01"},
			"/platform_components/cert-manager": {"1 cluster", "demo-cluster-01", "1 platform component", "traefik"},
		} {
			detail := w.delete(path).problem(409, "in_use").json()["detail"]
			for _, u := range users {
				require.Contains(t, detail, u, path)
			}
			w.delete(path+"?dry_run=true").problem(409, "in_use")
			w.delete(path+"?cascade=false").problem(409, "in_use")
			if strings.HasPrefix(users[0], "1 ") {
				w.delete(path + "?cascade=true&dry_run=true").want(200)
			}
		}
	})
}

func TestDeleteCascade(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/clusters", `{"id":"second","cluster_dns":"second.example.com","environment":"dev","namespaces":[{"id":"podinfo"},{"id":"traefik"}]}`)
	revision := w.revision()
	w.delete("/namespaces/podinfo?cascade=true").problem(409, "confirmation_required")
	require.Equal(t, revision, w.revision())
	hash := w.plan(`{"op":"delete","kind":"namespace","id":"podinfo","cascade":true}`)["plan_hash"].(string)
	w.delete("/namespaces/podinfo?cascade=true&plan_hash=0"+hash).problem(412, "stale")
	w.delete("/namespaces/podinfo?cascade=true&plan_hash=" + hash).want(200)
	require.Equal(t, revision+1, w.revision(), "one commit")
	require.Equal(t, []string{"cert-manager", "traefik"}, w.poll(demoPolls+"/namespaces").ids())
	require.Equal(t, []string{"traefik"}, w.poll("/api/v2/flux/clusters/second.example.com/namespaces").ids())
	require.EqualValues(t, 3, w.get("/revisions?limit=1").list()[0]["change_count"])

	w.delete("/platform_components/traefik?cascade=true").want(200)
	require.Equal(t, []string{"cert-manager", "podinfo"}, w.poll(demoPolls+"/platform-components").ids())
	require.Empty(t, w.get("/platform_components/podinfo").json()["depends_on"])
	require.Nil(t, at(w.get(demoCluster).json(), "patches", "traefik"))
	w.delete("/rolebindings/platform-admins?cascade=true").want(200)
	require.Equal(t, []string{"dev-readers"}, w.poll(demoPolls+"/rolebindings").ids())
}

// Advice comes with an answer that succeeds, and is text that a header can carry.
func TestWarnings(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for name, tc := range map[string]struct{ method, path, body, want string }{
		"a missing dependency": {"PUT", demoCluster, `{"platform_components":[{"id":"podinfo"}]}`, `component "podinfo" depends on "traefik"`},
		"latest in prod":       {"PUT", demoCluster, `{"environment":"prod"}`, `follows "latest"`},
		"a secret in a patch":  {"PATCH", demoCluster, `{"patches":{"podinfo":{"auth.adminPassword":"x"}}}`, `looks like a secret`},
		"text beyond ASCII":    {"PATCH", demoCluster, `{"patches":{"podinfo":{"grüße.token":"x"}}}`, `gr??e.token`},
		"a tag beside a pinned chart": {
			"PUT", demoCluster + "/platform_components/pinned", `{"oci_tag":"v1.0.0-1"}`,
			`oci_tag "v1.0.0-1" of component "pinned" on cluster "demo-cluster-01" has no effect: a helm component installs its component_version, here 17.0.0`,
		},
		"a pin beside a tag":          {"PATCH", demoCluster, `{"platform_components":[{"id":"twin","oci_tag":"2","component_version":"1"}]}`, `here 1; set component_version`},
		"a tag of a pinned chart":     {"PATCH", "/platform_components/pinned", `{"oci_tag":"v1.0.0-1"}`, `oci_tag "v1.0.0-1" of component "pinned" has no effect`},
		"a helm chart by environment": {"PATCH", "/platform_components/pinned", `{"cluster_env_enabled":true}`, `cluster_env_enabled of component "pinned" has no effect`},
		"an adopted namespace":        {"PUT", demoCluster + "/namespaces/kube-public", `{}`, `namespace "kube-public" is adopted`},
		"an adopted one in the list":  {"PATCH", demoCluster, `{"namespaces":[{"id":"keep"}]}`, `namespace "keep" is adopted`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.create("/platform_components", `{"id":"twin","component_path":"p","oci_url":"https://c.example.com","release_name":"podinfo","target_namespace":"podinfo"}`)
			w.create("/platform_components", `{"id":"pinned","component_path":"p","oci_url":"https://c.example.com","component_version":"17.0.0"}`)
			w.create("/namespaces", `{"id":"kube-public","deletion_policy":"orphan"}`)
			w.create("/namespaces", `{"id":"keep","deletion_policy":"orphan"}`)
			for _, dry := range []string{"?dry_run=true", ""} {
				got := w.do(tc.method, tc.path+dry, tc.body, "Content-Type", "application/json")
				require.Less(t, got.status, 300, "%s", got.body)
				warnings := got.header.Values("Warning")
				require.NotEmpty(t, warnings)
				found := false
				for _, text := range warnings {
					require.Regexp(t, `^299 - "([^"\\]|\\.)*"$`, text)
					found = found || containsUnquoted(text, tc.want)
				}
				require.True(t, found, "%q", warnings)
			}
		})
	}
	w.create("/platform_components", `{"id":"pinned","component_path":"p","oci_url":"https://c.example.com","component_version":"17.0.0","oci_tag":"17.0.0"}`)
	w.create("/platform_components", `{"id":"kust","component_path":"p","oci_url":"oci://c.example.com/x","cluster_env_enabled":true}`)
	w.create("/namespaces", `{"id":"keep","deletion_policy":"orphan"}`)
	plan := w.do("POST", "/plan", `{"operations":[
		{"op":"assign_component","all":true,"component_id":"pinned","oci_tag":"v1.0.0-1"},{"op":"assign_namespace","all":true,"namespace_id":"keep"}]}`).want(200).json()
	require.Len(t, plan["warnings"], 2)
	require.Contains(t, at(plan, "warnings", 0), `here 17.0.0`)
	require.Contains(t, at(plan, "warnings", 1), `"keep" is adopted`)
	w.put(demoCluster+"/namespaces/keep", `{}`).want(200)
	require.Empty(t, w.put(demoCluster+"/platform_components/kust", `{"oci_tag":"v1"}`).want(200).header.Values("Warning"), "the tag of a kustomize component counts")
	require.Empty(t, w.put(demoCluster+"/platform_components/pinned", `{"component_version":"17.1.0"}`).want(200).header.Values("Warning"))
	require.Empty(t, w.patch(demoCluster, `{"labels":{"a":"b"}}`).want(200).header.Values("Warning"), "said once")
	require.Empty(t, w.get(demoCluster).header.Values("Warning"))
}

// A namespace whose policy becomes keep may be removed from the list only after clusters have polled the policy.
func TestNamespacePolicyMerged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clock.advance(time.Hour)
	w.patch("/namespaces/podinfo", `{"deletion_policy":"orphan"}`).want(200)
	path := demoCluster + "/namespaces/podinfo"
	require.Contains(t, strings.Join(w.delete(path+"?dry_run=true").want(200).warnings(), "\n"), "has not polled since")
	w.clock.advance(16 * time.Minute)
	require.Empty(t, w.delete(path).want(200).header.Values("Warning"))
}

// Concurrent changes of one cluster never overwrite one another.
func TestConcurrentAssignments(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const people = 16
	for i := range people {
		w.create("/namespaces", fmt.Sprintf(`{"id":"n%d"}`, i))
	}
	tag := w.get(demoCluster).etag()
	statuses, conditional := make(chan int, people), make(chan int, people)
	for i := range people {
		go func() { statuses <- w.put(fmt.Sprintf("%s/namespaces/n%d", demoCluster, i), "").status }()
		go func() {
			conditional <- w.patch("/rolebindings/dev-readers", fmt.Sprintf(`{"role":"r%d"}`, i), "If-Match", w.get("/rolebindings/dev-readers").etag()).status
		}()
	}
	won := 0
	for range people {
		require.Equal(t, 200, <-statuses)
		if <-conditional == 200 {
			won++
		}
	}
	require.Len(t, w.get(demoCluster).json()["namespaces"], 3+people)
	require.NotEqual(t, tag, w.get(demoCluster).etag())
	require.GreaterOrEqual(t, won, 1)
	require.Equal(t, 1+people+people+won, w.revision(), "one revision for each change, and none for those that lost")
}
