package cli

import (
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/exclusions"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/urfave/cli/v2"
)

func (s clusterCommands) excludeCommand() *cli.Command {
	return &cli.Command{
		Name:      "exclude",
		Usage:     "Exclude a cluster from entries of its layers, or include it again",
		ArgsUsage: "CLUSTER KIND/ID...",
		Description: "KIND/ID is " + exclusions.Forms(kinds.ForFilesOf(kinds.Definitions())) + ". A component is switched off instead, with component set --enabled=false.\n\n" +
			args.ExampleText("cluster exclude demo-cluster-01 namespace/team-b resource/network-policies/podinfo --plan", "cluster exclude demo-cluster-01 namespace/team-b --off"),
		Flags: slices.Concat(change.WriteFlags(), []cli.Flag{change.YesFlag(), &cli.BoolFlag{Name: "off", Usage: "include it again"}}, change.PlannedFlags()),
		Action: func(c *cli.Context) error {
			operands := c.Args().Slice()
			if len(operands) < 2 {
				return args.Errorf("%s takes CLUSTER, and at least one KIND/ID", c.Command.HelpName)
			}
			if err := args.CheckID("CLUSTER", operands[0]); err != nil {
				return err
			}
			x, err := exclusions.Parse(kinds.ForFilesOf(kinds.Definitions()), operands[1:])
			if err != nil {
				return err
			}
			v := kindCommands{s.session, kinds.Clusters}
			return v.PerformOn(c, v.Kind, change.Change{Recomputed: true, Operations: func(client conn.Client) ([]change.Operation, error) {
				now, err := conn.Receive(client.GetCluster(c.Context, operands[0], nil))
				if err != nil {
					return nil, err
				}
				was, err := exclusions.Read(now.Body)
				patch := map[string]any{"excludes": x.Patch(was, c.Bool("off"))}
				return []change.Operation{v.Operation("patch", operands[0], map[string]any{"patch": patch, "if_match": now.Etag})}, err
			}})
		},
	}
}
