package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/windows"
	"github.com/urfave/cli/v2"
)

// freezeAll is the name of the freeze that freeze --all creates without a name.
const freezeAll = "all"

func (s rolloutCommands) freezeCommand() *cli.Command {
	return &cli.Command{
		Name: "freeze", Aliases: []string{"freezes"}, Usage: "Refuse changes of what some or all clusters are served, always or outside maintenance windows",
		Flags: append(freezeFlags(), change.DryRunFlag()),
		Description: "--all freezes the whole fleet at once: until unfreeze --all, every change of what a cluster is served is refused, whoever\n" +
			"makes it. Clusters keep what they are served. --override-freeze on a change overrides it.\n\n" +
			args.ExampleText("freeze --all --reason 'outage of the registry'", "unfreeze --all", "freeze create year-end --selector environment=prod --from 2026-12-20T00:00:00Z --until 2027-01-04T06:00:00Z --reason CHG-2026",
				"freeze create prod-hours --selector environment=prod --allow 'tue-thu 10:00-16:00 Europe/Berlin' --reason 'changes in office hours'"),
		Action: args.WithOperands(func(c *cli.Context, _ []string) error {
			if !c.Bool("all") {
				return args.Errorf("%s needs --all, or a subcommand: create takes a name and a selector", c.Command.HelpName)
			}
			return s.createFreeze(c, map[string]any{"id": freezeAll})
		}),
		Subcommands: []*cli.Command{
			{
				Name: "create", Usage: "Freeze the clusters of a selector, or all", ArgsUsage: "NAME", Flags: append(freezeFlags(), change.DryRunFlag()),
				Description: "cluster pin delays changes in place of refusing them. With --allow or --block the freeze repeats every week, and\n" +
					"always permits to revert a change or to take a rollout back.\n\n" +
					args.ExampleText("freeze create year-end --selector environment=prod --until 2027-01-04T06:00:00Z --reason CHG-2026",
						"freeze create prod-hours --selector environment=prod --allow 'tue-thu 10:00-16:00 ${vars.timezone}' --reason 'changes in office hours'"),
				Action: args.WithOperands(func(c *cli.Context, ids []string) error {
					return s.createFreeze(c, map[string]any{"id": ids[0]})
				}),
			},
			{
				Name: "set", Usage: "Change the clusters, the times, the windows or the reason of a freeze", ArgsUsage: "NAME", Flags: append(freezeFlags(), change.WriteFlags()...),
				Description: "--allow and --block replace all windows of the freeze; an empty one removes them.\n\n" +
					args.ExampleText("freeze set year-end --until 2027-01-05T06:00:00Z", "freeze set prod-hours --allow 'mon-thu 9:00-16:00 Europe/Berlin' --allow 'fri 9:00-12:00 Europe/Berlin'"),
				Action: args.WithOperands(func(c *cli.Context, ids []string) error {
					body, err := s.freezeBody(c)
					if err != nil {
						return err
					}
					if c.IsSet("all") {
						body["selector"] = nil
					} else if c.IsSet("selector") {
						body["all"] = nil
					}
					return s.writeFreeze(c, kinds.Freezes.Operation("patch", ids[0], map[string]any{"patch": body}))
				}),
			},
		},
	}
}

func freezeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "all", Usage: "all clusters"},
		&cli.StringFlag{Name: "selector", Aliases: []string{"l"}, Usage: "the clusters with these labels, `SELECTOR` as in get clusters"},
		&cli.StringFlag{Name: "from", Usage: "begin at this `TIME`, such as 2026-12-20T00:00:00Z, or 12h or 7d from now; default: at once"},
		&cli.StringFlag{Name: "until", Usage: "end at this `TIME`, likewise; default: with unfreeze"},
		&cli.StringSliceFlag{Name: "allow", Usage: "a maintenance `WINDOW` in which changes are permitted: '[DAYS ]FROM-TO[ ZONE]', where ${vars.NAME} for the zone is a variable of each cluster; repeat for more"},
		&cli.StringSliceFlag{Name: "block", Usage: "a `WINDOW` in which changes are refused; it wins over --allow. Without --allow, changes are permitted outside of it"},
	}
}

// freezeBody returns the fields that flags set.
func (s rolloutCommands) freezeBody(c *cli.Context) (map[string]any, error) {
	body := map[string]any{}
	for _, name := range []string{"selector", "reason"} {
		if c.IsSet(name) {
			body[name] = c.String(name)
		}
	}
	for _, name := range []string{"from", "until"} {
		if c.IsSet(name) {
			at, err := args.FutureTime(name, c.String(name), s.Env.Now())
			if err != nil {
				return nil, err
			}
			body[name] = render.Time(at)
		}
	}
	for _, name := range []string{"allow", "block"} {
		if !c.IsSet(name) {
			continue
		}
		var list []api.Window
		for _, text := range c.StringSlice(name) {
			if text == "" { // removes them
				continue
			}
			w, err := windows.Parse(text)
			if err != nil {
				return nil, args.Errorf("--%s: %v", name, err)
			}
			list = append(list, w)
		}
		body[name] = list
	}
	if c.Bool("all") {
		body["all"] = true
	}
	return body, nil
}

// createFreeze creates a freeze from the flags and the fields in body.
func (s rolloutCommands) createFreeze(c *cli.Context, body map[string]any) error {
	if c.String("reason") == "" {
		return args.Errorf("%s needs --reason: each refused change states it", c.Command.HelpName)
	}
	fields, err := s.freezeBody(c)
	if err != nil {
		return err
	}
	maps.Copy(body, fields)
	return s.writeFreeze(c, change.Operation{"op": "create", "kind": kinds.Freezes.API, "document": body})
}

// writeFreeze creates or changes a freeze.
func (s rolloutCommands) writeFreeze(c *cli.Context, op change.Operation) error {
	return s.PerformOn(c, kinds.Freezes, change.Change{Operations: change.FixedOperations(op)})
}

// endFreezeCommand returns a command that deletes a freeze.
func (s rolloutCommands) endFreezeCommand(name, usage string) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, ArgsUsage: "NAME", Flags: slices.Concat(change.WriteFlags(), []cli.Flag{change.YesFlag()}, change.ActionFlags()),
		Action: args.WithOperands(func(c *cli.Context, ids []string) error {
			return s.endFreeze(c, ids[0])
		}),
	}
}

// endFreeze deletes a freeze according to the flags of a change.
func (s rolloutCommands) endFreeze(c *cli.Context, id string) error {
	return s.PerformOn(c, kinds.Freezes, change.Change{
		Operations:  change.FixedOperations(kinds.Freezes.Operation("delete", id, nil)),
		Description: "end the freeze \"" + id + "\"", UnconfirmedInScripts: true,
		Show: func(_ conn.Client, a conn.Answer) error {
			results, err := change.ResultsOf(a)
			if err != nil {
				return err
			}
			var freeze api.Freeze // as it was
			if err := json.Unmarshal(results[0].Document, &freeze); err != nil {
				return fmt.Errorf("unexpected response of the server: %w", err)
			}
			freeze.State, freeze.Frozen = "ended", 0
			ended, err := json.Marshal(freeze)
			if err != nil {
				return err
			}
			return s.PrintChange(c, kinds.Freezes.Output(ended))
		},
	})
}

// unfreezeCommand returns the command that ends a freeze by its name, or the freeze of the whole fleet.
func (s rolloutCommands) unfreezeCommand() *cli.Command {
	cmd := s.endFreezeCommand("unfreeze", "End a freeze")
	cmd.ArgsUsage = "[NAME]"
	cmd.Flags = append(cmd.Flags, &cli.BoolFlag{Name: "all", Usage: "the freeze that freeze --all created"})
	cmd.Description = args.ExampleText("unfreeze --all", "unfreeze year-end")
	cmd.Action = func(c *cli.Context) error {
		if c.Bool("all") {
			if _, err := args.Operands(c); err != nil {
				return err
			}
			return s.endFreeze(c, freezeAll)
		}
		ids, err := args.Operands(c, "NAME")
		if err != nil {
			return err
		}
		return s.endFreeze(c, ids[0])
	}
	return cmd
}
