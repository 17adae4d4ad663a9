package e2e

import (
	"maps"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// gitSources is the namespace of the cluster whose Git repositories the real source-controller fetches.
const gitSources = "flux-git-sources"

// TestGitSources: a chart and manifests of a private Git repository are installed from a tag, a branch, a range and a commit. Other
// commits upgrade a release although the chart keeps its version, a missing tag is a failure and no confirmation, and a component from Git
// waits for a dependency of the other type.
func TestGitSources(t *testing.T) {
	t.Parallel()
	repository, err := rig.StartGitServer(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	commit := func(text, tag string) string {
		t.Helper()
		files := rig.ChartAndTree("git-web", text)
		maps.Copy(files, rig.ChartAndTree("git-tree", text))
		hash, err := repository.Commit(t.Context(), files, tag)
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	first := commit("one", "v1.0.0")
	source := object{"oci_url": "git+" + repository.URL, "secret_ref": "git-credentials"}
	with := func(fields object) object { maps.Copy(fields, source); return fields }
	define(t, "platform_components",
		with(object{"id": "git-web", "component_path": "./charts/git-web", "component_version": "v1.0.0"}),
		with(object{"id": "git-tree", "type": "kustomize", "component_path": "./apps/git-tree", "oci_tag": "refs/heads/main"}))
	c := prepare(t, "git-sources", object{"platform_components": []object{{"id": "git-web"}, {"id": "git-tree"}}})
	c.sendEvents()
	c.join(rig.Cluster{})
	c.failed("git-web", "git-credentials")
	c.put("Secret", "git-credentials", object{"stringData": object{"username": repository.Username, "password": repository.Password}})
	c.cli("reconcile", "cluster", c.id)
	for _, id := range []string{"git-web", "git-tree"} {
		c.confirmed("platform-components", id)
		c.ready(sourceAPI, "GitRepository", c.ns, "charts-"+id)
	}
	release := func(text string) {
		t.Helper()
		c.valuesOf("git-web", "git-web", object{"replicaCount": 1.0, "text": text})
	}
	manifests := c.exists("v1", "ConfigMap", "default", "git-tree")
	release("one")
	c.field(manifests, "one", "data", "text")

	second := commit("two", "v1.1.0")
	c.reconciled("git-tree", "GitRepository")
	c.field(manifests, "two", "data", "text")
	release("one") // which is pinned to a tag
	c.cli("component", "set", "git-web", "--cluster", c.id, "--component-version", "v1.1.0")
	c.confirmed("platform-components", "git-web")
	release("two")

	c.cli("component", "set", "git-web", "--cluster", c.id, "--component-version", "v9.0.0")
	unwanted := c.receipt("platform-components", "git-web")
	c.failed("git-web", "v9.0.0")
	c.cli("component", "set", "git-web", "--cluster", c.id, "--component-version", first)
	c.confirmed("platform-components", "git-web")
	release("one")
	if c.gate.HasReceipt(unwanted) {
		t.Errorf("the cluster confirmed a tag that the repository does not have: %v", unwanted)
	}

	c.cli("component", "set", "git-tree", "--cluster", c.id, "--oci-tag", second)
	c.cli("component", "set", "git-web", "--cluster", c.id, "--component-version", "~1.0")
	c.confirmed("platform-components", "git-tree")
	c.confirmed("platform-components", "git-web")
	c.cli("component", "set", "git-web", "--depends-on", "git-tree", "--yes")
	c.confirmed("platform-components", "git-web")
	c.ready(sourceAPI, "GitRepository", c.ns, "gated-git-web")
	c.cli("component", "set", "git-web", "--cluster", c.id, "--component-version", "")
	c.confirmed("platform-components", "git-web")
	release("one")
}
