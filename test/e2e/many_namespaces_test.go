package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// TestManyNamespaces: a cluster receives more namespaces than Flux Operator reads by default, and unchanged answers apply nothing.
func TestManyNamespaces(t *testing.T) {
	t.Parallel()
	const count = 150
	var operations, assigned []object
	for i := range count {
		id := fmt.Sprintf("many-%03d", i)
		operations = append(operations, object{"op": "create", "kind": "namespace", "id": id, "document": object{"id": id, "labels": object{"number": fmt.Sprint(i)}}})
		assigned = append(assigned, object{"id": id})
	}
	if err := world(t).API.Do(t.Context(), "POST", "/batch", object{"operations": operations, "reason": "e2e"}, nil); err != nil {
		t.Fatal(err)
	}
	c := prepare(t, "many", object{"namespaces": assigned})
	c.join(rig.Cluster{NoReceipts: true})
	c.settled()
	var objects []*unstructured.Unstructured
	for i := range count {
		namespace := c.exists("v1", "Namespace", "", fmt.Sprintf("many-%03d", i))
		if number := namespace.GetLabels()["number"]; number != fmt.Sprint(i) {
			t.Errorf("%s has label number=%q", namespace.GetName(), number)
		}
		objects = append(objects, namespace)
	}
	if got := len(c.inventory("namespaces")); got != count {
		t.Errorf("the ResourceSet has applied %d objects, not %d", got, count)
	}

	// A reconciliation that does apply is recorded in the ResourceSet's status, so that must not move either.
	for _, name := range rig.Resources {
		objects = append(objects, c.exists(fluxAPI, "ResourceSet", c.ns, name))
	}
	// The first one may still be under way. Were every poll to apply something, this would never come to its end.
	c.eventually("the same answers apply nothing", func(ctx context.Context) error {
		before := c.revisions(objects...)
		if err := c.gate.Polls(ctx, 4); err != nil {
			return err
		}
		if !maps.Equal(before, c.revisions(objects...)) {
			return errors.New("an object was changed")
		}
		return nil
	})
}
