package handover

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluxdump"
)

// planOf plans with the objects of testdata/dump.yaml, changed by replacements, and with more objects.
func planOf(t *testing.T, replacements []string, more string, rendered ...string) (Plan, error) {
	t.Helper()
	text, err := os.ReadFile("testdata/dump.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dump.yaml")
	if err := os.WriteFile(file, []byte(strings.NewReplacer(replacements...).Replace(string(text))+more), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := fluxdump.ReadCluster(file)
	if err != nil {
		t.Fatal(err)
	}
	var objects []json.RawMessage
	for _, obj := range rendered {
		objects = append(objects, json.RawMessage(obj))
	}
	return New("berlin-01", d, objects, nil)
}

const webLabels = "name: web, namespace: apps, labels: {kustomize.toolkit.fluxcd.io/name: apps"

// TestUnsafe: hand-overs after which two controllers would upgrade a release, or a Kustomization would delete an object of the service.
func TestUnsafe(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		replacements []string
		component    string
		want         string
	}{
		"a ResourceSet applies the HelmRelease": {
			[]string{webLabels, "name: web, namespace: apps, labels: {resourceset.fluxcd.controlplane.io/name: tenants, kustomize.toolkit.fluxcd.io/name: apps"},
			component,
			`component "web" has the release of HelmRelease apps/web, and the script cannot hand it over: ResourceSet tenants applies it, again after each deletion`,
		},
		"a chart has the HelmRelease": {
			[]string{webLabels, "name: web, namespace: apps, labels: {helm.toolkit.fluxcd.io/name: umbrella, kustomize.toolkit.fluxcd.io/name: apps"},
			component,
			"the release of HelmRelease umbrella applies it",
		},
		"another object owns the HelmRelease": {
			[]string{webLabels, "ownerReferences: [{apiVersion: example.com/v1, kind: Tenant, name: a, uid: b}], " + webLabels}, component, "Tenant a applies it",
		},
		"Argo CD applies the HelmRelease": {
			[]string{webLabels, `annotations: {argocd.argoproj.io/tracking-id: "apps:helm"}, ` + webLabels}, component, "Argo CD applies it",
		},
		"its name is that of the service": {
			[]string{"resourceset.fluxcd.controlplane.io/name: platform-components", "a: b"},
			component,
			"HelmRelease flux-system/platform-own is not of the service and has the name of its HelmRelease",
		},
		"the fleet has the labels of a Kustomization": {
			nil, strings.Replace(component, `"annotations"`, `"labels":{"kustomize.toolkit.fluxcd.io/name":"apps","kustomize.toolkit.fluxcd.io/namespace":"flux-system"},"annotations"`, 1),
			"has the labels of Kustomization flux-system/apps, which would delete it when Git no longer has it",
		},
		"a name with a line break": {[]string{"apps_charts_source.toolkit.fluxcd.io_HelmRepository", `"apps_charts_source.toolkit.fluxcd.io_HelmRepository\n'; rm -rf /"`}, component, "is no name of Kubernetes"},
		"a name that is a command": {[]string{"flux-system_apps_kustomize", `"flux-system_$(id)_kustomize`, "Kustomization, v: v1}, {id: _web", `Kustomization", v: v1}, {id: _web`, "name: apps, namespace: flux-system", `name: "$(id)", namespace: flux-system`, "io/name: apps", `io/name: "$(id)"`}, component, `"$(id)" is no name of Kubernetes`},
		"an option as a namespace": {[]string{"namespace: apps", `namespace: "--server=evil"`, "apps_web", "--server=evil_web"}, strings.Replace(component, `"storageNamespace":"apps"`, `"storageNamespace":"--server=evil"`, 1), `"--server=evil" is no name of Kubernetes`},
	} {
		if _, err := planOf(t, test.replacements, "", test.component, own, namespace); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, not %q", name, err, test.want)
		}
	}
}

// TestAppliers: a Kustomization that has a HelmRelease in its inventory is suspended, whatever the labels of the HelmRelease are. One that
// applies to another cluster is not.
func TestAppliers(t *testing.T) {
	t.Parallel()
	const more = `
  - apiVersion: kustomize.toolkit.fluxcd.io/v1
    kind: Kustomization
    metadata: {name: second, namespace: other}
    spec: {suspend: true}
    status: {inventory: {entries: [{id: apps_web_helm.toolkit.fluxcd.io_HelmRelease, v: v2}, {id: _system__controller_rbac.authorization.k8s.io_ClusterRole, v: v1}]}}
  - apiVersion: kustomize.toolkit.fluxcd.io/v1
    kind: Kustomization
    metadata: {name: remote, namespace: other}
    spec: {kubeConfig: {secretRef: {name: a}}}
    status: {inventory: {entries: [{id: apps_web_helm.toolkit.fluxcd.io_HelmRelease, v: v2}, {id: _web__Namespace, v: v1}]}}
  - apiVersion: kustomize.toolkit.fluxcd.io/v1
    kind: Kustomization
    metadata: {name: namespaces, namespace: other}
    status: {inventory: {entries: [{id: _web__Namespace, v: v1}]}}
`
	p, err := planOf(t, nil, more, component, own, namespace)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range p.Kustomizations {
		got = append(got, k.Namespace+"/"+k.Name+" "+k.Keeps)
	}
	if want := []string{"flux-system/flux-system Kustomization flux-system/flux-system", "flux-system/apps ", "other/second ClusterRole system:controller"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, want := range []string{
		"Kustomization other/namespaces, which stays active, applies Namespace web too, and deletes it when Git no longer has it",
		"Kustomization other/second is suspended in the dump",
	} {
		if !slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.HasPrefix(w, want) }) {
			t.Errorf("no %q in %q", want, p.Warnings)
		}
	}
	if strings.Contains(strings.Join(p.Warnings, ""), "remote") {
		t.Errorf("%q", p.Warnings)
	}
}

// TestReleaseName: release names as helm-controller makes them.
func TestReleaseName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 60)
	for name, test := range map[string]struct{ spec, want string }{
		"its own":                     {"{releaseName: x, targetNamespace: t}", "x web apps t"},
		"of the target namespace":     {"{targetNamespace: t, storageNamespace: s}", "t-web web s t"},
		"its name":                    {"{}", "web web apps apps"},
		"a name above 53 characters":  {"{releaseName: " + long + "}", strings.Repeat("a", 40) + "-11ee391211c6 web apps apps"},
		"two names above that length": {"{targetNamespace: " + long[:50] + "}", strings.Repeat("a", 40) + "-6acc2a12b5df web apps " + long[:50]},
	} {
		file := filepath.Join(t.TempDir(), "a.yaml")
		if err := os.WriteFile(file, []byte("{apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, metadata: {name: web, namespace: apps}, spec: "+test.spec+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := fluxdump.ReadCluster(file)
		if err != nil {
			t.Fatal(err)
		}
		r := release(d.Objects[0])
		if got := strings.Join([]string{r.Release, r.Name, r.Storage, r.Target}, " "); got != test.want {
			t.Errorf("%s: %s, not %s", name, got, test.want)
		}
	}
}

// TestWarnings: what the first upgrade changes.
func TestWarnings(t *testing.T) {
	t.Parallel()
	const chart = `"chart":{"spec":{"chart":"web","version":"1.0.0"}},`
	ours := strings.Replace(component, `"releaseName"`, chart+`"releaseName"`, 1)
	for spec, want := range map[string]string{
		"chart: {spec: {chart: ./charts/web, version: 1.0.0}}":       "",
		"chart: {spec: {chart: web, version: 1.1.0}}":                `component "web" has chart web 1.0.0, and HelmRelease apps/web has web 1.1.0: the first upgrade changes the release`,
		"chart: {spec: {chart: api, version: 1.0.0}}":                "has api 1.0.0",
		"chartRef: {kind: OCIRepository, name: web}":                 "",
		"suspend: true, chart: {spec: {chart: web, version: 1.0.0}}": "HelmRelease apps/web is suspended in the dump",
	} {
		const source = "  - {apiVersion: source.toolkit.fluxcd.io/v1, kind: OCIRepository, metadata: {name: web, namespace: apps}, spec: {url: oci://a/charts/web, ref: {tag: 1.0.0}}}\n"
		p, err := planOf(t, []string{"{targetNamespace: web", "{" + spec + ", targetNamespace: web"}, source, ours, own)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(p.Warnings, "\n"); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, not %q", spec, got, want)
		}
	}
	p, err := planOf(t, []string{"spec: {valuesFrom", "spec: {dependsOn: [{name: web}, {name: x}, {name: web, namespace: b}], valuesFrom"}, "", component, own)
	if want := "HelmRelease apps/unused depends on HelmRelease apps/web, without which Flux does not apply changes of it"; err != nil || !slices.Contains(p.Warnings, want) {
		t.Errorf("%v, %q", err, p.Warnings)
	}
	// A character that YAML would fold is no difference.
	if p, err = planOf(t, []string{"replicas: 2", `replicas: "a\u0085b\x7f"`}, "", strings.Replace(component, `"replicas":2`, "\"replicas\":\"a\u0085b\x7f\"", 1), own); err != nil || len(p.Warnings) > 0 {
		t.Errorf("%v, %q", err, p.Warnings)
	}
	p = Plan{Warnings: []string{"a\x1b[2J\u202eb\nrm"}}
	if script := p.Script(); !strings.Contains(script, "#   a?[2J?b rm\n") {
		t.Error("the script contains control characters")
	}
}

// TestDifferences: values and references that the first upgrade would change are differences; the same values from a ConfigMap are none.
func TestDifferences(t *testing.T) {
	t.Parallel()
	const configMap = "  - {apiVersion: v1, kind: ConfigMap, metadata: {name: base, namespace: apps}, data: {values.yaml: \"replicas: 1\\ncolor: green\"}}\n"
	const secret = "  - {apiVersion: v1, kind: Secret, metadata: {name: s, namespace: apps}, stringData: {a: correct-horse}}\n"
	with := func(old, fresh string) string { return strings.Replace(component, old, fresh, 1) }
	for name, test := range map[string]struct{ spec, more, ours, want string }{
		"equal":               {"values: {replicas: 2}", "", component, ""},
		"another value":       {"values: {replicas: 3, a: {b: correct-horse}}", secret, component, `at apps/web: a.b is "***" on the cluster and absent in the fleet; replicas is 3 on the cluster and 2 in the fleet`},
		"a long Secret":       {"values: {replicas: 2, a: \"" + strings.Repeat("x", 90) + "correct-horse\"}", secret, component, `at apps/web: a is "` + strings.Repeat("x", 90) + `***" on the cluster`},
		"a quoted Secret":     {`values: {replicas: 2, a: 'say "correct" horse'}`, strings.Replace(secret, "correct-horse", `'say "correct" horse'`, 1), component, `at apps/web: a is "***" on the cluster`},
		"from a ConfigMap":    {"valuesFrom: [{kind: ConfigMap, name: base}], values: {replicas: 2}", configMap, with(`"replicas":2`, `"replicas":2,"color":"green"`), ""},
		"no ConfigMap":        {"valuesFrom: [{kind: ConfigMap, name: base}], values: {replicas: 2}", "", component, `component "web" has values_from nothing, and HelmRelease apps/web has ConfigMap base values.yaml`},
		"from a Secret":       {"valuesFrom: [{kind: Secret, name: s, targetPath: a.b}], values: {replicas: 2}", "", with(`"values":`, `"valuesFrom":[{"kind":"Secret","name":"s","valuesKey":"values.yaml","targetPath":"a.b"}],"values":`), ""},
		"from no Secret":      {"valuesFrom: [{kind: Secret, name: s}], values: {replicas: 2}", "", component, "has values_from nothing, and HelmRelease apps/web has Secret s values.yaml: the first upgrade"},
		"from another Secret": {"valuesFrom: [{kind: Secret, name: s, optional: true}], values: {replicas: 2}", "", with(`"values":`, `"valuesFrom":[{"kind":"Secret","name":"t"}],"values":`), "has values_from Secret t values.yaml, and HelmRelease apps/web has Secret s values.yaml (optional)"},
	} {
		p, err := planOf(t, []string{"values: {replicas: 2}", test.spec}, test.more, test.ours, own)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.ReplaceAll(strings.Join(p.Differences, "\n"), "those of HelmRelease apps/web, so that the first upgrade changes the release", "at apps/web")
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, not %q", name, got, test.want)
		}
	}
}
