package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// layers are the documents with settings that clusters share.
var layers = documentKind{
	kind: "layer", schema: "Layer", name: "layer", plural: "layers", title: "layer", list: "layers", aliases: []string{"layers"},
	usage:   "Layers: shared settings for all clusters that match a selector",
	example: "layer create prod-eu --priority 200 --selector environment=prod,region=eu --namespace observability",
	fields: slices.Concat([]field{
		textField("description", "description", "description for people"),
		numberField("priority", "priority", "`NUMBER` that no other layer has; the higher one wins"),
		textField("selector", "selector", "which clusters: a label `SELECTOR`, also over environment and id; instead of --all"),
		boolField("all", "all", "every cluster"),
	}, referenceFields("%s that these clusters have"), formerReferenceFields(), []field{
		boolField("deletion-protection", "deletion_protection", "protect these clusters, independent of their documents"),
	}),
	view: layerView(),
	api:  calls{path: "/layers"},
}

// formerReferenceFields are the plural names that the flags of layers had before those of clusters.
func formerReferenceFields() []field {
	var fields []field
	for _, n := range definitions() {
		fields = append(fields, parsedField(n.name+"s", n.list, "former name of --"+n.name, input.References).hidden())
	}
	return fields
}

// layerView counts the entries of each kind.
func layerView() render.View {
	return render.View{
		Header: slices.Concat([]string{"ID", "PRIORITY", "CLUSTERS"}, countHeader(), []string{"REVISION", "RESOURCES", "DESCRIPTION", "UPDATED"}),
		Narrow: 4 + len(definitions()),
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

func (s *session) layerCommand() *cli.Command {
	v := kindCommands{s, layers}
	remove := v.deleteCommand()
	remove.Usage = "Delete a layer: its clusters lose the entries that only it assigned"
	remove.Flags = slices.DeleteFunc(remove.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), "cascade") })
	return v.documentCommand(remove, s.layerClustersCommand(), s.adoptCommand())
}

// layerClustersCommand lists the clusters that match a layer.
func (s *session) layerClustersCommand() *cli.Command {
	return &cli.Command{
		Name: "clusters", Usage: "List the clusters that a layer matches", ArgsUsage: "NAME",
		Action: s.connected(func(c *cli.Context, conn client, operands []string) error {
			view := "clusters"
			doc, err := receiveAs[api.Layer](conn.GetLayer(c.Context, operands[0], &api.GetLayerParams{View: &view}))
			if err != nil {
				return err
			}
			t := render.Table{Header: []string{"ID"}}
			var names []string
			for _, id := range doc.Clusters {
				t.Rows, names = append(t.Rows, []string{id}), append(names, clusters.name+"/"+id)
			}
			return s.print(c, render.Output{
				Document: append([]string{}, doc.Clusters...),
				Tables:   func() ([]render.Table, error) { return []render.Table{t}, nil },
				Names:    func() ([]string, error) { return names, nil },
			})
		}),
	}
}

// adoptCommand moves shared settings of clusters into a layer. Nothing changes on any cluster, so scripts need not confirm it; a
// person at a terminal sees the plan first.
func (s *session) adoptCommand() *cli.Command {
	v := kindCommands{s, layers}
	return &cli.Command{
		Name: "adopt", Usage: "Move the settings that all clusters of a layer share from their documents into the layer; their inputs stay the same",
		ArgsUsage: "NAME",
		Description: "With fields, the layer is created or changed first, in the same change. Entries that differ only in their settings, and come " +
			"first, move to the layer, and the settings stay on the clusters. Values that a field manager owns stay.\n\n" +
			args.ExampleText("layer adopt base --priority 100 --all --plan", "layer adopt prod --priority 200 --selector environment=prod"),
		Flags: slices.Concat(flagsOf(v.fields), []cli.Flag{fileFlag("the layer"), dryRunFlag(), yesFlag()}, plannedFlags()),
		Action: func(c *cli.Context) error {
			id, doc, err := v.documentFrom(c, v.documentKind)
			if err != nil {
				return err
			}
			ops := []operation{{"op": "adopt", "layers": []string{id}}}
			if len(doc) > 1 { // more than its id
				ops = slices.Insert(ops, 0, v.changeOperation("put", id, doc))
			}
			return v.perform(c, change{
				operations: fixedOperations(ops...), description: fmt.Sprintf("move the shared settings of layer %q's clusters into it", id), unconfirmedInScripts: true,
			})
		},
	}
}
