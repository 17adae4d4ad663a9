package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A database of the reference that was lived in: definitions were deleted while clusters referred to them, a component of an
// oci:// URL is a Helm chart there, ids have dots, and namespaces stand in clusters as they did before they had definitions.
func lived(t *testing.T) string {
	t.Helper()
	return writeReferenceOf(t, map[string][]string{
		"components": {
			`{"_id":"cert-manager","component_path":"core/cert-manager/1.14.0","oci_url":"oci://registry/repo","oci_tag":"v1.0.0","component_version":"1.14.0","cluster_env_enabled":false,"depends_on":[]}`,
			`{"_id":"grafana","component_path":"observability/grafana/17.0.0","oci_url":"oci://registry/repo","oci_tag":"v1.0.0","component_version":"17.0.0","cluster_env_enabled":false,"depends_on":["cert-manager","gone"]}`,
		},
		"namespaces": {`{"id":"web","labels":{"team":"web"},"annotations":{}}`},
		"clusters": {
			`{"_id":"us-east.prod-01","cluster_name":"us-east.prod-01","cluster_dns":"us-east-prod-01.k8s.example.com","environment":"prod","node_count":0,"vm_image":null,
				"platform_components":[{"id":"cert-manager","enabled":true,"oci_tag":null,"component_path":null},{"id":"grafana","enabled":true},{"id":"gone","enabled":true}],
				"namespaces":[{"id":"web"},{"id":"old","labels":{"a":"b"},"annotations":{"c":"d"}},{"id":"deleted"}],"rolebindings":[{"id":"nobody"}],
				"patches":{"grafana":{"replicaCount":"3","ui.color":"red"},"gone":{"a":"b"}}}`,
			`{"_id":"US_West","cluster_name":"us west","cluster_dns":"us-west.k8s.example.com","environment":"dev","platform_components":[],
				"namespaces":[{"id":"old","labels":{"a":"b"},"annotations":{"c":"d"}}],"rolebindings":[],"patches":{}}`,
		},
	})
}

var wayOut = []string{"--drop-dangling", "--type", "grafana=helm", "--rename-cluster", "US_West=us-west"}

func TestImportOfALivedInDatabase(t *testing.T) {
	t.Parallel()
	from := lived(t)
	before := sum(t, from)
	url := "sqlite://" + filepath.Join(t.TempDir(), "sub", "fleet.db")
	into := []string{"import", "--from", from, "--database-url", url}

	// As it is, everything that is wrong is listed by document, with the ways out, and nothing is written.
	code, stdout, stderr := invoke(t, into...)
	require.Equal(t, 1, code, stdout)
	for _, want := range []string{
		`component/grafana /depends_on/1: there is no platform component "gone"`,
		`cluster/us-east.prod-01 /platform_components/2/id: there is no platform component "gone"`,
		`cluster/us-east.prod-01 /namespaces/2/id: there is no namespace "deleted"`,
		`cluster/us-east.prod-01 /rolebindings/0/id: there is no role binding "nobody"`,
		`cluster/us-east.prod-01 /patches/grafana/ui.color`,
		`cluster/US_West /id`,
		"--drop-dangling leaves out what leads nowhere, 5 in all",
		"--type grafana=helm",
		"nothing was written",
	} {
		require.Contains(t, stderr, want)
	}
	require.NotContains(t, stderr, "cluster/us-east.prod-01 /id", "a dot is fine")

	code, stdout, stderr = invoke(t, append(append(into, wayOut...), "--dry-run")...)
	require.Zero(t, code, stderr)
	for _, want := range []string{
		`namespace/old is defined as cluster "US_West" has it`,
		`component/grafana depends_on: "gone" is left out`,
		`cluster/us-east.prod-01 platform_components: "gone" is left out`,
		`cluster/us-east.prod-01 patches: "gone" is left out`,
		`component/grafana is of type helm`,
		`cluster/us-west was "US_West"`,
		"nothing was written; it would import 6 documents",
	} {
		require.Contains(t, stdout, want)
	}
	require.NoFileExists(t, filepath.Join(filepath.Dir(from), "fleet.db"))

	code, stdout, stderr = invoke(t, append(into, wayOut...)...)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "imported 6 documents")
	require.Equal(t, before, sum(t, from))
	p := start(t, "DATABASE_URL="+url, "API_MODE=crud")
	inputs := p.get("/api/v2/flux/clusters/us-east-prod-01.k8s.example.com/platform-components")
	require.Contains(t, inputs, `"type":"helm","patches":{"replicaCount":"3","ui.color":"red"}`)
	require.NotContains(t, inputs, `"gone"`)
	require.Contains(t, p.get("/api/v2/flux/clusters/us-west.k8s.example.com/namespaces"), `"id":"old","labels":{"a":"b"},"annotations":{"c":"d"}`)
	require.Contains(t, p.get("/clusters/us-east.prod-01"), `"node_count":0`)
	require.Contains(t, p.get("/revisions"), importReason)
	p.Kill()

	code, _, stderr = invoke(t, append(into, wayOut...)...)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "is not empty: it is at revision 1")

	// copy has no history to copy, and says what to do instead.
	code, _, stderr = invoke(t, "copy", "--from", "sqlite://"+from, "--to", url)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "flux-resourceset import --from "+from)

	// In place: the file that is imported is the store.
	code, stdout, stderr = invoke(t, append([]string{"import", "--from", from, "--database-url", "sqlite://" + from}, wayOut...)...)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "imported 6 documents")
	code, _, stderr = invoke(t, append([]string{"import", "--from", from, "--database-url", "sqlite://" + from}, wayOut...)...)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "imported already")
}

func TestImportRefusesWhatItCannotMean(t *testing.T) {
	t.Parallel()
	from, url := lived(t), "--database-url=sqlite://"+filepath.Join(t.TempDir(), "fleet.db")
	for want, args := range map[string][]string{
		"--from is required":        {},
		"no such file":              {"--from", from + ".none"},
		"two names with = between":  {"--from", from, "--type", "grafana"},
		"component/nothing: --type": {"--from", from, "--type", "nothing=helm"},
		"no such cluster":           {"--from", from, "--rename-cluster", "nobody=somebody"},
		"must be one of helm":       {"--from", from, "--type", "grafana=chart"},
		"is not an SQLite database": {"--from", filepath.Join("testdata", "..", "import_test.go")},
	} {
		code, _, stderr := invoke(t, append([]string{"import", url}, args...)...)
		require.NotZero(t, code, want)
		require.Contains(t, stderr, want)
	}
	other := writeReferenceOf(t, map[string][]string{"clusters": {
		`{"_id":"a","cluster_name":"a","cluster_dns":"a.example.com","environment":"dev","platform_components":[],"namespaces":[{"id":"x","labels":{"a":"1"}}],"rolebindings":[],"patches":{}}`,
		`{"_id":"b","cluster_name":"b","cluster_dns":"b.example.com","environment":"dev","platform_components":[],"namespaces":[{"id":"x","labels":{"a":"2"}}],"rolebindings":[],"patches":{}}`,
	}})
	code, _, stderr := invoke(t, "import", url, "--from", other)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, `namespace/x: has other labels or annotations on cluster "b" than on "a"`)
}
