package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
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
		return v.put(c, id, doc)
	}
	ch := change{recomputed: true, operations: func(conn client) ([]operation, error) {
		ops, err := v.ensureOperations(c, conn, id, doc)
		return append(ops, on.operation(v.assignOperation("assign"), withID(v.documentKind, id, given))), err
	}}
	if cluster, ok := on.single(); ok {
		ch.show = func(conn client, _ answer) error {
			return v.showPair(c, assignment{id: id, settings: settings, given: given}, conn, doc, cluster)
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

// put creates or changes one document.
func (v kindCommands) put(c *cli.Context, id string, doc map[string]any) error {
	return v.performOn(c, change{
		operations: func(conn client) ([]operation, error) {
			op, _, err := v.putOperation(c, conn, id, doc)
			return []operation{op}, err
		},
		request: func(conn client, hash string) (answer, error) {
			return v.upsert(c, conn, id, doc, planned(hash))
		},
	})
}

// putOperation returns the operation that creates a document, or changes an existing one, with the existing document.
func (v kindCommands) putOperation(c *cli.Context, conn client, id string, doc map[string]any) (operation, answer, error) {
	found, err := receive(v.api.get(c.Context, conn, id))
	if apiclient.ErrorCode(err) == "not_found" {
		return v.operation("create", id, map[string]any{"document": doc}), found, nil
	}
	return v.updateOperation(id, doc), found, err
}

// ensureOperations returns the operations that create a definition. An existing one is left unchanged, because other clusters use
// it and this command is about one. Different values are an error, unless --update allows to change them for all.
func (v kindCommands) ensureOperations(c *cli.Context, conn client, id string, doc map[string]any) ([]operation, error) {
	op, found, err := v.putOperation(c, conn, id, doc)
	if err != nil || op["op"] == "create" || c.Bool("update") {
		return []operation{op}, err
	}
	if len(doc) == 1 { // its id
		return nil, nil
	}
	// Only the server can compare: it fills in defaults and normalizes values.
	_, plan, err := v.requestPlan(c, conn, []operation{op})
	if err != nil {
		return nil, describeLocations([]operation{op}, err, describeOperation)
	}
	if len(plan.Changes) == 0 {
		return nil, nil
	}
	return nil, checkSameFields(v.documentKind, id, doc, found)
}

// checkSameFields returns an error with both values of each field that differs between a definition and the command line.
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
	if err != nil {
		return err
	}
	var text strings.Builder
	_, _ = fmt.Fprintf(&text, "the %s %q exists with other values, and clusters use it; nothing was changed", n.title, id)
	for _, f := range fields {
		_, _ = fmt.Fprintf(&text, "\n  %s: %s -> %s", f.Path, orNone(f.Before), orNone(f.After))
	}
	return hintedError{errors.New(text.String()), "to assign it unchanged, omit these fields; --update changes it for every cluster, and --update --plan shows the effect."}
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

// showPair prints a definition and the cluster to which it was assigned. After a dry run, the result of each needs a request of its
// own.
func (v kindCommands) showPair(c *cli.Context, a assignment, conn client, doc map[string]any, cluster string) error {
	if !c.Bool("dry-run") {
		definition, err := receive(v.api.get(c.Context, conn, a.id))
		if err != nil {
			return err
		}
		on, err := receive(conn.GetCluster(c.Context, cluster, nil))
		if err != nil {
			return err
		}
		return v.printPair(c, a, cluster, definition.body, on.body)
	}
	definition, err := v.upsert(c, conn, a.id, doc)
	if err != nil {
		return err
	}
	on, err := v.assign(c, conn, cluster, a.id, a.given)
	if err != nil { // the change was checked, so the definition does not exist yet
		v.note("The cluster is shown without the assignment: the %s does not exist yet.", v.title)
		if on, err = receive(conn.GetCluster(c.Context, cluster, nil)); err != nil {
			return err
		}
	}
	return v.printPair(c, a, cluster, definition.body, on.body)
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

func (v kindCommands) assign(c *cli.Context, api client, cluster, id string, settings map[string]any, more ...edit) (answer, error) {
	return receive(v.api.assign(c.Context, api, cluster, id, settings, append(writeEdits(c), more...)...))
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
			if v.values {
				if values, err := v.valuesGiven(c); err != nil || len(values) > 0 {
					return v.assignWithValues(c, assignment{id: id, given: given}, on, values, err)
				}
			}
			if len(settings) == 0 {
				return v.onTargets(c, on, change{operations: on.planner(v.assignOperation("assign"), withID(v.documentKind, id, nil))}, func(conn client, cluster, hash string) (answer, error) {
					return v.assign(c, conn, cluster, id, given, planned(hash))
				})
			}
			return v.assignWith(c, assignment{id: id, settings: settings, given: given}, on)
		},
	}
	if v.values {
		flags = append(flags, valueFlags()...)
		cmd.Description = args.ExampleText("component assign redis --layer web --component-version 20.1.0 --set replicas=3 --plan")
	}
	cmd.Flags = slices.Concat(assigningFlags(), flags, writeFlags(), []cli.Flag{yesFlag()}, plannedFlags())
	return cmd
}

// valuesGiven returns the values to patch from the command line; none without their flags.
func (v kindCommands) valuesGiven(c *cli.Context) (map[string]any, error) {
	if !slices.ContainsFunc(valueFlags(), func(f cli.Flag) bool { return c.IsSet(f.Names()[0]) }) {
		return nil, nil
	}
	return v.valuesFrom(c)
}

// assignWithValues assigns a definition and patches its values, in one change.
func (v kindCommands) assignWithValues(c *cli.Context, a assignment, on targets, values map[string]any, err error) error {
	switch {
	case err != nil:
		return err
	case c.Bool("reset"):
		return args.Errorf("--reset does not change patches: set values in a separate change, with component patch")
	case c.IsSet("if-match"):
		return args.Errorf("--if-match applies to one document and its fields; set values in a separate change, with component patch")
	}
	return v.perform(c, change{operations: fixedOperations(
		on.operation(v.assignOperation("assign"), withID(v.documentKind, a.id, a.given)),
		on.operation("patch_values", withID(v.documentKind, a.id, map[string]any{"values": values})),
	)})
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
			}, func(conn client, cluster, hash string) (answer, error) {
				return receive(v.api.unassign(c.Context, conn, cluster, id, append(writeEdits(c), planned(hash))...))
			})
		},
	}
}

// onTargets makes a change of clusters. One cluster takes a request of its own, which returns the cluster. Several clusters, and
// --plan-hash, need a batch.
func (s *session) onTargets(c *cli.Context, on targets, ch change, request func(conn client, cluster, hash string) (answer, error)) error {
	cluster, single := on.single()
	if !single || c.IsSet("plan-hash") {
		return s.perform(c, ch)
	}
	ch.request = func(conn client, hash string) (answer, error) { return request(conn, cluster, hash) }
	return kindCommands{s, clusters}.performOn(c, ch)
}

// performOn makes a change whose response is a document of the kind.
func (v kindCommands) performOn(c *cli.Context, ch change) error {
	ch.show = func(_ client, a answer) error { return v.printChange(c, v.output(a.body)) }
	return v.perform(c, ch)
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

// retryOnStale makes a change that depends on the current version of a cluster: decide receives the cluster and makes the change on
// the condition that it is unchanged. It retries when another client changed the cluster.
func (s *session) retryOnStale(c *cli.Context, api client, cluster string, decide func(now answer, unchanged edit) (answer, error)) (before, after answer, err error) {
	for range maxRaces {
		if before, err = receive(api.GetCluster(c.Context, cluster, nil)); err != nil {
			return before, after, err
		}
		condition := before.etag
		if tag := c.String("if-match"); tag != "" {
			condition = tag
		}
		after, err = decide(before, header("If-Match", condition))
		if apiclient.ErrorCode(err) != "stale" || c.IsSet("if-match") {
			break
		}
	}
	return before, after, err
}
