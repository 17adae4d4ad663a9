package main

import (
	"os"
	"path/filepath"
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
			`{"_id":"US_West","cluster_name":"us west","cluster_dns":"us-west.k8s.example.com","environment":"dev","platform_components":[],
				"namespaces":[{"id":"old","labels":{"a":"b"},"annotations":{"c":"d"}}],"rolebindings":[],"patches":{}}`,
		},
	})
}

var wayOut = []string{"--drop-dangling", "--type", "grafana=helm", "--rename-cluster", "US_West=us-west"}

func TestImportOfUsedDatabase(t *testing.T) {
	t.Parallel()
	from := usedReference(t)
	before := sum(t, from)
	url := "sqlite://" + filepath.Join(t.TempDir(), "sub", "fleet.db")
	into := []string{"import", "--from", from, "--database-url", url}

	// Without flags, all problems are listed by document, with the flags that resolve them, and nothing is written.
	code, stdout, stderr := invoke(t, into...)
	require.Equal(t, 1, code, stdout)
	for _, want := range []string{
		`component/grafana /depends_on/1: there is no platform component "gone"`,
		`cluster/us-east.prod-01 /platform_components/2/id: there is no platform component "gone"`,
		`cluster/us-east.prod-01 /namespaces/2/id: there is no namespace "deleted"`,
		`cluster/us-east.prod-01 /rolebindings/0/id: there is no role binding "nobody"`,
		`cluster/us-east.prod-01 /patches/grafana/ui.color`,
		`cluster/US_West /id`,
		"--drop-dangling  # leaves out 5 references to documents that do not exist",
		"--type grafana=helm",
		"nothing was written",
	} {
		require.Contains(t, stderr, want)
	}
	require.NotContains(t, stderr, "cluster/us-east.prod-01 /id", "a dot is fine")
	require.ElementsMatch(t, []string{"--drop-dangling", "--type", "grafana=helm", "--rename", "cluster/US_West=us-west"}, advised(t, stderr), "nothing is left out that --type keeps")

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

	// copy refuses, because there is no history, and names the import command.
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

// The export has the documents as files for apply: each problem stands beside its line, and files without problems are valid.
func TestImportExportsFiles(t *testing.T) {
	t.Parallel()
	from, dir := usedReference(t), t.TempDir()
	export := func(name string, args ...string) (code int, stdout, stderr string) {
		return invoke(t, append([]string{"import", "--from", from, "--export-to", filepath.Join(dir, name)}, args...)...)
	}
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join(dir, path))
		require.NoError(t, err)
		return string(text)
	}
	code, stdout, stderr := export("first")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "first: 6; nothing was imported")
	require.Contains(t, stdout, `problems in them, each marked with "# problem:": 6; more`)
	require.Regexp(t, "(?m)^id: US_West # problem: a lowercase RFC 1123", read("first/clusters/us_west.yaml"))
	require.Equal(t, `kind: component
id: grafana
cluster_env_enabled: false
component_path: observability/grafana/17.0.0
component_version: 17.0.0
depends_on:
  - cert-manager
  - gone # problem: there is no platform component "gone"
oci_tag: v1.0.0
oci_url: oci://registry/repo
`, read("first/platform_components/grafana.yaml"))
	cluster := read("first/clusters/us-east.prod-01.yaml")
	require.Contains(t, cluster, `  - id: nobody # problem: there is no role binding "nobody"`)
	require.Contains(t, cluster, `    ui.color: red # problem: a kustomize component's patches`)
	code, _, stderr = invoke(t, "validate", "-f", filepath.Join(dir, "first"))
	require.Equal(t, 1, code)
	require.Contains(t, stderr, `there is no platform component "gone"`)

	code, _, stderr = export("first")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "must be empty")

	code, stdout, stderr = export("second", wayOut...)
	require.Zero(t, code, stderr)
	require.NotContains(t, stdout, "problem")
	code, stdout, stderr = invoke(t, "validate", "-f", filepath.Join(dir, "second"))
	require.Zero(t, code, stdout+stderr)
	require.NotContains(t, read("second/clusters/us-west.yaml"), "#")
}

// Flags name documents by their original or their new id, in any order.
func TestImportFlags(t *testing.T) {
	t.Parallel()
	from := writeReferenceOf(t, map[string][]string{
		"components": {
			`{"_id":"Cert_Manager","component_path":"cert-manager","oci_url":"https://charts.example.com","depends_on":[]}`,
			`{"_id":"grafana","component_path":"grafana","oci_url":"https://charts.example.com","depends_on":["Cert_Manager","Cert_Manager"]}`,
		},
		"namespaces": {`{"id":"kube-system","labels":{"a/b=c/d":"x"}}`},
		"clusters": {
			`{"_id":"a","cluster_name":"a","cluster_dns":"a.example.com","environment":"","node_count":3,"platform_components":[{"id":"Cert_Manager","enabled":true},{"id":"Cert_Manager","enabled":false}],
				"namespaces":[{"id":"kube-system"}],"rolebindings":[],"patches":{"Cert_Manager":{"replicas":"3"}}}`,
			`{"_id":"b","cluster_name":"b","cluster_dns":"A.example.com","environment":"dev","platform_components":[],"namespaces":[],"rolebindings":[],"patches":{}}`,
		},
	})
	dir := filepath.Join(t.TempDir(), "files")
	code, stdout, stderr := invoke(t, "import", "--from", from, "--export-to", dir,
		"--set", "cluster/a/patches/cert-manager/replicas=4", "--set", "cluster/a/node_count=5", "--set", "namespace/kube-system/labels/a~1b=c~1d=",
		"--set", "component/grafana/component_version=1.10", "--rename", "component/Cert_Manager=cert-manager", "--environment", "=dev",
		"--orphan", "kube-system", "--drop-duplicates", "--drop", "cluster/b")
	require.Zero(t, code, stderr)
	require.NotContains(t, stdout, "problem")
	require.Contains(t, stdout, `cluster/a platform_components: the second "cert-manager" is left out, although it differs: {"enabled":false,"id":"cert-manager"}`)
	text, err := os.ReadFile(filepath.Join(dir, "clusters", "a.yaml"))
	require.NoError(t, err)
	require.Equal(t, `kind: cluster
id: a
cluster_dns: a.example.com
cluster_name: a
environment: dev
namespaces:
  - id: kube-system
node_count: 5
patches:
  cert-manager:
    replicas: "4"
platform_components:
  - id: cert-manager
    enabled: true
rolebindings: []
`, string(text))
	require.NoFileExists(t, filepath.Join(dir, "clusters", "b.yaml"))
	text, err = os.ReadFile(filepath.Join(dir, "platform_components", "grafana.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(text), `component_version: "1.10"`)
	require.Contains(t, string(text), "depends_on:\n  - cert-manager\noci_url")
}

func TestImportRefusesAmbiguousFlags(t *testing.T) {
	t.Parallel()
	from, url := usedReference(t), "--database-url=sqlite://"+filepath.Join(t.TempDir(), "fleet.db")
	for want, args := range map[string][]string{
		"--from is required":                       {},
		"no such file":                             {"--from", from + ".none"},
		"two names with = between":                 {"--from", from, "--type", "grafana"},
		"component/nothing: --type":                {"--from", from, "--type", "nothing=helm"},
		"no such cluster":                          {"--from", from, "--rename-cluster", "nobody=somebody"},
		"must be one of helm":                      {"--from", from, "--type", "grafana=chart"},
		"must start with component":                {"--from", from, "--rename", "US_West=us-west"},
		"cluster/nobody: --drop":                   {"--from", from, "--drop", "cluster/nobody"},
		"--orphan names it":                        {"--from", from, "--orphan", "kube-system"},
		"there is no such cluster in it":           {"--from", from, "--environment", "moon=dev"},
		"there is cluster/us-east.prod-01 already": {"--from", from, "--rename", "cluster/US_West=us-east.prod-01"},
		"/id cannot be set":                        {"--from", from, "--set", "cluster/US_West/id=us-west"},
		"it must have a =":                         {"--from", from, "--set", "cluster/US_West/environment"},
		"there is no /owner":                       {"--from", from, "--set", "cluster/US_West/owner="},
		"is not an SQLite database":                {"--from", filepath.Join("testdata", "..", "import_test.go")},
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
