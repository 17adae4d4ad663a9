package e2e

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// labelled sets a label of a namespace as kubectl does.
func (c *cluster) labelled(namespace *unstructured.Unstructured, key, value string) {
	c.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(canonical(object{"metadata": object{"labels": object{key: value}}})))
	if err := c.w.Kube.Patch(c.Context(), namespace.DeepCopy(), patch, client.FieldOwner("kubectl-label")); err != nil {
		c.Fatal(err)
	}
}

// held sets a label as `kubectl apply --server-side --field-manager` does.
func (c *cluster) held(namespace *unstructured.Unstructured, manager, key, value string) {
	c.Helper()
	patch := client.RawPatch(types.ApplyPatchType, []byte(canonical(object{
		"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": namespace.GetName(), "labels": object{key: value}},
	})))
	if err := c.w.Kube.Patch(c.Context(), namespace.DeepCopy(), patch, client.FieldOwner(manager)); err != nil {
		c.Fatal(err)
	}
}

// TestSystemNamespacesKept: fields that kubectl has set on Kubernetes' own namespaces are never removed, neither by an assignment nor by its
// end.
func TestSystemNamespacesKept(t *testing.T) {
	t.Parallel()
	const security = "pod-security.kubernetes.io/enforce"
	define(t, "namespaces",
		object{"id": "kube-node-lease", "deletion_policy": "orphan", "labels": object{"team": "a"}},
		object{"id": "kube-public", "deletion_policy": "orphan", "labels": object{"team": "a"}, "annotations": object{"note": "<< inputs.id >>"}})
	define(t, "namespaces", object{"id": "adopted-held", "deletion_policy": "orphan", "labels": object{"team": "a"}})
	c := prepare(t, "system", object{})
	touched, free := c.exists("v1", "Namespace", "", "kube-node-lease"), c.exists("v1", "Namespace", "", "kube-public")
	c.labelled(touched, security, "baseline")
	// Any other namespace is taken over. Fields of a manager that Flux does not know stay.
	held := c.made("kubectl-create", "v1", "Namespace", "", "adopted-held", object{})
	c.labelled(held, security, "baseline")
	c.held(held, "platform-team", security, "baseline")
	c.join(rig.Cluster{})
	c.cli("namespace", "assign", "kube-node-lease", "--cluster", c.id)
	c.cli("namespace", "assign", "kube-public", "--cluster", c.id)

	c.cli("namespace", "assign", "adopted-held", "--cluster", c.id)
	c.field(held, "a", "metadata", "labels", "team")
	c.confirmed("namespaces", "adopted-held")
	c.field(held, "baseline", "metadata", "labels", security)

	c.field(free, "a", "metadata", "labels", "team")
	c.field(free, "<< inputs.id >>", "metadata", "annotations", "note")
	c.confirmed("namespaces", "kube-public")
	c.setSays("adopt-kube-node-lease", "not ready")
	c.field(touched, "baseline", "metadata", "labels", security)

	// Edited later: all fields stay, ours too.
	c.labelled(free, security, "restricted")
	c.cli("namespace", "set", "kube-public", "--label", "team=b")
	c.setSays("adopt-kube-public", "not ready")
	c.field(free, "restricted", "metadata", "labels", security)
	c.field(free, "a", "metadata", "labels", "team")
	if unwanted := c.receipt("namespaces", "kube-node-lease"); c.gate.HasReceipt(unwanted) {
		t.Errorf("the cluster confirmed what it left alone: %v", unwanted)
	}

	c.cli("namespace", "unassign", "kube-node-lease", "--cluster", c.id, "--yes")
	c.cli("namespace", "unassign", "kube-public", "--cluster", c.id, "--yes")
	c.cli("namespace", "unassign", "adopted-held", "--cluster", c.id, "--yes")
	c.gone(fluxAPI, "ResourceSet", c.ns, "adopt-kube-node-lease")
	c.gone(fluxAPI, "ResourceSet", c.ns, "adopt-kube-public")
	c.settled()
	for _, namespace := range []*unstructured.Unstructured{touched, free, held} {
		now := c.exists("v1", "Namespace", "", namespace.GetName())
		if now.GetUID() != namespace.GetUID() || now.GetDeletionTimestamp() != nil || now.GetLabels()[security] == "" {
			t.Errorf("namespace %s is %v", namespace.GetName(), now.Object["metadata"])
		}
	}
}
