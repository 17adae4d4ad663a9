package e2e

import (
	"context"
	"fmt"
	"testing"
)

// TestCommandLine performs changes with the command line and checks their effect in the cluster.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	define(t, "platform_components", object{"id": "flow-web", "component_path": "web", "oci_url": "https://charts.example.com"})
	c := setup(t, "flow", object{"platform_components": []object{{"id": "flow-web", "enabled": true}}})
	release := c.ready(helmAPI, "HelmRelease", c.ns, "platform-flow-web")
	deployment := c.exists("apps/v1", "Deployment", "flow-web", "flow-web")
	c.field(deployment, int64(1), "spec", "replicas")

	// A new namespace.
	c.cli("namespace", "create", "flow-sandbox", "--label", "team=sandbox", "--annotation", "owner=platform", "--cluster", c.id)
	namespace := c.exists("v1", "Namespace", "", "flow-sandbox")
	c.field(namespace, "sandbox", "metadata", "labels", "team")
	c.field(namespace, "platform", "metadata", "annotations", "owner")

	// Another value.
	c.cli("component", "set", "flow-web", "--cluster", c.id, "--set", "replicaCount=3")
	c.field(deployment, int64(3), "spec", "replicas")
	c.field(deployment, int64(3), "status", "readyReplicas")

	// Off, and on again with the value it had.
	c.cli("component", "set", "flow-web", "--enabled=false", "--cluster", c.id, "--yes")
	c.gone("apps/v1", "Deployment", "flow-web", "flow-web")
	c.gone(helmAPI, "HelmRelease", c.ns, release.GetName())
	c.cli("component", "set", "flow-web", "--enabled", "--cluster", c.id)
	c.field(deployment, int64(3), "spec", "replicas")

	// A binding whose role changes, which Kubernetes does not allow in place.
	c.cli("rolebinding", "create", "flow-readers", "--role", "view", "--group", "readers", "--serviceaccount", "flow-web:robot", "--cluster", c.id)
	binding := c.exists(rbacAPI, "ClusterRoleBinding", "", "flow-readers")
	c.field(binding, "view", "roleRef", "name")
	c.cli("rolebinding", "set", "flow-readers", "--role", "edit", "--yes")
	c.field(binding, "edit", "roleRef", "name")
	c.cli("rolebinding", "unassign", "flow-readers", "--cluster", c.id, "--yes")
	c.gone(rbacAPI, "ClusterRoleBinding", "", "flow-readers")

	// A namespace that goes, and one that stays.
	c.cli("namespace", "unassign", "flow-sandbox", "--cluster", c.id, "--yes")
	c.gone("v1", "Namespace", "", "flow-sandbox")
	c.cli("namespace", "create", "flow-kept", "--deletion-policy", "orphan", "--cluster", c.id)
	kept := c.exists("v1", "Namespace", "", "flow-kept")
	c.cli("namespace", "create", "flow-witness", "--cluster", c.id)
	c.exists("v1", "Namespace", "", "flow-witness")
	before := c.revisions(kept)
	c.cli("namespace", "unassign", "flow-kept", "--cluster", c.id, "--yes")
	c.cli("namespace", "unassign", "flow-witness", "--cluster", c.id, "--yes")
	// The witness left with the same poll or a later one. A removed object is changed first: it is terminating.
	c.gone("v1", "Namespace", "", "flow-witness")
	c.settled()
	c.unchanged("an orphaned namespace", before, kept)
}

// A cluster's own version wins; the catalog's reaches the others.
func TestOverrides(t *testing.T) {
	t.Parallel()
	// No such chart exists: two clusters in one control plane would install the same release.
	define(t, "platform_components",
		object{"id": "over-http", "component_path": "absent-http", "oci_url": "https://charts.example.com", "component_version": "1.0.0"},
		object{"id": "over-oci", "component_path": "absent-oci", "oci_url": "oci://registry.example.com/charts", "type": "helm", "oci_tag": "1.0.0"},
	)
	components := []object{{"id": "over-http", "enabled": true}, {"id": "over-oci", "enabled": true}}
	pinned := setup(t, "over-pinned", object{"platform_components": components})
	other := setup(t, "over-other", object{"platform_components": components})

	// The object that carries a version, and where.
	chart := func(c *cluster, want string) {
		t.Helper()
		c.field(c.exists(helmAPI, "HelmRelease", c.ns, "platform-over-http"), want, "spec", "chart", "spec", "version")
	}
	path := func(c *cluster, want string) {
		t.Helper()
		c.field(c.exists(helmAPI, "HelmRelease", c.ns, "platform-over-http"), want, "spec", "chart", "spec", "chart")
	}
	tag := func(c *cluster, want string) {
		t.Helper()
		c.field(c.exists("source.toolkit.fluxcd.io/v1", "OCIRepository", c.ns, "charts-over-oci"), want, "spec", "ref", "tag")
	}
	for _, c := range []*cluster{pinned, other} {
		chart(c, "1.0.0")
		path(c, "absent-http")
		tag(c, "1.0.0")
	}

	pinned.cli("component", "set", "over-http", "--cluster", pinned.id, "--component-version", "1.1.0", "--component-path", "absent-fork")
	pinned.cli("component", "set", "over-oci", "--cluster", pinned.id, "--oci-tag", "1.1.0-hotfix")
	chart(pinned, "1.1.0")
	path(pinned, "absent-fork")
	tag(pinned, "1.1.0-hotfix")

	pinned.cli("component", "set", "over-http", "--component-version", "2.0.0", "--yes")
	pinned.cli("component", "set", "over-oci", "--oci-tag", "2.0.0", "--yes")
	chart(other, "2.0.0")
	path(other, "absent-http")
	tag(other, "2.0.0")
	pinned.settled()
	chart(pinned, "1.1.0")
	path(pinned, "absent-fork")
	tag(pinned, "1.1.0-hotfix")

	// And the override can be taken back.
	pinned.cli("component", "set", "over-http", "--cluster", pinned.id, "--component-version", "", "--component-path", "")
	chart(pinned, "2.0.0")
	path(pinned, "absent-http")
}

// Charts and manifests from OCI registries: versions, overlays, substitutions.
func TestOCI(t *testing.T) {
	t.Parallel()
	define(t, "platform_components",
		object{"id": "oci-chart", "component_path": "web", "oci_url": "oci://registry.example.com/charts", "type": "helm"},
		object{"id": "oci-tree", "component_path": "apps/oci-tree", "oci_url": "oci://registry.example.com/trees/oci-tree", "oci_tag": "v1"},
		object{"id": "oci-env", "component_path": "apps/oci-env", "oci_url": "oci://registry.example.com/trees/oci-env", "oci_tag": "v1", "cluster_env_enabled": true},
	)
	c := setup(t, "oci", object{
		"environment": "prod",
		"platform_components": []object{
			{"id": "oci-chart", "enabled": true}, {"id": "oci-tree", "enabled": true}, {"id": "oci-env", "enabled": true},
		},
		"patches": object{"oci-chart": object{"replicaCount": 2}, "oci-tree": object{"color": "blue", "replicas": "4"}},
	})

	// The newest version of a chart, and its values.
	c.ready(helmAPI, "HelmRelease", c.ns, "platform-oci-chart")
	deployment := c.exists("apps/v1", "Deployment", "oci-chart", "oci-chart")
	c.field(deployment, int64(2), "spec", "replicas")
	c.eventually("the newest chart", func(ctx context.Context) error {
		now, err := c.get(ctx, "apps/v1", "Deployment", "oci-chart", "oci-chart")
		if err != nil {
			return err
		}
		if version := now.GetLabels()["version"]; len(version) < 5 || version[:5] != "2.0.0" {
			return fmt.Errorf("version %q is installed", version)
		}
		return nil
	})

	// Manifests, with values in their text.
	c.ready("kustomize.toolkit.fluxcd.io/v1", "Kustomization", c.ns, "platform-oci-tree")
	config := c.exists("v1", "ConfigMap", "default", "oci-tree")
	c.field(config, "v1", "data", "tag")
	c.field(config, "blue", "data", "color")
	c.field(config, "replicas 4", "data", "text")
	c.exists("v1", "ConfigMap", "default", "oci-tree-old")

	// The overlay of the cluster's environment.
	overlay := c.exists("v1", "ConfigMap", "default", "oci-env")
	c.field(overlay, "prod", "data", "environment")

	// Another tag: objects that it lacks are removed.
	c.cli("component", "set", "oci-tree", "--cluster", c.id, "--oci-tag", "v2")
	c.field(config, "v2", "data", "tag")
	c.gone("v1", "ConfigMap", "default", "oci-tree-old")

	// A namespace for all objects of the manifests: they leave the previous one.
	c.cli("component", "set", "oci-tree", "--target-namespace", "oci-chart", "--yes", "--confirm", "prod")
	c.field(c.exists("v1", "ConfigMap", "oci-chart", "oci-tree"), "v2", "data", "tag")
	c.gone("v1", "ConfigMap", "default", "oci-tree")
	c.cli("component", "set", "oci-env", "--enabled=false", "--cluster", c.id, "--yes", "--confirm", "prod")
	c.gone("v1", "ConfigMap", "default", "oci-env")
}

// A role binding in a namespace waits for it and holds up no other binding; another namespace takes the rights away in the old one.
func TestNamespacedRoleBinding(t *testing.T) {
	t.Parallel()
	c := setup(t, "bound", object{"namespaces": []object{}})
	c.cli("rolebinding", "create", "bound-editors", "--role", "edit", "--group", "editors", "--namespace", "bound-late", "--label", "team=web", "--annotation", "note=<< x >>", "--cluster", c.id)
	c.cli("rolebinding", "create", "bound-readers", "--role", "view", "--group", "readers", "--label", "team=web", "--cluster", c.id)
	c.field(c.exists(rbacAPI, "ClusterRoleBinding", "", "bound-readers"), "web", "metadata", "labels", "team")
	c.cli("namespace", "create", "bound-late", "--cluster", c.id)
	late := c.exists(rbacAPI, "RoleBinding", "bound-late", "bound-editors")
	c.field(late, "edit", "roleRef", "name")
	c.field(late, "web", "metadata", "labels", "team")
	c.field(late, "<< x >>", "metadata", "annotations", "note")
	c.cli("rolebinding", "set", "bound-editors", "--role", "admin", "--yes")
	c.field(late, "admin", "roleRef", "name")
	c.cli("wait", c.id, "--within", "5m") // receipts confirm it

	c.cli("namespace", "create", "bound-other", "--cluster", c.id)
	c.cli("rolebinding", "set", "bound-editors", "--namespace", "bound-other", "--yes")
	c.exists(rbacAPI, "RoleBinding", "bound-other", "bound-editors")
	c.gone(rbacAPI, "RoleBinding", "bound-late", "bound-editors")
	c.cli("rolebinding", "unassign", "bound-editors", "--cluster", c.id, "--yes")
	c.gone(rbacAPI, "RoleBinding", "bound-other", "bound-editors")
}
