package cli

import (
	"encoding/json"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/fleetview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

func (s ownershipCommands) ownershipCommand() *cli.Command {
	return &cli.Command{
		Name: "ownership", Usage: "Show which manager owns which values of a component on a cluster",
		ArgsUsage: "CLUSTER COMPONENT",
		Action: s.Connected(func(c *cli.Context, client conn.Client, operands []string) error {
			a, err := conn.Receive(client.GetPatches(c.Context, operands[0], operands[1], nil))
			if err != nil {
				return err
			}
			out, err := ownershipOf(a.Body, operands[0], operands[1])
			if err != nil {
				return err
			}
			return s.Print(c, out)
		}),
	}
}

func (s ownershipCommands) relinquishCommand() *cli.Command {
	return &cli.Command{
		Name: "relinquish", Usage: "Release every value that a manager owns of a component on clusters; values without another owner are removed",
		ArgsUsage: "NAME " + change.TargetsUsage,
		Flags: slices.Concat(change.TargetFlags(), []cli.Flag{
			fieldManagerFlag("the `MANAGER` (required)"),
			&cli.BoolFlag{Name: "retain", Usage: "keep the values, without an owner"}, change.YesFlag(),
		}, change.WriteFlags(), change.PlannedFlags()),
		Action: func(c *cli.Context) error {
			id, on, err := change.AssignmentOf(c)
			if err != nil {
				return err
			}
			manager, err := args.Required(c, "field-manager")
			if err != nil {
				return err
			}
			fields := kinds.WithID(kinds.Components, id, map[string]any{"field_manager": manager})
			if c.Bool("retain") {
				fields["retain"] = true
			}
			ch := change.Change{Operations: on.Planner("relinquish_values", fields)}
			if cluster, single := on.Single(); single && !c.IsSet("plan-hash") {
				ch.Show = func(_ conn.Client, a conn.Answer) error {
					results, err := change.ResultsOf(a)
					if err != nil {
						return err
					}
					out, err := ownershipOf(results[0].Patches, cluster, id)
					if err != nil {
						return err
					}
					return s.PrintChange(c, out)
				}
			}
			return s.OnTargets(c, on, ch)
		},
	}
}

// ownershipOf decodes values with their managers as output.
func ownershipOf(document json.RawMessage, cluster, component string) (render.Output, error) {
	var owned api.OwnedPatches
	err := conn.Answer{Body: document}.Decode(&owned)
	return fleetview.Ownership(owned, document, kinds.Clusters.Name+"/"+cluster, kinds.Components.Name+"/"+component), err
}
