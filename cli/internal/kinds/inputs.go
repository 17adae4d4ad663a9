package kinds

import (
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
)

// InputType is one of the lists that a cluster's Flux polls.
type InputType struct {
	Name string
	View render.View
}

// InputTypes returns all lists in the order of the kinds.
func InputTypes() []InputType {
	var types []InputType
	for _, n := range Definitions() {
		types = append(types, n.Inputs)
	}
	return types
}

// InputTypeNames returns the names of all lists in the order of the kinds.
func InputTypeNames() []string {
	var names []string
	for _, t := range InputTypes() {
		names = append(names, t.Name)
	}
	return names
}
