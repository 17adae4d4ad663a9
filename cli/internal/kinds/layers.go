package kinds

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Layers are the documents with settings that clusters share.
var Layers = Kind{
	API: "layer", Schema: "Layer", Name: "layer", Plural: "layers", Title: "layer", List: "layers", Aliases: []string{"layers"},
	Usage:   "Layers: shared settings for all clusters that match a selector",
	Example: "layer create prod-eu --priority 200 --selector environment=prod,region=eu --namespace observability",
	Fields: slices.Concat([]Field{
		textField("description", "description", "description for people"),
		numberField("priority", "priority", "`NUMBER` that no other layer has; the higher one wins"),
		textField("selector", "selector", "which clusters: a label `SELECTOR`, also over environment and id; instead of --all"),
		boolField("all", "all", "every cluster"),
		variablesField("variable of these clusters"),
	}, referenceFields("%s that these clusters have"), formerReferenceFields(), []Field{
		boolField("deletion-protection", "deletion_protection", "protect these clusters, independent of their documents"),
	}),
	View:  layerView(),
	Calls: conn.Calls{Path: "/layers"},
}

// formerReferenceFields are the plural names that the flags of layers had before those of clusters.
func formerReferenceFields() []Field {
	var fields []Field
	for _, n := range Definitions() {
		fields = append(fields, parsedField(n.Name+"s", n.List, "former name of --"+n.Name, input.References).hidden())
	}
	return fields
}

// layerView counts the entries of each kind.
func layerView() render.View {
	return render.View{
		Header: slices.Concat([]string{"ID", "PRIORITY", "CLUSTERS"}, countHeader(), []string{"REVISION", "RESOURCES", "DESCRIPTION", "UPDATED"}),
		Narrow: 4 + len(Definitions()),
		Row: func(raw json.RawMessage) ([]string, error) {
			counts, err := countCells(raw)
			if err != nil {
				return nil, err
			}
			return render.RowOf(func(d api.Layer) []string {
				which := d.Selector
				if d.All {
					which = "all"
				}
				resources := 0
				for _, entries := range d.Resources {
					resources += len(entries)
				}
				return slices.Concat([]string{d.ID, strconv.Itoa(d.Priority), which}, counts, []string{
					strconv.FormatInt(d.Revision, 10), strconv.Itoa(resources), d.Description, render.Time(d.UpdatedAt),
				})
			})(raw)
		},
	}
}
