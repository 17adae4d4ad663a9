package cli

import (
	"encoding/json"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/fleetview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// ownerFlags set the field manager of a change of values.
func ownerFlags() []cli.Flag {
	return []cli.Flag{
		fieldManagerFlag("own the given values as this `MANAGER`: other managers cannot change them without --force"),
		&cli.BoolFlag{Name: "force", Usage: "take over values that another manager owns, instead of failing"},
		&cli.BoolFlag{Name: "apply", Usage: "apply all values of this manager: its other values are removed, unless another manager owns them, too"},
	}
}

func fieldManagerFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "field-manager", Usage: usage}
}

// ownershipCommands show and release values of field managers.
type ownershipCommands struct{ *session }

func (s ownershipCommands) ownershipCommand() *cli.Command {
	return &cli.Command{
		Name: "ownership", Usage: "Show which manager owns which values of a component on a cluster",
		ArgsUsage: "CLUSTER COMPONENT",
		Action: s.connected(func(c *cli.Context, conn client, operands []string) error {
			a, err := receive(conn.GetPatches(c.Context, operands[0], operands[1], nil))
			if err != nil {
				return err
			}
			out, err := ownershipOf(a.body, operands[0], operands[1])
			if err != nil {
				return err
			}
			return s.print(c, out)
		}),
	}
}

func (s ownershipCommands) relinquishCommand() *cli.Command {
	return &cli.Command{
		Name: "relinquish", Usage: "Release every value that a manager owns of a component on clusters; values without another owner are removed",
		ArgsUsage: "NAME " + targetsUsage,
		Flags: slices.Concat(targetFlags(), []cli.Flag{
			fieldManagerFlag("the `MANAGER` (required)"),
			&cli.BoolFlag{Name: "retain", Usage: "keep the values, without an owner"}, yesFlag(),
		}, writeFlags(), plannedFlags()),
		Action: func(c *cli.Context) error {
			id, on, err := assignmentOf(c)
			if err != nil {
				return err
			}
			manager, err := required(c, "field-manager")
			if err != nil {
				return err
			}
			fields := withID(components, id, map[string]any{"field_manager": manager})
			if c.Bool("retain") {
				fields["retain"] = true
			}
			ch := change{operations: on.planner("relinquish_values", fields)}
			if cluster, single := on.single(); single && !c.IsSet("plan-hash") {
				ch.show = func(_ client, a answer) error {
					results, err := resultsOf(a)
					if err != nil {
						return err
					}
					out, err := ownershipOf(results[0].Patches, cluster, id)
					if err != nil {
						return err
					}
					return s.printChange(c, out)
				}
			}
			return s.onTargets(c, on, ch)
		},
	}
}

// ownershipOf decodes values with their managers as output.
func ownershipOf(document json.RawMessage, cluster, component string) (render.Output, error) {
	var owned api.OwnedPatches
	err := answer{body: document}.decode(&owned)
	return fleetview.Ownership(owned, document, clusters.name+"/"+cluster, components.name+"/"+component), err
}
