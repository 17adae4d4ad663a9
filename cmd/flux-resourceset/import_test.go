package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// usedReference writes a database of the reference after long use: definitions were deleted while clusters referred to
// them, a component of an oci:// URL is a Helm chart, ids have dots, and namespaces are inline in clusters as before
// they had definitions.
func usedReference(t *testing.T) string {
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
			`{"_id":"us-west","cluster_name":"us west","cluster_dns":"us-west.k8s.example.com","environment":"dev","platform_components":[],
				"namespaces":[{"id":"old","labels":{"a":"b"},"annotations":{"c":"d"}}],"rolebindings":[],"patches":{}}`,
		},
	})
}

func TestImportOfUsedDatabase(t *testing.T) {
	t.Parallel()
	from := usedReference(t)
	before := sum(t, from)
	url := "sqlite://" + filepath.Join(t.TempDir(), "sub", "fleet.db")
	into := []string{"import", "--from", from, "--database-url", url}

	code, stdout, stderr := invoke(t, append(into, "--dry-run")...)
	require.Zero(t, code, stderr)
	for _, want := range []string{
		`namespace/old is defined as cluster "us-east.prod-01" has it`,
		`component/grafana depends_on: "gone" is left out`,
		`cluster/us-east.prod-01 platform_components: "gone" is left out`,
		`cluster/us-east.prod-01 patches: "gone" is left out`,
		`component/grafana is of type helm`,
		"nothing was written; it would import 6 documents",
	} {
		require.Contains(t, stdout, want)
	}
	require.NoFileExists(t, filepath.Join(filepath.Dir(from), "fleet.db"))

	code, stdout, stderr = invoke(t, into...)
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

	code, _, stderr = invoke(t, into...)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "is not empty: it is at revision 1")

	// copy refuses, because there is no history, and names the import command.
	code, _, stderr = invoke(t, "copy", "--from", "sqlite://"+from, "--to", url)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "flux-resourceset import --from "+from)

	// In place: the file that is imported is the store.
	code, stdout, stderr = invoke(t, "import", "--from", from, "--database-url", "sqlite://"+from)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "imported 6 documents")
	code, _, stderr = invoke(t, "import", "--from", from, "--database-url", "sqlite://"+from)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "imported already")
}

// A database with problems is not imported. Its export has the documents as files for apply: each problem stands beside its line, and
// files without problems are valid.
func TestImportExportsFiles(t *testing.T) {
	t.Parallel()
	from, dir := writeReferenceOf(t, map[string][]string{
		"components": {
			`{"_id":"cert-manager","component_path":"cert-manager","oci_url":"https://charts.example.com","depends_on":[]}`,
			`{"_id":"grafana","component_path":"grafana","oci_url":"oci://registry/repo","oci_tag":"v1.0.0","cluster_env_enabled":false,"depends_on":["cert-manager","gone","cert-manager"]}`,
		},
		"clusters": {
			`{"_id":"US_West","cluster_name":"us west","cluster_dns":"us-west.k8s.example.com","environment":"moon","platform_components":[{"id":"grafana","enabled":true},{"id":"gone","enabled":true}],
				"namespaces":[{"id":"old","labels":{"a":"b"},"annotations":{"c":"d"}}],"rolebindings":[],"patches":{"grafana":{"ui.color":"red"}}}`,
			`{"_id":"us-east","cluster_name":"us east","cluster_dns":"us-east.k8s.example.com","environment":"dev","platform_components":[],"namespaces":[],"rolebindings":[],"patches":{}}`,
		},
	}), t.TempDir()
	url := "sqlite://" + filepath.Join(dir, "fleet.db")
	code, _, stderr := invoke(t, "import", "--from", from, "--database-url", url)
	require.Equal(t, 1, code)
	for _, want := range []string{
		"component/grafana /depends_on/1: ", "cluster/US_West /id: a lowercase RFC 1123", "cluster/US_West /environment: ",
		"nothing was written", "import --from " + from + " --export-to DIR",
	} {
		require.Contains(t, stderr, want)
	}
	require.NoFileExists(t, filepath.Join(dir, "fleet.db"))

	files := filepath.Join(dir, "files")
	export := func() (code int, stdout, stderr string) {
		return invoke(t, "import", "--from", from, "--export-to", files)
	}
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join(files, path))
		require.NoError(t, err)
		return string(text)
	}
	code, stdout, stderr := export()
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "files: 5; nothing was imported")
	require.Contains(t, stdout, `problems in them, each marked with "# problem:": 3; more`)
	require.Regexp(t, "(?m)^id: US_West # problem: a lowercase RFC 1123", read("clusters/us_west.yaml"))
	require.Regexp(t, "(?m)^environment: moon # problem: ", read("clusters/us_west.yaml"))
	require.Regexp(t, `^kind: component
id: grafana
cluster_env_enabled: false
component_path: grafana
depends_on:
  - cert-manager
  - cert-manager # problem: .*
oci_tag: v1.0.0
oci_url: oci://registry/repo
type: helm
$`, read("platform_components/grafana.yaml"))
	code, _, stderr = invoke(t, "validate", "-f", files)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "a lowercase RFC 1123")

	code, _, stderr = export()
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "must be empty")

	for path, edit := range map[string]*strings.Replacer{
		"clusters/us_west.yaml":            strings.NewReplacer("US_West", "us-west", "environment: moon", "environment: dev"),
		"platform_components/grafana.yaml": strings.NewReplacer("  - cert-manager # problem", "# problem"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(files, path), []byte(edit.Replace(read(path))), 0o600))
	}
	code, stdout, stderr = invoke(t, "validate", "-f", files)
	require.Zero(t, code, stdout+stderr)
}

func TestImportRefusals(t *testing.T) {
	t.Parallel()
	url := "--database-url=sqlite://" + filepath.Join(t.TempDir(), "fleet.db")
	for want, args := range map[string][]string{
		"--from is required":        {},
		"no such file":              {"--from", filepath.Join(t.TempDir(), "none")},
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
	require.Contains(t, stderr, `cluster/b /namespaces/0: namespace "x" has other labels or annotations than on cluster "a"`)
}
