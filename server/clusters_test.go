package server_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
)

func TestClusterDefaults(t *testing.T) {
	t.Parallel()
	w := setupWith(t, options{empty: true})
	c := w.create("/clusters", `{"id":"c1","cluster_dns":"C1.Example.COM","environment":"dev","labels":null,"patches":null,"cluster_name":null}`).json()
	require.Equal(t, map[string]any{
		"id": "c1", "cluster_name": "c1", "cluster_dns": "c1.example.com", "environment": "dev", "labels": map[string]any{},
		"platform_components": []any{}, "namespaces": []any{}, "rolebindings": []any{}, "patches": map[string]any{},
		"deletion_protection": false, "revision": 1.0, "created_at": "2026-01-02T03:04:05.678901Z", "updated_at": "2026-01-02T03:04:05.678901Z",
	}, c)
	c = w.create("/clusters", `{"id":"c2","cluster_dns":"c2.example.com","environment":"dev","cluster_name":"Prod (East)","node_count":3,"vm_image":"ubuntu-24.04","k0s_version":"v1.31.2+k0s.0"}`).json()
	require.Equal(t, "Prod (East)", c["cluster_name"])
	require.EqualValues(t, 3, c["node_count"])
	require.Equal(t, "ubuntu-24.04", c["vm_image"])
	require.Equal(t, "v1.31.2+k0s.0", c["k0s_version"])
}

// Zero nodes and an empty image name are values, not absent fields.
func TestZeroKept(t *testing.T) {
	t.Parallel()
	zeroes := func(c map[string]any) {
		t.Helper()
		require.EqualValues(t, 0, c["node_count"])
		require.Equal(t, "", c["vm_image"])
		require.Equal(t, "", c["k0s_version"])
	}
	const none = `"node_count":0,"vm_image":"","k0s_version":""`
	w := setupWith(t, options{empty: true})
	zeroes(w.create("/clusters", `{"id":"c1","cluster_dns":"c1.example.com","environment":"dev",`+none+`}`).json())
	zeroes(w.get("/clusters/c1").want(200).json())

	c := w.create("/clusters", `{"id":"c2","cluster_dns":"c2.example.com","environment":"dev"}`).json()
	for _, field := range []string{"node_count", "vm_image", "k0s_version"} {
		require.NotContains(t, c, field, "what nobody wrote stays absent")
	}
	zeroes(w.put("/clusters/c2", `{`+none+`}`).want(200).json())
	zeroes(w.put("/clusters/c2", `{"labels":{"a":"b"},"node_count":null}`).want(200).json())
	c = w.do("PATCH", "/clusters/c2", `{"node_count":null,"vm_image":null,"k0s_version":null}`).want(200).json()
	require.NotContains(t, c, "node_count")
	zeroes(w.do("PATCH", "/clusters/c2", `{`+none+`}`).want(200).json())
	w.batch(`{"op":"patch","kind":"cluster","id":"c2","patch":{"node_count":7}}`).want(200)
	w.batch(`{"op":"update","kind":"cluster","id":"c2","document":{"node_count":0}}`).want(200)
	w.batch(`{"op":"set_labels","all":true,"labels":{"tier":"gold"}}`).want(200)
	zeroes(w.get("/clusters/c2").want(200).json())

	seed, err := fleet.ParseSeed([]byte(`{"clusters":[{"_id":"c1","cluster_dns":"c1.example.com","environment":"dev",` + none + `}]}`))
	require.NoError(t, err)
	w = setupWith(t, options{empty: true})
	_, err = server.SeedEmptyStore(t.Context(), w.replica, seed, store.Meta{})
	require.NoError(t, err)
	zeroes(w.get("/clusters/c1").want(200).json())
}

// Ids with dots, as databases of the reference have them, work wherever an id does.
func TestClusterIDsWithDots(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/clusters", `{"id":"edge.eu-1.example","cluster_dns":"edge.eu-1.example.com","environment":"dev","platform_components":[{"id":"podinfo"}]}`)
	const path = "/clusters/edge.eu-1.example"
	w.get(path).want(200)
	w.put(path+"/namespaces/podinfo", `{}`).want(200)
	w.do("PATCH", path+"/patches/podinfo?field_manager=ci", `{"replicaCount":3}`).want(200)
	w.batch(`{"op":"set_labels","selector":"id in (edge.eu-1.example)","labels":{"tier":"gold"}}`).want(200)
	w.batch(`{"op":"set_labels","cluster_ids":["edge.eu-1.example"],"labels":{"a":"b"}}`).want(200)
	w.create("/tokens", `{"name":"poll-edge.eu-1.example","role":"poll","cluster_id":"edge.eu-1.example"}`)
	require.Equal(t, []string{"podinfo"}, w.poll("/api/v2/flux/clusters/edge.eu-1.example.com/namespaces").ids())
	require.Len(t, w.get(path+"/history").list(), 5)
	w.delete(path).want(200)
	w.create("/clusters", `{"id":"`+strings.Repeat("a", 31)+"."+strings.Repeat("b", 31)+`","cluster_dns":"long.example.com","environment":"dev"}`)
	w.do("POST", "/clusters", `{"id":"`+strings.Repeat("a", 31)+"."+strings.Repeat("b", 32)+`","cluster_dns":"longer.example.com","environment":"dev"}`).problem(400, "validation_error")
}

// The reference's clients may send it; the id identifies the cluster.
func TestEnvironmentOfOneCluster(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, environment := range []string{"dev", "prod", ""} {
		require.Equal(t, "demo-cluster-01", w.get(demoCluster + "?environment=" + environment).want(200).json()["id"])
	}
	w.get(demoCluster+"?enviro=dev").problem(400, "validation_error")
}

// TestSelectorOfUnknownLabel: an empty list because of a label that no cluster has is told apart from one of clusters with other values.
func TestSelectorOfUnknownLabel(t *testing.T) {
	t.Parallel()
	w := setupWith(t, options{empty: true})
	w.create("/clusters", `{"id":"a","cluster_dns":"a.example.com","environment":"prod","labels":{"region":"eu"}}`)
	for selector, warning := range map[string]string{
		"env=prod":  `299 - "no cluster has the label \"env\"; clusters have their labels, environment and id"`,
		"tier":      `299 - "no cluster has the label \"tier\"; clusters have their labels, environment and id"`,
		"region=us": "", "region=eu": "", "environment=dev": "", "id=b": "", "region=eu,!tier": "", "!region": "", "region=us,tier!=gold": "",
	} {
		require.Equal(t, warning, w.get("/clusters?selector="+url.QueryEscape(selector)).want(200).header.Get("Warning"), selector)
	}
}

// TestClusterFilters: matches, and no match, also beside other filters.
// TestClustersByImage: clusters are found by the images and artifacts that they, their layers or the catalog declare, by name, tag and digest.
func TestClustersByImage(t *testing.T) {
	t.Parallel()
	w := setupWith(t, options{empty: true})
	digest := "sha256:" + strings.Repeat("a", 64)
	for _, c := range [][2]string{
		{"/platform_components", `{"id":"web","type":"kustomize","component_path":"web","oci_url":"oci://registry.example.com/web","oci_tag":"v1","images":[{"name":"ghcr.io/acme/web","new_tag":"1.2"}]}`},
		{"/platform_components", `{"id":"db","component_path":"db","oci_url":"https://charts.example.com","component_version":"3.0.0"}`},
		{"/layers", `{"id":"eu","priority":1,"selector":"region=eu","overrides":{"web":{"images":[{"name":"ghcr.io/acme/web","new_name":"mirror.example.com/web","digest":"` + digest + `"}]}}}`},
		{"/clusters", `{"id":"a","cluster_dns":"a.example.com","environment":"dev","platform_components":[{"id":"web"}]}`},
		{"/clusters", `{"id":"b","cluster_dns":"b.example.com","environment":"dev","labels":{"region":"eu"},"platform_components":[{"id":"web","oci_tag":"V2"}]}`},
		{"/clusters", `{"id":"c","cluster_dns":"c.example.com","environment":"dev","platform_components":[{"id":"db"}]}`},
		{"/clusters", `{"id":"d","cluster_dns":"d.example.com","environment":"dev","platform_components":[{"id":"web","enabled":false}]}`},
	} {
		w.create(c[0], c[1])
	}
	for image, want := range map[string][]string{
		"ghcr.io/acme/web": {"a", "b"}, "ghcr.io/acme/web:1.2": {"a"}, ":1.2": {"a"}, "1.2": {}, "ghcr.io/acme/we": {}, "mirror.example.com/web": {"b"},
		digest: {"b"}, "mirror.example.com/web@" + digest: {"b"}, "registry.example.com/web": {"a", "b"}, "registry.example.com/web:v1": {"a"},
		"registry.example.com/web:V2": {"b"}, "charts.example.com:3.0.0": {"c"}, ":": {},
	} {
		require.Equal(t, want, w.get("/clusters?image="+url.QueryEscape(image)).want(200).ids(), image)
		found := []string{}
		for _, one := range w.search(image) {
			if id, ok := strings.CutPrefix(one, "cluster "); ok && image != "1.2" {
				found = append(found, id)
			}
		}
		require.Equal(t, want, found, image)
	}
	require.Equal(t, []string{"b"}, w.get("/clusters?limit=1&offset=1&image=ghcr.io/acme/web").want(200).ids())
	w.get("/clusters?image=").problem(400, "validation_error")
}

func TestClusterFilters(t *testing.T) {
	t.Parallel()
	w := setupWith(t, options{empty: true})
	for _, c := range []string{
		`{"id":"a","cluster_dns":"a.example.com","environment":"dev","labels":{"region":"eu","tier":"gold"}}`,
		`{"id":"b","cluster_dns":"b.example.com","environment":"dev","labels":{"region":"us"}}`,
		`{"id":"c","cluster_dns":"c.example.com","environment":"prod","labels":{"region":"ap","tier":"gold"}}`,
		`{"id":"d","cluster_dns":"d.example.com","environment":"prod"}`,
	} {
		w.create("/clusters", c)
	}
	for query, want := range map[string][]string{
		"environment=prod":                                  {"c", "d"},
		"environment=none":                                  {},
		"selector=region=eu":                                {"a"},
		"selector=region in (eu,us)":                        {"a", "b"},
		"selector=region notin (eu)":                        {"b", "c", "d"},
		"selector=region!=eu":                               {"b", "c", "d"},
		"selector=!tier":                                    {"b", "d"},
		"selector=tier":                                     {"a", "c"},
		"selector=environment=dev,tier":                     {"a"},
		"selector=id in (a,d)":                              {"a", "d"},
		"selector=":                                         {"a", "b", "c", "d"},
		"environment=prod&selector=tier=gold":               {"c"},
		"environment=dev&selector=environment=prod":         {},
		"cluster_dns=c.example.com":                         {"c"},
		"cluster_dns=C.EXAMPLE.com":                         {"c"},
		"cluster_dns=C.example.com.":                        {"c"},
		"cluster_dns=nowhere.example.com":                   {},
		"cluster_dns=c.example.com&selector=region in (eu)": {},
	} {
		encoded, err := url.ParseQuery(query)
		require.NoError(t, err)
		require.Equal(t, want, w.get("/clusters?"+encoded.Encode()).want(200).ids(), query)
		if _, dns := encoded["cluster_dns"]; !dns {
			require.Equal(t, want, w.poll("/api/v2/flux/clusters?"+encoded.Encode()).want(200).ids(), query)
		}
	}
	paged := w.get("/clusters?limit=1&selector=" + url.QueryEscape("region in (eu,us)")).want(200)
	require.Equal(t, "2", paged.header.Get("X-Total-Count"))
	require.Equal(t, []string{"b"}, w.get(nextLink(t, paged)).want(200).ids(), "the filter stays on the next page")
	for _, bad := range []string{"selector=region%20in", "selector=%3D%3D", "selector=a%00b", "selector=-x%3D1", "deleted=perhaps", "env=dev"} {
		w.get("/clusters?"+bad).problem(400, "validation_error")
	}
	w.poll("/api/v2/flux/clusters?selector=region%20in").problem(400, "validation_error")
}

// PUT replaces fields in the body; absent and null ones stay. The reference's CLI depends on it.
func TestClusterPartialPut(t *testing.T) {
	t.Parallel()
	w := setup(t)
	before := w.get(demoCluster).json()
	after := w.put(demoCluster, `{"environment":"qa","patches":null,"namespaces":null,"labels":{"region":"eu"}}`).want(200).json()
	require.Equal(t, "qa", after["environment"])
	require.Equal(t, map[string]any{"region": "eu"}, after["labels"])
	for _, same := range []string{"patches", "namespaces", "rolebindings", "platform_components", "cluster_name", "cluster_dns", "created_at"} {
		require.Equal(t, before[same], after[same], same)
	}
	require.Equal(t, map[string]any{}, w.put(demoCluster, `{"labels":{}}`).want(200).json()["labels"], "maps replace as a whole")
	require.Empty(t, w.put(demoCluster, `{"rolebindings":[]}`).want(200).json()["rolebindings"])
	require.Empty(t, w.poll(demoPolls+"/rolebindings").want(200).ids())
}

// An entry of a list keeps the fields of ours that a request does not mention, since the reference's CLI knows none of
// them. Overrides that it knows are released by leaving them out, as it does.
func TestClusterPutKeepsEntries(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(demoCluster, `{"platform_components":[{"id":"podinfo","enabled":false,"oci_tag":"v1","component_path":"p","component_version":"6.9.0"},{"id":"traefik"}]}`).want(200)
	entries := func(body string) []any {
		t.Helper()
		return w.put(demoCluster, body).want(200).json()["platform_components"].([]any)
	}
	full := map[string]any{"id": "podinfo", "enabled": false, "oci_tag": "v1", "component_path": "p", "component_version": "6.9.0"}
	require.Equal(t, []any{map[string]any{"id": "traefik", "enabled": true}, full},
		entries(`{"platform_components":[{"id":"traefik"},{"id":"podinfo","oci_tag":"v1","component_path":"p"}]}`), "in the new order")
	full["enabled"] = true
	delete(full, "oci_tag")
	require.Equal(t, []any{full}, entries(`{"platform_components":[{"id":"podinfo","enabled":true,"component_path":"p"}]}`), "released")
	delete(full, "component_path")
	require.Equal(t, []any{full}, entries(`{"platform_components":[{"id":"podinfo"}]}`))
	for _, none := range []string{"null", `""`} {
		full["oci_tag"] = "v1"
		require.Equal(t, []any{full}, entries(`{"platform_components":[{"id":"podinfo","oci_tag":"v1"}]}`))
		delete(full, "oci_tag")
		require.Equal(t, []any{full}, entries(`{"platform_components":[{"id":"podinfo","oci_tag":`+none+`}]}`), none)
	}

	input := at(w.poll(demoPolls+"/platform-components").json(), "inputs", 0)
	require.Equal(t, "podinfo", at(input, "component_path"))
	require.Equal(t, "6.9.0", at(input, "component_version"))
	require.Equal(t, "latest", at(input, "source", "oci_tag"))
	require.Equal(t, []any{}, at(input, "dependencies"), "traefik is no longer on the cluster")
	require.Equal(t, []any{"traefik"}, at(input, "depends_on"))
}

// Removing a component through PUT drops its patches in the same commit.
func TestClusterPutDropsPatches(t *testing.T) {
	t.Parallel()
	w := setup(t)
	after := w.put(demoCluster, `{"platform_components":[{"id":"cert-manager"}]}`).want(200).json()
	require.Equal(t, map[string]any{"cert-manager": map[string]any{"crds.enabled": "true", "startupapicheck.timeout": "5m"}}, after["patches"])
	require.Equal(t, 2, w.revision())
	w.unchanged(func() {
		refused := w.put(demoCluster, `{"patches":{"podinfo":{"replicaCount":"3"}}}`).problem(400, "validation_error")
		require.Equal(t, []string{"/patches/podinfo"}, refused.pointers())
	})
}

func TestClusterMergePatch(t *testing.T) {
	t.Parallel()
	w := setup(t)
	after := w.patch(demoCluster, `{"patches":{"podinfo":{"replicaCount":"3","ui.message":null,"hosts[0].name":"a.example.com"},"traefik":null},"labels":{"region":"eu"}}`).want(200).json()
	require.Equal(t, map[string]any{
		"cert-manager": map[string]any{"crds.enabled": "true", "startupapicheck.timeout": "5m"},
		"podinfo":      map[string]any{"replicaCount": "3", "ui.color": "#2f855a", "hosts[0].name": "a.example.com"},
	}, after["patches"])
	input := at(w.poll(demoPolls+"/platform-components").json(), "inputs", 2)
	require.Equal(t, map[string]any{
		"replicaCount": 3.0, "ui": map[string]any{"color": "#2f855a"}, "hosts": []any{map[string]any{"name": "a.example.com"}},
	}, at(input, "values"))
	require.Equal(t, map[string]any{}, w.patch(demoCluster, `{"labels":{"region":null}}`).want(200).json()["labels"])
	require.Equal(t, "demo-cluster-01", w.patch(demoCluster, `{"cluster_name":"other"}`).want(200).json()["id"])
	require.Equal(t, "demo-cluster-01", w.patch(demoCluster, `{"cluster_name":null}`).want(200).json()["cluster_name"], "cleared: the default again")
	require.Equal(t, []any{}, w.patch(demoCluster, `{"namespaces":null}`).want(200).json()["namespaces"])
	w.unchanged(func() {
		require.Equal(t, []string{"/environment"}, w.patch(demoCluster, `{"environment":null}`).problem(400, "validation_error").pointers())
	})
}

func TestClusterRename(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.patch(demoCluster, `{"deletion_protection":true}`).want(200)
	w.unchanged(func() {
		require.Equal(t, []string{"/cluster_dns"}, w.patch(demoCluster, `{"cluster_dns":"new.example.com"}`).problem(400, "validation_error").pointers())
		require.Equal(t, []string{"/cluster_dns"}, w.patch(demoCluster, `{"cluster_dns":"new.example.com","deletion_protection":false}`).problem(400, "validation_error").pointers())
	})
	w.patch(demoCluster, `{"deletion_protection":false}`).want(200)
	renamed := w.patch(demoCluster, `{"cluster_dns":"NEW.example.com"}`).want(200)
	require.Contains(t, renamed.header.Get("Warning"), "404")
	w.poll(demoPolls+"/namespaces").problem(404, "not_found")
	require.Len(t, w.poll("/api/v2/flux/clusters/new.example.com/namespaces").want(200).ids(), 3)
}

const emptyInputs = "{\"inputs\":[]}\n"

func (w *world) requirePolls(dns string, status int, body string) {
	w.t.Helper()
	for _, resource := range []string{"platform-components", "namespaces", "rolebindings"} {
		got := w.poll("/api/v2/flux/clusters/" + dns + "/" + resource).want(status)
		if body != "" {
			require.Equal(w.t, body, string(got.body), resource)
		}
	}
}

func TestDecommission(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/clusters", `{"id":"other","cluster_dns":"other.example.com","environment":"dev"}`)
	w.clock.advance(time.Hour)
	require.Equal(t, demoDNS, w.delete(demoCluster).want(200).json()["cluster_dns"])
	w.requirePolls(demoDNS, 200, emptyInputs)
	require.Equal(t, []string{"other"}, w.get("/clusters").ids())
	require.Equal(t, []string{"other"}, w.poll("/api/v2/flux/clusters").ids())
	w.get(demoCluster).problem(404, "not_found")
	w.unchanged(func() {
		w.delete(demoCluster).problem(404, "not_found")
		w.put(demoCluster, `{"environment":"qa"}`).problem(404, "not_found")
		w.patch(demoCluster, `{"environment":"qa"}`).problem(404, "not_found")
		w.put(demoCluster+"/namespaces/podinfo", "").problem(404, "not_found")
	})
	deleted := w.get("/clusters?deleted=true").want(200)
	require.Equal(t, []string{"demo-cluster-01"}, deleted.ids())
	require.Equal(t, "2026-01-02T04:04:05.678901Z", deleted.list()[0]["deleted_at"])
	require.Equal(t, "2026-01-02T03:04:05.678901Z", deleted.list()[0]["created_at"])
	require.Empty(t, deleted.list()[0]["namespaces"])

	// A definition can be deleted although a decommissioned cluster had it.
	w.delete("/namespaces/podinfo").want(200)
	w.requirePolls(demoDNS, 200, emptyInputs)

	w.delete(demoCluster + "?mode=orphan").want(200)
	w.requirePolls(demoDNS, 404, "")
	require.Empty(t, w.get("/clusters?deleted=true").ids())
	w.delete(demoCluster+"?mode=orphan").problem(404, "not_found")
}

func TestOrphanCluster(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.delete(demoCluster + "?mode=orphan").want(200)
	w.requirePolls(demoDNS, 404, "")
	require.Empty(t, w.get("/clusters?deleted=true").ids())
	w.delete(demoCluster+"?mode=destroy").problem(400, "validation_error")
}

func TestDeletionProtection(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.patch(demoCluster, `{"deletion_protection":true}`).want(200)
	before := w.poll(demoPolls + "/namespaces").body
	w.unchanged(func() {
		for _, query := range []string{"", "?mode=uninstall", "?mode=orphan", "?dry_run=true"} {
			w.delete(demoCluster+query).problem(409, "protected")
		}
	})
	require.Equal(t, before, w.poll(demoPolls+"/namespaces").body)
	w.patch(demoCluster, `{"deletion_protection":false}`).want(200)
	w.delete(demoCluster).want(200)
}

func TestRecreateDecommissioned(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]string{"the same id": "demo-cluster-01", "another id": "successor"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.delete(demoCluster).want(200)
			w.clock.advance(time.Minute)
			created := w.create("/clusters", `{"id":"`+id+`","cluster_dns":"`+demoDNS+`","environment":"dev","namespaces":[{"id":"podinfo"}]}`)
			require.Equal(t, "2026-01-02T03:05:05.678901Z", created.json()["created_at"])
			require.Equal(t, []string{"podinfo"}, w.poll(demoPolls+"/namespaces").want(200).ids())
			require.Equal(t, []string{id}, w.get("/clusters").ids())
			require.Empty(t, w.get("/clusters?deleted=true").ids())
			require.NotContains(t, w.get("/clusters/"+id).want(200).json(), "deleted_at")
		})
	}
	t.Run("the same id with another DNS name", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		w.delete(demoCluster).want(200)
		w.unchanged(func() {
			refused := w.do("POST", "/clusters", `{"id":"demo-cluster-01","cluster_dns":"new.example.com","environment":"dev"}`).problem(409, "conflict")
			require.Contains(t, string(refused.body), "mode=orphan")
		})
		w.requirePolls(demoDNS, 200, emptyInputs)
	})
}
