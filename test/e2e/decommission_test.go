package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// TestDecommission: a deleted cluster loses everything that came from the API, and nothing else.
func TestDecommission(t *testing.T) {
	t.Parallel()
	c, objects := withOneOfEach(t, "leaving")
	c.cli("cluster", "delete", c.id, "--yes")
	c.gone("apps/v1", "Deployment", "leaving-space", "leaving-web")
	c.gone(helmAPI, "HelmRelease", c.ns, "platform-leaving-web")
	c.gone("source.toolkit.fluxcd.io/v1", "HelmRepository", c.ns, "charts-leaving-web")
	for _, o := range objects {
		c.gone(o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName())
	}
	for _, name := range rig.Resources {
		c.eventually("nothing of "+name+" is left", func(context.Context) error {
			if left := c.inventory(name); len(left) > 0 {
				return fmt.Errorf("left: %v", left)
			}
			return nil
		})
	}
	c.exists("v1", "Namespace", "", c.ns)
	c.exists("v1", "ConfigMap", c.ns, "cluster-identity")
}

// A cluster that is forgotten keeps everything.
func TestDecommissionOrphan(t *testing.T) {
	t.Parallel()
	c, objects := withOneOfEach(t, "forgotten")
	objects = append(objects, c.exists("apps/v1", "Deployment", "forgotten-space", "forgotten-web"))
	before := c.revisions(objects...)
	c.cli("cluster", "delete", c.id, "--mode", "orphan", "--yes")
	c.failing("404")
	c.reapplied()
	c.unchanged("forgotten", before, objects...)
}

// TestLeaveKeepsObjects: if the ResourceSets are disabled before they are deleted, as documented, the cluster keeps all objects, even while
// the API serves empty lists. A set that is not disabled is the control.
func TestLeaveKeepsObjects(t *testing.T) {
	t.Parallel()
	c, objects := withOneOfEach(t, "quitting")
	objects = append(objects,
		c.exists(helmAPI, "HelmRelease", c.ns, "platform-quitting-web"),
		c.exists("apps/v1", "Deployment", "quitting-space", "quitting-web"))
	const switchOff = "fluxcd.controlplane.io/reconcile"
	for _, name := range rig.Resources {
		c.patch(fluxAPI, "ResourceSet", name, annotation(switchOff, "disabled"))
	}
	before := c.revisions(objects...)

	// Off means off: empty lists arrive at the providers, and no further.
	c.cli("cluster", "delete", c.id, "--yes")
	for _, name := range rig.Resources {
		c.eventually("provider "+name+" has an empty list", func(ctx context.Context) error {
			provider, err := c.get(ctx, fluxAPI, "ResourceSetInputProvider", c.ns, name)
			if err != nil {
				return err
			}
			if got := exported(provider); len(got) > 0 {
				return fmt.Errorf("it exports %.300v", got)
			}
			return rig.HasCondition(provider, "Ready", "True")
		})
	}
	c.polled()
	c.unchanged("switched off", before, objects...)

	// The role bindings' set is switched on again: the control.
	bindings, kept := objects[1], slices.Delete(slices.Clone(objects), 1, 2)
	c.patch(fluxAPI, "ResourceSet", "rolebindings", annotation(switchOff, "enabled"))
	c.gone(bindings.GetAPIVersion(), bindings.GetKind(), "", bindings.GetName())

	// As `helm uninstall`: delete the sets and the providers, with their finalizers.
	for _, kind := range []string{"ResourceSet", "ResourceSetInputProvider"} {
		for _, name := range rig.Resources {
			c.delete(fluxAPI, kind, name)
		}
	}
	c.unchanged("uninstalled", before, kept...)
}

// TestUninstallRemovesObjects: a ResourceSet that is deleted without being disabled removes all its objects, as the documentation warns.
func TestUninstallRemovesObjects(t *testing.T) {
	t.Parallel()
	c, objects := withOneOfEach(t, "uninstalled")
	for _, name := range rig.Resources {
		c.delete(fluxAPI, "ResourceSet", name)
	}
	for _, o := range objects {
		c.gone(o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName())
	}
}

// TestClusterRecreated: a cluster that is deleted and created again keeps its objects and confirms them at once, although receipts of unchanged
// inputs are sent once an hour.
func TestClusterRecreated(t *testing.T) {
	t.Parallel()
	define(t, "platform_components", object{"id": "recreated-web", "component_path": "web", "oci_url": "https://charts.example.com", "component_version": "1.0.0"})
	define(t, "namespaces", object{"id": "recreated-space"})
	c := setup(t, "recreated", object{"platform_components": []object{{"id": "recreated-web", "enabled": true}}, "namespaces": []object{{"id": "recreated-space"}}})
	c.confirmed("platform-components", "recreated-web")
	c.confirmed("namespaces", "recreated-space")
	c.allConfirmed(2)
	deployment := c.exists("apps/v1", "Deployment", "recreated-web", "recreated-web")
	before := c.revisions(deployment)
	first := c.receipt("platform-components", "recreated-web")
	document := c.api("GET", "/clusters/"+c.id, nil)
	c.cli("cluster", "delete", c.id, "--mode", "orphan", "--yes")
	c.api("POST", "/clusters", document)
	if c.receipt("platform-components", "recreated-web") == first {
		t.Error("the cluster would not send a receipt for an hour")
	}
	start := time.Now()
	c.confirmed("platform-components", "recreated-web")
	c.confirmed("namespaces", "recreated-space")
	c.allConfirmed(2)
	t.Logf("confirmed %v after it was created again", time.Since(start).Round(time.Second))
	c.settled()
	c.unchanged("created again", before, deployment)
	release := c.ready(helmAPI, "HelmRelease", c.ns, "platform-recreated-web")
	if history, _, _ := unstructured.NestedSlice(release.Object, "status", "history"); len(history) != 1 {
		t.Errorf("the release was installed or upgraded %d times", len(history))
	}
}
