package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

const (
	kustomizeAPI = "kustomize.toolkit.fluxcd.io/v1"
	sourceAPI    = "source.toolkit.fluxcd.io/v1"
)

// A component waits for one of the other type: Flux's own dependsOn knows its own kind only.
func TestDependencies(t *testing.T) {
	t.Parallel()
	const trees = "oci://registry.example.com/trees/"
	define(
		t, "platform_components",
		object{"id": "dep-tree", "component_path": "absent", "oci_url": trees + "dep-tree", "oci_tag": "v1"},
		object{"id": "dep-chart", "component_path": "web", "oci_url": "https://charts.example.com", "depends_on": []string{"dep-tree"}},
		object{"id": "dep-oci", "type": "helm", "component_path": "web", "oci_url": "oci://registry.example.com/charts", "depends_on": []string{"dep-tree"}},
		// Text that would mean something to the template of the set that makes the source.
		object{"id": "dep-last", "component_path": "apps/dep-last", "oci_url": trees + "dep-last", "oci_tag": "v1.10", "depends_on": []string{"dep-chart", "dep-oci", "dep-tree"}},
	)
	list := []object{}
	for _, id := range []string{"dep-last", "dep-oci", "dep-chart", "dep-tree"} {
		list = append(list, object{"id": id, "enabled": true})
	}
	c := setup(t, "dep", object{"platform_components": list})

	// A build failure blocks all direct and indirect dependents, and each reports the reason.
	c.waits("dep-chart", "platform-dep-tree")
	c.waits("dep-oci", "platform-dep-tree")
	c.waits("dep-last", "platform-dep-")
	for _, id := range []string{"dep-chart", "dep-oci"} {
		release := c.exists(helmAPI, "HelmRelease", c.ns, "platform-"+id)
		if history, _, _ := unstructured.NestedSlice(release.Object, "status", "history"); len(history) > 0 {
			t.Errorf("%s was installed: %v", id, history)
		}
	}

	c.cli("component", "set", "dep-tree", "--component-path", "apps/dep-tree", "--yes")
	tree := c.ready(kustomizeAPI, "Kustomization", c.ns, "platform-dep-tree")
	chart := c.ready(helmAPI, "HelmRelease", c.ns, "platform-dep-chart")
	fromOCI := c.ready(helmAPI, "HelmRelease", c.ns, "platform-dep-oci")
	last := c.ready(kustomizeAPI, "Kustomization", c.ns, "platform-dep-last")
	config := c.exists("v1", "ConfigMap", "default", "dep-last")
	c.field(config, "v1.10", "data", "tag")
	deployment := c.exists("apps/v1", "Deployment", "dep-chart", "dep-chart")
	inOrder(t, c.exists("v1", "ConfigMap", "default", "dep-tree"), deployment, config)
	inOrder(t, tree, c.exists("apps/v1", "Deployment", "dep-oci", "dep-oci"), config)

	// A dependency that fails later removes no object; changes from the source wait.
	running := []*unstructured.Unstructured{deployment, config, c.exists("apps/v1", "Deployment", "dep-oci", "dep-oci")}
	before := c.revisions(running...)
	c.cli("component", "set", "dep-tree", "--component-path", "absent", "--yes")
	c.field(tree, "absent", "spec", "path")
	c.reconcile("ResourceSet", "gate-dep-chart")
	c.waits("dep-chart", "platform-dep-tree")
	c.reapplied()
	c.unchanged("a failed dependency", before, running...)

	// Without the dependency they have their sources like other components. With it again, neither is reinstalled.
	c.cli("component", "set", "dep-tree", "--enabled=false", "--cluster", c.id, "--yes")
	c.gone(fluxAPI, "ResourceSet", c.ns, "gate-dep-chart")
	c.gone(sourceAPI, "HelmRepository", c.ns, "gated-dep-chart")
	c.gone(sourceAPI, "OCIRepository", c.ns, "gated-dep-oci")
	for _, release := range []*unstructured.Unstructured{chart, fromOCI} {
		c.settledRelease(release)
	}
	inUse := []*unstructured.Unstructured{
		c.exists(sourceAPI, "HelmRepository", c.ns, "charts-dep-chart"), c.exists(sourceAPI, "OCIRepository", c.ns, "charts-dep-oci"),
	}
	c.cli("component", "set", "dep-tree", "--enabled", "--cluster", c.id)
	c.waits("dep-chart", "platform-dep-tree")
	// The dependency is not ready, so there is no other source yet: Flux must not delete these.
	for _, source := range inUse {
		c.field(source, true, "spec", "suspend")
		c.field(source, string(source.GetUID()), "metadata", "uid")
	}
	c.cli("component", "set", "dep-tree", "--component-path", "apps/dep-tree", "--yes")
	for _, release := range []*unstructured.Unstructured{chart, fromOCI} {
		c.settledRelease(release)
	}
	c.ready(kustomizeAPI, "Kustomization", c.ns, last.GetName())
	c.unchanged("a dependency that went and came", before, running...)

	// All objects are removed on request.
	c.cli("cluster", "delete", c.id, "--yes")
	for _, id := range []string{"dep-chart", "dep-oci", "dep-last"} {
		c.gone(fluxAPI, "ResourceSet", c.ns, "gate-"+id)
	}
	c.gone("apps/v1", "Deployment", "dep-chart", "dep-chart")
	c.gone("v1", "ConfigMap", "default", "dep-last")
	c.gone(sourceAPI, "HelmRepository", c.ns, "gated-dep-chart")
}

// waits until the set of a component's source reports the dependency that it waits for.
func (c *cluster) waits(id, what string) {
	c.Helper()
	c.eventually(id+" waits", func(ctx context.Context) error {
		gate, err := c.get(ctx, fluxAPI, "ResourceSet", c.ns, "gate-"+id)
		if err != nil {
			return err
		}
		if status, message := rig.Condition(gate, "Ready"); status != "False" || !strings.Contains(message, what) {
			return fmt.Errorf("Ready is %q: %s", status, message)
		}
		return nil
	})
}

// settledRelease waits until a release is ready, and holds that it has been installed once and never changed.
func (c *cluster) settledRelease(release *unstructured.Unstructured) {
	c.Helper()
	now := c.ready(release.GetAPIVersion(), release.GetKind(), release.GetNamespace(), release.GetName())
	history, _, _ := unstructured.NestedSlice(now.Object, "status", "history")
	if len(history) != 1 {
		c.Errorf("%s has the history %s", release.GetName(), canonical(history))
	}
}

// inOrder holds that objects were created one after the other.
func inOrder(t *testing.T, objects ...*unstructured.Unstructured) {
	t.Helper()
	for i, later := range objects[1:] {
		if earlier := objects[i]; later.GetCreationTimestamp().Time.Before(earlier.GetCreationTimestamp().Time) {
			t.Errorf("%s was created before %s", later.GetName(), earlier.GetName())
		}
	}
}
