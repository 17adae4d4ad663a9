package server_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// warnings returns the texts of the Warning headers.
func (a *answer) warnings() []string {
	texts := []string{}
	for _, line := range a.header.Values("Warning") {
		texts = append(texts, strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(line, `299 - "`), `"`), `\"`, `"`))
	}
	return texts
}

// uninstalls returns the warnings about what Flux uninstalls, and about clusters that leave the fleet.
func (a *answer) uninstalls() []string {
	out := []string{}
	for _, text := range a.warnings() {
		if strings.HasPrefix(text, "Flux uninstalls ") || strings.Contains(text, " leaves the fleet: ") {
			out = append(out, text)
		}
	}
	return out
}

// TestRemovalsAreWarned: an accepted change without a plan_hash tells what Flux uninstalls because of it, whatever its route.
func TestRemovalsAreWarned(t *testing.T) {
	t.Parallel()
	const merge = "application/merge-patch+json"
	for name, tc := range map[string]struct{ method, path, body, want string }{
		"a shorter list": {
			"PATCH", demoCluster, `{"platform_components":[{"id":"podinfo"}]}`,
			"Flux uninstalls 2 things on 1 cluster: cert-manager, traefik on demo-cluster-01",
		},
		"a replaced document":   {"PUT", demoCluster, `{"namespaces":[]}`, "Flux uninstalls 3 things on 1 cluster: namespace cert-manager, namespace podinfo, namespace traefik on demo-cluster-01"},
		"a disabled component":  {"PUT", demoCluster + "/platform_components/cert-manager", `{"enabled":false}`, "Flux uninstalls 1 thing on 1 cluster: cert-manager on demo-cluster-01"},
		"an unassigned one":     {"DELETE", demoCluster + "/platform_components/podinfo", "", "Flux uninstalls 1 thing on 1 cluster: podinfo on demo-cluster-01"},
		"another path":          {"PATCH", "/platform_components/podinfo", `{"target_namespace":"elsewhere"}`, "Flux uninstalls 1 thing on 1 cluster: podinfo on demo-cluster-01"},
		"a deleted definition":  {"DELETE", "/platform_components/traefik?cascade=true", "", "Flux uninstalls 1 thing on 1 cluster: traefik on demo-cluster-01"},
		"a deleted cluster":     {"DELETE", demoCluster, "", "Flux uninstalls 8 things on 1 cluster: cert-manager, namespace cert-manager, namespace podinfo and 5 more on demo-cluster-01"},
		"a forgotten cluster":   {"DELETE", demoCluster + "?mode=orphan", "", "1 cluster leaves the fleet: demo-cluster-01"},
		"a batch":               {"POST", "/batch", `{"operations":[{"op":"unassign_component","all":true,"component_id":"podinfo"}]}`, "Flux uninstalls 1 thing on 1 cluster: podinfo on demo-cluster-01"},
		"labels":                {"PATCH", demoCluster, `{"labels":{"a":"b"}}`, ""},
		"a new component":       {"POST", "/platform_components", `{"id":"x","component_path":"p","oci_url":"https://c.example.com"}`, ""},
		"a version":             {"PATCH", demoCluster, `{"platform_components":[{"id":"podinfo","oci_tag":"x"},{"id":"traefik"},{"id":"cert-manager"}]}`, ""},
		"an unused definition":  {"DELETE", "/namespaces/unused", "", ""},
		"a change of no answer": {"PATCH", demoCluster, `{}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.create("/namespaces", `{"id":"unused"}`)
			want := []string{}
			if tc.want != "" {
				want = append(want, tc.want)
			}
			contentType := "application/json"
			if tc.method == "PATCH" {
				contentType = merge
			}
			question := "?"
			if strings.Contains(tc.path, "?") {
				question = "&"
			}
			for _, dry := range []string{question + "dry_run=true", ""} {
				got := w.do(tc.method, tc.path+dry, tc.body, "Content-Type", contentType)
				require.Less(t, got.status, 300, "%s", got.body)
				require.Equal(t, want, got.uninstalls())
				if tc.path == "/batch" {
					require.Contains(t, got.json()["warnings"], tc.want)
				}
			}
		})
	}
}

// TestPlannedRemovalsAreNotWarnedAgain: a plan has its own fields, and a change with its hash was reviewed.
func TestPlannedRemovalsAreNotWarnedAgain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const body = `{"operations":[{"op":"unassign_component","all":true,"component_id":"podinfo"}]`
	plan := w.post("/plan", body+`}`).want(200)
	require.Empty(t, plan.uninstalls())
	require.Equal(t, 1., at(plan.json(), "totals", "removals"))
	require.Empty(t, w.post("/batch", body+`,"plan_hash":"`+plan.json()["plan_hash"].(string)+`"}`).want(200).uninstalls())
}

// TestRemovalWarningIsBounded: it names a few things and clusters, and counts the others.
func TestRemovalWarningIsBounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, id := range []string{"c", "a", "d", "b", "e"} {
		w.create("/clusters", `{"id":"`+id+`","cluster_dns":"`+id+`.example.com","environment":"dev","platform_components":[{"id":"podinfo"},{"id":"traefik"},{"id":"cert-manager"}]}`)
	}
	got := w.batch(`{"op":"unassign_component","all":true,"component_id":"podinfo"}`).want(200)
	require.Equal(t, []string{"Flux uninstalls 6 things on 6 clusters: podinfo on a, b, c and 3 more"}, got.uninstalls())
}

// TestRemovalWarningOfALimitedReader: a principal that reads a part of the fleet is told what Flux uninstalls there.
func TestRemovalWarningOfALimitedReader(t *testing.T) {
	t.Parallel()
	w, as := teamWorld(t)
	w.post("/rollouts/zebra-both/abort", "").want(200)
	const body = `{"platform_components":[{"id":"base","enabled":false}]}`
	whole := w.do("PATCH", "/clusters/web-01?dry_run=true", body, "Content-Type", mergePatchType).want(200).uninstalls()
	require.Len(t, whole, 1)
	require.Contains(t, whole[0], " on 1 cluster: ")
	require.Equal(t, whole, w.do("PATCH", "/clusters/web-01", body, append([]string{"Content-Type", mergePatchType}, as...)...).want(200).uninstalls())
}

// TestWarningsAreOfVisibleDocuments: a principal whose right to read has limits gets the warnings of the documents that it may read. Those of
// the whole fleet would tell whether a hidden cluster matches a selector.
func TestWarningsAreOfVisibleDocuments(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/clusters", `{"id":"zebra-01","cluster_dns":"zebra-01.example.com","environment":"dev","labels":{"team":"zebra"}}`)
	as := bearer(w.issue(scopedBody).secret)
	w.create("/access", accessFor("clusters", `["read"]`, `{"selector":"team=web"}`))
	w.create("/access", accessFor("strategies", `["read","write"]`, `{"kinds":["strategy"]}`))
	for _, team := range []string{"zebra", "absent"} {
		body := `{"id":"waves","stages":[{"name":"one","selector":"team=` + team + `"}]}`
		require.Equal(t, team == "absent", strings.Contains(w.post("/strategies?dry_run=true", body).want(200).header.Get("Warning"), "selects no cluster"))
		mine := w.do("POST", "/strategies?dry_run=true", body, append([]string{"Content-Type", "application/json"}, as...)...).want(200)
		require.Contains(t, mine.header.Get("Warning"), "selects no cluster", team)
	}
}
