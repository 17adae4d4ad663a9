package cli

import (
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/urfave/cli/v2"
)

// demoCommand holds the short forms the demo uses.
func (s *session) demoCommand() *cli.Command {
	return &cli.Command{
		Name: "demo", Hidden: true, Usage: "Short forms of the demo's commands",
		Subcommands: []*cli.Command{
			{
				Name:      "add-namespace",
				Usage:     "Create a namespace if need be, and assign it to a cluster; as namespace create --cluster",
				ArgsUsage: "CLUSTER NAMESPACE",
				Flags:     slices.Concat(kinds.FlagsOf(kinds.Namespaces.Fields), []cli.Flag{updateFlag(), change.DryRunFlag(), change.YesFlag()}, change.PlannedFlags()),
				Action: args.WithOperands(func(c *cli.Context, operands []string) error {
					doc := map[string]any{"id": operands[1]}
					if err := kinds.CollectFields(c, kinds.Namespaces.Fields, doc); err != nil {
						return err
					}
					return kindCommands{s, kinds.Namespaces}.createAndAssign(c, operands[1], doc, nil, change.Targets{Ids: operands[:1]})
				}),
			},
			{
				Name:      "patch-component",
				Usage:     "Set and remove Helm values of a component on a cluster; as component set",
				ArgsUsage: "CLUSTER COMPONENT",
				Flags:     slices.Concat(valueFlags(), ownerFlags(), change.WriteFlags(), []cli.Flag{change.YesFlag()}, change.PlannedFlags()),
				Action: args.WithOperands(func(c *cli.Context, operands []string) error {
					return componentCommands{s}.patchValues(c, change.Targets{Ids: operands[:1]}, operands[1])
				}),
			},
			{
				Name:      "flux-namespaces",
				Usage:     "Show the namespaces as a cluster's Flux receives them; as inputs --type namespaces",
				ArgsUsage: "CLUSTER_DNS",
				Action: args.WithOperands(func(c *cli.Context, operands []string) error {
					return inputCommands{s}.printInputs(c, operands[0], kinds.Namespaces.Inputs.Name)
				}),
			},
		},
	}
}
