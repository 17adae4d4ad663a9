package e2e

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Why two definitions of one object are refused: all ResourceSets apply as one field manager, so each application removes the fields that the
// other has set. As one object both stay.
func TestSharedObject(t *testing.T) {
	t.Parallel()
	c := prepare(t, "shared", object{})
	if err := c.w.Apply(t.Context(), fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shared-space}\n", c.ns)); err != nil {
		t.Fatal(err)
	}
	c.made("terraform", "v1", "ConfigMap", "shared-space", "shared-settings", object{"data": object{"theirs": "1"}})
	set := func(name, data string) {
		t.Helper()
		if err := c.w.Apply(t.Context(), fmt.Sprintf(`
apiVersion: fluxcd.controlplane.io/v1
kind: ResourceSet
metadata: {name: %s, namespace: %s}
spec:
  resources:
    - apiVersion: v1
      kind: ConfigMap
      metadata: {name: shared-settings, namespace: shared-space, annotations: {fluxcd.controlplane.io/prune: disabled}}
      data: %s
`, name, c.ns, data)); err != nil {
			t.Fatal(err)
		}
		c.ready(fluxAPI, "ResourceSet", c.ns, name)
	}
	has := func(want string) {
		t.Helper()
		c.eventually("shared-settings holds "+want, func(ctx context.Context) error {
			now, err := c.get(ctx, "v1", "ConfigMap", "shared-space", "shared-settings")
			if err != nil {
				return err
			}
			data, _, _ := unstructured.NestedMap(now.Object, "data")
			if got := canonical(data); got != want {
				return fmt.Errorf("it holds %s", got)
			}
			return nil
		})
	}
	set("shared-a", `{a: "1"}`)
	has(`{"a":"1","theirs":"1"}`)
	set("shared-b", `{b: "1"}`)
	has(`{"b":"1","theirs":"1"}`)
	c.reconcile("ResourceSet", "shared-a")
	has(`{"a":"1","theirs":"1"}`)
	// Both report ready all the time.
	c.ready(fluxAPI, "ResourceSet", c.ns, "shared-a")
	c.ready(fluxAPI, "ResourceSet", c.ns, "shared-b")
	set("shared-b", `{a: "1", b: "1"}`)
	has(`{"a":"1","b":"1","theirs":"1"}`)
}
