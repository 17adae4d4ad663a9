package fleet

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/rendering"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

const (
	rbacGroup   = "rbac.authorization.k8s.io"
	maxSubjects = 1_000
)

var roleBindingKind = definition[api.RoleBinding, api.RoleBindingRef, api.FluxRoleBinding]{
	descriptor: descriptor{
		kind: KindRoleBinding, field: "rolebindings", endpoint: "rolebindings", idField: "rolebinding_id",
		rules:    kindRules{noun: "role binding", normalize: normalizeRoleBinding, check: checkRoleBinding},
		idFrom:   func(op *api.Operation) string { return op.RolebindingID },
		excluded: func(own *Effective) []string { return own.cluster.Excludes.Rolebindings },
		object: func(d *Document) rendering.Object {
			if b := d.roleBinding(); b.Namespace != "" {
				return rendering.Object{Group: rbacGroup, Kind: "RoleBinding", Namespace: b.Namespace, Name: b.ID}
			}
			return rendering.Object{Group: rbacGroup, Kind: "ClusterRoleBinding", Name: d.ID}
		},
		redeployed: func(was, is *Document) bool { return was.roleBinding().Namespace != is.roleBinding().Namespace },
		uninstalls: func(before, after any) bool {
			return before.(api.FluxRoleBinding).Namespace != after.(api.FluxRoleBinding).Namespace
		},
	},
	deployment: func(b *api.RoleBinding, _ *api.RoleBindingRef, _ string) deployment {
		return deployment{Namespace: b.Namespace}
	},
	list:    func(c *Effective) []api.RoleBindingRef { return c.cluster.Rolebindings },
	setList: func(c *Effective, entries []api.RoleBindingRef) { c.cluster.Rolebindings = entries },
	entryID: func(e *api.RoleBindingRef) string { return e.ID },
	setMetadata: func(b *api.RoleBinding, revision int64, created, updated time.Time) {
		b.Revision, b.CreatedAt, b.UpdatedAt = revision, created, updated
	},
	input: func(_ *inputContext, b *api.RoleBinding, _ *api.RoleBindingRef) (api.FluxRoleBinding, error) {
		subjects := make([]api.FluxSubject, len(b.Subjects))
		for i, s := range b.Subjects {
			subjects[i] = api.FluxSubject(s)
		}
		in := api.FluxRoleBinding{ID: b.ID, Role: b.Role, Subjects: subjects, Namespace: b.Namespace, Labels: b.Labels, Annotations: b.Annotations}
		if b.Namespace != "" {
			in.Role, in.NamespaceRole = "", b.Role
		}
		return in, nil
	},
	cluster: func(in *api.FluxRoleBinding) *api.FluxCluster { return &in.Cluster },
}

func (d *Document) roleBinding() *api.RoleBinding { return d.value.(*api.RoleBinding) }

// normalizeRoleBinding sets defaults, and converts a role binding's object to its stored form.
func normalizeRoleBinding(obj map[string]any) {
	unstructured.SetDefault(obj, "subjects", []any{}) // cleared by a merge patch
	unstructured.DropEmpty(obj, "namespace")
	for _, field := range []string{"labels", "annotations"} {
		if m, isMap := obj[field].(map[string]any); obj[field] == nil || isMap && len(m) == 0 {
			delete(obj, field)
		}
	}
	subjects, _ := obj["subjects"].([]any)
	for _, s := range subjects {
		subject, ok := s.(map[string]any)
		if !ok {
			continue
		}
		unstructured.DropEmpty(subject, "namespace", "apiGroup")
		unstructured.SetDefault(subject, "namespace", "")
		group := rbacGroup
		if subject["kind"] == "ServiceAccount" {
			group = ""
		}
		unstructured.SetDefault(subject, "apiGroup", group)
	}
}

// checkRoleBinding checks a role binding's document.
func checkRoleBinding(c *checker, d *Document) {
	b := d.roleBinding()
	c.rbacName("/id", b.ID)
	if reservedBinding(b.ID) {
		c.problem("/id", "the name %q belongs to Kubernetes or Flux; choose another", b.ID)
	}
	if strings.Contains(b.ID, "__") {
		c.problem("/id", "must not contain two underscores in a row: Flux's inventory reads them as a colon")
	}
	c.rbacName("/role", b.Role)
	if b.Namespace != "" {
		c.dnsLabel("/namespace", b.Namespace)
	}
	c.objectMetadata(b.Labels, b.Annotations)
	c.atMost("/subjects", len(b.Subjects), maxSubjects, "subjects")
	for i, s := range b.Subjects {
		if c.full() {
			return
		}
		checkSubject(c, jsontext.Pointer("subjects", i), s)
	}
}

// reservedBinding reports whether Kubernetes itself or Flux owns a ClusterRoleBinding of this name: applying ours over it,
// and later removing it, would remove permissions that the cluster needs.
func reservedBinding(id string) bool {
	for _, prefix := range []string{"system:", "kubeadm:", "flux-operator", "cluster-reconciler", "crd-controller"} {
		if strings.HasPrefix(id, prefix) {
			return true
		}
	}
	return id == "cluster-admin"
}

// checkSubject checks one subject by the rules of Kubernetes.
func checkSubject(c *checker, at string, s api.Subject) {
	if s.Name == "" {
		c.problem(at+"/name", "must not be empty")
	}
	switch s.Kind {
	case "ServiceAccount":
		if s.Name != "" {
			c.dnsSubdomain(at+"/name", s.Name)
		}
		if s.Namespace == "" {
			c.problem(at+"/namespace", "a ServiceAccount needs a namespace")
		} else {
			c.dnsLabel(at+"/namespace", s.Namespace)
		}
		if s.APIGroup != "" {
			c.problem(at+"/apiGroup", "must be empty for a ServiceAccount")
		}
	case "User", "Group":
		if s.Namespace != "" {
			c.problem(at+"/namespace", "only a ServiceAccount has a namespace")
		}
		if s.APIGroup != rbacGroup {
			c.problem(at+"/apiGroup", "must be %q for a %s", rbacGroup, s.Kind)
		}
	default:
		c.problem(at+"/kind", "must be User, Group or ServiceAccount")
	}
	c.text(at+"/name", s.Name, 1024)
}

// rbacName checks a name by the rules of Kubernetes' RBAC objects.
func (c *checker) rbacName(at, name string) {
	if name == "" {
		c.problem(at, "must not be empty")
		return
	}
	for _, msg := range content.IsPathSegmentName(name) {
		c.problem(at, "%s", msg)
	}
	c.text(at, name, 253)
}
