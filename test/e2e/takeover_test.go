package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// TestTakeover assigns a definition whose object exists on the cluster already, made by another field manager. The plan names it,
// Flux applies it in place, the type without receipts is confirmed on delivery, a second definition of the object is refused, and
// unassigning leaves the object with the other manager's fields.
func TestTakeover(t *testing.T) {
	t.Parallel()
	const id, space = "takeover-maps", "takeover-space"
	const template = `apiVersion: v1
kind: ConfigMap
metadata:
  name: takeover-settings
  namespace: takeover-space
  annotations: {fluxcd.controlplane.io/prune: disabled}
data:
  << inputs.key >>: ours
`
	define(t, "resource_types", object{
		"id": id, "receipt": "none", "removal": "keep", "template": template,
		"schema": object{
			"type": "object", "additionalProperties": false, "required": []string{"key"},
			"properties": object{"key": object{"type": "string"}},
		},
	})
	t.Cleanup(func() { // other cases would bootstrap the template too
		_ = world(t).API.Do(context.WithoutCancel(t.Context()), "PATCH", "/resource_types/"+id, object{"template": ""}, nil)
	})
	c := prepare(t, "takeover", object{})
	c.types = []string{id}
	if err := c.w.JoinChart(t.Context(), c.ns, object{
		"cluster": object{"name": c.id, "dns": c.dns, "environment": "dev"}, "api": object{"url": c.gate.URL, "token": rig.ReadToken},
		"interval": "1s", "customResources": []object{{"type": id, "template": template}},
	}); err != nil {
		t.Fatal(err)
	}
	c.made("terraform", "v1", "Namespace", "", space, object{})
	before := c.made("terraform", "v1", "ConfigMap", space, "takeover-settings", object{"data": object{"theirs": "1"}})

	operations := func(name string) []object {
		return []object{
			{"op": "create", "kind": "resource", "type": id, "id": name, "document": object{"id": name, "spec": object{"key": name}}},
			{"op": "assign_resource", "type": id, "resource_id": name, "cluster_ids": []string{c.id}},
		}
	}
	plan := c.api("POST", "/plan", object{"operations": operations("a")})
	if warnings := canonical(plan["warnings"]); !strings.Contains(warnings, "ConfigMap takeover-space/takeover-settings") {
		t.Errorf("the plan does not name the takeover: %s", warnings)
	}
	c.batch(operations("a")...)
	c.field(before, "ours", "data", "a")
	c.field(before, "1", "data", "theirs")
	c.eventually("the input is confirmed by delivery", func(ctx context.Context) error {
		status, err := c.known(ctx)
		if err != nil {
			return err
		}
		for _, in := range status.Inputs {
			if in.List == id && in.ID == "a" && in.State == "confirmed" && in.ConfirmedBy == "delivery" {
				return nil
			}
		}
		return fmt.Errorf("the inputs are %+v", status.Inputs)
	})

	err := c.w.API.Do(t.Context(), "POST", "/batch", object{"operations": operations("b")}, nil)
	if err == nil || !strings.Contains(err.Error(), "object_conflict") || !strings.Contains(err.Error(), `resource \"a\" and the takeover-maps resource \"b\" both make ConfigMap takeover-space/takeover-settings`) {
		t.Errorf("a second definition of the object: %v", err)
	}

	c.api("DELETE", "/clusters/"+c.id+"/resources/"+id+"/a", nil)
	c.eventually("the definition is off the cluster", func(context.Context) error {
		if inputs := c.inputs(id); len(inputs) != 0 {
			return fmt.Errorf("the inputs are %v", inputs)
		}
		return nil
	})
	c.ready(fluxAPI, "ResourceSet", c.ns, id)
	now := c.exists("v1", "ConfigMap", space, "takeover-settings")
	theirs, _, _ := unstructured.NestedString(now.Object, "data", "theirs")
	managers := map[string]bool{}
	for _, field := range now.GetManagedFields() {
		managers[field.Manager] = true
	}
	if now.GetUID() != before.GetUID() || now.GetDeletionTimestamp() != nil || theirs != "1" || !managers["terraform"] {
		t.Errorf("the object was %s and is %s (deleted: %v), theirs is %q, its field managers are %v", before.GetUID(), now.GetUID(), now.GetDeletionTimestamp(), theirs, managers)
	}
}
