package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/e2e/rig"
)

// A cluster that is deleted loses everything that came from the API, and nothing else.
func TestDecommission(t *testing.T) {
	t.Parallel()
	c, objects := withOneOfEach(t, "leaving")
	c.cli("cluster", "delete", c.id, "--yes")
	c.gone("apps/v1", "Deployment", "leaving-space", "leaving-web")
	c.gone(helmAPI, "HelmRelease", c.ns, "platform-leaving-web")
	c.gone("source.toolkit.fluxcd.io/v1", "HelmRepository", c.ns, "charts-leaving-web")
	for _, o := range objects {
		c.gone(o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName())
	}
	for _, name := range rig.Resources {
		c.eventually("nothing of "+name+" is left", func(context.Context) error {
			if left := c.inventory(name); len(left) > 0 {
				return fmt.Errorf("left: %v", left)
			}
			return nil
		})
	}
	c.exists("v1", "Namespace", "", c.ns)
	c.exists("v1", "ConfigMap", c.ns, "cluster-identity")
}

// A cluster that is forgotten keeps everything.
func TestDecommissionOrphan(t *testing.T) {
	t.Parallel()
	c, objects := withOneOfEach(t, "forgotten")
	objects = append(objects, c.exists("apps/v1", "Deployment", "forgotten-space", "forgotten-web"))
	before := c.revisions(objects...)
	c.cli("cluster", "delete", c.id, "--mode", "orphan", "--yes")
	c.failing("404")
	c.reapplied()
	c.unchanged("forgotten", before, objects...)
}
