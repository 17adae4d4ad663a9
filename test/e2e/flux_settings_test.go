package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// legacyRelease installs a release by a HelmRelease of someone else, who keeps its history in a namespace of their own, suspends it, and
// returns the Deployment of the release.
func (c *cluster) legacyRelease(storage, name string) *unstructured.Unstructured {
	c.Helper()
	c.made("gitops", "source.toolkit.fluxcd.io/v1", "HelmRepository", storage, name, object{"spec": object{"url": "https://charts.example.com", "interval": "1m"}})
	release := c.made("gitops", helmAPI, "HelmRelease", storage, name, object{"spec": object{
		"interval": "1m", "releaseName": name, "targetNamespace": name, "install": object{"createNamespace": true},
		"chart": object{"spec": object{"chart": "web", "version": "1.0.0", "sourceRef": object{"kind": "HelmRepository", "name": name}}},
	}})
	c.ready(helmAPI, "HelmRelease", storage, name)
	if err := c.w.Kube.Patch(c.Context(), release, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`)), client.FieldOwner("flux")); err != nil {
		c.Fatal(err)
	}
	return c.exists("apps/v1", "Deployment", name, name)
}

// TestFluxSettings: settings of the catalog, a layer and a cluster arrive in the HelmRelease, and with the storage namespace of a running
// release the component continues it: an upgrade in place. A component whose storage namespace has no release installs over the running
// objects; if that fails, the application stays, because the template then requests no remediation. Without a storage namespace, the
// remediation of the failed install uninstalls the application: the negative control.
func TestFluxSettings(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"fs-moves", "fs-fails", "fs-none"} {
		define(t, "platform_components", object{"id": id, "component_path": "web", "oci_url": "https://charts.example.com", "component_version": rig.BrokenVersion, "flux": object{"timeout": "7m"}})
	}
	define(t, "layers", object{"id": "fs", "priority": 730, "selector": "id=flux-settings", "overrides": object{"fs-moves": object{"flux": object{"upgrade": object{"remediation": object{"retries": 5}}}}}})
	c := prepare(t, "flux-settings", object{})
	c.join(rig.Cluster{})
	for _, namespace := range []string{"fs-legacy", "fs-empty"} {
		c.made("gitops", "v1", "Namespace", "", namespace, object{})
	}
	before := map[string]*unstructured.Unstructured{}
	for _, id := range []string{"fs-moves", "fs-fails", "fs-none"} {
		before[id] = c.legacyRelease("fs-legacy", id)
	}
	c.batch(object{"op": "assign_component", "cluster_ids": []string{c.id}, "component_id": "fs-moves", "component_version": "1.1.0", "flux": object{"storageNamespace": "fs-legacy", "maxHistory": 3}},
		object{"op": "assign_component", "cluster_ids": []string{c.id}, "component_id": "fs-fails", "flux": object{"storageNamespace": "fs-empty"}},
		object{"op": "assign_component", "cluster_ids": []string{c.id}, "component_id": "fs-none"})

	moved := c.ready(helmAPI, "HelmRelease", c.ns, "platform-fs-moves")
	for path, want := range map[string]any{
		"timeout": "7m", "maxHistory": int64(3), "storageNamespace": "fs-legacy", "upgrade.remediation.retries": int64(5), "install.remediation.retries": int64(0),
	} {
		c.field(moved, want, strings.Split("spec."+path, ".")...)
	}
	c.confirmed("platform-components", "fs-moves")
	history, _, _ := unstructured.NestedSlice(moved.Object, "status", "history")
	if latest, _ := history[0].(object); latest["version"] != int64(2) || latest["namespace"] != "fs-moves" {
		t.Errorf("the history begins with %v, not with version 2", history[0])
	}
	same := func(id string) {
		t.Helper()
		if now := c.exists("apps/v1", "Deployment", id, id); now.GetUID() != before[id].GetUID() || now.GetDeletionTimestamp() != nil {
			t.Errorf("Deployment %s was %s and is %s (deleted: %v)", id, before[id].GetUID(), now.GetUID(), now.GetDeletionTimestamp())
		}
	}
	same("fs-moves")

	c.eventually("the install fails for good", func(ctx context.Context) error {
		release, err := c.get(ctx, helmAPI, "HelmRelease", c.ns, "platform-fs-fails")
		if err != nil {
			return err
		}
		return rig.HasCondition(release, "Stalled", "True")
	})
	c.eventually("without a storage namespace the application is uninstalled", func(ctx context.Context) error {
		found, err := c.get(ctx, "apps/v1", "Deployment", "fs-none", "fs-none")
		if err == nil && found.GetUID() == before["fs-none"].GetUID() && found.GetDeletionTimestamp() == nil {
			return fmt.Errorf("Deployment %s is still there", found.GetName())
		}
		return client.IgnoreNotFound(err)
	})
	same("fs-fails")
}

// TestTakeoverRule is the negative control of the template's rule that an install with a storage namespace has no remediation. Of two clusters
// with the same component, one has the template without the rule. There the failed install over a running release uninstalls it.
func TestTakeoverRule(t *testing.T) {
	t.Parallel()
	const rule = `(hasKey $flux "storageNamespace")`
	for _, id := range []string{"fs-rule", "fs-norule"} {
		define(t, "platform_components", object{
			"id": id, "component_path": "web", "oci_url": "https://charts.example.com", "component_version": rig.BrokenVersion, "flux": object{"storageNamespace": id + "-empty"},
		})
		c := prepare(t, id, object{})
		c.join(rig.Cluster{NoReceipts: true})
		if id == "fs-norule" {
			set := c.exists(fluxAPI, "ResourceSet", c.ns, "platform-components")
			template, _, _ := unstructured.NestedString(set.Object, "spec", "resourcesTemplate")
			if strings.Count(template, rule) != 1 {
				t.Fatalf("the template does not have %s", rule)
			}
			c.patch(fluxAPI, "ResourceSet", "platform-components", object{"spec": object{"resourcesTemplate": strings.Replace(template, rule, "false", 1)}})
		}
		for _, namespace := range []string{id + "-legacy", id + "-empty"} {
			c.made("gitops", "v1", "Namespace", "", namespace, object{})
		}
		before := c.legacyRelease(id+"-legacy", id)
		c.batch(object{"op": "assign_component", "cluster_ids": []string{c.id}, "component_id": id})
		if id == "fs-rule" {
			c.eventually("the install fails for good", func(ctx context.Context) error {
				release, err := c.get(ctx, helmAPI, "HelmRelease", c.ns, "platform-"+id)
				if err != nil {
					return err
				}
				return rig.HasCondition(release, "Stalled", "True")
			})
			if now := c.exists("apps/v1", "Deployment", id, id); now.GetUID() != before.GetUID() || now.GetDeletionTimestamp() != nil {
				t.Errorf("Deployment %s was uninstalled", id)
			}
			continue
		}
		c.gone("apps/v1", "Deployment", id, id)
	}
}
