package handover

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluxdump"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	component = `{"apiVersion":"helm.toolkit.fluxcd.io/v2","kind":"HelmRelease","metadata":{"name":"platform-web","namespace":"flux-system","annotations":{"event.toolkit.fluxcd.io/component":"web"}},"spec":{"releaseName":"web-web","targetNamespace":"web","storageNamespace":"apps","values":{"replicas":2}}}`
	own       = `{"apiVersion":"helm.toolkit.fluxcd.io/v2","kind":"HelmRelease","metadata":{"name":"platform-own","namespace":"flux-system"},"spec":{"releaseName":"own","targetNamespace":"own"}}`
	namespace = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"web","labels":{"team":"a"}}}`
)

func dump(t *testing.T) *fluxdump.Cluster {
	t.Helper()
	c, err := fluxdump.ReadCluster("testdata/dump.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func plan(t *testing.T, named []string, objects ...string) (Plan, error) {
	t.Helper()
	var rendered []json.RawMessage
	for _, obj := range objects {
		rendered = append(rendered, json.RawMessage(obj))
	}
	return New("berlin-01", dump(t), rendered, named)
}

// TestScript compares the script with a golden file, which scripts/verify checks with shellcheck.
func TestScript(t *testing.T) {
	t.Parallel()
	p, err := plan(t, nil, component, own, namespace)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"HelmRelease apps/unused: no component of the cluster has release name unused and storage namespace apps"}; !slices.Equal(p.Left, want) {
		t.Errorf("left: %q", p.Left)
	}
	if want := []string{"the namespace web of the fleet has no label istio-injection: Flux may remove it"}; !slices.Equal(p.Warnings, want) {
		t.Errorf("warnings: %q", p.Warnings)
	}
	const golden = "testdata/handover.sh"
	if *update {
		if err := os.WriteFile(golden, []byte(p.Script()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if p.Script() != string(want) {
		t.Errorf("the script differs from %s: run the test with -update, and read the difference", golden)
	}
}

// TestPlan: what is suspended, deleted and removed from Git.
func TestPlan(t *testing.T) {
	t.Parallel()
	p, err := plan(t, []string{"helmrelease/apps/unused"}, strings.Replace(component, `"replicas":2`, `"replicas":3`, 1), own)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range p.Kustomizations {
		got = append(got, k.Name+" "+k.Keeps)
	}
	if want := []string{"flux-system Kustomization flux-system/flux-system", "apps "}; !slices.Equal(got, want) {
		t.Errorf("Kustomizations: %q", got)
	}
	got = nil
	for _, r := range p.Releases {
		got = append(got, r.Name+" "+r.Release+" "+r.Storage+" "+r.Target+" "+r.By)
	}
	if want := []string{"web web-web apps web platform-web", "unused unused apps apps "}; !slices.Equal(got, want) {
		t.Errorf("releases: %q", got)
	}
	if want := []string{"Kustomization flux-system/apps, which Kustomization flux-system/flux-system applies"}; !slices.Equal(p.InGit, want) {
		t.Errorf("in Git: %q", p.InGit)
	}
	if want := []string{"HelmRepository apps/charts"}; !slices.Equal(p.Sources, want) {
		t.Errorf("sources: %q", p.Sources)
	}
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "values of component") {
		t.Errorf("warnings: %q", p.Warnings)
	}
}

// TestRefused: a component that would install over the running release, or uninstall it, and a dump that is not of a cluster.
func TestRefused(t *testing.T) {
	t.Parallel()
	partial := dump(t)
	for name, test := range map[string]struct {
		named   []string
		objects []string
		want    string
	}{
		"no storage namespace":      {nil, []string{strings.Replace(component, `"storageNamespace":"apps",`, "", 1)}, "would install release web-web over the running one, because it keeps the history in flux-system and HelmRelease apps/web keeps it in apps: first run component set web --cluster berlin-01 --flux storageNamespace=apps"},
		"another storage namespace": {nil, []string{strings.Replace(component, `"storageNamespace":"apps"`, `"storageNamespace":"x"`, 1)}, "keeps the history in x"},
		"another target namespace":  {nil, []string{strings.Replace(component, `"targetNamespace":"web"`, `"targetNamespace":"x"`, 1)}, "Flux would uninstall the release web-web to move it"},
		"another release name":      {nil, []string{strings.Replace(component, `"releaseName":"web-web"`, `"releaseName":"x"`, 1)}, "no HelmRelease of the dump is the release of a component"},
		"an unknown object":         {[]string{"helmrelease/apps/x"}, []string{component}, "there is no HelmRelease apps/x in testdata/dump.yaml"},
		"an object of another kind": {[]string{"secret/apps/x"}, []string{component}, "is not helmrelease/NAMESPACE/NAME"},
	} {
		if _, err := plan(t, test.named, test.objects...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, not %q", name, err, test.want)
		}
	}
	for i, o := range partial.Objects {
		if o.Kind == "Kustomization" && o.Name == "apps" {
			labels, _ := o.At("metadata", "labels").(map[string]any)
			labels["kustomize.toolkit.fluxcd.io/name"] = "other"
			partial.Objects[i] = o
		}
	}
	if _, err := New("a", partial, []json.RawMessage{json.RawMessage(component)}, nil); err == nil || !strings.Contains(err.Error(), "no Kustomization flux-system/other, which applies Kustomization flux-system/apps") {
		t.Errorf("a dump without a parent: %v", err)
	}
	d := dump(t)
	d.Objects[2].Name = "a;b"
	if err := (Plan{Cluster: "a", SystemUID: "b", Kustomizations: []Kustomization{{Object: d.Objects[2]}}}).check(); err == nil {
		t.Error("a name that the shell would run was accepted")
	}
	file := t.TempDir() + "/a.yaml"
	if err := os.WriteFile(file, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: web}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	built, err := fluxdump.ReadCluster(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New("a", built, nil, nil); err == nil || !strings.Contains(err.Error(), "no namespace kube-system with a uid") {
		t.Errorf("the output of kustomize build: %v", err)
	}
}
