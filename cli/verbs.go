package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/urfave/cli/v2"
)

// definitionCommand is the command of an assignable kind, with the subcommands that only this kind has.
func (v kindCommands) definitionCommand(own ...*cli.Command) *cli.Command {
	commands := []*cli.Command{v.listCommand(), v.getCommand(), v.createCommand()}
	if len(own) == 0 {
		commands = append(commands, v.setCommand())
	}
	commands = append(append(commands, v.assignCommand(), v.unassignCommand()), own...)
	return &cli.Command{
		Name: v.Name, Aliases: v.Aliases, Usage: v.Usage,
		Subcommands: append(commands, v.deleteCommand()),
	}
}

func (v kindCommands) listCommand() *cli.Command {
	cmd := &cli.Command{
		Name: "list", Aliases: []string{"ls"},
		Usage: "List " + v.Plural + ", all of them",
		Flags: append([]cli.Flag{limitFlag(), sortFlag()}, watchFlags()...),
	}
	if v.Labeled {
		cmd.Flags = append(cmd.Flags, labelFlags()...)
	}
	var filters []kinds.Filter
	if v.Filters != nil {
		filters = v.Filters()
	}
	for _, f := range filters {
		cmd.Flags = append(cmd.Flags, f.Flag)
	}
	cmd.Action = args.WithOperands(func(c *cli.Context, _ []string) error {
		limit, err := limitOf(c)
		if err != nil {
			return err
		}
		if _, err := labelColumns(c); err != nil {
			return err
		}
		api, err := v.Connect(c)
		if err != nil {
			return err
		}
		page := func(e ...conn.Edit) (*http.Response, error) {
			return v.Calls.List(c.Context, api, append([]conn.Edit{kinds.FilterEdit(c, filters)}, e...)...)
		}
		if c.Bool("watch") {
			return v.watchList(c, limit, page)
		}
		docs, err := v.ReadList(limit, v.Page, page)
		if err != nil {
			return err
		}
		if docs, err = v.View.SortedBy(c.String("sort-by"), docs); err != nil {
			return err
		}
		if err := v.noteAbsentLabels(c, v.Plural, docs); err != nil {
			return err
		}
		out := v.listOutput(c, docs, docs...)
		if v.API == kinds.Clusters.API && !c.Bool("deleted") {
			out.Tables = effectiveTables(c, docs, func() (map[string]json.RawMessage, error) { return v.effectiveList(c, limit, page) })
		}
		if format, err := v.Format(c); err == nil && format == "wide" && v.API == kinds.Clusters.API {
			out.Tables = addStateColumns(c, v.session, api, out.Tables)
		}
		return v.Print(c, out)
	})
	return cmd
}

func (v kindCommands) getCommand() *cli.Command {
	return &cli.Command{
		Name:      "get",
		Usage:     "Show one " + v.Title + ", or several as a list",
		ArgsUsage: "NAME...",
		Flags:     append([]cli.Flag{&cli.IntFlag{Name: "revision", Usage: "as it was at revision `N`"}}, watchFlags()...),
		Action: func(c *cli.Context) error {
			ids, err := args.SeveralOperands(c, "NAME")
			if err != nil {
				return err
			}
			at := url.Values{}
			if c.IsSet("revision") {
				if c.Int("revision") < 1 {
					return args.Errorf("--revision must be at least 1")
				}
				at = atRevision(int64(c.Int("revision")))
			}
			api, err := v.Connect(c)
			if err != nil {
				return err
			}
			get := func(id string) (conn.Answer, error) {
				return conn.Receive(v.Calls.Get(c.Context, api, id, conn.Query(at)))
			}
			if c.Bool("watch") {
				return v.watchSeveral(c, ids, get)
			}
			return v.getSeveral(c, ids, get)
		},
	}
}

// getCurrentCommand is get of a kind whose documents cannot be read at a revision.
func (v kindCommands) getCurrentCommand() *cli.Command {
	get := v.getCommand()
	get.Flags = slices.DeleteFunc(get.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), "revision") })
	return get
}

// namedOutput returns documents that were requested by name as output. Tables of clusters include inherited entries.
func (v kindCommands) namedOutput(c *cli.Context, document any, docs ...json.RawMessage) render.Output {
	out := v.OutputOf(document, docs...)
	if v.API == kinds.Clusters.API && !c.IsSet("revision") {
		out.Tables = effectiveTables(c, docs, func() (map[string]json.RawMessage, error) { return v.effectiveClusters(c, docs) })
	}
	return out
}

// getSeveral prints the documents that exist, as kubectl does, and fails if any is missing.
func (v kindCommands) getSeveral(c *cli.Context, ids []string, get func(id string) (conn.Answer, error)) error {
	var (
		docs []json.RawMessage
		errs []error
	)
	for _, id := range ids {
		a, err := get(id)
		if err == nil {
			docs = append(docs, a.Body)
			continue
		}
		if apiclient.ErrorCode(err) != "not_found" {
			return err
		}
		errs = append(errs, err)
	}
	if len(ids) == 1 && len(docs) == 1 {
		return v.Print(c, v.namedOutput(c, docs[0], docs...))
	}
	if len(docs) > 0 {
		if err := v.Print(c, v.namedOutput(c, docs, docs...)); err != nil {
			return err
		}
	}
	for _, err := range errs[:max(0, len(errs)-1)] {
		v.reportError(err)
	}
	if len(errs) > 0 {
		return errs[len(errs)-1]
	}
	return nil
}

func (v kindCommands) setCommand() *cli.Command {
	cmd := &cli.Command{
		Name:      "set",
		Usage:     "Change the given fields of a " + v.Title + " that exists; the others stay",
		ArgsUsage: "NAME",
		Flags: slices.Concat(kinds.FlagsOf(v.Fields), []cli.Flag{
			change.FileFlag("fields of the document"),
			&cli.StringFlag{Name: "patch", Aliases: []string{"p"}, Usage: "in place of fields a `PATCH` as JSON or YAML: null removes, objects merge, lists replace (RFC 7396); @FILE: the patch in that file"},
			change.YesFlag(),
		}, change.WriteFlags(), change.PlannedFlags()),
		Action: func(c *cli.Context) error {
			switch {
			case c.IsSet("patch"):
				return v.setPatch(c)
			case v.hasTargetFlags(c):
				return v.setFieldsOfClusters(c)
			}
			return v.setFields(c)
		},
	}
	if v.API == kinds.Clusters.API {
		cmd.Usage, cmd.ArgsUsage = "Change the given fields of clusters that exist; the others stay", "[NAME]"
		cmd.Description = "Without --cluster, --selector or --all the argument names the cluster. Several clusters are changed in one change.\n\n" +
			args.ExampleText("cluster set demo-cluster-01 --environment qa", "cluster set --selector region=eu --vm-image ubuntu-24.04 --plan")
		cmd.Flags = slices.Concat(change.ClusterFlags(), cmd.Flags)
	}
	return cmd
}

// hasTargetFlags reports whether flags select the clusters to set. Other kinds have fields of the same names.
func (v kindCommands) hasTargetFlags(c *cli.Context) bool {
	return v.API == kinds.Clusters.API && change.HasTargetFlags(c)
}

// setFields changes the fields of a document that flags or a file set.
func (v kindCommands) setFields(c *cli.Context) error {
	id, body, err := v.DocumentFrom(c, v.Kind)
	if err != nil {
		return err
	}
	if len(body) == 1 {
		return args.Errorf("nothing to change: set at least one field")
	}
	return v.PerformOn(c, v.Kind, change.Change{Operations: change.FixedOperations(v.ChangeOperations("update", id, body)...)})
}

// setFieldsOfClusters changes the fields of several clusters.
func (v kindCommands) setFieldsOfClusters(c *cli.Context) error {
	on, err := change.ClustersOf(c)
	if err != nil {
		return err
	}
	id, body, err := v.FieldsFrom(c, v.Kind)
	switch {
	case err != nil:
		return err
	case id != "":
		return args.Errorf("%s is about %q; the clusters are those of the flags", c.String("file"), id)
	case len(body) == 0:
		return args.Errorf("nothing to change: set at least one field")
	}
	return v.PerformOnEach(c, on, change.Change{}, func(id string) []change.Operation { return v.ChangeOperations("update", id, body) })
}

// setPatch merges the patch of a flag into a document, or into several clusters.
func (v kindCommands) setPatch(c *cli.Context) error {
	if !v.hasTargetFlags(c) {
		if _, err := args.Operands(c, "NAME"); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(v.Fields, func(f kinds.Field) bool { return c.IsSet(f.Flag) }) || c.IsSet("file") {
		return args.Errorf("--patch is in place of fields and of --file")
	}
	source, name := []byte(c.String("patch")), "-p"
	if file, inFile := strings.CutPrefix(c.String("patch"), "@"); inFile {
		var err error
		if source, err = v.Input(file); err != nil {
			return err
		}
		name = file
	}
	body, err := input.Object(source, name)
	if err != nil {
		return err
	}
	if !v.hasTargetFlags(c) {
		return v.mergePatch(c, c.Args().First(), body)
	}
	on, err := change.ClustersOf(c)
	if err != nil {
		return err
	}
	return v.PerformOnEach(c, on, change.Change{}, func(id string) []change.Operation {
		return []change.Operation{v.Operation("patch", id, map[string]any{"patch": body})}
	})
}

// createDocumentCommand is create of a kind that is not assigned to clusters.
func (v kindCommands) createDocumentCommand() *cli.Command {
	return &cli.Command{
		Name:      "create",
		Usage:     "Create a " + v.Title,
		ArgsUsage: "NAME", Description: args.ExampleText(v.Example),
		Flags: slices.Concat(kinds.FlagsOf(v.Fields), []cli.Flag{updateFlag(), change.FileFlag("the document"), change.DryRunFlag(), change.YesFlag()}, change.PlannedFlags()),
		Action: func(c *cli.Context) error {
			id, doc, err := v.DocumentFrom(c, v.Kind)
			if err != nil {
				return err
			}
			return v.create(c, id, doc)
		},
	}
}

// documentCommand is the command of a kind that is not assigned to clusters, with the subcommands that only this kind has.
func (v kindCommands) documentCommand(remove *cli.Command, own ...*cli.Command) *cli.Command {
	return &cli.Command{
		Name: v.Name, Aliases: v.Aliases, Usage: v.Usage,
		Subcommands: slices.Concat([]*cli.Command{
			v.listCommand(), v.getCommand(), v.createDocumentCommand(), v.setCommand(),
		}, own, []*cli.Command{remove}),
	}
}

// mergePatch merges a patch into a document.
func (v kindCommands) mergePatch(c *cli.Context, id string, patch any) error {
	return v.PerformOn(c, v.Kind, change.Change{Operations: change.FixedOperations(v.Operation("patch", id, map[string]any{"patch": patch}))})
}

// deleteCommand deletes a definition, which the server rejects while clusters use it. Without a terminal some kinds need no --yes,
// unless it cascades.
func (v kindCommands) deleteCommand() *cli.Command {
	return &cli.Command{
		Name:      "delete",
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
		Name: "delete", Usage: usage, ArgsUsage: "NAME", Flags: append(change.WriteFlags(), change.YesFlag()),
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

// changeOne creates or changes one document.
func (v kindCommands) changeOne(c *cli.Context, op change.Operation) error {
	return v.PerformOn(c, v.Kind, change.Change{Operations: change.FixedOperations(op)})
}

// send sends a request about a document, which is no operation of a batch, and prints the answer.
func (v kindCommands) send(c *cli.Context, request func(conn.Client) (*http.Response, error)) error {
	client, err := v.Connect(c)
	if err != nil {
		return err
	}
	a, err := conn.Receive(request(client))
	if err != nil {
		return err
	}
	return v.PrintChange(c, v.Output(a.Body))
}
