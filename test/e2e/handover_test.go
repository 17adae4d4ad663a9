package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// gitops is a cluster that Flux manages from Git: the Kustomization root applies a namespace and three Kustomizations, apps with the
// HelmReleases web and api, tree with a ConfigMap, and others with the HelmRelease left.
type gitops struct {
	*cluster
	git                           *rig.GitRepository
	ns, app, web, api, left, tree string
	dir                           string // of files of the person who hands the cluster over
	kubectl                       string // its folder
}

// startGitops starts such a cluster, and assigns the components that take web, api and tree over to it.
func startGitops(t *testing.T, id string) *gitops {
	t.Helper()
	g := &gitops{ns: id + "-gitops", app: id + "-app", web: id + "-web", api: id + "-api", left: id + "-left", tree: id + "-tree", dir: t.TempDir()}
	for _, name := range []string{g.web, g.api} {
		define(t, "platform_components", object{
			"id": name, "component_path": "web", "oci_url": "https://charts.example.com", "component_version": "1.0.0", "release_name": name, "target_namespace": g.app,
			"flux": object{"storageNamespace": g.ns}, "patches": object{"replicaCount": 2},
		})
	}
	define(t, "platform_components", object{"id": g.tree, "type": "kustomize", "component_path": "apps/" + g.tree, "oci_url": "oci://registry.example.com/trees/" + g.tree, "oci_tag": "v2"})
	define(t, "namespaces", object{"id": g.app, "labels": object{"team": "a", "pod-security.kubernetes.io/enforce": "baseline"}, "deletion_policy": "orphan"})
	g.cluster = prepare(t, id, object{"platform_components": []object{{"id": g.web, "enabled": true}, {"id": g.api, "enabled": true}, {"id": g.tree, "enabled": true}}, "namespaces": []object{{"id": g.app}}})
	path, err := g.w.Kubectl(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g.kubectl = filepath.Dir(path)
	g.made("person", "v1", "Namespace", "", g.ns, object{})
	if g.git, err = g.w.NewGitRepository(t.Context(), g.ns, "git"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.git.Close)
	g.commit(true)
	g.made("person", kustomizeAPI, "Kustomization", g.ns, "root", g.kustomization("root"))
	for _, name := range []string{g.web, g.api, g.left} {
		g.ready(helmAPI, "HelmRelease", g.ns, name)
	}
	g.ready(kustomizeAPI, "Kustomization", g.ns, "root")
	return g
}

func (g *gitops) kustomization(path string) object {
	return object{"spec": object{"interval": "1s", "prune": true, "path": "./" + path, "sourceRef": object{"kind": "GitRepository", "name": "git"}}}
}

// commit writes the files of the cluster to Git, with or without what is handed over.
func (g *gitops) commit(withWeb bool) {
	g.Helper()
	child := func(path string) string {
		k := g.kustomization(path)
		k["apiVersion"], k["kind"], k["metadata"] = kustomizeAPI, "Kustomization", object{"name": path, "namespace": g.ns}
		return canonical(k)
	}
	release := func(name string) string {
		return canonical(object{"apiVersion": helmAPI, "kind": "HelmRelease", "metadata": object{"name": name, "namespace": g.ns}, "spec": object{
			"interval": "1m", "releaseName": name, "targetNamespace": g.app, "values": object{"replicaCount": 2},
			"chart": object{"spec": object{"chart": "web", "version": "1.0.0", "sourceRef": object{"kind": "HelmRepository", "name": "charts"}}},
		}})
	}
	charts := canonical(object{"apiVersion": sourceAPI, "kind": "HelmRepository", "metadata": object{"name": "charts", "namespace": g.ns}, "spec": object{"url": "https://charts.example.com", "interval": "1m"}})
	files := map[string]string{
		"root/others.yaml": child("others"), "others/charts.yaml": charts, "others/left.yaml": release(g.left),
	}
	if withWeb {
		files["root/apps.yaml"], files["apps/web.yaml"], files["apps/api.yaml"] = child("apps"), release(g.web), release(g.api)
		files["root/tree.yaml"], files["tree/config.yaml"] = child("tree"), canonical(object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": g.tree, "namespace": "default"}, "data": object{"tag": "v1"}})
		files["root/namespace.yaml"] = canonical(object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": g.app, "labels": object{"team": "a", "pod-security.kubernetes.io/enforce": "baseline"}}})
	}
	if err := g.git.Commit(g.Context(), files); err != nil {
		g.Fatal(err)
	}
}

// shell runs a script of the person with kubectl. The namespace of Flux Operator is the cluster's own.
func (g *gitops) shell(script string, variables ...string) (string, error) {
	g.Helper()
	cmd := exec.CommandContext(g.Context(), "sh", "-euc", strings.ReplaceAll(script, "flux-system", g.cluster.ns))
	cmd.Dir = g.dir
	cmd.Env = append([]string{"PATH=" + g.kubectl + ":/usr/bin:/bin", "HOME=" + g.dir, "KUBECONFIG=" + g.w.Kubeconfig, "HANDOVER_PAUSE=3", "HANDOVER_TIMEOUT=200"}, variables...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	g.Logf("%.60s:\n%s", script, out.String())
	return out.String(), err
}

// does runs a script that must succeed.
func (g *gitops) does(script string, variables ...string) string {
	g.Helper()
	out, err := g.shell(script, variables...)
	if err != nil {
		g.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out
}

// handover writes the script of the command as handover.sh.
func (g *gitops) handover() {
	g.Helper()
	g.does(fmt.Sprintf(`mkdir dump
kubectl get namespaces kube-system %s -o yaml > dump/namespaces.yaml
kubectl -n %s get helmreleases,kustomizations,helmrepositories,helmcharts,gitrepositories -o yaml > dump/flux.yaml`, g.app, g.ns))
	script := g.cli("handover", g.id, "kustomization/"+g.ns+"/tree", "-f", filepath.Join(g.dir, "dump"))
	if err := os.WriteFile(filepath.Join(g.dir, "handover.sh"), []byte(strings.ReplaceAll(script, "flux-system", g.cluster.ns)), 0o600); err != nil {
		g.Fatal(err)
	}
}

// state is what no step may change: uids and generations of the namespace, the Deployments and their pods, and the uid of the ConfigMap.
func (g *gitops) state() string {
	g.Helper()
	var lines []string
	for _, kind := range []string{"v1 Namespace", "apps/v1 Deployment", "v1 Pod"} {
		apiVersion, name, _ := strings.Cut(kind, " ")
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(apiVersion)
		list.SetKind(name + "List")
		options := []client.ListOption{client.InNamespace(g.app)}
		if name == "Namespace" {
			options = []client.ListOption{client.MatchingLabels{"kubernetes.io/metadata.name": g.app}}
		}
		if err := g.w.Kube.List(g.Context(), list, options...); err != nil {
			g.Fatal(err)
		}
		for _, o := range list.Items {
			lines = append(lines, fmt.Sprintf("%s %s %s %d %v", name, o.GetName(), o.GetUID(), o.GetGeneration(), o.GetDeletionTimestamp()))
		}
	}
	tree := g.exists("v1", "ConfigMap", "default", g.tree)
	return strings.Join(append(lines, fmt.Sprintf("ConfigMap %s %v", tree.GetUID(), tree.GetDeletionTimestamp())), "\n")
}

// same fails if a step has changed the state.
func (g *gitops) same(when, before string) {
	g.Helper()
	if now := g.state(); now != before {
		g.Fatalf("%s:\n%s\nbefore:\n%s", when, now, before)
	}
}

// versions returns the versions of the release web with their status.
func (g *gitops) versions() string {
	g.Helper()
	return g.does("kubectl -n " + g.ns + ` get secrets -l owner=helm,name=` + g.web + ` -o jsonpath='{range .items[*]}{.metadata.labels.version}{" "}{.metadata.labels.status}{"\n"}{end}'`)
}

// TestHandOver: the script, interrupted after each step and run again from the start, hands a release over: one upgrade in place, no object
// is deleted or changed, and Git does not bring the old objects back. The cluster is then exported, and leaves with plain Flux.
func TestHandOver(t *testing.T) {
	t.Parallel()
	g := startGitops(t, "handover")
	before := g.state()
	g.handover()
	for step := 1; step <= 8; step++ {
		out, err := g.shell("sh handover.sh " + strconv.Itoa(step))
		if err == nil && step == 4 {
			if !strings.Contains(out, "Connect the cluster now") {
				t.Errorf("step 4 does not wait for the connection: %s", out)
			}
			g.join(rig.Cluster{})
			out, err = g.shell("sh handover.sh 4")
		}
		if err != nil {
			t.Fatalf("step %d: %v\n%s", step, err, out)
		}
		g.same(fmt.Sprintf("after step %d", step), before)
	}
	for _, id := range []string{g.web, g.api, g.tree} {
		g.confirmed("platform-components", id)
	}
	if got := g.versions(); got != "1 superseded\n2 deployed\n" {
		t.Errorf("the versions of the release are\n%s", got)
	}
	// The old objects are gone, and those that were not handed over stay.
	for _, name := range []string{g.web, g.api} {
		g.gone(helmAPI, "HelmRelease", g.ns, name)
	}
	for _, name := range []string{"apps", "tree"} {
		g.gone(kustomizeAPI, "Kustomization", g.ns, name)
	}
	g.field(g.exists("v1", "ConfigMap", "default", g.tree), "v2", "data", "tag")
	g.ready(helmAPI, "HelmRelease", g.ns, g.left)
	// Git without what was handed over, and the parent runs again.
	g.commit(false)
	g.does("kubectl -n " + g.ns + ` patch kustomization root --type=merge --field-manager=flux -p '{"spec":{"suspend":false}}'`)
	g.eventually("root applies the commit", func(ctx context.Context) error {
		root, err := g.get(ctx, kustomizeAPI, "Kustomization", g.ns, "root")
		if err != nil {
			return err
		}
		if entries := canonical(root.Object["status"]); strings.Contains(entries, "_apps_") || strings.Contains(entries, "_tree_") || strings.Contains(entries, "_"+g.app+"__") || rig.HasCondition(root, "Ready", "True") != nil {
			return fmt.Errorf("its status is %s", entries)
		}
		return nil
	})
	if out := g.does("sh handover.sh"); !strings.Contains(out, "Verified") {
		t.Errorf("the finished script: %s", out)
	}
	g.same("after Git has changed", before)
	g.leaves(before)
}

// leaves exports the cluster, and lets a Kustomization of plain Flux apply the files in place of Flux Operator.
func (g *gitops) leaves(before string) {
	g.Helper()
	g.cli("export", "--flux", g.id, "--out", filepath.Join(g.dir, "flux"))
	files := map[string]string{}
	folder := filepath.Join(g.dir, "flux", g.id)
	for _, name := range []string{"kustomization.yaml", "platform-components/objects.yaml", "namespaces/objects.yaml"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			g.Fatal(err)
		}
		files[name] = strings.ReplaceAll(string(text), "flux-system", g.cluster.ns)
		if err := os.WriteFile(filepath.Join(folder, name), []byte(files[name]), 0o600); err != nil {
			g.Fatal(err)
		}
	}
	// An API server without any object gets the same objects.
	_, second, stop, err := g.w.SecondAPIServer(g.Context())
	if err != nil {
		g.Fatal(err)
	}
	defer stop()
	g.does("kubectl create namespace flux-system; kubectl apply --server-side -k flux/"+g.id, "KUBECONFIG="+second)
	if first, second := g.exported(g.w.Kubeconfig), g.exported(second); first != second {
		g.Errorf("the objects of the cluster are\n%s\nand those of the export\n%s", first, second)
	}

	release := g.ready(helmAPI, "HelmRelease", g.cluster.ns, "platform-"+g.web)
	g.does(disable)
	g.does("kubectl -n flux-system delete resourcesets,resourcesetinputproviders --all")
	git, err := g.w.NewGitRepository(g.Context(), g.cluster.ns, "fleet")
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(git.Close)
	if err := git.Commit(g.Context(), files); err != nil {
		g.Fatal(err)
	}
	fleet := g.kustomization("")
	fleet["spec"].(object)["sourceRef"] = object{"kind": "GitRepository", "name": "fleet"}
	g.made("person", kustomizeAPI, "Kustomization", g.cluster.ns, "fleet", fleet)
	g.ready(kustomizeAPI, "Kustomization", g.cluster.ns, "fleet")
	g.does(`kubectl get -k flux/` + g.id + ` -o go-template='{{range .items}}---
apiVersion: {{.apiVersion}}
kind: {{.kind}}
metadata: {name: "{{.metadata.name}}"{{with .metadata.namespace}}, namespace: "{{.}}"{{end}}}
{{end}}' | kubectl apply --server-side --field-manager=flux-operator -f -`)
	now := g.ready(helmAPI, "HelmRelease", g.cluster.ns, release.GetName())
	if now.GetUID() != release.GetUID() || now.GetGeneration() != release.GetGeneration() {
		g.Errorf("the HelmRelease was %s, generation %d, and is %s, %d", release.GetUID(), release.GetGeneration(), now.GetUID(), now.GetGeneration())
	}
	for _, field := range now.GetManagedFields() {
		if field.Manager == "flux-operator" {
			g.Errorf("Flux Operator still has fields of the HelmRelease: %s", field.FieldsV1)
		}
	}
	if got := g.versions(); got != "1 superseded\n2 deployed\n" {
		g.Errorf("the versions of the release are\n%s", got)
	}
	g.same("after leaving", before)
	// What Git no longer has is removed.
	files["platform-components/objects.yaml"] = strings.ReplaceAll(files["platform-components/objects.yaml"], "replicaCount: 2", "other: 1")
	if err := git.Commit(g.Context(), files); err != nil {
		g.Fatal(err)
	}
	g.field(now, int64(1), "spec", "values", "other")
	g.field(now, nil, "spec", "values", "replicaCount")
}

// exported returns the objects of the export on an API server, without what controllers write.
func (g *gitops) exported(kubeconfig string) string {
	g.Helper()
	out := g.does("kubectl get -k flux/"+g.id+" -o json", "KUBECONFIG="+kubeconfig)
	var list unstructured.UnstructuredList
	if err := list.UnmarshalJSON([]byte(out)); err != nil {
		g.Fatal(err)
	}
	var lines []string
	for _, o := range list.Items {
		delete(o.Object, "status")
		labels, annotations := object{}, object{}
		for key, value := range o.GetLabels() {
			if !strings.HasPrefix(key, "resourceset.fluxcd.controlplane.io/") {
				labels[key] = value
			}
		}
		for key, value := range o.GetAnnotations() {
			annotations[strings.Replace(key, "fluxcd.controlplane.io/", "kustomize.toolkit.fluxcd.io/", 1)] = value
		}
		o.Object["metadata"] = object{"name": o.GetName(), "namespace": o.GetNamespace(), "labels": labels, "annotations": annotations}
		lines = append(lines, canonical(o.Object))
	}
	return strings.Join(lines, "\n")
}

// disable ends the reconciliation of the ResourceSets, as docs/leaving.md does: those that apply others first.
const disable = `for sets in "platform-components namespaces rolebindings" --all; do
  kubectl -n flux-system annotate --field-manager=flux --overwrite resourcesets $sets fluxcd.controlplane.io/reconcile=disabled
done`

// TestHandOverBack: after any step the old HelmRelease can take its release back, with the next version and the same pods.
func TestHandOverBack(t *testing.T) {
	t.Parallel()
	for _, until := range []string{"5", "8"} {
		t.Run("after step "+until, func(t *testing.T) {
			t.Parallel()
			g := startGitops(t, "back-"+until)
			before := g.state()
			g.handover()
			g.does("sh handover.sh 3")
			g.join(rig.Cluster{})
			g.does("sh handover.sh " + until)
			g.does(disable)
			g.does(`kubectl -n flux-system get helmreleases,kustomizations -l resourceset.fluxcd.controlplane.io/name=platform-components -o name |
  xargs -I NAME kubectl -n flux-system patch NAME --type=merge --field-manager=flux -p '{"spec":{"suspend":true}}'`)
			g.does(`kubectl -n ` + g.ns + ` get helmreleases,kustomizations -o name |
  xargs -I NAME kubectl -n ` + g.ns + ` patch NAME --type=merge --field-manager=flux -p '{"spec":{"suspend":false}}'`)
			g.eventually("the old HelmRelease upgrades the release", func(ctx context.Context) error {
				old, err := g.get(ctx, helmAPI, "HelmRelease", g.ns, g.web)
				if err != nil {
					return err
				}
				if !strings.Contains(canonical(old.Object["status"]), `"version":3`) {
					return fmt.Errorf("its status is %s", canonical(old.Object["status"]))
				}
				return rig.HasCondition(old, "Ready", "True")
			})
			g.does(`kubectl -n flux-system delete helmreleases,kustomizations -l resourceset.fluxcd.controlplane.io/name=platform-components`)
			g.does(`kubectl -n flux-system delete resourcesets,resourcesetinputproviders --all`)
			if got := g.versions(); !strings.HasSuffix(got, "3 deployed\n") {
				t.Errorf("the versions of the release are\n%s", got)
			}
			g.same("after the way back", before)
			g.ready(kustomizeAPI, "Kustomization", g.ns, "root")
		})
	}
}

// TestHandOverStops: a component that got another storage namespace after the script was printed installs over the running release. The
// script detects it by the settings, and without this check by the history, and deletes nothing.
func TestHandOverStops(t *testing.T) {
	t.Parallel()
	g := startGitops(t, "stops")
	before := g.state()
	g.handover()
	g.does("sh handover.sh 3")
	g.cluster.api("PATCH", "/platform_components/"+g.web, object{"flux": object{"storageNamespace": g.app}})
	g.join(rig.Cluster{})
	g.ready(helmAPI, "HelmRelease", g.cluster.ns, "platform-"+g.web)
	for script, want := range map[string]string{
		"sh handover.sh": "has release, storage and target namespace stops-web/stops-app/stops-app, not stops-web/stops-gitops/stops-app",
		`grep -v "has release, storage and target" handover.sh > unchecked.sh; sh unchecked.sh`: "has installed release stops-web, not upgraded it. Delete nothing.",
	} {
		if out, err := g.shell(script); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, and not %q", script, err, want)
		}
	}
	g.field(g.exists(helmAPI, "HelmRelease", g.ns, g.web), true, "spec", "suspend")
	if tree := before[:strings.LastIndex(before, "\n")]; !strings.HasPrefix(g.state(), tree) {
		t.Errorf("the release is\n%s\nbefore:\n%s", g.state(), before)
	}
}
