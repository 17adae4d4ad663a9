package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// manifestsBefore are the manifests of this cluster from before receipts existed.
func (c *cluster) manifestsBefore() string {
	c.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "cluster-before-receipts.yaml"))
	if err != nil {
		c.Fatal(err)
	}
	return strings.NewReplacer(
		"${INTERNAL_API_URL}", c.gate.URL, "${CLUSTER_DNS}", c.dns, `reconcileEvery: "5m"`, `reconcileEvery: "1s"`,
		"type: ExternalService", "type: ExternalService\n  insecure: true",
	).Replace(string(text)) + fmt.Sprintf("---\napiVersion: v1\nkind: Secret\nmetadata: {name: internal-api-token, namespace: flux-system}\nstringData: {token: %s}\n", rig.ReadToken)
}

// running is the state whose change users would notice: the releases' count of installs and upgrades, the workloads and their
// pods, and all other objects of the cluster.
func (c *cluster) running(releases []string) map[string]string {
	c.Helper()
	found := map[string]string{}
	note := func(o *unstructured.Unstructured, more ...any) {
		found[fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())] = fmt.Sprint(o.GetUID(), " ", o.GetCreationTimestamp(), " ", more)
	}
	for _, name := range releases {
		release := c.exists(helmAPI, "HelmRelease", c.ns, "platform-"+name)
		history, _, _ := unstructured.NestedSlice(release.Object, "status", "history")
		var versions []any
		for _, entry := range history {
			if entry, ok := entry.(object); ok {
				versions = append(versions, entry["version"], entry["configDigest"], entry["chartVersion"], entry["lastDeployed"])
			}
		}
		note(release, versions...)
		for apiVersion, kind := range map[string]string{"apps/v1": "Deployment", "v1": "Pod"} {
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion(apiVersion)
			list.SetKind(kind + "List")
			if err := c.w.Kube.List(c.Context(), list, client.InNamespace(name)); err != nil {
				c.Fatal(err)
			}
			for _, o := range list.Items {
				note(&o, o.GetGeneration())
			}
		}
		values := c.exists("v1", "ConfigMap", name, name+"-values")
		note(values, values.GetResourceVersion())
	}
	tree := c.exists("v1", "ConfigMap", "default", "up-tree")
	note(tree, tree.GetResourceVersion())
	note(c.exists("v1", "Namespace", "", "up-space"))
	note(c.exists("v1", "Namespace", "", "up-kept"))
	common := c.exists("v1", "Namespace", "", "default")
	note(common, common.GetLabels()["up"], common.GetDeletionTimestamp())
	note(c.exists(rbacAPI, "ClusterRoleBinding", "", "up-binding"))
	return found
}

// same fails for everything that is not as it was.
func (c *cluster) same(when string, before, now map[string]string) {
	c.Helper()
	all := maps.Clone(before)
	maps.Copy(all, now)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if before[name] != now[name] {
			c.Errorf("%s: %s was\n%s, and is\n%s", when, name, before[name], now[name])
		}
	}
}
