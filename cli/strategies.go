package cli

import (
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/urfave/cli/v2"
)

func (s rolloutCommands) strategyCommand() *cli.Command {
	flags := func(own ...cli.Flag) []cli.Flag {
		return slices.Concat([]cli.Flag{
			&cli.StringSliceFlag{Name: "stage", Usage: "a `STAGE` NAME=SELECTOR[:COUNT or :PERCENT%][:soak=DURATION][:approve], such as 'prod=environment=prod:10%:approve'; * selects all clusters; repeat in the order of the stages"},
			&cli.StringFlag{Name: "description", Usage: "description for people"}, change.FileFlag("the strategy, with the gates of its stages"),
		}, own)
	}
	return &cli.Command{
		Name: "strategy", Aliases: []string{"strategies"}, Usage: "Strategies: stages with a name, which rollouts copy",
		Subcommands: []*cli.Command{
			{
				Name: "create", Usage: "Create a strategy", ArgsUsage: "NAME", Flags: flags(change.DryRunFlag()),
				Description: "A file also has what no flag sets:\n\n" +
					"    stages:\n    - {name: dev, selector: environment=dev, gate: {soak: 24h, deadline: 26h}}\n    - {name: prod, selector: environment=prod, approval: true}\n\n" +
					args.ExampleText("strategy create waves --stage dev=environment=dev --stage 'prod-10=environment=prod:10%'", "strategy create waves -f waves.yaml"),
				Action: func(c *cli.Context) error {
					return s.writeStrategy(c, "create")
				},
			},
			{
				Name: "set", Usage: "Replace the stages or the description of a strategy; rollouts keep their stages", ArgsUsage: "NAME", Flags: flags(change.WriteFlags()...),
				Action: func(c *cli.Context) error {
					return s.writeStrategy(c, "update")
				},
			},
		},
	}
}

// writeStrategy sends a strategy with the stages and the description of the flags.
func (s rolloutCommands) writeStrategy(c *cli.Context, op string) error {
	id, body, err := s.DocumentFrom(c, kinds.Strategies)
	if err != nil {
		return err
	}
	if err := change.AddStages(c, body); err != nil {
		return err
	}
	if c.IsSet("description") {
		body["description"] = c.String("description")
	}
	return s.PerformOn(c, kinds.Strategies, change.Change{Operations: change.FixedOperations(kinds.Strategies.Operation(op, id, map[string]any{"document": body}))})
}
