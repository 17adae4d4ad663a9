package e2e

import (
	"context"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestDrift: what helm-controller reports of an object that was changed by hand is in the lists of clusters, and no failure. When Flux
// corrects the object, it leaves the list.
func TestDrift(t *testing.T) {
	t.Parallel()
	define(t, "platform_components", object{"id": "drift-web", "component_path": "web", "oci_url": "https://charts.example.com"})
	c := setup(t, "drift", object{"platform_components": []object{{"id": "drift-web", "enabled": true}}})
	c.sendEvents()
	mode := func(mode string) {
		c.Helper()
		c.patch(fluxAPI, "ResourceSetInputProvider", "platform-components", object{"spec": object{"defaultValues": object{"settings": object{"interval": "2s", "driftDetection": mode}}}})
	}
	mode("warn")
	c.field(c.ready(helmAPI, "HelmRelease", c.ns, "platform-drift-web"), "warn", "spec", "driftDetection", "mode")
	listed := func(want string) {
		c.Helper()
		c.eventually(fmt.Sprintf("the clusters with drift are %q", want), func(ctx context.Context) error {
			got, err := c.w.CLI(ctx, "cluster", "list", "--drifted", "--selector", "id="+c.id, "-o", "name")
			if err == nil && got != want {
				err = fmt.Errorf("they are %q", got)
			}
			return err
		})
	}
	listed("")
	deployment := c.exists("apps/v1", "Deployment", "drift-web", "drift-web")
	if err := c.w.Kube.Patch(c.Context(), deployment, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":7}}`)), client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
	listed("cluster/" + c.id + "\n")
	if known, err := c.known(c.Context()); err != nil || known.State == "failed" {
		t.Fatalf("the cluster is %s: %v", known.State, err)
	}
	mode("enabled")
	c.field(deployment, int64(1), "spec", "replicas")
	listed("")
}
