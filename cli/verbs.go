package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/urfave/cli/v2"
)

// readList reads all pages of a list, up to limit documents (0: all), and notes when there are more. size is the page size; 0: the
// server's.
func (s *session) readList(limit, size int, page func(e ...edit) (*http.Response, error)) ([]json.RawMessage, error) {
	docs, more, err := readPages(limit, size, page)
	if more != "" {
		s.note("%s", more)
	}
	return docs, err
}

// readPages reads a list; more is the note about documents beyond the limit.
func readPages(limit, size int, page func(e ...edit) (*http.Response, error)) (docs []json.RawMessage, more string, err error) {
	docs = []json.RawMessage{}
	var edits []edit
	if limit > 0 && (size == 0 || limit < size) {
		size = limit
	}
	if size > 0 {
		edits = []edit{query(url.Values{"limit": {strconv.Itoa(min(size, maxPage))}})}
	}
	for {
		a, err := receive(page(edits...))
		if err != nil {
			return nil, "", err
		}
		var next []json.RawMessage
		if err := a.decode(&next); err != nil {
			return nil, "", err
		}
		docs = append(docs, next...)
		switch {
		case limit > 0 && len(docs) >= limit:
			if a.total > limit {
				more = fmt.Sprintf("Showing %d of %d.", limit, a.total)
			} else if a.next != nil || len(docs) > limit {
				more = fmt.Sprintf("Showing the first %d; there are more.", limit)
			}
			return docs[:limit], more, nil
		case a.next == nil: // an empty page may have a next one
			return docs, "", nil
		}
		edits = []edit{query(a.next)}
	}
}

// maxPage is the largest page that the server allows.
const maxPage = 10000

// kindCommands are the commands that every kind has.
type kindCommands struct {
	*session
	documentKind
}

// definitionCommand is the command of an assignable kind, with the subcommands that only this kind has.
func (v kindCommands) definitionCommand(own ...*cli.Command) *cli.Command {
	commands := []*cli.Command{v.listCommand(), v.getCommand(), v.historyCommand(), v.createCommand(), v.editCommand()}
	if len(own) == 0 {
		commands = append(commands, v.setCommand())
	}
	commands = append(append(commands, v.assignCommand(), v.unassignCommand()), own...)
	return &cli.Command{
		Name: v.name, Aliases: v.aliases, Usage: v.usage,
		Subcommands: append(commands, v.deleteCommand()),
	}
}

func (v kindCommands) listCommand() *cli.Command {
	cmd := &cli.Command{
		Name: "list", Aliases: []string{"ls"},
		Usage: "List " + v.plural + ", all of them",
		Flags: append([]cli.Flag{limitFlag(), sortFlag()}, watchFlags()...),
	}
	if v.labeled {
		cmd.Flags = append(cmd.Flags, labelFlags()...)
	}
	var filters []filter
	if v.filters != nil {
		filters = v.filters()
	}
	for _, f := range filters {
		cmd.Flags = append(cmd.Flags, f.flag)
	}
	cmd.Action = withArguments(func(c *cli.Context, _ []string) error {
		limit, err := limitOf(c)
		if err != nil {
			return err
		}
		if _, err := labelColumns(c); err != nil {
			return err
		}
		api, err := v.connect(c)
		if err != nil {
			return err
		}
		page := func(e ...edit) (*http.Response, error) {
			return v.api.list(c.Context, api, append([]edit{filterEdit(c, filters)}, e...)...)
		}
		if c.Bool("watch") {
			return v.watchList(c, limit, page)
		}
		docs, err := v.readList(limit, v.page, page)
		if err != nil {
			return err
		}
		if docs, err = v.view.SortedBy(c.String("sort-by"), docs); err != nil {
			return err
		}
		if err := v.noteAbsentLabels(c, v.plural, docs); err != nil {
			return err
		}
		out := v.listOutput(c, docs, docs...)
		if v.kind == clusters.kind && !c.Bool("deleted") {
			out.Tables = effectiveTables(c, docs, func() (map[string]json.RawMessage, error) { return v.effectiveList(c, limit, page) })
		}
		if format, err := v.format(c); err == nil && format == "wide" && v.kind == clusters.kind {
			out.Tables = addStateColumns(c, v.session, api, out.Tables)
		}
		return v.print(c, out)
	})
	return cmd
}

// listOutput returns documents of a list as output.
func (v kindCommands) listOutput(c *cli.Context, document any, docs ...json.RawMessage) render.Output {
	out := v.outputOf(document, docs...)
	out.Tables = func() ([]render.Table, error) {
		t, err := v.view.Table(docs...)
		if err == nil {
			t, err = withLabels(c, t, docs)
		}
		return []render.Table{t}, err
	}
	return out
}

// filter is a flag of a list that becomes a parameter of the query.
type filter struct {
	flag  cli.Flag
	param string
}

func filterEdit(c *cli.Context, filters []filter) edit {
	values := url.Values{}
	for _, f := range filters {
		name := f.flag.Names()[0]
		if c.IsSet(name) {
			values.Set(f.param, fmt.Sprint(c.Value(name)))
		}
	}
	return query(values)
}

func limitFlag() cli.Flag {
	return &cli.IntFlag{Name: "limit", Usage: "at most `N` entries; a note reports when there are more (default: all)"}
}

func limitOf(c *cli.Context) (int, error) {
	limit := c.Int("limit")
	if c.IsSet("limit") && limit < 1 {
		return 0, args.Errorf("--limit must be at least 1")
	}
	return limit, nil
}

// connect checks the output format before a request is sent, and connects.
func (s *session) connect(c *cli.Context) (client, error) {
	if err := s.checkOutput(c); err != nil {
		return nil, err
	}
	return s.connection.client(c)
}

func (v kindCommands) getCommand() *cli.Command {
	return &cli.Command{
		Name:      "get",
		Usage:     "Show one " + v.title + ", or several as a list",
		ArgsUsage: "NAME...",
		Flags:     append([]cli.Flag{&cli.IntFlag{Name: "revision", Usage: "as it was at revision `N`"}}, watchFlags()...),
		Action: func(c *cli.Context) error {
			ids, err := severalArguments(c, "NAME")
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
			api, err := v.connect(c)
			if err != nil {
				return err
			}
			get := func(id string) (answer, error) { return receive(v.api.get(c.Context, api, id, query(at))) }
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
	out := v.outputOf(document, docs...)
	if v.kind == clusters.kind && !c.IsSet("revision") {
		out.Tables = effectiveTables(c, docs, func() (map[string]json.RawMessage, error) { return v.effectiveClusters(c, docs) })
	}
	return out
}

// getSeveral prints the documents that exist, as kubectl does, and fails if any is missing.
func (v kindCommands) getSeveral(c *cli.Context, ids []string, get func(id string) (answer, error)) error {
	var (
		docs []json.RawMessage
		errs []error
	)
	for _, id := range ids {
		a, err := get(id)
		if err == nil {
			docs = append(docs, a.body)
			continue
		}
		if apiclient.ErrorCode(err) != "not_found" {
			return err
		}
		errs = append(errs, err)
	}
	if len(ids) == 1 && len(docs) == 1 {
		return v.print(c, v.namedOutput(c, docs[0], docs...))
	}
	if len(docs) > 0 {
		if err := v.print(c, v.namedOutput(c, docs, docs...)); err != nil {
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
	return &cli.Command{
		Name:      "set",
		Usage:     "Change the given fields of a " + v.title + " that exists; the others stay",
		ArgsUsage: "NAME",
		Flags: slices.Concat(flagsOf(v.fields), []cli.Flag{
			fileFlag("fields of the document"),
			&cli.StringFlag{Name: "patch", Aliases: []string{"p"}, Usage: "in place of fields a `PATCH` as JSON or YAML: null removes, objects merge, lists replace (RFC 7396); @FILE: the patch in that file"},
			yesFlag(),
		}, writeFlags(), plannedFlags()),
		Action: func(c *cli.Context) error {
			if c.IsSet("patch") {
				return v.setPatch(c)
			}
			return v.setFields(c)
		},
	}
}

// setFields changes the fields of a document that flags or a file set.
func (v kindCommands) setFields(c *cli.Context) error {
	id, body, err := v.documentFrom(c, v.documentKind)
	if err != nil {
		return err
	}
	if len(body) == 1 {
		return args.Errorf("nothing to change: set at least one field")
	}
	return v.performOn(c, v.documentKind, change{operations: fixedOperations(v.changeOperation("update", id, body))})
}

// setPatch merges the patch of a flag into a document.
func (v kindCommands) setPatch(c *cli.Context) error {
	ids, err := arguments(c, "NAME")
	if err != nil {
		return err
	}
	if slices.ContainsFunc(v.fields, func(f field) bool { return c.IsSet(f.flag) }) || c.IsSet("file") {
		return args.Errorf("--patch is in place of fields and of --file")
	}
	source, name := []byte(c.String("patch")), "-p"
	if file, inFile := strings.CutPrefix(c.String("patch"), "@"); inFile {
		if source, err = v.input(file); err != nil {
			return err
		}
		name = file
	}
	body, err := input.Object(source, name)
	if err != nil {
		return err
	}
	return v.mergePatch(c, ids[0], body)
}

// createDocumentCommand is create of a kind that is not assigned to clusters.
func (v kindCommands) createDocumentCommand() *cli.Command {
	return &cli.Command{
		Name:      "create",
		Usage:     "Create a " + v.title + ", or change the given fields of an existing one",
		ArgsUsage: "NAME", Description: args.ExampleText(v.example),
		Flags: slices.Concat(flagsOf(v.fields), []cli.Flag{fileFlag("the document"), dryRunFlag(), yesFlag()}, plannedFlags()),
		Action: func(c *cli.Context) error {
			id, doc, err := v.documentFrom(c, v.documentKind)
			if err != nil {
				return err
			}
			return v.performOn(c, v.documentKind, change{operations: fixedOperations(v.changeOperation("put", id, doc))})
		},
	}
}

// documentCommand is the command of a kind that is not assigned to clusters, with the subcommands that only this kind has.
func (v kindCommands) documentCommand(remove *cli.Command, own ...*cli.Command) *cli.Command {
	return &cli.Command{
		Name: v.name, Aliases: v.aliases, Usage: v.usage,
		Subcommands: slices.Concat([]*cli.Command{
			v.listCommand(), v.getCommand(), v.historyCommand(), v.createDocumentCommand(), v.setCommand(), v.editCommand(),
		}, own, []*cli.Command{remove}),
	}
}

// mergePatch merges a patch into a document.
func (v kindCommands) mergePatch(c *cli.Context, id string, patch any) error {
	return v.performOn(c, v.documentKind, change{operations: fixedOperations(v.operation("patch", id, map[string]any{"patch": patch}))})
}

// fixedOperations returns a planner of operations that do not depend on the fleet.
func fixedOperations(ops ...operation) planner {
	return func(client) ([]operation, error) { return ops, nil }
}

// deleteCommand deletes a definition, which the server rejects while clusters use it. Without a terminal some kinds need no --yes,
// unless it cascades.
func (v kindCommands) deleteCommand() *cli.Command {
	return &cli.Command{
		Name:      "delete",
		Usage:     "Delete a " + v.title + " that no cluster uses",
		ArgsUsage: "NAME",
		Flags: slices.Concat([]cli.Flag{
			&cli.BoolFlag{Name: "cascade", Usage: "unassign it from every cluster that uses it, in the same change"},
			yesFlag(),
		}, writeFlags(), plannedFlags()),
		Action: withArguments(func(c *cli.Context, ids []string) error {
			what := fmt.Sprintf("delete the %s %q", v.title, ids[0])
			if c.Bool("cascade") {
				what += ", also from every cluster that uses it"
			}
			return v.performOn(c, v.documentKind, change{
				operations:  fixedOperations(v.operation("delete", ids[0], map[string]any{"cascade": c.Bool("cascade")})),
				description: what, unconfirmedInScripts: v.assignable != nil && v.unconfirmedInScripts && !c.Bool("cascade"),
			})
		}),
	}
}

// deleteUnservedCommand deletes documents of a kind that no answer to a poll contains.
func (v kindCommands) deleteUnservedCommand(usage string) *cli.Command {
	return &cli.Command{
		Name: "delete", Usage: usage, ArgsUsage: "NAME", Flags: append(writeFlags(), yesFlag()),
		Action: withArguments(func(c *cli.Context, ids []string) error {
			ch := change{
				operations:  fixedOperations(v.operation("delete", ids[0], nil)),
				description: fmt.Sprintf("delete the %s %q", v.title, ids[0]), unconfirmedInScripts: true,
			}
			if v.kind == rollouts.kind { // batches do not take rollouts
				ch.operations, ch.planRequest, ch.printsSummary = fixedOperations(), nil, true
				ch.request = func(conn client, _ string) (answer, error) {
					return receive(send(c.Context, conn, http.MethodDelete, v.api.document(ids[0]), nil, writeEdits(c)))
				}
				ch.show = func(_ client, a answer) error { return v.printChange(c, v.outputOf(a.body, a.body)) }
			}
			return v.performOn(c, v.documentKind, ch)
		}),
	}
}
