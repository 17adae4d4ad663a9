package rendering

import (
	"cmp"
	"slices"
	"strings"
)

// Object identifies an object on a cluster. It omits the version of the API: the object is the same in each version.
type Object struct{ Group, Kind, Namespace, Name string }

// The API group, the namespace and two kinds of Flux Operator.
const (
	FluxGroup       = "fluxcd.controlplane.io"
	FluxNamespace   = "flux-system"
	KindResourceSet = "ResourceSet"
	KindProvider    = "ResourceSetInputProvider"

	sourceGroup = "source.toolkit.fluxcd.io"
)

// SystemNamespace reports whether Kubernetes or Flux owns a namespace.
func SystemNamespace(id string) bool {
	return id == "default" || id == "flux-system" || strings.HasPrefix(id, "kube-")
}

// String returns the name in messages: "NetworkPolicy podinfo/web".
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// compareObjects orders objects.
func compareObjects(a, b Object) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Group, b.Group))
}

// refOf returns the object with this type and name.
func refOf(typ, names map[string]any) Object {
	var ref Object
	version, _ := typ["apiVersion"].(string)
	if group, _, grouped := strings.Cut(version, "/"); grouped {
		ref.Group = group
	}
	ref.Kind, _ = typ["kind"].(string)
	ref.Name, _ = names["name"].(string)
	ref.Namespace, _ = names["namespace"].(string)
	return ref
}

// OwnSet reports whether each cluster has the object for a polled list: it has the name of the list.
func (o Object) OwnSet() bool {
	return o.Group == FluxGroup && o.Namespace == FluxNamespace && (o.Kind == KindResourceSet || o.Kind == KindProvider)
}

// ExistsEverywhere reports whether Kubernetes creates the object on each cluster, or in each namespace.
func (o Object) ExistsEverywhere() bool {
	system := strings.HasPrefix(o.Name, "system:")
	switch o.Group + "/" + o.Kind {
	case "/Namespace":
		return SystemNamespace(o.Name)
	case "/ServiceAccount":
		return o.Name == "default"
	case "/ConfigMap":
		return o.Name == "kube-root-ca.crt"
	case "/Service":
		return o.Namespace == "default" && o.Name == "kubernetes"
	case "rbac.authorization.k8s.io/ClusterRole":
		return system || slices.Contains([]string{"cluster-admin", "admin", "edit", "view"}, o.Name)
	case "rbac.authorization.k8s.io/ClusterRoleBinding":
		return system || o.Name == "cluster-admin"
	case "rbac.authorization.k8s.io/Role", "rbac.authorization.k8s.io/RoleBinding":
		return system
	case "scheduling.k8s.io/PriorityClass":
		return strings.HasPrefix(o.Name, "system-")
	}
	return false
}
