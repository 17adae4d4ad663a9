package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// reconciled requests a reconciliation of the cluster on the command line, and waits until Flux has handled it: the release, or the
// Kustomization, of a component, and its sources. Nothing is installed again.
func (c *cluster) reconciled(component string, sources ...string) {
	c.Helper()
	applied := [][2]string{{helmAPI, "HelmRelease"}}
	if sources[0] == "OCIRepository" || sources[0] == "GitRepository" {
		applied = append(applied, [2]string{kustomizeAPI, "Kustomization"})
	}
	before := map[string]any{}
	release, err := c.get(c.Context(), helmAPI, "HelmRelease", c.ns, "platform-"+component)
	if err == nil {
		before["history"] = release.Object["status"].(object)["history"]
	}
	start := time.Now()
	c.cli("reconcile", "cluster", c.id)
	at := c.api("GET", "/clusters/"+c.id, nil)["reconcile_requested_at"]
	if at == nil {
		c.Fatal("the cluster has no request")
	}
	handled := func(apiVersion, kind, name string) {
		c.Helper()
		c.eventually(kind+" "+name+" handles the request", func(ctx context.Context) error {
			o, err := c.get(ctx, apiVersion, kind, c.ns, name)
			if err != nil {
				return err
			}
			status, _ := o.Object["status"].(object)
			if annotated := o.GetAnnotations()[rig.RequestedAt]; annotated != at || status["lastHandledReconcileAt"] != at {
				return fmt.Errorf("annotated with %q, and has handled %v, not %v", annotated, status["lastHandledReconcileAt"], at)
			}
			return nil
		})
		c.Logf("%s %s has handled %v after %v", kind, name, at, time.Since(start).Round(time.Millisecond))
	}
	for _, kind := range sources {
		name := "charts-" + component
		if kind == "HelmChart" {
			name = c.ns + "-platform-" + component
		}
		handled("source.toolkit.fluxcd.io/v1", kind, name)
	}
	for _, a := range applied {
		if _, err := c.get(c.Context(), a[0], a[1], c.ns, "platform-"+component); err == nil {
			handled(a[0], a[1], "platform-"+component)
		}
	}
	c.confirmed("platform-components", component)
	if before["history"] != nil {
		now := c.ready(helmAPI, "HelmRelease", c.ns, "platform-"+component)
		if was, is := canonical(before["history"]), canonical(now.Object["status"].(object)["history"]); was != is {
			c.Errorf("the release's history was\n%s, and is\n%s", was, is)
		}
	}
}

// TestReconcile: a request reaches the selected clusters only, and both kinds of components.
func TestReconcile(t *testing.T) {
	t.Parallel()
	define(t, "platform_components",
		object{"id": "requested-web", "component_path": "web", "oci_url": "https://charts.example.com", "component_version": "1.0.0"},
		object{"id": "requested-tree", "component_path": "apps/requested-tree", "oci_url": "oci://registry.example.com/trees/requested-tree", "oci_tag": "v1"})
	c := setup(t, "requested", object{"platform_components": []object{{"id": "requested-web", "enabled": true}, {"id": "requested-tree", "enabled": true}}})
	c.sendEvents()
	other := setup(t, "requested-not", object{})
	before := other.api("GET", "/clusters/"+other.id, nil)["revision"]
	c.confirmed("platform-components", "requested-web")
	c.confirmed("platform-components", "requested-tree")
	c.reconciled("requested-web", "HelmRepository")
	c.reconciled("requested-tree", "OCIRepository")
	if now := other.api("GET", "/clusters/"+other.id, nil)["revision"]; now != before {
		t.Errorf("another cluster changed from revision %v to %v", before, now)
	}
}
