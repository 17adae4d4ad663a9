package fleet

import (
	"slices"
	"strings"
)

// A template decides on the fate of its objects when the input is removed: Flux deletes those without the annotation
// pruneKey.

const (
	pruneKey      = "fluxcd.controlplane.io/prune"
	pruneDisabled = "disabled"
)

// handling describes how Flux treats an object of a template.
type handling struct {
	kept    bool // Flux keeps the object when the input is removed
	opened  bool // it is a ResourceSet whose objects are known
	guarded bool // its ResourceSet waits for an object whose field managers it has checked, so it takes over no object
}

// enclosing is the ResourceSet that creates an object.
type enclosing struct {
	depth  int
	kept   bool // by its common metadata
	guards []objectRef
}

// disablesPrune reports whether annotations make Flux keep the object.
func disablesPrune(metadata map[string]any) bool {
	annotations, _ := metadata["annotations"].(map[string]any)
	return annotations[pruneKey] == pruneDisabled
}

// enclose describes a ResourceSet for the objects in it.
func enclose(spec map[string]any, kept bool, depth int) enclosing {
	common, _ := spec["commonMetadata"].(map[string]any)
	in := enclosing{depth: depth, kept: kept || disablesPrune(common)}
	dependencies, _ := spec["dependsOn"].([]any)
	for _, d := range dependencies {
		dependency, _ := d.(map[string]any)
		expression, _ := dependency["readyExpr"].(string)
		if strings.Contains(expression, "managedFields") {
			in.guards = append(in.guards, refOf(dependency, dependency))
		}
	}
	return in
}

// handle records how Flux treats an object. If several places create it, each must keep it.
func (r *rendered) handle(o objectRef, h handling) {
	if r.handling == nil {
		r.handling = map[objectRef]handling{}
	}
	if other, present := r.handling[o]; present {
		h = handling{h.kept && other.kept, h.opened && other.opened, h.guarded && other.guarded}
	}
	r.handling[o] = h
}

// deleted returns the objects that Flux deletes when the input is removed.
func (r *rendered) deleted() []objectRef {
	return slices.DeleteFunc(slices.Clone(r.objects), func(o objectRef) bool { return r.handling[o].kept || r.handling[o].opened })
}

// existsEverywhere reports whether Kubernetes creates the object on each cluster, or in each namespace.
func (o objectRef) existsEverywhere() bool {
	system := strings.HasPrefix(o.name, "system:")
	switch o.group + "/" + o.kind {
	case "/Namespace":
		return systemNamespace(o.name)
	case "/ServiceAccount":
		return o.name == "default"
	case "/ConfigMap":
		return o.name == "kube-root-ca.crt"
	case "/Service":
		return o.namespace == "default" && o.name == "kubernetes"
	case "rbac.authorization.k8s.io/ClusterRole":
		return system || slices.Contains([]string{"cluster-admin", "admin", "edit", "view"}, o.name)
	case "rbac.authorization.k8s.io/ClusterRoleBinding":
		return system || o.name == "cluster-admin"
	case "rbac.authorization.k8s.io/Role", "rbac.authorization.k8s.io/RoleBinding":
		return system
	case "scheduling.k8s.io/PriorityClass":
		return strings.HasPrefix(o.name, "system-")
	}
	return false
}
