package cli

import (
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/urfave/cli/v2"
)

// Values of catalog entries: the patches of a component's document.

// newValueFlags are the flags that set values of a new entry, whose -f is the document.
func newValueFlags() []cli.Flag {
	return slices.DeleteFunc(valueFlags(), func(f cli.Flag) bool {
		if file, ok := f.(*cli.StringSliceFlag); ok && file.Name == "values" {
			file.Aliases = nil
		}
		return f.Names()[0] == "unset"
	})
}

// catalogValues returns the values that flags set in a catalog entry, whose other fields are given; nil: no flag sets one.
func (s componentCommands) catalogValues(c *cli.Context, id string, given map[string]any) (map[string]any, error) {
	isSet := func(f cli.Flag) bool { return c.IsSet(f.Names()[0]) }
	if !slices.ContainsFunc(valueFlags(), isSet) {
		return nil, nil
	}
	if given["patches"] != nil {
		return nil, args.Errorf("values are in %s and in flags: use one of them", c.String("file"))
	}
	values, err := s.valuesFrom(c)
	if err != nil {
		return nil, err
	}
	for path, value := range values {
		if object, ok := value.(map[string]any); ok && hasNull(object) {
			return nil, args.Errorf("the value of %q has a null inside an object, which a change of the catalog cannot have: set each value at its path", path)
		}
	}
	return values, s.unquoteForKustomize(c, id, values, given)
}

// hasNull reports whether an object contains a null that a merge patch would drop. It replaces lists as a whole.
func hasNull(object map[string]any) bool {
	for _, value := range object {
		if inner, ok := value.(map[string]any); value == nil || ok && hasNull(inner) {
			return true
		}
	}
	return false
}

// catalogValueOperations returns operations that set values of a catalog entry, and keep its others.
func (s componentCommands) catalogValueOperations(id string, values map[string]any) []change.Operation {
	patch := func(values map[string]any) change.Operation {
		return kinds.Components.Operation("patch", id, map[string]any{"patch": map[string]any{"patches": values}})
	}
	removed := map[string]any{} // a merge patch would merge an object into the one that is there
	for path, value := range values {
		if _, ok := value.(map[string]any); ok {
			removed[path] = nil
		}
	}
	switch {
	case len(values) == 0:
		return nil
	case len(removed) == 0:
		return []change.Operation{patch(values)}
	}
	return []change.Operation{patch(removed), patch(values)}
}
