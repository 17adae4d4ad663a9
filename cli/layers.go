package cli

import (
	"fmt"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

func (s *session) layerCommand() *cli.Command {
	return kindCommands{s, kinds.Layers}.documentCommand(s.layerClustersCommand(), s.adoptCommand())
}

// layerClustersCommand lists the clusters that match a layer.
func (s *session) layerClustersCommand() *cli.Command {
	return &cli.Command{
		Name: "clusters", Usage: "List the clusters that a layer matches", ArgsUsage: "NAME",
		Action: s.Connected(func(c *cli.Context, client conn.Client, operands []string) error {
			view := "clusters"
			doc, err := conn.ReceiveAs[api.Layer](client.GetLayer(c.Context, operands[0], &api.GetLayerParams{View: &view}))
			if err != nil {
				return err
			}
			t := render.Table{Header: []string{"ID"}}
			var names []string
			for _, id := range doc.Clusters {
				t.Rows, names = append(t.Rows, []string{id}), append(names, kinds.Clusters.Name+"/"+id)
			}
			return s.Print(c, render.Output{
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
	v := kindCommands{s, kinds.Layers}
	return &cli.Command{
		Name: "adopt", Usage: "Move the settings that all clusters of a layer share from their documents into the layer; their inputs stay the same",
		ArgsUsage: "NAME",
		Description: "With fields, the layer is created or changed first, in the same change. Entries that differ only in their settings, and come " +
			"first, move to the layer, and the settings stay on the clusters. Values that a field manager owns stay.\n\n" +
			args.ExampleText("layer adopt base --priority 100 --all --plan", "layer adopt prod --priority 200 --selector environment=prod"),
		Flags: slices.Concat(kinds.FlagsOf(v.Fields), []cli.Flag{change.FileFlag("the layer"), change.DryRunFlag(), change.YesFlag()}, change.PlannedFlags()),
		Action: func(c *cli.Context) error {
			id, doc, err := v.DocumentFrom(c, v.Kind)
			if err != nil {
				return err
			}
			ops := []change.Operation{{"op": "adopt", "layers": []string{id}}}
			if len(doc) > 1 { // more than its id
				ops = append(v.ChangeOperations("put", id, doc), ops...)
			}
			return v.Perform(c, change.Change{
				Operations: change.FixedOperations(ops...), Description: fmt.Sprintf("move the shared settings of layer %q's clusters into it", id), UnconfirmedInScripts: true,
			})
		},
	}
}
