package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// A wrong URL or a cache in front of the API answers polls with the inputs of another cluster. The templates refuse them:
// no object of the other cluster is created, and all objects of the cluster stay, inventories included.
func TestForeignAnswersRefused(t *testing.T) {
	t.Parallel()
	define(t, "namespaces", object{"id": "elsewhere-space"})
	define(t, "rolebindings", object{"id": "elsewhere-readers", "role": "view", "subjects": []object{{"kind": "Group", "name": "readers"}}})
	define(t, "platform_components", object{"id": "elsewhere-web", "component_path": "web", "oci_url": "https://charts.example.com"})
	other := prepare(t, "elsewhere", object{
		"platform_components": []object{{"id": "elsewhere-web", "enabled": true}},
		"namespaces":          []object{{"id": "elsewhere-space"}},
		"rolebindings":        []object{{"id": "elsewhere-readers"}},
	})
	c, objects := withOneOfEach(t, "here")
	objects = append(objects, c.exists(helmAPI, "HelmRelease", c.ns, "platform-here-web"), c.exists(sourceAPI, "HelmRepository", c.ns, "charts-here-web"))
	if err := c.gate.Polls(t.Context(), 2); err != nil { // helm-controller writes once more after a release is ready
		t.Fatal(err)
	}
	before := c.revisions(objects...)
	inventories := map[string][]string{}
	for _, name := range rig.Resources {
		inventories[name] = c.inventory(name)
	}

	c.gate.AnswerAs(c.dns, other.dns)
	for _, name := range rig.Resources {
		c.reconcile("ResourceSetInputProvider", name)
		c.eventually("ResourceSet "+name+" refuses the answer", func(ctx context.Context) error {
			set, err := c.get(ctx, fluxAPI, "ResourceSet", c.ns, name)
			if err != nil {
				return err
			}
			want := fmt.Sprintf("this answer is for cluster %q, not %q", other.dns, c.dns)
			if status, message := rig.Condition(set, "Ready"); status != "False" || !strings.Contains(message, want) {
				return fmt.Errorf("Ready is %q: %s", status, message)
			}
			return nil
		})
	}
	if err := c.gate.Polls(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	c.unchanged("with the answers for another cluster", before, objects...)
	for name, before := range inventories {
		if now := c.inventory(name); canonical(now) != canonical(before) {
			t.Errorf("the inventory of %s was %v and is %v", name, before, now)
		}
	}
	for kind, name := range map[string]string{"v1 Namespace": "elsewhere-space", rbacAPI + " ClusterRoleBinding": "elsewhere-readers"} {
		apiVersion, kind, _ := strings.Cut(kind, " ")
		if _, err := c.get(t.Context(), apiVersion, kind, "", name); err == nil {
			t.Errorf("%s %s of the other cluster was created", kind, name)
		}
	}

	// With its own answers again it continues, without a change of correct objects.
	if err := c.gate.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range rig.Resources {
		c.reconcile("ResourceSetInputProvider", name)
	}
	c.settled()
	c.unchanged("with its own answers again", before, objects...)
}
