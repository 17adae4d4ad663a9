package fluxdump

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
)

// write writes files below a new directory and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

const (
	namespaceA = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n"
	list       = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: helm.toolkit.fluxcd.io/v2\n  kind: HelmRelease\n  metadata: {name: grafana, namespace: a}\n  spec: {maxHistory: 3}\n- {apiVersion: v1, kind: Namespace, metadata: {name: a}}\n"
)

// TestRead: each file and each folder of a folder is a cluster, with the objects of all its documents and lists.
func TestRead(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"berlin.yaml":               list + "---\n" + namespaceA + "---\n# a comment\n",
		"paris.fr/a.yml":            namespaceA,
		"paris.fr/deep/b.json":      `{"apiVersion":"v1","kind":"NamespaceList","items":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"b"}}]}`,
		"paris.fr/README.md":        "[",
		"paris.fr/.hidden/bad.yaml": "[",
		".hidden.yaml":              "[",
		"notes.txt":                 "[",
	})
	clusters, err := Read([]string{dir})
	require.NoError(t, err)
	require.Len(t, clusters, 2)
	berlin, paris := clusters[0], clusters[1]
	require.Equal(t, []string{"berlin", "paris.fr"}, []string{berlin.Name, paris.Name})
	require.Len(t, berlin.Objects, 2, "the second namespace is the same")
	release, ok := berlin.Find(Ref{"helm.toolkit.fluxcd.io", "HelmRelease", "a", "grafana"})
	require.True(t, ok)
	require.Equal(t, "3", fmt.Sprint(release.At("spec", "maxHistory")))
	require.Equal(t, "HelmRelease a/grafana", release.String())
	require.Contains(t, release.Source, "berlin.yaml, document 1, items[0]")
	require.Len(t, paris.Kind("", "Namespace"), 2)
	_, ok = paris.Find(release.Ref)
	require.False(t, ok)

	one, err := Read([]string{filepath.Join(dir, "berlin.yaml"), filepath.Join(dir, "paris.fr", "a.yml")})
	require.NoError(t, err)
	require.Equal(t, []string{"berlin", "a"}, []string{one[0].Name, one[1].Name})
}

// TestReadErrors: each error is about the command line, and names the file and the document.
func TestReadErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"broken YAML":     {map[string]string{"x.yaml": namespaceA + "---\nkind: [\n"}, []string{"x.yaml", "document 2"}},
		"broken JSON":     {map[string]string{"x.json": `{"kind":`}, []string{"x.json"}},
		"no object":       {map[string]string{"x.yaml": namespaceA + "---\n- 1\n"}, []string{"x.yaml, document 2", "apiVersion"}},
		"no name":         {map[string]string{"x.yaml": "kind: List\napiVersion: v1\nitems: [{apiVersion: v1, kind: Namespace}]\n"}, []string{"x.yaml, document 1, items[0]", "metadata.name"}},
		"cut off":         {map[string]string{"x.yaml": strings.TrimSpace(namespaceA) + "\nspec: {}\nstat"}, []string{"x.yaml", "cut off"}},
		"empty":           {map[string]string{"x.yaml": "# nothing\n"}, []string{"x.yaml", "no object"}},
		"no files":        {map[string]string{"x.txt": ""}, []string{"no .yaml"}},
		"cluster twice":   {map[string]string{"x.yaml": namespaceA, "x/y.yaml": namespaceA}, []string{"x.yaml", `both cluster "x"`}},
		"different twice": {map[string]string{"x/1.yaml": namespaceA, "x/2.yaml": namespaceA + "spec: {}\n"}, []string{"1.yaml, document 1", "2.yaml, document 1", "Namespace a", "twice"}},
		"duplicate key":   {map[string]string{"x.yaml": "kind: A\nkind: B\n"}, []string{"x.yaml", "kind", "twice"}},
		"aliases":         {map[string]string{"x.yaml": "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]\n"}, []string{"x.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Read([]string{write(t, c.files)})
			require.Error(t, err)
			_, ofCommandLine := errors.AsType[args.Error](err)
			require.True(t, ofCommandLine)
			for _, want := range c.want {
				require.Contains(t, err.Error(), want)
			}
		})
	}
	_, err := Read([]string{filepath.Join(t.TempDir(), "missing.yaml")})
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestLargeFile: a file above the limit is refused before it is parsed.
func TestLargeFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "large.yaml")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, 100<<20)) // sparse: 100 MB of zeros
	_, err := Read([]string{path})
	require.ErrorContains(t, err, "large.yaml has more than 64 MiB")
}

// TestSecrets: no content of a Secret, and no copy of it in an annotation, is in an object; texts are compared with the values.
func TestSecrets(t *testing.T) {
	t.Parallel()
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	dir := write(t, map[string]string{"x.yaml": `
apiVersion: v1
kind: Secret
metadata:
  name: cluster-secrets
  namespace: flux-system
  annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"stringData":{"TOKEN":"hunter2-hunter2"}}', note: hunter2-hunter2}
data:
  DOMAIN: ` + encode("secret.example.com") + `
  SHORT: ` + encode("true") + `
  .env: ` + encode("A=1\nB=\"env-file-value\"\n") + `
  .dockerconfigjson: ` + encode(`{"auths":{"x.example":{"auth":"registry-login"}}}`) + `
  values.yaml: ` + encode("admin:\n  password: \"correct horse\"\n") + `
stringData: {TOKEN: hunter2-hunter2}
---
apiVersion: v1
kind: Secret
metadata: {name: sh.helm.release.v1.grafana.v1, namespace: a, labels: {owner: helm}}
type: helm.sh/release.v1
data: {release: ` + encode("this is the release") + `}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"stringData":{"TOKEN":"hunter2-hunter2"}}'}}
`})
	clusters, err := Read([]string{dir})
	require.NoError(t, err)
	c := clusters[0]
	require.NotContains(t, fmt.Sprint(c.Objects), "hunter2")
	require.NotContains(t, fmt.Sprint(c.Objects), encode("secret.example.com"))
	for text, want := range map[string]bool{
		"https://secret.example.com/": true, "password: correct horse": true, "xhunter2-hunter2x": true,
		"b: env-file-value": true, "registry-login": true, "a" + encode("secret.example.com"): true,
		"true": false, "this is the release": false, "example.com": false, "": false,
	} {
		ref, found := c.SecretIn(text)
		require.Equal(t, want, found, text)
		if found {
			require.Equal(t, "Secret flux-system/cluster-secrets", ref.String())
		}
	}
	require.Equal(t, "a *** b", c.Mask("a hunter2-hunter2 b", nil))
	release, ok := c.Find(Ref{"", "Secret", "a", "sh.helm.release.v1.grafana.v1"})
	require.True(t, ok)
	require.Equal(t, "helm", release.Text("metadata", "labels", "owner"))
	require.Equal(t, "helm.sh/release.v1", release.Text("type"))
}

// TestInventory: two underscores in the name of an object are a colon.
func TestInventory(t *testing.T) {
	t.Parallel()
	var entries []any
	for _, id := range []string{"_system__node__proxy_rbac.authorization.k8s.io_ClusterRole", "apps_web_helm.toolkit.fluxcd.io_HelmRelease", "_apps__Namespace", "broken"} {
		entries = append(entries, map[string]any{"id": id})
	}
	o := Object{Fields: map[string]any{"status": map[string]any{"inventory": map[string]any{"entries": entries}}}}
	require.Equal(t, []Ref{
		{"rbac.authorization.k8s.io", "ClusterRole", "", "system:node:proxy"}, {HelmGroup, "HelmRelease", "apps", "web"}, {"", "Namespace", "", "apps"},
	}, o.Inventory())
	require.Nil(t, Object{}.Inventory())
}

// TestAliases: a file that would become huge is refused soon.
func TestAliases(t *testing.T) {
	t.Parallel()
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx0: &x0 [a, a, a, a, a, a, a, a, a, a]\n"
	for i := range 9 {
		text += fmt.Sprintf("x%d: &x%d [*x%d, *x%d, *x%d, *x%d, *x%d, *x%d, *x%d, *x%d, *x%d]\n", i+1, i+1, i, i, i, i, i, i, i, i, i)
	}
	_, err := Read([]string{write(t, map[string]string{"x.yaml": text})})
	require.ErrorContains(t, err, "x.yaml")
}
