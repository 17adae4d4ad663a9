package fleet

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/rendering"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
	"github.com/flux-resourceset/flux-resourceset/internal/variables"
)

// Deletion policies of a namespace.
const (
	policyDelete = "delete"
	policyOrphan = "orphan"
)

var namespaceKind = definition[api.Namespace, api.NamespaceRef, api.FluxNamespace]{
	descriptor: descriptor{
		kind: KindNamespace, field: "namespaces", endpoint: "namespaces", idField: "namespace_id",
		rules: kindRules{
			noun: "namespace",
			normalize: func(obj map[string]any) {
				unstructured.SetDefault(obj, "labels", map[string]any{})
				unstructured.SetDefault(obj, "annotations", map[string]any{})
				unstructured.SetDefault(obj, "deletion_policy", policyDelete)
			},
			check: checkNamespace,
		},
		idFrom:       func(op *api.Operation) string { return op.NamespaceID },
		checkEntries: adviseNamespaces,
		excluded:     func(own *Effective) []string { return own.cluster.Excludes.Namespaces },
		object:       func(d *Document) rendering.Object { return rendering.Object{Kind: "Namespace", Name: d.ID} },
		kept: func(d *Document, now time.Time) bool {
			return d.namespace().DeletionPolicy == policyOrphan && !d.unsettled(now)
		},
	},
	list:    func(c *Effective) []api.NamespaceRef { return c.cluster.Namespaces },
	setList: func(c *Effective, entries []api.NamespaceRef) { c.cluster.Namespaces = entries },
	entryID: func(e *api.NamespaceRef) string { return e.ID },
	setMetadata: func(n *api.Namespace, revision int64, created, updated time.Time) {
		n.Revision, n.CreatedAt, n.UpdatedAt = revision, created, updated
	},
	input: func(_ *inputContext, n *api.Namespace, _ *api.NamespaceRef) (api.FluxNamespace, error) {
		return api.FluxNamespace{ID: n.ID, Labels: n.Labels, Annotations: n.Annotations, DeletionPolicy: n.DeletionPolicy}, nil
	},
	cluster: func(in *api.FluxNamespace) *api.FluxCluster { return &in.Cluster },
}

func (d *Document) namespace() *api.Namespace { return d.value.(*api.Namespace) }

// checkNamespace checks a namespace's document.
func checkNamespace(c *checker, d *Document) {
	n := d.namespace()
	c.dnsLabel("/id", n.ID)
	c.objectMetadata(n.Labels, n.Annotations)
	for _, k := range sortedKeys(n.Labels) {
		if problem := podSecurityProblem(k, n.Labels[k]); problem != "" && !variables.In(n.Labels[k]) && !c.full() {
			c.problem("/labels"+jsontext.Pointer(k), "%s; Kubernetes refuses the namespace, and Flux then applies no namespace of the cluster", problem)
		}
	}
	c.oneOf("/deletion_policy", n.DeletionPolicy, policyDelete, policyOrphan)
	if rendering.SystemNamespace(n.ID) && n.DeletionPolicy == policyDelete {
		c.problem("/deletion_policy", `the system namespace %q can only be adopted with deletion_policy "orphan": taking it off a cluster would delete it`, n.ID)
	}
}

// objectMetadata checks the labels and annotations of an object that the templates render.
func (c *checker) objectMetadata(labels, annotations map[string]string) {
	resolved := make(map[string]string, len(labels))
	for k, v := range labels {
		resolved[k] = placeholder(v)
	}
	c.labels("/labels", resolved)
	c.annotations("/annotations", annotations)
	for at, keys := range map[string]map[string]string{"/labels": labels, "/annotations": annotations} {
		for _, k := range sortedKeys(keys) {
			if c.full() {
				break
			}
			// Flux Operator acts on these keys: one of them makes it delete the object.
			if strings.HasPrefix(strings.ToLower(k), "fluxcd.controlplane.io/") {
				c.problem(at+jsontext.Pointer(k), "keys of fluxcd.controlplane.io are instructions to Flux Operator and are set by the templates")
			}
		}
	}
}

var (
	podSecurityLabel = regexp.MustCompile(`^pod-security\.kubernetes\.io/(enforce|audit|warn)(-version)?$`)
	// podSecurityVersion is a version of Kubernetes, as ParseVersion of k8s.io/pod-security-admission accepts it.
	podSecurityVersion = regexp.MustCompile(`^(latest|v1\.(0|[1-9][0-9]*))$`)
)

// podSecurityProblem returns the reason for which the Pod Security admission of Kubernetes refuses a label of a namespace; empty: none.
func podSecurityProblem(key, value string) string {
	switch parts := podSecurityLabel.FindStringSubmatch(key); {
	case parts == nil:
	case parts[2] != "" && !podSecurityVersion.MatchString(value):
		return "must be latest or a minor version such as v1.33"
	case parts[2] == "" && !slices.Contains([]string{"privileged", "baseline", "restricted"}, value):
		return "must be privileged, baseline or restricted"
	}
	return ""
}

// adviseNamespaces warns of namespaces that probably exist on a cluster already.
func adviseNamespaces(c *checker, on *clusterCheck) {
	for _, ref := range on.effective.cluster.Namespaces {
		// A namespace with the policy orphan, or one of Kubernetes' own, is expected to exist already.
		if doc, ok := c.next.definition(on.effective, KindNamespace, ref.ID); ok && doc.namespace().DeletionPolicy == policyOrphan {
			c.warn("namespace %q is adopted where it exists: Flux removes labels and annotations that kubectl, helm or kustomize set on it and its definition does not list, those of pod security and istio too; list what must stay", ref.ID)
		}
	}
}
