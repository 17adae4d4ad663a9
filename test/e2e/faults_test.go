package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// withOneOfEach is a cluster with a component in a namespace of its own, and a role binding, all named after it.
func withOneOfEach(t *testing.T, id string) (*cluster, []*unstructured.Unstructured) {
	t.Helper()
	define(t, "platform_components", object{"id": id + "-web", "component_path": "web", "oci_url": "https://charts.example.com", "target_namespace": id + "-space"})
	define(t, "namespaces", object{"id": id + "-space"})
	define(t, "rolebindings", object{"id": id + "-readers", "role": "view", "subjects": []object{{"kind": "Group", "name": "readers"}}})
	c := setup(t, id, object{
		"platform_components": []object{{"id": id + "-web", "enabled": true}},
		"namespaces":          []object{{"id": id + "-space"}},
		"rolebindings":        []object{{"id": id + "-readers"}},
		"patches":             object{id + "-web": object{"replicaCount": 2}},
	})
	c.ready(helmAPI, "HelmRelease", c.ns, "platform-"+id+"-web")
	return c, []*unstructured.Unstructured{
		c.exists("v1", "Namespace", "", id+"-space"),
		c.exists(rbacAPI, "ClusterRoleBinding", "", id+"-readers"),
		c.exists("v1", "ConfigMap", c.ns, fmt.Sprintf("values-%s-web-%s", id, id)),
		c.exists("v1", "ConfigMap", id+"-space", id+"-web-values"),
	}
}

// TestAPIFaults: while the API is down, hangs or returns errors, nothing changes in a cluster. Afterwards the cluster catches up.
func TestAPIFaults(t *testing.T) {
	t.Parallel()
	faults := []struct {
		id, message string // message is part of what the provider says then
		begin       func(*rig.Gate)
	}{
		{"down", "connect", (*rig.Gate).Close},
		{"hang", "deadline", (*rig.Gate).Hang},
		{"error", "500", func(g *rig.Gate) { g.Answer(http.StatusInternalServerError) }},
		{"missing", "404", func(g *rig.Gate) { g.Answer(http.StatusNotFound) }},
	}
	for _, fault := range faults {
		t.Run(fault.id, func(t *testing.T) {
			t.Parallel()
			c, objects := withOneOfEach(t, "api-"+fault.id)
			before := c.revisions(objects...)
			if fault.id == "hang" {
				// Flux Operator waits for two minutes by default.
				for _, name := range rig.Resources {
					c.patch(fluxAPI, "ResourceSetInputProvider", name, annotation("fluxcd.controlplane.io/reconcileTimeout", "3s"))
				}
				// Polls that are on their way still have the two minutes.
				if err := c.gate.Polls(t.Context(), 2); err != nil {
					t.Fatal(err)
				}
			}

			fault.begin(c.gate)
			// Changes made meanwhile must arrive later.
			c.api("PATCH", "/namespaces/api-"+fault.id+"-space", object{"labels": object{"decided": "meanwhile"}})
			c.failing(fault.message)
			// Looking for drift goes on, with the last good answer.
			c.reapplied()
			c.unchanged("while the API fails", before, objects...)

			if err := c.gate.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.field(objects[0], "meanwhile", "metadata", "labels", "decided")
			c.settled()
			c.unchanged("after the API was back", before, objects[1:]...)
		})
	}
}

// A provider that is deleted and made again while the API is down has no inputs. Its ResourceSet must not take that
// for an empty list.
func TestProviderRecreatedDuringOutage(t *testing.T) {
	t.Parallel()
	c, objects := withOneOfEach(t, "again")
	before := c.revisions(objects...)
	c.gate.Close()
	c.makeProvidersAgain()
	for _, name := range rig.Resources {
		c.reconcile("ResourceSet", name)
		c.eventually("ResourceSet "+name+" waits", func(ctx context.Context) error {
			set, err := c.get(ctx, fluxAPI, "ResourceSet", c.ns, name)
			if err != nil {
				return err
			}
			if status, message := rig.Condition(set, "Ready"); status == "True" || !strings.Contains(message, "dependency") {
				return fmt.Errorf("ResourceSet %s: Ready is %q: %s", name, status, message)
			}
			return nil
		})
	}
	c.unchanged("provider made again", before, objects...)

	if err := c.gate.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.settled()
	c.unchanged("after the API was back", before, objects...)
}

// The control to the case above: without the guard that every ResourceSet is shipped with, Flux does remove everything.
// (Should this fail one day, Flux has learned better.)
func TestProviderRecreatedWithoutGuard(t *testing.T) {
	t.Parallel()
	c, objects := withOneOfEach(t, "unguarded")
	c.gate.Close()
	c.makeProvidersAgain()
	c.patch(fluxAPI, "ResourceSet", "rolebindings", object{"spec": object{"dependsOn": nil}})
	c.gone(rbacAPI, "ClusterRoleBinding", "", objects[1].GetName())
}

// makeProvidersAgain deletes the providers, waits until they are gone, and bootstraps the cluster once more.
func (c *cluster) makeProvidersAgain() {
	c.Helper()
	for _, name := range rig.Resources {
		c.delete(fluxAPI, "ResourceSetInputProvider", name)
	}
	c.join(rig.Cluster{})
}
