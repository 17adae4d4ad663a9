package e2e

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// realSources is the namespace of the cluster whose sources the real source-controller fetches.
const realSources = "flux-real-sources"

// A cluster with the real source-controller installs a chart from a Helm repository over HTTP, upgrades it, and reports a version
// that the repository does not have. The source keeps its artifact when the component gets a dependency that is not ready.
func TestSourceController(t *testing.T) {
	t.Parallel()
	repository, err := rig.StartChartRepository(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	define(t, "platform_components",
		object{"id": "real-web", "component_path": "web", "oci_url": repository, "component_version": "1.0.0"},
		// Port 1 refuses connections, so the dependency is never ready.
		object{"id": "real-tree", "component_path": "apps/real-tree", "oci_url": "oci://127.0.0.1:1/trees/real-tree", "oci_tag": "v1"})
	c := prepare(t, "real-sources", object{"platform_components": []object{{"id": "real-web", "enabled": true}, {"id": "real-tree", "enabled": true}}})
	if c.ns != realSources {
		t.Fatalf("the namespace is %s, not %s", c.ns, realSources)
	}
	c.sendEvents()
	c.join(rig.Cluster{})
	c.confirmed("platform-components", "real-web")
	source := c.ready(sourceAPI, "HelmRepository", c.ns, "charts-real-web")
	chartOf := func(version string) {
		t.Helper()
		c.field(c.exists("v1", "ConfigMap", "real-web", "real-web-values"), version, "data", "version")
	}
	chartOf("1.0.0")
	// The tree cannot be pulled: its source fails in source-controller's own words.
	c.failed("real-tree", "127.0.0.1:1")

	c.cli("component", "set", "real-web", "--cluster", c.id, "--component-version", "1.1.0")
	c.confirmed("platform-components", "real-web")
	chartOf("1.1.0")

	c.cli("component", "set", "real-web", "--cluster", c.id, "--component-version", "9.0.0")
	unwanted := c.refused(helmAPI, "HelmRelease", "real-web", "no 'web' chart with version matching '9.0.0' found")
	c.failed("real-web", "version matching '9.0.0'")
	c.cli("component", "set", "real-web", "--cluster", c.id, "--component-version", "2.0.0")
	c.confirmed("platform-components", "real-web")
	chartOf("2.0.0")
	if c.gate.HasReceipt(unwanted) {
		t.Errorf("the cluster confirmed a version that the repository does not have: %v", unwanted)
	}

	c.reconciled("real-web", "HelmRepository", "HelmChart")

	release := c.ready(helmAPI, "HelmRelease", c.ns, "platform-real-web")
	history := func(o *unstructured.Unstructured) string {
		list, _, _ := unstructured.NestedSlice(o.Object, "status", "history")
		return canonical(list)
	}
	deployment := c.exists("apps/v1", "Deployment", "real-web", "real-web")
	before := c.revisions(deployment)
	revision, _, _ := unstructured.NestedString(source.Object, "status", "artifact", "revision")
	if revision == "" {
		t.Fatalf("the source has no artifact: %v", source.Object["status"])
	}
	c.cli("component", "set", "real-web", "--depends-on", "real-tree", "--yes")
	c.waits("real-web", "platform-real-tree")
	c.field(source, true, "spec", "suspend")
	c.field(source, string(source.GetUID()), "metadata", "uid")
	c.field(source, revision, "status", "artifact", "revision")
	c.unchanged("while the dependency is not ready", before, deployment)

	// Without the dependency the same source is used again, and no release was reinstalled.
	c.api("PATCH", "/platform_components/real-web", object{"depends_on": []string{}})
	c.field(source, string(source.GetUID()), "metadata", "uid")
	c.eventually("the source is in use again", func(ctx context.Context) error {
		now, err := c.get(ctx, sourceAPI, "HelmRepository", c.ns, source.GetName())
		if err != nil {
			return err
		}
		if suspended, _, _ := unstructured.NestedBool(now.Object, "spec", "suspend"); suspended {
			return errors.New("it is suspended")
		}
		return rig.HasCondition(now, "Ready", "True")
	})
	c.confirmed("platform-components", "real-web")
	now := c.ready(helmAPI, "HelmRelease", c.ns, release.GetName())
	if was, is := history(release), history(now); was != is {
		t.Errorf("the release's history was\n%s, and is\n%s", was, is)
	}
	c.unchanged("when the dependency has gone", before, deployment)
}
