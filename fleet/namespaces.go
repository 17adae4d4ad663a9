package fleet

import (
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Deletion policies of a namespace.
const (
	policyDelete = "delete"
	policyOrphan = "orphan"
)

var namespaceKind = kindRules{
	name:  KindNamespace,
	noun:  "namespace",
	empty: func() any { return new(api.Namespace) },
	normalize: func(obj map[string]any) {
		setDefault(obj, "labels", map[string]any{})
		setDefault(obj, "annotations", map[string]any{})
		setDefault(obj, "deletion_policy", policyDelete)
	},
	check: func(c *checker, d *Document) {
		n := d.namespace()
		c.dnsLabel("/id", n.ID)
		c.labels("/labels", n.Labels)
		c.annotations("/annotations", n.Annotations)
		for at, keys := range map[string]map[string]string{"/labels": n.Labels, "/annotations": n.Annotations} {
			for _, k := range sortedKeys(keys) {
				// They tell Flux Operator what to do with the object: one of them makes it delete the namespace.
				if strings.HasPrefix(strings.ToLower(k), "fluxcd.controlplane.io/") {
					c.problem(at+pointer(k), "keys of fluxcd.controlplane.io are instructions to Flux Operator and are set by the templates")
				}
			}
		}
		c.oneOf("/deletion_policy", n.DeletionPolicy, policyDelete, policyOrphan)
		if systemNamespace(n.ID) && n.DeletionPolicy == policyDelete {
			c.problem("/deletion_policy", `the system namespace %q can only be adopted with deletion_policy "orphan": taking it off a cluster would delete it`, n.ID)
		}
	},
	bound: func(v any) int { return encodedSize(namespaceInput(v.(*api.Namespace), api.FluxCluster{})) },
}

func systemNamespace(id string) bool {
	return id == "default" || id == "flux-system" || strings.HasPrefix(id, "kube-")
}

func namespaceInput(n *api.Namespace, cluster api.FluxCluster) api.FluxNamespace {
	return api.FluxNamespace{ID: n.ID, Labels: n.Labels, Annotations: n.Annotations, DeletionPolicy: n.DeletionPolicy, Cluster: cluster}
}
