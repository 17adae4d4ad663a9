package cli

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/urfave/cli/v2"
)

func clusterFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "cluster", Usage: usage}
}

// createCommand creates a definition. With --cluster or --layer it also assigns it, one that exists as it is.
func (v kindCommands) createCommand() *cli.Command {
	var values []cli.Flag
	if v.Values {
		values = newValueFlags()
	}
	return &cli.Command{
		Name:      "create",
		Usage:     fmt.Sprintf("Create a %s; with --cluster or --layer create it if it does not exist, and assign it", v.Title),
		ArgsUsage: "NAME", Description: args.ExampleText(v.Example),
		Flags: slices.Concat(kinds.FlagsOf(v.Fields), kinds.FlagsOf(v.Overrides), values, []cli.Flag{
			clusterFlag("assign it to this `CLUSTER` too, in the same change"),
			&cli.StringFlag{Name: "layer", Usage: "or to this `LAYER`"}, updateFlag(), change.FileFlag("the document"), change.DryRunFlag(), change.YesFlag(),
		}, change.PlannedFlags()),
		Action: func(c *cli.Context) error {
			id, doc, err := v.DocumentFrom(c, v.Kind)
			if err != nil {
				return err
			}
			on, err := assignedTo(c)
			if err != nil {
				return err
			}
			return v.createAndAssign(c, id, doc, v.Overrides, on)
		},
	}
}

// createAndAssign prints the definition; definition and cluster as one document with --cluster; the batch's result with --layer.
func (v kindCommands) createAndAssign(c *cli.Context, id string, doc map[string]any, settings []kinds.Field, on change.Targets) error {
	given, err := settingsOf(c, settings)
	if err != nil {
		return err
	}
	var values map[string]any
	if v.Values {
		values, err = componentCommands{v.session}.catalogValues(c, id, doc)
	}
	if err != nil {
		return err
	}
	setValues := componentCommands{v.session}.catalogValueOperations(id, values)
	if !c.Bool("update") {
		setValues = nil
		if len(values) > 0 {
			doc["patches"] = values
		}
	}
	if len(on.Ids)+len(on.Layers) == 0 {
		if len(given) > 0 {
			return args.Errorf("%s are settings of an assignment; name its --cluster or --layer", kinds.FlagNames(settings))
		}
		return v.create(c, id, doc, setValues...)
	}
	ch := v.creation(c, id, doc, "to assign it unchanged, omit these fields; --update changes it for every cluster, and --update --plan shows the effect.",
		append(setValues, on.Operation(v.AssignOperation("assign"), kinds.WithID(v.Kind, id, given)))...)
	if cluster, ok := on.Single(); ok {
		ch.Show = func(_ conn.Client, a conn.Answer) error {
			results, err := change.ResultsOf(a)
			if err != nil {
				return err
			}
			last := len(results) - 1
			return v.printPair(c, assignment{id: id, settings: settings, given: given}, cluster, results[last-1].Document, results[last].Document)
		}
	}
	return v.Perform(c, ch)
}

// assignedTo returns the cluster or the layer to which a new definition is assigned; the zero value without one.
func assignedTo(c *cli.Context) (on change.Targets, err error) {
	for _, to := range []struct {
		flag string
		ids  *[]string
	}{{"cluster", &on.Ids}, {"layer", &on.Layers}} {
		if !c.IsSet(to.flag) {
			continue
		}
		if c.String(to.flag) == "" {
			return on, args.Errorf("--%s must not be empty", to.flag)
		}
		if err := args.CheckID("--"+to.flag, c.String(to.flag)); err != nil {
			return on, err
		}
		*to.ids = []string{c.String(to.flag)}
	}
	if len(on.Ids) > 0 && len(on.Layers) > 0 {
		return on, args.Errorf("%s takes --cluster or --layer, not both", c.Command.HelpName)
	}
	return on, nil
}

// printPair prints a definition and the cluster to which it was assigned as one document.
func (v kindCommands) printPair(c *cli.Context, a assignment, cluster string, definition, on json.RawMessage) error {
	members := []byte(fmt.Sprintf(`{%q:`, v.Name))
	members = append(members, definition...)
	members = append(members, `,"cluster":`...)
	members = append(append(members, on...), '}')
	if err := v.noteKeptSettings(a, cluster, on); err != nil {
		return err
	}
	return v.PrintChange(c, render.Output{
		Document: members,
		Tables: func() ([]render.Table, error) {
			first, err := v.View.Table(definition)
			if err != nil {
				return nil, err
			}
			second, err := kinds.Clusters.View.Table(on)
			return []render.Table{first, second}, err
		},
		Names: func() ([]string, error) {
			names, err := v.Names(definition)
			if err != nil {
				return nil, err
			}
			more, err := kinds.Clusters.Names(on)
			return append(names, more...), err
		},
	})
}

func (v kindCommands) assignCommand() *cli.Command {
	settings := v.Overrides
	if v.Assigned != nil {
		settings = v.Assigned
	}
	usage, flags := fmt.Sprintf("Assign a %s to clusters", v.Title), kinds.FlagsOf(settings)
	if len(settings) > 0 {
		usage += ", or change the given settings of its assignment; the others stay"
		flags = append(flags, resetFlag())
	}
	cmd := &cli.Command{
		Name:      "assign",
		Usage:     usage,
		ArgsUsage: "NAME " + change.AssigningUsage,
		Action: func(c *cli.Context) error {
			id, on, err := change.AssignmentOf(c)
			if err != nil {
				return err
			}
			given, err := settingsOf(c, settings)
			if err != nil {
				return err
			}
			if v.Values && slices.ContainsFunc(slices.Concat(valueFlags(), ownerFlags()), func(f cli.Flag) bool { return c.IsSet(f.Names()[0]) }) {
				return v.assignWithValues(c, assignment{id: id, given: given}, on)
			}
			if len(settings) == 0 {
				return v.OnTargets(c, on, change.Change{Operations: on.Planner(v.AssignOperation("assign"), kinds.WithID(v.Kind, id, nil))})
			}
			return v.assignWith(c, assignment{id: id, settings: settings, given: given}, on)
		},
	}
	if v.Values {
		flags = slices.Concat(flags, valueFlags(), ownerFlags())
		cmd.Description = args.ExampleText("component assign redis --layer web --component-version 20.1.0 --set replicas=3 --plan")
	}
	cmd.Flags = slices.Concat(change.AssigningFlags(), flags, change.WriteFlags(), []cli.Flag{change.YesFlag()}, change.PlannedFlags())
	return cmd
}

// assignWithValues assigns a component and changes its values, in one change.
func (v kindCommands) assignWithValues(c *cli.Context, a assignment, on change.Targets) error {
	switch {
	case c.Bool("reset"):
		return args.Errorf("--reset does not change patches: set values in a separate change, with component set")
	case c.IsSet("if-match"):
		return args.Errorf("--if-match applies to one document and its fields; set values in a separate change, with component set")
	}
	values, err := componentCommands{v.session}.valuesOperation(c, on, a.id)
	if err != nil {
		return err
	}
	return v.Perform(c, change.Change{Operations: change.FixedOperations(on.Operation(v.AssignOperation("assign"), kinds.WithID(v.Kind, a.id, a.given)), values)})
}

func (v kindCommands) unassignCommand() *cli.Command {
	return &cli.Command{
		Name:      "unassign",
		Usage:     fmt.Sprintf("Unassign a %s from clusters; Flux then removes %s", v.Title, v.Removed),
		ArgsUsage: "NAME " + change.AssigningUsage,
		Flags:     slices.Concat(change.AssigningFlags(), []cli.Flag{change.YesFlag()}, change.WriteFlags(), change.PlannedFlags()),
		Action: func(c *cli.Context) error {
			id, on, err := change.AssignmentOf(c)
			if err != nil {
				return err
			}
			_, single := on.Single()
			return v.OnTargets(c, on, change.Change{
				Operations:           on.Planner(v.AssignOperation("unassign"), kinds.WithID(v.Kind, id, nil)),
				Description:          fmt.Sprintf("unassign the %s %q from %s; Flux then removes %s", v.Title, id, on, v.Removed),
				UnconfirmedInScripts: single,
			})
		},
	}
}
