package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/argv"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/apiclient"
	"github.com/urfave/cli/v2"
)

func clusterFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "cluster", Usage: usage}
}

// updateFlag is for commands that assign what they create.
func updateFlag() cli.Flag {
	return &cli.BoolFlag{Name: "update", Usage: "when it exists with other values, change it for every cluster that uses it; otherwise that is an error where a cluster is named"}
}

// createCommand creates a definition or changes it when it exists. With --cluster it also assigns it, and then does not
// change one that exists. settings are the fields of the assignment.
func (s *session) createCommand(n noun, settings ...field) *cli.Command {
	return &cli.Command{
		Name:      "create",
		Usage:     fmt.Sprintf("Create a %s, or change the fields given when it exists; with --cluster create it if need be, and assign it", n.title),
		ArgsUsage: "NAME", Description: argv.ExampleText(n.example),
		Flags: slices.Concat(flagsOf(n.fields), flagsOf(settings), []cli.Flag{
			clusterFlag("assign it to this `CLUSTER` too, in the same change"), updateFlag(), fileFlag("the document"), dryRunFlag(), yesFlag(),
		}, plannedFlags()),
		Action: func(c *cli.Context) error {
			id, doc, err := s.documentFrom(c, n)
			if err != nil {
				return err
			}
			return s.createAndAssign(c, n, id, doc, settings, c.String("cluster"))
		},
	}
}

// createAndAssign answers the definition, or one document with both when there is a cluster.
func (s *session) createAndAssign(c *cli.Context, n noun, id string, doc map[string]any, settings []field, cluster string) error {
	given, err := settingsOf(c, settings)
	if err != nil {
		return err
	}
	if cluster == "" {
		if c.IsSet("cluster") {
			return argv.Errorf("--cluster must not be empty")
		}
		if len(given) > 0 {
			return argv.Errorf("--enabled and the --cluster-… settings are those of an assignment; name its --cluster")
		}
		return s.put(c, n, id, doc)
	}
	if err := checkID("--cluster", cluster); err != nil {
		return err
	}
	operations := func(conn client) ([]operation, error) {
		ops, err := s.ensureOperations(c, conn, n, id, doc)
		on := targets{ids: []string{cluster}}
		return append(ops, on.operation("assign_"+n.name, withID(n, id, given))), err
	}
	return s.perform(c, change{
		operations: operations,
		request: func(conn client, hash string) (answer, error) {
			return s.untilSettled(func() (answer, error) {
				ops, err := operations(conn)
				if err != nil {
					return answer{}, err
				}
				return s.batch(c, conn, ops, hash)
			})
		},
		show: func(conn client, _ answer) error {
			return s.showPair(c, assignment{noun: n, id: id, settings: settings, given: given}, conn, doc, cluster)
		},
	})
}

// put creates or changes one document.
func (s *session) put(c *cli.Context, n noun, id string, doc map[string]any) error {
	return s.performOn(c, n, change{
		operations: func(conn client) ([]operation, error) {
			op, _, err := s.putOperation(c, conn, n, id, doc)
			return []operation{op}, err
		},
		request: func(conn client, hash string) (answer, error) {
			return s.upsert(c, n, conn, id, doc, planned(hash))
		},
	})
}

// putOperation creates a document, or changes it if there is one, which it answers too.
func (s *session) putOperation(c *cli.Context, conn client, n noun, id string, doc map[string]any) (operation, answer, error) {
	op := operation{"op": "update", "kind": n.kind, "id": id, "document": doc}
	found, err := receive(n.api.get(c.Context, conn, id))
	if apiclient.ErrorCode(err) == "not_found" {
		op["op"], err = "create", nil
	}
	return op, found, err
}

// ensureOperations create a definition. One that exists is left alone: other clusters use it, and this command is about
// one. Having other values is an error, unless --update says that they are to change for all.
func (s *session) ensureOperations(c *cli.Context, conn client, n noun, id string, doc map[string]any) ([]operation, error) {
	op, found, err := s.putOperation(c, conn, n, id, doc)
	if err != nil || op["op"] == "create" || c.Bool("update") {
		return []operation{op}, err
	}
	if len(doc) == 1 { // its id
		return nil, nil
	}
	// What differs is the server's to say: it fills in defaults and writes some things in one way only.
	_, plan, err := s.requestPlan(c, conn, []operation{op})
	if err != nil {
		return nil, located([]operation{op}, err, describeOperation)
	}
	if len(plan.Changes) == 0 {
		return nil, nil
	}
	return nil, differing(n, id, doc, found)
}

// differing is the error that a definition has other values than those given, with the values.
func differing(n noun, id string, doc map[string]any, found answer) error {
	body, err := render.Encode(doc)
	if err != nil {
		return err
	}
	given := document{noun: n, id: id}
	if err := json.Unmarshal(body, &given.fields); err != nil {
		return err
	}
	fields, err := render.Changes(given.fields, found.body)
	if err != nil {
		return err
	}
	var text strings.Builder
	_, _ = fmt.Fprintf(&text, "the %s %q exists with other values, and clusters that use it would get these; nothing was changed", n.title, id)
	for _, f := range fields {
		_, _ = fmt.Fprintf(&text, "\n  %s: %s -> %s", f.Path, orNone(f.Before), orNone(f.After))
	}
	return hintedError{errors.New(text.String()), "to assign it as it is, leave these fields out; --update changes it for every cluster, and --update --plan shows what that does."}
}

func orNone(value json.RawMessage) string {
	if value == nil {
		return "none"
	}
	return string(value)
}

// untilSettled repeats a change that was decided by looking, when somebody created or deleted the same thing in
// between.
func (s *session) untilSettled(do func() (answer, error)) (a answer, err error) {
	for range maxRaces {
		a, err = do()
		if code := apiclient.ErrorCode(err); code != "conflict" && code != "not_found" {
			break
		}
	}
	return a, err
}

// withID adds the id of a definition to an operation's fields.
func withID(n noun, id string, settings map[string]any) map[string]any {
	fields := map[string]any{n.name + "_id": id}
	maps.Copy(fields, settings)
	return fields
}

// showPair prints a definition and the cluster it was assigned to. What a dry run would make of them each has to be
// asked for.
func (s *session) showPair(c *cli.Context, a assignment, conn client, doc map[string]any, cluster string) error {
	if !c.Bool("dry-run") {
		definition, err := receive(a.noun.api.get(c.Context, conn, a.id))
		if err != nil {
			return err
		}
		on, err := receive(conn.GetCluster(c.Context, cluster, nil))
		if err != nil {
			return err
		}
		return s.printPair(c, a, cluster, definition.body, on.body)
	}
	definition, err := s.upsert(c, a.noun, conn, a.id, doc)
	if err != nil {
		return err
	}
	on, err := s.assign(c, a.noun, conn, cluster, a.id, a.given)
	if err != nil { // it has been checked, so this can only be because the definition is not there yet
		s.note("The cluster is shown without the assignment: the %s does not exist yet.", a.noun.title)
		if on, err = receive(conn.GetCluster(c.Context, cluster, nil)); err != nil {
			return err
		}
	}
	return s.printPair(c, a, cluster, definition.body, on.body)
}

// printPair prints a definition and the cluster it was assigned to, as one document.
func (s *session) printPair(c *cli.Context, a assignment, cluster string, definition, on json.RawMessage) error {
	n := a.noun
	members := []byte(fmt.Sprintf(`{%q:`, n.name))
	members = append(members, definition...)
	members = append(members, `,"cluster":`...)
	members = append(append(members, on...), '}')
	if err := s.noteKept(a, cluster, on); err != nil {
		return err
	}
	return s.printChange(c, render.Output{
		Document: members,
		Tables: func() ([]render.Table, error) {
			first, err := n.view.table(definition)
			if err != nil {
				return nil, err
			}
			second, err := clusters.view.table(on)
			return []render.Table{first, second}, err
		},
		Names: func() ([]string, error) {
			names, err := n.names(definition)
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
	return values, collect(c, settings, values)
}

func (s *session) assign(c *cli.Context, n noun, api client, cluster, id string, settings map[string]any, more ...edit) (answer, error) {
	body, err := render.Encode(settings)
	if err != nil {
		return answer{}, err
	}
	return receive(n.api.assign(c.Context, api, cluster, id, body, append(writeEdits(c), more...)...))
}

func (s *session) assignCommand(n noun, settings ...field) *cli.Command {
	usage, flags := fmt.Sprintf("Assign a %s to clusters", n.title), flagsOf(settings)
	if len(settings) > 0 {
		usage += ", or change the settings given of its assignment; the others stay"
		flags = append(flags, resetFlag())
	}
	return &cli.Command{
		Name:      "assign",
		Usage:     usage,
		ArgsUsage: "NAME " + targetsUsage,
		Flags:     slices.Concat(targetFlags(), flags, writeFlags(), []cli.Flag{yesFlag()}, plannedFlags()),
		Action: func(c *cli.Context) error {
			id, on, err := assignmentOf(c)
			if err != nil {
				return err
			}
			given, err := settingsOf(c, settings)
			if err != nil {
				return err
			}
			if len(settings) == 0 {
				return s.onTargets(c, on, change{operations: on.planner("assign_"+n.name, withID(n, id, nil))}, func(conn client, cluster, hash string) (answer, error) {
					return s.assign(c, n, conn, cluster, id, given, planned(hash))
				})
			}
			return s.assignWith(c, assignment{noun: n, id: id, settings: settings, given: given}, on)
		},
	}
}

func (s *session) unassignCommand(n noun, consequence string, scriptsMay bool) *cli.Command {
	return &cli.Command{
		Name:      "unassign",
		Usage:     fmt.Sprintf("Take a %s off clusters, where Flux then removes %s", n.title, consequence),
		ArgsUsage: "NAME " + targetsUsage,
		Flags:     slices.Concat(targetFlags(), []cli.Flag{yesFlag()}, writeFlags(), plannedFlags()),
		Action: func(c *cli.Context) error {
			id, on, err := assignmentOf(c)
			if err != nil {
				return err
			}
			_, single := on.one()
			return s.onTargets(c, on, change{
				operations: on.planner("unassign_"+n.name, withID(n, id, nil)),
				what:       fmt.Sprintf("take the %s %q off %s, where Flux then removes %s", n.title, id, on, consequence),
				scriptsMay: single && scriptsMay,
			}, func(conn client, cluster, hash string) (answer, error) {
				return receive(n.api.unassign(c.Context, conn, cluster, id, append(writeEdits(c), planned(hash))...))
			})
		},
	}
}

// onTargets makes a change of clusters: of one with a request of its own, which answers with the cluster, else as a
// batch, which is also what a plan's hash from the command line is for.
func (s *session) onTargets(c *cli.Context, on targets, ch change, request func(conn client, cluster, hash string) (answer, error)) error {
	cluster, single := on.one()
	if !single || c.IsSet("plan-hash") {
		return s.perform(c, ch)
	}
	ch.request = func(conn client, hash string) (answer, error) { return request(conn, cluster, hash) }
	return s.performOn(c, clusters, ch)
}

// performOn makes a change that answers with a document of the kind.
func (s *session) performOn(c *cli.Context, n noun, ch change) error {
	ch.show = func(_ client, a answer) error { return s.printChange(c, n.one(a.body)) }
	return s.perform(c, ch)
}

// assignmentOf are the argument and the targets of a command about assignments.
func assignmentOf(c *cli.Context) (id string, on targets, err error) {
	args, err := arguments(c, "NAME")
	if err != nil {
		return "", on, err
	}
	on, err = targetsOf(c)
	return args[0], on, err
}

// onVersion makes a change that depends on what a cluster is now, and only if it still is: decide looks at the cluster
// and makes the change under the condition it is given. When somebody was faster it decides again.
func (s *session) onVersion(c *cli.Context, api client, cluster string, decide func(now answer, unchanged edit) (answer, error)) (before, after answer, err error) {
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
