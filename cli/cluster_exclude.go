package cli

import (
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/exclusions"
	"github.com/urfave/cli/v2"
)

func (s clusterCommands) excludeCommand() *cli.Command {
	return &cli.Command{
		Name:      "exclude",
		Usage:     "Exclude a cluster from entries of its layers, or include it again",
		ArgsUsage: "CLUSTER KIND/ID...",
		Description: "KIND/ID is " + exclusions.Forms(fileKindsOf(definitions())) + ". A component is switched off instead, with component disable.\n\n" +
			args.ExampleText("cluster exclude demo-cluster-01 namespace/team-b resource/network-policies/podinfo --plan", "cluster exclude demo-cluster-01 namespace/team-b --off"),
		Flags: slices.Concat(writeFlags(), []cli.Flag{yesFlag(), &cli.BoolFlag{Name: "off", Usage: "include it again"}}, plannedFlags()),
		Action: func(c *cli.Context) error {
			operands := c.Args().Slice()
			if len(operands) < 2 {
				return args.Errorf("%s takes CLUSTER, and at least one KIND/ID", c.Command.HelpName)
			}
			if err := args.CheckID("CLUSTER", operands[0]); err != nil {
				return err
			}
			x, err := exclusions.Parse(fileKindsOf(definitions()), operands[1:])
			if err != nil {
				return err
			}
			v := kindCommands{s.session, clusters}
			return v.performOn(c, v.documentKind, change{recomputed: true, operations: func(conn client) ([]operation, error) {
				now, err := receive(conn.GetCluster(c.Context, operands[0], nil))
				if err != nil {
					return nil, err
				}
				was, err := exclusions.Read(now.body)
				patch := map[string]any{"excludes": x.Patch(was, c.Bool("off"))}
				return []operation{v.operation("patch", operands[0], map[string]any{"patch": patch, "if_match": now.etag})}, err
			}})
		},
	}
}
