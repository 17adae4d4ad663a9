package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/charts"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestKindsComplete: an incomplete descriptor would break commands that no other test runs.
func TestKindsComplete(t *testing.T) {
	t.Parallel()
	flags := map[string]bool{}
	for _, f := range clusters.fields {
		flags[f.flag] = true
	}
	resourceType := resourcesOf(api.ResourceType{ID: "network-policies", Template: "x"})
	for _, n := range append(definitions(), resourceType) {
		for what, text := range map[string]string{
			"kind": n.kind, "name": n.name, "plural": n.plural, "title": n.title, "list": n.list, "usage": n.usage, "example": n.example, "word": n.word,
			"removed": n.removed, "inputs' name": n.inputs.name,
		} {
			if text == "" {
				t.Errorf("%s has no %s", n.name, what)
			}
		}
		if n.inputs.view.Row == nil || n.view.Row == nil {
			t.Errorf("%s cannot be shown", n.name)
		}
		if n.resourceType != "" {
			if found, ok := findKind(n.kind); !ok || found.kind != n.kind {
				t.Errorf("%q stands for %q", n.kind, found.kind)
			}
			continue
		}
		if charts.ResourceSet(n.inputs.name) == "" { // the template of a resource type is in the fleet
			t.Errorf("%s has no template", n.name)
		}
		if !flags[n.name] || !slices.Contains(clusters.view.Header, strings.ToUpper(n.name)+"S") {
			t.Errorf("clusters have no flag or column for %s", n.plural)
		}
		for _, word := range append([]string{n.kind, n.name, n.list}, n.aliases...) {
			if found, ok := findKind(word); !ok || found.kind != n.kind {
				t.Errorf("%q stands for %q", word, found.kind)
			}
		}
		if args.FindCommand(testSession().app().Commands, n.name) == nil {
			t.Errorf("there is no command %s", n.name)
		}
	}
}
