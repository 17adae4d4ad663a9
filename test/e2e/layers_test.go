package e2e

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/errors"
)

// TestLayers: a cluster with labels only receives its layers; a changed label or a deleted layer changes its objects after the plan has shown
// them; an excluded definition is never installed.
func TestLayers(t *testing.T) {
	t.Parallel()
	define(t, "namespaces", object{"id": "layered-all"}, object{"id": "layered-prod"}, object{"id": "layered-not"})
	define(t, "rolebindings", object{"id": "layered-readers", "role": "view", "subjects": []object{{"kind": "Group", "name": "layered"}}})
	define(t, "layers",
		object{"id": "layered-all", "priority": 701, "selector": "layered", "namespaces": []object{{"id": "layered-all"}, {"id": "layered-not"}}, "rolebindings": []object{{"id": "layered-readers"}}},
		object{"id": "layered-prod", "priority": 702, "selector": "layered=prod", "namespaces": []object{{"id": "layered-prod"}}})
	c := setup(t, "layered", object{"labels": object{"layered": "prod"}, "excludes": object{"namespaces": []string{"layered-not"}}})
	c.exists("v1", "Namespace", "", "layered-all")
	c.exists("v1", "Namespace", "", "layered-prod")
	c.exists(rbacAPI, "ClusterRoleBinding", "", "layered-readers")

	c.api("PATCH", "/clusters/layered", object{"labels": object{"layered": "dev"}})
	c.gone("v1", "Namespace", "", "layered-prod")
	c.exists("v1", "Namespace", "", "layered-all")

	// On two clusters a namespace goes only with the plan of it. The other one never joined.
	c.api("POST", "/clusters", object{"id": "layered-other", "cluster_dns": "layered-other.k8s.example.com", "environment": "dev", "labels": object{"layered": "dev"}})
	if err := c.w.API.Do(t.Context(), "DELETE", "/layers/layered-all", nil, nil); err == nil {
		t.Fatal("a layer took a namespace off two clusters, and nobody was asked")
	}
	plan := c.api("POST", "/plan", object{"operations": []object{{"op": "delete", "kind": "layer", "id": "layered-all"}}})
	c.exists("v1", "Namespace", "", "layered-all")
	c.api("DELETE", fmt.Sprint("/layers/layered-all?plan_hash=", plan["plan_hash"]), nil)
	c.gone("v1", "Namespace", "", "layered-all")
	c.gone(rbacAPI, "ClusterRoleBinding", "", "layered-readers")
	if _, err := c.get(context.WithoutCancel(t.Context()), "v1", "Namespace", "", "layered-not"); !errors.IsNotFound(err) {
		t.Fatalf("what the cluster excludes: %v", err)
	}
}
