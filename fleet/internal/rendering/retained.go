package rendering

import (
	"slices"
	"strings"
)

// A template decides on the fate of its objects when the input is removed: Flux deletes those without this annotation.
const (
	PruneKey      = "fluxcd.controlplane.io/prune"
	PruneDisabled = "disabled"
	reconcileKey  = "fluxcd.controlplane.io/reconcile"
)

// Handling describes how Flux treats an object of a template.
type Handling struct {
	Kept    bool // Flux keeps the object when the input is removed
	Opened  bool // it is a ResourceSet whose objects are known
	Guarded bool // its ResourceSet waits for an object whose field managers it has checked, so it takes over no object
}

// enclosing is the ResourceSet that creates an object.
type enclosing struct {
	depth int
	set   string // its name, after those of the ResourceSets around it
	kept  bool   // by its common metadata
	// skipped: a ResourceSet does not apply an object with the annotation reconcileKey, so Flux deletes one that it has applied.
	skipped bool
	guards  []Object
}

// disablesPrune reports whether annotations make Flux keep the object.
func disablesPrune(metadata map[string]any) bool {
	annotations, _ := metadata["annotations"].(map[string]any)
	return annotations[PruneKey] == PruneDisabled
}

// enclose describes a ResourceSet for the objects in it.
func enclose(set Object, spec map[string]any, kept bool, around enclosing) enclosing {
	common, _ := spec["commonMetadata"].(map[string]any)
	in := enclosing{depth: around.depth + 1, set: around.set + set.Namespace + "/" + set.Name + "\n", kept: kept || disablesPrune(common), skipped: around.skipped}
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
func (r *Result) handle(o Object, h Handling) {
	if r.Handling == nil {
		r.Handling = map[Object]Handling{}
	}
	if other, present := r.Handling[o]; present {
		h = Handling{h.Kept && other.Kept, h.Opened && other.Opened, h.Guarded && other.Guarded}
	}
	r.Handling[o] = h
}

// Deleted returns the objects that Flux deletes when the input is removed.
func (r *Result) Deleted() []Object {
	return slices.DeleteFunc(slices.Clone(r.Objects), func(o Object) bool { return r.Handling[o].Kept || r.Handling[o].Opened })
}
