package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/charts"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestKindsComplete: an incomplete descriptor would break commands that no other test runs.
func TestKindsComplete(t *testing.T) {
	t.Parallel()
	flags := map[string]bool{}
	for _, f := range kinds.Clusters.Fields {
		flags[f.Flag] = true
	}
	resourceType := kinds.ResourcesOf(api.ResourceType{ID: "network-policies", Template: "x"})
	for _, n := range append(kinds.Definitions(), resourceType) {
		for what, text := range map[string]string{
			"kind": n.API, "name": n.Name, "plural": n.Plural, "title": n.Title, "list": n.List, "usage": n.Usage, "example": n.Example, "word": n.Word,
			"removed": n.Removed, "inputs' name": n.Inputs.Name,
		} {
			if text == "" {
				t.Errorf("%s has no %s", n.Name, what)
			}
		}
		if n.Inputs.View.Row == nil || n.View.Row == nil {
			t.Errorf("%s cannot be shown", n.Name)
		}
		if n.ResourceType != "" {
			if found, ok := kinds.Find(n.API); !ok || found.API != n.API {
				t.Errorf("%q stands for %q", n.API, found.API)
			}
			continue
		}
		if charts.ResourceSet(n.Inputs.Name) == "" { // the template of a resource type is in the fleet
			t.Errorf("%s has no template", n.Name)
		}
		if !flags[n.Name] || !slices.Contains(kinds.Clusters.View.Header, strings.ToUpper(n.Name)+"S") {
			t.Errorf("clusters have no flag or column for %s", n.Plural)
		}
		for _, word := range append([]string{n.API, n.Name, n.List}, n.Aliases...) {
			if found, ok := kinds.Find(word); !ok || found.API != n.API {
				t.Errorf("%q stands for %q", word, found.API)
			}
		}
		if args.FindCommand(testSession().app().Commands, n.Name) == nil {
			t.Errorf("there is no command %s", n.Name)
		}
	}
}
