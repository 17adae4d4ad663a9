package fleetview

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Ownership returns values with their field managers as output. document is its JSON, names are those of -o name.
func Ownership(owned api.OwnedPatches, document json.RawMessage, names ...string) render.Output {
	owners := map[string][]string{}
	for manager, paths := range owned.Managers {
		for _, path := range paths {
			owners[path] = append(owners[path], cmp.Or(manager, "(anonymous)"))
		}
	}
	return render.Output{
		Document: document,
		Tables: func() ([]render.Table, error) {
			t := render.Table{Header: []string{"PATH", "VALUE", "OWNERS"}}
			for _, path := range render.SortedKeys(owned.Values) {
				slices.Sort(owners[path])
				t.Rows = append(t.Rows, []string{path, string(owned.Values[path]), strings.Join(owners[path], ",")})
			}
			return []render.Table{t}, nil
		},
		Names: func() ([]string, error) { return names, nil },
	}
}
