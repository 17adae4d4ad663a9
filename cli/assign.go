package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

func clusterFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "cluster", Usage: usage}
}

// updateFlag allows a command that creates and assigns a definition to change an existing one.
func updateFlag() cli.Flag {
	return &cli.BoolFlag{Name: "update", Usage: "when it exists with other values, change it for every cluster that uses it; otherwise that is an error where a cluster is named"}
}

// createCommand creates a definition, or changes an existing one. With --cluster it also assigns it, and then leaves an existing
// one unchanged.
func (v kindCommands) createCommand() *cli.Command {
	return &cli.Command{
		Name:      "create",
		Usage:     fmt.Sprintf("Create a %s, or change the given fields of an existing one; with --cluster or --layer create it if it does not exist, and assign it", v.title),
		ArgsUsage: "NAME", Description: args.ExampleText(v.example),
		Flags: slices.Concat(flagsOf(v.fields), flagsOf(v.overrides), []cli.Flag{
			clusterFlag("assign it to this `CLUSTER` too, in the same change"),
			&cli.StringFlag{Name: "layer", Usage: "or to this `LAYER`"}, updateFlag(), fileFlag("the document"), dryRunFlag(), yesFlag(),
		}, plannedFlags()),
		Action: func(c *cli.Context) error {
			id, doc, err := v.documentFrom(c, v.documentKind)
			if err != nil {
				return err
			}
			on, err := assignedTo(c)
			if err != nil {
				return err
			}
			return v.createAndAssign(c, id, doc, v.overrides, on)
		},
	}
}

// createAndAssign prints the definition; definition and cluster as one document with --cluster; the batch's result with --layer.
func (v kindCommands) createAndAssign(c *cli.Context, id string, doc map[string]any, settings []field, on targets) error {
	given, err := settingsOf(c, settings)
	if err != nil {
		return err
	}
	if len(on.ids)+len(on.layers) == 0 {
		if len(given) > 0 {
			return args.Errorf("%s are settings of an assignment; name its --cluster or --layer", flagNames(settings))
		}
		return v.performOn(c, v.documentKind, change{operations: fixedOperations(v.changeOperation("put", id, doc))})
	}
	put := v.changeOperation("put", id, doc)
	ch := change{operations: fixedOperations(put, on.operation(v.assignOperation("assign"), withID(v.documentKind, id, given)))}
	if !c.Bool("update") {
		// An existing one is left unchanged, because other clusters use it and this command is about one.
		put["if_absent"] = true
		ch.refused = func(conn client, err error) error { return v.explainConflict(c, conn, id, doc, err) }
	}
	if cluster, ok := on.single(); ok {
		ch.show = func(_ client, a answer) error {
			results, err := resultsOf(a)
			if err != nil {
				return err
			}
			return v.printPair(c, assignment{id: id, settings: settings, given: given}, cluster, results[0].Document, results[1].Document)
		}
	}
	return v.perform(c, ch)
}

// assignedTo returns the cluster or the layer to which a new definition is assigned; the zero value without one.
func assignedTo(c *cli.Context) (on targets, err error) {
	for _, to := range []struct {
		flag string
		ids  *[]string
	}{{"cluster", &on.ids}, {"layer", &on.layers}} {
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
	if len(on.ids) > 0 && len(on.layers) > 0 {
		return on, args.Errorf("%s takes --cluster or --layer, not both", c.Command.HelpName)
	}
	return on, nil
}

// explainConflict adds the fields in which an existing definition differs from the command line to a conflict about them.
func (v kindCommands) explainConflict(c *cli.Context, conn client, id string, doc map[string]any, refusal error) error {
	if apiclient.ErrorCode(refusal) != "conflict" {
		return refusal
	}
	found, err := receive(v.api.get(c.Context, conn, id))
	if err != nil {
		return refusal // it is about something else
	}
	return cmp.Or(checkSameFields(v.documentKind, id, doc, found), refusal)
}

// checkSameFields returns an error with both values of each field that differs between a definition and the command line; nil: none
// differs.
func checkSameFields(n documentKind, id string, doc map[string]any, found answer) error {
	body, err := render.Encode(doc)
	if err != nil {
		return err
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(body, &given); err != nil {
		return err
	}
	fields, err := render.Changes(given, found.body)
	if err != nil || len(fields) == 0 {
		return err
	}
	var text strings.Builder
	_, _ = fmt.Fprintf(&text, "the %s %q exists with other values, and clusters use it; nothing was changed", n.title, id)
	for _, f := range fields {
		_, _ = fmt.Fprintf(&text, "\n  %s: %s -> %s", f.Path, orNone(f.Before), orNone(f.After))
	}
	return withHint(errors.New(text.String()), "to assign it unchanged, omit these fields; --update changes it for every cluster, and --update --plan shows the effect.")
}

func orNone(value json.RawMessage) string {
	if value == nil {
		return "none"
	}
	return string(value)
}

// withID adds the id of a definition to an operation's fields.
func withID(n documentKind, id string, settings map[string]any) map[string]any {
	fields := map[string]any{n.name + "_id": id}
	if n.resourceType != "" {
		fields = map[string]any{"type": n.resourceType, resourceKind + "_id": id}
	}
	maps.Copy(fields, settings)
	return fields
}

// printPair prints a definition and the cluster to which it was assigned as one document.
func (v kindCommands) printPair(c *cli.Context, a assignment, cluster string, definition, on json.RawMessage) error {
	members := []byte(fmt.Sprintf(`{%q:`, v.name))
	members = append(members, definition...)
	members = append(members, `,"cluster":`...)
	members = append(append(members, on...), '}')
	if err := v.noteKeptSettings(a, cluster, on); err != nil {
		return err
	}
	return v.printChange(c, render.Output{
		Document: members,
		Tables: func() ([]render.Table, error) {
			first, err := v.view.Table(definition)
			if err != nil {
				return nil, err
			}
			second, err := clusters.view.Table(on)
			return []render.Table{first, second}, err
		},
		Names: func() ([]string, error) {
			names, err := v.names(definition)
			if err != nil {
				return nil, err
			}
			more, err := clusters.names(on)
			return append(names, more...), err
		},
	})
}

func settingsOf(c *cli.Context, settings []field) (map[string]any, error) {
	values := map[string]any{}
	return values, collectFields(c, settings, values)
}

func (v kindCommands) assignCommand() *cli.Command {
	settings := v.overrides
	if v.assigned != nil {
		settings = v.assigned
	}
	usage, flags := fmt.Sprintf("Assign a %s to clusters", v.title), flagsOf(settings)
	if len(settings) > 0 {
		usage += ", or change the given settings of its assignment; the others stay"
		flags = append(flags, resetFlag())
	}
	cmd := &cli.Command{
		Name:      "assign",
		Usage:     usage,
		ArgsUsage: "NAME " + assigningUsage,
		Action: func(c *cli.Context) error {
			id, on, err := assignmentOf(c)
			if err != nil {
				return err
			}
			given, err := settingsOf(c, settings)
			if err != nil {
				return err
			}
			if v.values && slices.ContainsFunc(slices.Concat(valueFlags(), ownerFlags()), func(f cli.Flag) bool { return c.IsSet(f.Names()[0]) }) {
				return v.assignWithValues(c, assignment{id: id, given: given}, on)
			}
			if len(settings) == 0 {
				return v.onTargets(c, on, change{operations: on.planner(v.assignOperation("assign"), withID(v.documentKind, id, nil))})
			}
			return v.assignWith(c, assignment{id: id, settings: settings, given: given}, on)
		},
	}
	if v.values {
		flags = slices.Concat(flags, valueFlags(), ownerFlags())
		cmd.Description = args.ExampleText("component assign redis --layer web --component-version 20.1.0 --set replicas=3 --plan")
	}
	cmd.Flags = slices.Concat(assigningFlags(), flags, writeFlags(), []cli.Flag{yesFlag()}, plannedFlags())
	return cmd
}

// assignWithValues assigns a component and changes its values, in one change.
func (v kindCommands) assignWithValues(c *cli.Context, a assignment, on targets) error {
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
	return v.perform(c, change{operations: fixedOperations(on.operation(v.assignOperation("assign"), withID(v.documentKind, a.id, a.given)), values)})
}

func (v kindCommands) unassignCommand() *cli.Command {
	return &cli.Command{
		Name:      "unassign",
		Usage:     fmt.Sprintf("Unassign a %s from clusters; Flux then removes %s", v.title, v.removed),
		ArgsUsage: "NAME " + assigningUsage,
		Flags:     slices.Concat(assigningFlags(), []cli.Flag{yesFlag()}, writeFlags(), plannedFlags()),
		Action: func(c *cli.Context) error {
			id, on, err := assignmentOf(c)
			if err != nil {
				return err
			}
			_, single := on.single()
			return v.onTargets(c, on, change{
				operations:           on.planner(v.assignOperation("unassign"), withID(v.documentKind, id, nil)),
				description:          fmt.Sprintf("unassign the %s %q from %s; Flux then removes %s", v.title, id, on, v.removed),
				unconfirmedInScripts: single,
			})
		},
	}
}

// onTargets makes a change of clusters. The output for one cluster is the cluster; for several, and with --plan-hash, it is the batch's.
func (s *session) onTargets(c *cli.Context, on targets, ch change) error {
	if _, single := on.single(); !single || c.IsSet("plan-hash") {
		return s.perform(c, ch)
	}
	return s.performOn(c, clusters, ch)
}

// performOn makes a change of one document of a kind, and prints that unless the change has an output of its own.
func (s *session) performOn(c *cli.Context, n documentKind, ch change) error {
	ch.single = true
	if ch.describe == nil {
		ch.describe = func(operation) string { return "" } // the command line names the document
	}
	if ch.show == nil {
		ch.show = func(_ client, a answer) error {
			results, err := resultsOf(a)
			if err != nil {
				return err
			}
			return s.printChange(c, n.output(results[0].Document))
		}
	}
	return s.perform(c, ch)
}

// resultsOf returns the results of a batch, which has at least one operation, all on one document each.
func resultsOf(a answer) ([]api.OperationResult, error) {
	var result api.BatchResult
	if err := a.decode(&result); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(result.Results, func(r api.OperationResult) bool { return r.Document == nil }) || len(result.Results) == 0 {
		return nil, errors.New("unexpected response of the server: it lacks the changed document")
	}
	return result.Results, nil
}

// assignmentOf returns the argument and the targets of a command about assignments.
func assignmentOf(c *cli.Context) (id string, on targets, err error) {
	operands, err := arguments(c, "NAME")
	if err != nil {
		return "", on, err
	}
	on, err = targetsOf(c)
	return operands[0], on, err
}
