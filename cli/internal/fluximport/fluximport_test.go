package fluximport

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluxdump"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/offline"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func newFleet() Fleet { return new(offline.Fleet) }

func label(t *testing.T, text string) Label {
	t.Helper()
	l, err := ParseLabel(text)
	require.NoError(t, err)
	return l
}

func imported(t *testing.T, opt Options, dirs ...string) (*Result, []*fluxdump.Cluster) {
	t.Helper()
	clusters, err := fluxdump.Read(dirs)
	require.NoError(t, err)
	opt.Environment, opt.DNSSuffix = "prod", "example.com"
	result, err := Import(clusters, newFleet, opt)
	require.NoError(t, err)
	return result, clusters
}

// TestShapes: fleets in the shapes of public ones become the documents and the report of the golden file, and the documents install what
// the dump has.
func TestShapes(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]Options{
		"home-ops": {},
		"build":    {Settings: []string{"cluster-settings"}},
		"settings": {Labels: []Label{label(t, "region=configmap:cluster-settings:REGION")}},
		"mixed":    {},
		"git":      {},
		"complete": {},
		"custom":   {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, clusters := imported(t, opt, filepath.Join("testdata", name))
			var text strings.Builder
			for _, kind := range result.Kinds {
				for _, doc := range result.Documents[kind] {
					yaml, err := render.YAML(doc)
					require.NoError(t, err)
					fmt.Fprintf(&text, "--- # %s\n%s", kind, yaml)
				}
			}
			text.WriteString("\n" + result.Report.Markdown())
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(text.String()), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), text.String(), "go test ./cli/internal/fluximport -update writes the golden files")
			differences, compared, err := result.Check(newFleet(), result.Documents)
			require.NoError(t, err)
			require.Empty(t, differences)
			require.NotZero(t, compared)
			requireEachFieldOnce(t, result, clusters)
			require.NotContains(t, text.String(), "correct-horse")
		})
	}
}

// requireEachFieldOnce: every field of the spec of each object of Flux, and of each custom object of Git, has exactly one outcome.
func requireEachFieldOnce(t *testing.T, result *Result, clusters []*fluxdump.Cluster) {
	t.Helper()
	r, want, got := result.Report, map[string]int{}, map[string]int{}
	for i, c := range clusters {
		for _, o := range c.Objects {
			custom := result.clusters[i].customs[fluxdump.Ref{Group: o.Group, Kind: o.Kind}] != nil
			if of, _ := o.Owner(); custom && result.clusters[i].replaced[of] && o.At("metadata", "ownerReferences") == nil {
				for at := range leaves(customFields(o)) {
					want[fmt.Sprint(c.Name, " ", o.Ref, " ", at)]++
				}
			}
			if o.Group != sourceGroup && !isRelease(o.Ref) && !isKustomization(o.Ref) {
				continue
			}
			for at := range leaves(o.At("spec")) {
				want[fmt.Sprint(c.Name, " ", o.Ref, " ", at)]++
			}
		}
	}
	for _, f := range r.fields {
		if f.object.Kind == "Namespace" || f.object.Group == rbacGroup {
			continue
		}
		at, _, _ := strings.Cut(f.path, "[") // an entry of a list
		if at != f.path {
			require.Equal(t, 1, countOf(r.fields, f), f)
			got[fmt.Sprint(f.cluster, " ", f.object, " ", at)] = 1
			continue
		}
		got[fmt.Sprint(f.cluster, " ", f.object, " ", at)]++
	}
	require.Equal(t, want, got)
}

func countOf(fields []field, one field) (n int) {
	for _, f := range fields {
		if f.cluster == one.cluster && f.object == one.object && f.path == one.path {
			n++
		}
	}
	return n
}

// TestCheckFindsDifferences: a changed document installs something else, and the check says where.
func TestCheckFindsDifferences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shape, kind, id string
		change          func(doc map[string]any)
		path            string
	}{
		{"home-ops", "platform_component", "grafana", func(d map[string]any) { d["component_version"] = "10.1.5" }, "source.version"},
		{"home-ops", "platform_component", "grafana", func(d map[string]any) { d["release_name"] = "other" }, "releaseName"},
		{"home-ops", "platform_component", "grafana", func(d map[string]any) { delete(d["flux"].(map[string]any), "storageNamespace") }, "storageNamespace"},
		{"home-ops", "platform_component", "grafana", func(d map[string]any) { delete(d, "flux") }, "interval"},
		{"home-ops", "platform_component", "grafana", func(d map[string]any) { d["patches"].(map[string]any)["replicas"] = 3 }, "values.replicas"},
		{"home-ops", "platform_component", "grafana", func(d map[string]any) { delete(d["patches"].(map[string]any), "env.GF_ON") }, "values.env.GF_ON"},
		{"home-ops", "platform_component", "grafana", func(d map[string]any) { d["patches"].(map[string]any)["env.GF_PORT"] = "3000" }, "values.env.GF_PORT"},
		{"complete", "platform_component", "config", func(d map[string]any) { delete(d, "depends_on") }, "dependsOn"},
		{"complete", "platform_component", "chart", func(d map[string]any) { delete(d, "values_from") }, "valuesFrom.0"},
		{"complete", "platform_component", "chart", func(d map[string]any) { delete(d["patches"].(map[string]any), "none") }, "values.none"},
		{"complete", "platform_component", "chart", func(d map[string]any) { delete(d["patches"].(map[string]any), "empty") }, "values.empty"},
		{"complete", "platform_component", "policies", func(d map[string]any) { delete(d["flux"].(map[string]any), "prune") }, "prune"},
		{"complete", "platform_component", "policies", func(d map[string]any) { delete(d, "patches") }, "postBuild.SIZE"},
		{"complete", "platform_component", "policies", func(d map[string]any) { d["oci_tag"] = "other" }, "source.version"},
		{"complete", "platform_component", "chart", func(d map[string]any) { delete(d, "images") }, "images"},
		{"complete", "namespace", "apps", func(d map[string]any) { delete(d, "labels") }, "labels.pod-security.kubernetes.io/enforce"},
		{"complete", "namespace", "apps", func(d map[string]any) { delete(d, "annotations") }, "annotations.kustomize.toolkit.fluxcd.io/prune"},
		{"complete", "rolebinding", "readers", func(d map[string]any) { d["role"] = "edit" }, "name"},
		{"complete", "rolebinding", "readers", func(d map[string]any) { d["subjects"].([]any)[0].(map[string]any)["name"] = "other" }, "subjects"},
		{"complete", "rolebinding", "readers-of-all", func(d map[string]any) { delete(d, "labels") }, "labels.team"},
		{"complete", "cluster", "one", func(d map[string]any) { delete(d, "namespaces") }, "labels.pod-security.kubernetes.io/enforce"},
		{"custom", "resource/certs-example-com", "web", func(d map[string]any) { d["spec"].(map[string]any)["spec"].(map[string]any)["host"] = "other" }, "spec.host"},
		{"custom", "resource/certs-example-com", "web", func(d map[string]any) { delete(d["spec"].(map[string]any)["spec"].(map[string]any), "days") }, ""},
		{"custom", "resource/certs-example-com", "web", func(d map[string]any) { d["spec"].(map[string]any)["spec"].(map[string]any)["days"] = 91 }, "spec.days"},
		{"custom", "resource/certs-example-com", "web", func(d map[string]any) { delete(d["spec"].(map[string]any), "labels") }, "labels.team"},
		{"custom", "resource/certs-example-com", "web", func(d map[string]any) { d["spec"].(map[string]any)["name"] = "other" }, "apiVersion"},
		{"custom", "resource/certs-example-com", "web.tools", func(d map[string]any) { d["spec"].(map[string]any)["namespace"] = "other" }, "apiVersion"},
		{"custom", "cluster", "two", func(d map[string]any) { delete(d, "resources") }, "data.addresses"},
		{"custom", "resource_type", "certs-example-com", func(d map[string]any) {
			d["template"] = strings.ReplaceAll(d["template"].(string), "example.com/v1", "example.com/v2")
		}, "apiVersion"},
		{"settings", "cluster", "eu-paris", func(d map[string]any) { d["variables"].(map[string]any)["REPLICAS"] = "7" }, "values.replicaCount"},
	} {
		t.Run(c.shape+" "+c.id+" "+c.path, func(t *testing.T) {
			t.Parallel()
			result, _ := imported(t, Options{Settings: []string{"cluster-settings"}}, filepath.Join("testdata", c.shape))
			changed := maps.Clone(result.Documents)
			changed[c.kind] = slices.Clone(changed[c.kind])
			found := false
			for i, raw := range changed[c.kind] {
				var doc map[string]any
				require.NoError(t, json.Unmarshal(raw, &doc))
				if doc["id"] == c.id {
					found = true
					c.change(doc)
					text, err := json.Marshal(doc)
					require.NoError(t, err)
					changed[c.kind][i] = text
				}
			}
			require.True(t, found)
			differences, _, err := result.Check(newFleet(), changed)
			require.NoError(t, err)
			if c.path == "" { // a default
				require.Empty(t, differences)
				return
			}
			require.True(t, slices.ContainsFunc(differences, func(d Difference) bool { return d.Path == c.path }), "%v", differences)
		})
	}
}

const (
	helmRepository = "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {name: charts, namespace: flux-system}\nspec: {url: 'https://charts.example.com', interval: 1h}\n"
	otherRelease   = "---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: other, namespace: apps, uid: a}\nspec: {interval: 10m, chart: {spec: {chart: app, version: 1.0.0, sourceRef: {kind: HelmRepository, name: charts, namespace: flux-system}}}, upgrade: {remediation: {retries: 3}}%s}\n"
)

// TestDisabled: what would install something else, without a difference that the comparison can see, is not taken or disabled, and the
// report says why.
func TestDisabled(t *testing.T) {
	t.Parallel()
	release := func(metadata, spec string) string {
		return "---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: x, namespace: apps" + metadata + "}\nspec: {interval: 10m, " + spec + "}\n"
	}
	source := func(kind, spec string) string {
		return "---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: " + kind + "\nmetadata: {name: s, namespace: apps}\nspec: {interval: 1h, " + spec + "}\n"
	}
	const chart = "chart: {spec: {chart: app, version: 1.0.0, sourceRef: {kind: HelmRepository, name: charts, namespace: flux-system}}}"
	for name, c := range map[string]struct{ dump, report string }{
		"OCI tag latest":             {release(", uid: b", "chartRef: {kind: OCIRepository, name: s}") + source("OCIRepository", "url: 'oci://example.com/a/b', ref: {tag: latest}"), "the tag latest is no version of a chart"},
		"OCI without a reference":    {release(", uid: b", "chartRef: {kind: OCIRepository, name: s}") + source("OCIRepository", "url: 'oci://example.com/a/b'"), "the tag latest is no version of a chart"},
		"range of manifests":         {strings.ReplaceAll(release(", uid: b", "prune: true, sourceRef: {kind: OCIRepository, name: s}"), "helm.toolkit.fluxcd.io/v2\nkind: HelmRelease", "kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization") + source("OCIRepository", "url: 'oci://example.com/a/b', ref: {semver: '*'}"), "cannot follow the range *"},
		"suspended source":           {release(", uid: b", "chartRef: {kind: OCIRepository, name: s}") + source("OCIRepository", "suspend: true, url: 'oci://example.com/a/b', ref: {semver: 1.x}"), "OCIRepository apps/s is suspended"},
		"files of values in a chart": {release(", uid: b", "chartRef: {kind: HelmChart, name: s}") + source("HelmChart", "chart: app, version: 1.0.0, valuesFiles: [a.yaml], sourceRef: {kind: HelmRepository, name: charts}") + strings.ReplaceAll("---\n"+helmRepository, "flux-system", "apps"), "HelmChart apps/s has valuesFiles"},
		"files of values":            {release(", uid: b", "chart: {spec: {chart: app, version: 1.0.0, valuesFiles: [a.yaml], sourceRef: {kind: HelmRepository, name: charts, namespace: flux-system}}}"), "Complete the component of HelmRelease apps/x"},
		"other post-renderers":       {release(", uid: b", chart+", postRenderers: [{kustomize: {patches: [{patch: x}]}}]"), "Complete the component of HelmRelease apps/x"},
		"integer above 2^53":         {release(", uid: b", chart+", values: {a: 9007199254740993}"), "Complete the component of HelmRelease apps/x"},
		"integer in a list":          {release(", uid: b", chart+", values: {a: [{b: 9007199254740993}]}"), "| HelmRelease apps/x | `values.a` |"},
		"reference in a name":        {release(", uid: b", chart+`, values: {a: [{"${vars.y}": 1}]}`), "a reference is not possible in a key"},
		"different defaults":         {release("", chart+`, values: {a: "${X:=one}", b: "${X:=two}"}`), "X has other defaults elsewhere"},
		"empty instead of a default": {release("", chart+`, values: {a: "${EMPTY:=one}"}`) + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: a}\ndata: {EMPTY: ''}\n", "EMPTY is empty in the settings"},
		"release of a chart":         {release(", uid: b, labels: {helm.toolkit.fluxcd.io/name: operator}", chart), "the chart of HelmRelease operator installs it"},
		"Secrets with one name":      {fmt.Sprintf(otherRelease, ", valuesFrom: [{kind: Secret, name: v}]") + strings.ReplaceAll(release(", uid: b", chart+", valuesFrom: [{kind: Secret, name: v}]"), "namespace: apps", "namespace: team"), "the fleet reads Secret team/v in flux-system, where Secret apps/v has its name"},
		"a Secret of flux-system":    {release(", uid: b", chart+", valuesFrom: [{kind: Secret, name: v}]") + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: v, namespace: flux-system}\n", "the fleet reads Secret apps/v in flux-system, where Secret flux-system/v has its name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := helmRepository + c.dump
			if !strings.Contains(text, "name: other") {
				text += fmt.Sprintf(otherRelease, "")
			}
			path := filepath.Join(t.TempDir(), "one.yaml")
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			result, _ := imported(t, Options{Settings: []string{"settings"}}, path)
			require.Contains(t, result.Report.Markdown(), c.report)
			var cluster struct {
				Components []struct {
					ID      string
					Enabled *bool
				} `json:"platform_components"`
			}
			require.NoError(t, json.Unmarshal(result.Documents["cluster"][0], &cluster))
			for _, one := range cluster.Components {
				require.True(t, one.ID == "other" || !*one.Enabled, "%s", result.Documents["cluster"][0])
			}
			differences, _, err := result.Check(newFleet(), result.Documents)
			require.NoError(t, err)
			require.Empty(t, differences)
		})
	}
}

// TestSecretsInNames: a value of a Secret that is the name of a value is not in a document, the report or a difference, in no form.
func TestSecretsInNames(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"pass|word.with`all", `quoted "pass<word>"`, `back\slash,equals=`, "long-secret-of-a-Secret"} {
		text := helmRepository + fmt.Sprintf(otherRelease, "")
		quoted, err := json.Marshal(secret)
		require.NoError(t, err)
		text += "---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: x, namespace: apps, uid: b}\nspec: {interval: 10m, chart: {spec: {chart: app, version: 1.0.0, sourceRef: {kind: HelmRepository, name: charts, namespace: flux-system}}}, values: {a: {" + string(quoted) + ": 1}, b: " + string(quoted) + "}}\n"
		text += "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: apps}\nstringData: {x: " + string(quoted) + ", y: long-secret}\n"
		path := filepath.Join(t.TempDir(), "one.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		result, _ := imported(t, Options{}, path)
		report := result.Report.Markdown()
		for _, part := range []string{"pass|word", `pass\|word`, "pass<", "quoted", "slash", "equals", "of-a-Secret"} {
			require.NotContains(t, report, part)
		}
		require.Contains(t, report, "values.a.***")
		cluster := result.clusters[0]
		require.NotContains(t, cluster.shown(strings.Repeat("x", 190)+secret), secret[:6])
	}
}

// TestEqualLayers: values of labels that give layers one id are two layers.
func TestEqualLayers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, region := range []string{"eu.west", "eu.west", "eu-west", "eu-west"} {
		text := helmRepository + fmt.Sprintf(otherRelease, "") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: a}\ndata: {R: " + region + "}\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("c%d.yaml", i)), []byte(text), 0o600))
	}
	result, _ := imported(t, Options{Labels: []Label{label(t, "region=configmap:c:R")}}, dir)
	require.Len(t, result.Documents["layer"], 3)
}

// TestManySimilarClusters: 40 clusters that differ in a few values become layers, variables and short documents.
func TestManySimilarClusters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 40 {
		region, tier := []string{"eu", "us"}[i%2], []string{"dev", "prod"}[i/20]
		var text strings.Builder
		fmt.Fprintf(&text, "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {name: charts, namespace: flux-system, uid: a}\nspec: {url: 'https://charts.example.com', interval: 1h}\n")
		for n := range 6 {
			fmt.Fprintf(&text, "---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: app-%d, namespace: apps, uid: b}\nspec:\n  interval: 10m\n  upgrade: {remediation: {retries: 3}}\n", n)
			fmt.Fprintf(&text, "  chart: {spec: {chart: app, version: %s, sourceRef: {kind: HelmRepository, name: charts, namespace: flux-system}}}\n", map[string]string{"dev": "2.0.0", "prod": "1.0.0"}[tier])
			fmt.Fprintf(&text, "  values: {host: app-%d.cluster-%02d.example.com, region: %s, same: true, replicas: %d}\n", n, i, region, map[string]int{"dev": 1, "prod": 3}[tier])
		}
		require.NoError(t, os.MkdirAll(filepath.Join(dir, tier), 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(dir, tier, fmt.Sprintf("%s-cluster-%02d.yaml", region, i)), []byte(text.String()), 0o600))
	}
	result, _ := imported(t, Options{Labels: []Label{label(t, "environment=folder"), label(t, "region=regexp:^([a-z]+)-")}}, filepath.Join(dir, "dev"), filepath.Join(dir, "prod"))
	require.Len(t, result.Documents["platform_component"], 6)
	require.Len(t, result.Documents["cluster"], 40)
	var layers []string
	for _, raw := range result.Documents["layer"] {
		var layer struct {
			ID, Selector string
			All          bool
			Patches      map[string]map[string]any
			Components   []map[string]any `json:"platform_components"`
		}
		require.NoError(t, json.Unmarshal(raw, &layer))
		layers = append(layers, layer.ID)
		if layer.ID == "region-us" {
			require.Equal(t, "region=us", layer.Selector)
			require.Equal(t, map[string]any{"region": "us"}, layer.Patches["app-0"])
		}
		if layer.ID == "environment-prod" {
			require.Equal(t, map[string]any{"replicas": 3.0}, layer.Patches["app-0"])
		}
	}
	require.Equal(t, []string{"all", "environment-dev", "environment-prod", "region-eu", "region-us"}, layers)
	var cluster map[string]any
	require.NoError(t, json.Unmarshal(result.Documents["cluster"][0], &cluster))
	require.Equal(t, "dev", cluster["environment"])
	require.Equal(t, map[string]any{"host": "app-0.cluster-00.example.com"}, cluster["patches"].(map[string]any)["app-0"])
	differences, compared, err := result.Check(newFleet(), result.Documents)
	require.NoError(t, err)
	require.Empty(t, differences)
	require.Equal(t, 240, compared)
}

// TestReleaseNames: names are those of helm-controller; the long ones are of its own tests.
func TestReleaseNames(t *testing.T) {
	t.Parallel()
	for want, spec := range map[string]map[string]any{
		"x":   {},
		"a-x": {"targetNamespace": "a"},
		"r":   {"releaseName": "r", "targetNamespace": "a"},
		"release-name-with-very-long-name-which-i-788ca0d0d7b0": {"releaseName": "release-name-with-very-long-name-which-is-longer-than-53-characters"},
		"another-release-name-with-very-long-name-7e72150d5a36": {"releaseName": "another-release-name-with-very-long-name-which-is-longer-than-53-characters"},
	} {
		require.Equal(t, want, fluxdump.Object{Ref: fluxdump.Ref{Name: "x", Namespace: "n"}, Fields: map[string]any{"spec": spec}}.ReleaseName())
	}
}

// TestErrors: what cannot be imported is an error of the command line.
func TestErrors(t *testing.T) {
	t.Parallel()
	const release = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: a, namespace: b}\nspec: {interval: 5m, chartRef: {kind: OCIRepository, name: c}}\n"
	const source = "---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata: {name: c, namespace: b}\nspec: {url: 'oci://example.com/team-secret/c', ref: {tag: 1.0.0}}\n"
	for name, c := range map[string]struct{ file, text, want string }{
		"nothing to take": {"x.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n", "no HelmRelease and no Kustomization"},
		"no source":       {"x.yaml", release, "no HelmRelease and no Kustomization"},
		"name":            {"Berlin_1.yaml", release + source, `"Berlin_1" cannot be the id of a cluster`},
		"secret in a URL": {"x.yaml", release + source + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: b}\nstringData: {x: team-secret}\n", "value of Secret b/s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), c.file)
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
			clusters, err := fluxdump.Read([]string{path})
			require.NoError(t, err)
			_, err = Import(clusters, newFleet, Options{Environment: "prod", DNSSuffix: "example.com"})
			require.ErrorContains(t, err, c.want)
			_, ofCommandLine := errors.AsType[args.Error](err)
			require.True(t, ofCommandLine)
		})
	}
	for _, text := range []string{"", "x", "=folder", "id=folder", "x=regexp:(", "x=regexp:a", "x=configmap:a", "x=other"} {
		_, err := ParseLabel(text)
		require.Error(t, err, text)
	}
}
