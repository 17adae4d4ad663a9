package cli

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/urfave/cli/v2"
)

func (s *session) deleteLayerCommand() *cli.Command {
	cmd := kindCommands{s, kinds.Layers}.deleteCommand()
	cmd.Usage = "Delete a layer: its clusters lose the entries that only it assigned"
	cmd.Flags = slices.DeleteFunc(cmd.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), "cascade") })
	return cmd
}

func (s *session) deleteResourceTypeCommand() *cli.Command {
	cmd := kindCommands{s, kinds.ResourceTypes}.deleteCommand()
	cmd.Usage = "Delete a resource type without definitions"
	for _, f := range cmd.Flags {
		if flag, ok := f.(*cli.BoolFlag); ok && flag.Name == "cascade" {
			flag.Usage = "delete its definitions, and unassign them from every cluster, in the same change"
		}
	}
	return cmd
}

// deleteCommand deletes a definition, which the server rejects while clusters use it. Without a terminal some kinds need no --yes,
// unless it cascades.
func (v kindCommands) deleteCommand() *cli.Command {
	return &cli.Command{
		Name: v.Name, Aliases: v.names(),
		Usage:     "Delete a " + v.Title + " that no cluster uses",
		ArgsUsage: "NAME",
		Flags: slices.Concat([]cli.Flag{
			&cli.BoolFlag{Name: "cascade", Usage: "unassign it from every cluster that uses it, in the same change"},
			change.YesFlag(),
		}, change.WriteFlags(), change.PlannedFlags()),
		Action: args.WithOperands(func(c *cli.Context, ids []string) error {
			what := fmt.Sprintf("delete the %s %q", v.Title, ids[0])
			if c.Bool("cascade") {
				what += ", also from every cluster that uses it"
			}
			return v.PerformOn(c, v.Kind, change.Change{
				Operations:  change.FixedOperations(v.Operation("delete", ids[0], map[string]any{"cascade": c.Bool("cascade")})),
				Description: what, UnconfirmedInScripts: v.Assignable != nil && v.UnconfirmedInScripts && !c.Bool("cascade"),
			})
		}),
	}
}

// deleteUnservedCommand deletes documents of a kind that no answer to a poll contains.
func (v kindCommands) deleteUnservedCommand(usage string) *cli.Command {
	return &cli.Command{
		Name: v.Name, Aliases: v.names(), Usage: usage, ArgsUsage: "NAME", Flags: append(change.WriteFlags(), change.YesFlag()),
		Action: args.WithOperands(func(c *cli.Context, ids []string) error {
			ch := change.Change{
				Operations:  change.FixedOperations(v.Operation("delete", ids[0], nil)),
				Description: fmt.Sprintf("delete the %s %q", v.Title, ids[0]), UnconfirmedInScripts: true,
			}
			if v.API == kinds.Rollouts.API { // batches do not take rollouts
				ch.Operations, ch.PlanRequest, ch.PrintsSummary = change.FixedOperations(), nil, true
				ch.Request = func(client conn.Client, _ string) (conn.Answer, error) {
					return conn.Receive(conn.Send(c.Context, client, http.MethodDelete, v.Calls.Document(ids[0]), nil, change.WriteEdits(c)))
				}
				ch.Show = func(_ conn.Client, a conn.Answer) error { return v.PrintChange(c, v.OutputOf(a.Body, a.Body)) }
			}
			return v.PerformOn(c, v.Kind, ch)
		}),
	}
}
