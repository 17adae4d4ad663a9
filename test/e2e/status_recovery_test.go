package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// TestStatusRecovers: the API is down while all objects of a cluster change, and the stored status is deleted. No input is reported as
// confirmed that is not, and all inputs are confirmed when the API is back. TestSoak does that for a minute under random changes.
//
//nolint:paralleltest // it deletes the status of every case's cluster
func TestStatusRecovers(t *testing.T) {
	components := []string{"hl-http", "hl-oci", "hl-tree"}
	define(t, "namespaces", object{"id": "hl-space"})
	define(t, "platform_components",
		object{"id": "hl-http", "component_path": "web", "oci_url": "https://charts.example.com", "component_version": "1.0.0"},
		object{"id": "hl-oci", "component_path": "web", "oci_url": "oci://registry.example.com/charts", "type": "helm", "oci_tag": "1.0.0"},
		object{"id": "hl-tree", "component_path": "apps/hl-tree", "oci_url": "oci://registry.example.com/trees/hl-tree", "oci_tag": "v1"})
	c := prepare(t, "heals", object{"namespaces": []object{{"id": "hl-space"}}, "platform_components": []object{
		{"id": "hl-http", "enabled": true}, {"id": "hl-oci", "enabled": true}, {"id": "hl-tree", "enabled": true},
	}})
	c.join(rig.Cluster{})
	c.allConfirmed(len(components) + 1)

	c.gate.Close()
	c.cli("namespace", "set", "hl-space", "--label", "team=hl")
	c.cli("component", "set", "hl-http", "--cluster", c.id, "--component-version", "1.1.0")
	c.cli("component", "set", "hl-oci", "--cluster", c.id, "--set", "replicaCount=2")
	c.cli("component", "set", "hl-tree", "--cluster", c.id, "--oci-tag", "v2")
	if err := c.w.DeleteObservations(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.failing("")
	c.eventually("the API reports that the cluster has polled none of the changes", func(ctx context.Context) error {
		status, err := c.known(ctx)
		// Until the next poll is overdue, the cluster is progressing.
		if late := status.Counts["progressing"] + status.Counts["behind"]; err == nil && late != len(components)+1 {
			err = fmt.Errorf("it is %s: %v", status.State, status.Counts)
		}
		return err
	})
	if err := c.gate.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	c.allConfirmed(len(components) + 1)
	t.Logf("everything was confirmed %v after the API was back", time.Since(back).Round(time.Second))
	for _, id := range components {
		c.confirmed("platform-components", id)
	}
}
