package fleet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDefinitionTooLargeForAllClusters: a definition that makes the answers of all clusters too large is refused after the
// first hundred, and a problem of equal clusters is reported once, with their number.
func TestDefinitionTooLargeForAllClusters(t *testing.T) {
	t.Parallel()
	w := bitwise(t, 400, 1, "")
	for i := range 5 {
		w.takes(create(KindNamespace, fmt.Sprintf(`{"id":"large%d","annotations":{"a":"%s"}}`, i, strings.Repeat("x", 100<<10))))
	}
	w.takes(create(KindLayer, `{"id":"large","priority":1,"all":true,"namespaces":[{"id":"large0"},{"id":"large1"},{"id":"large2"},{"id":"large3"},{"id":"large4"}]}`))
	var grow []string
	for i := range 5 {
		grow = append(grow, fmt.Sprintf(`{"op":"patch","kind":"namespace","id":"large%d","patch":{"annotations":{"a":"%s"}}}`, i, strings.Repeat("y", 250<<10)))
	}
	n := len(w.refused(CodeLimitExceeded, batch(grow...)).Problems)
	require.GreaterOrEqual(t, n, maxProblems)
	require.Less(t, n, 150)
}

func TestEqualClustersAreReportedOnce(t *testing.T) {
	t.Parallel()
	w := tiers(t, `{"id":"base","priority":10,"all":true,"platform_components":[{"id":"grafana"}],"patches":{"grafana":{"ingress.host":"a"}}}`)
	w.must(assign("c3", KindNamespace, "team", ""))
	problems := w.refused(CodeInvalid, patch(KindComponent, "grafana", `{"patches":{"ingress":"x"}}`)).Problems
	var clusters []string
	for _, p := range problems {
		if strings.HasPrefix(p.Detail, "cluster ") {
			clusters = append(clusters, p.Detail)
		}
	}
	require.Len(t, clusters, 2, "%v", problems)
	require.Contains(t, clusters[0], `cluster "c0"`)
	require.Contains(t, clusters[0], "(and on 2 clusters like it)")
	require.Contains(t, clusters[1], `cluster "c3"`)
	require.NotContains(t, clusters[1], "like it")
}

// TestDisabledDependencyIsAWarning: an enabled component whose dependency is disabled is reported like one whose dependency is missing.
func TestDisabledDependencyIsAWarning(t *testing.T) {
	t.Parallel()
	const warning = `component "web" depends on "base", which is disabled on cluster "k"`
	w := newWorld(t,
		string(KindComponent), `{"id":"base","component_path":"p","oci_url":"https://c.example.com"}`,
		string(KindComponent), `{"id":"web","component_path":"p","oci_url":"https://c.example.com","depends_on":["base"]}`,
		string(KindCluster), `{"id":"k","cluster_dns":"k.example.com","environment":"dev","platform_components":[{"id":"base"},{"id":"web"}]}`)
	disabled := assign("k", KindComponent, "base", `{"enabled":false}`)
	require.Contains(t, w.must(disabled).Warnings, warning)
	require.NotContains(t, w.must(patch(KindCluster, "k", `{"labels":{"a":"b"}}`)).Warnings, warning, "it was so before")
	require.NotContains(t, w.must(assign("k", KindComponent, "base", `{"enabled":true}`)).Warnings, warning)
	require.NotContains(t, w.must(both(disabled, assign("k", KindComponent, "web", `{"enabled":false}`))).Warnings, warning, "both are disabled")
}
