package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// strategies are named stages, which rollouts copy.
var strategies = documentKind{
	kind: "strategy", schema: "Strategy", name: "strategy", plural: "strategies", title: "strategy",
	view: render.View{
		Header: []string{"ID", "STAGES", "REVISION", "DESCRIPTION", "UPDATED"},
		Narrow: 3,
		Row: render.RowOf(func(d api.Strategy) []string {
			stages := make([]string, len(d.Stages))
			for i, s := range d.Stages {
				stages[i] = s.Name
			}
			return []string{d.ID, strings.Join(stages, ", "), strconv.FormatInt(d.Revision, 10), d.Description, render.Time(d.UpdatedAt)}
		}),
	},
	list: "strategies", api: calls{path: "/strategies", revisions: "strategy"},
}

func (s rolloutCommands) strategyCommand() *cli.Command {
	v := kindCommands{s.session, strategies}
	flags := func(own ...cli.Flag) []cli.Flag {
		return slices.Concat([]cli.Flag{
			&cli.StringSliceFlag{Name: "stage", Usage: "a `STAGE` NAME=SELECTOR, NAME=SELECTOR:10% or NAME=SELECTOR:3 (clusters); * selects all; repeat in the order of the stages"},
			&cli.StringFlag{Name: "description", Usage: "description for people"}, fileFlag("the strategy, with approvals and gates of its stages"),
		}, own)
	}
	return &cli.Command{
		Name: "strategy", Aliases: []string{"strategies"}, Usage: "Strategies: stages with a name, which rollouts copy",
		Subcommands: []*cli.Command{
			{
				Name: "create", Usage: "Create a strategy", ArgsUsage: "NAME", Flags: flags(dryRunFlag()),
				Description: "A file also has what no flag sets:\n\n" +
					"    stages:\n    - {name: dev, selector: environment=dev, gate: {soak: 24h, deadline: 26h}}\n    - {name: prod, selector: environment=prod, approval: true}\n\n" +
					args.ExampleText("strategy create waves --stage dev=environment=dev --stage 'prod-10=environment=prod:10%'", "strategy create waves -f waves.yaml"),
				Action: func(c *cli.Context) error {
					return s.writeStrategy(c, "create")
				},
			},
			v.listCommand(), v.getCurrentCommand(), v.historyCommand(), v.editCommand(),
			{
				Name: "set", Usage: "Replace the stages or the description of a strategy; rollouts keep their stages", ArgsUsage: "NAME", Flags: flags(writeFlags()...),
				Action: func(c *cli.Context) error {
					return s.writeStrategy(c, "update")
				},
			},
			v.deleteUnservedCommand("Delete a strategy; rollouts keep their stages"),
		},
	}
}

// writeStrategy sends a strategy with the stages and the description of the flags.
func (s rolloutCommands) writeStrategy(c *cli.Context, op string) error {
	id, body, err := s.documentFrom(c, strategies)
	if err != nil {
		return err
	}
	if err := addStages(c, body); err != nil {
		return err
	}
	if c.IsSet("description") {
		body["description"] = c.String("description")
	}
	return s.performOn(c, strategies, change{operations: fixedOperations(strategies.operation(op, id, map[string]any{"document": body}))})
}
