package cli

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// revisionView shows revisions, single ones and those of a list.
var revisionView = planview.RevisionView(nameOfKind)

// revisionCommands are the commands about revisions.
type revisionCommands struct{ *session }

func (s revisionCommands) revisionCommand() *cli.Command {
	return &cli.Command{
		Name: "revision", Aliases: []string{"revisions"}, Usage: "History: changes with time, actor and reason",
		Subcommands: []*cli.Command{s.listRevisionsCommand(), s.getRevisionCommand(), s.revertCommand()},
	}
}

func (s revisionCommands) listRevisionsCommand() *cli.Command {
	names := kindNames()
	last := len(names) - 1
	filters := []filter{
		{flag: &cli.StringFlag{Name: "kind", Usage: "only changes of this `KIND`: " + strings.Join(names[:last], ", ") + " or " + names[last]}, param: "kind"},
		{flag: &cli.StringFlag{Name: "id", Usage: "only changes of the document with this `ID`; needs --kind"}, param: "id"},
		{flag: &cli.StringFlag{Name: "actor", Usage: "only changes by this `ACTOR`"}, param: "actor"},
	}
	filters = append(filters, periodFilters()...)
	revisions := kindCommands{s.session, documentKind{
		name: revisionName, plural: "revisions, newest first", view: revisionView,
		api: revisionCalls, page: 1000,
		filters: func() []filter { return filters },
	}}
	cmd := revisions.listCommand()
	list := cmd.Action
	cmd.Action = func(c *cli.Context) error {
		if err := setPeriod(c, s.env.Now()); err != nil {
			return err
		}
		if c.Bool("watch") && c.NArg() == 0 {
			return s.watchRevisions(c, revisions, filters)
		}
		return list(c)
	}
	return cmd
}

func (s revisionCommands) getRevisionCommand() *cli.Command {
	revisions := documentKind{name: "revision", plural: "revisions", title: "revision with its changes, before and after", view: revisionView}
	cmd := kindCommands{s.session, revisions}.getCommand()
	cmd.ArgsUsage, cmd.Flags = "REVISION...", []cli.Flag{fullFlag()}
	cmd.Action = func(c *cli.Context) error {
		operands, err := severalArguments(c, "REVISION")
		if err != nil {
			return err
		}
		for _, arg := range operands {
			if n, err := strconv.ParseInt(arg, 10, 64); err != nil || n < 1 {
				return args.Errorf("%q is not the number of a revision", arg)
			}
		}
		conn, err := s.connect(c)
		if err != nil {
			return err
		}
		var found []api.RevisionDetail
		revisions.text = func(wide bool) string {
			var texts []string
			for _, rev := range found {
				texts = append(texts, planview.Revision(rev, s.planStyle(wide || c.Bool("full"), s.env.StdoutTerminal)))
			}
			return strings.Join(texts, "\n")
		}
		return kindCommands{s.session, revisions}.getSeveral(c, operands, func(arg string) (answer, error) {
			n, err := strconv.ParseInt(arg, 10, 64)
			if err != nil {
				return answer{}, err
			}
			a, err := wholeRevision(func(e ...edit) (*http.Response, error) {
				return conn.GetRevision(c.Context, n, nil, e...)
			})
			if err != nil {
				return a, err
			}
			found = append(found, api.RevisionDetail{})
			return a, a.decode(&found[len(found)-1])
		})
	}
	return cmd
}

// revisionCalls lists revisions, the only request that they share with kinds.
var revisionCalls = calls{path: "/revisions"}

// wholeRevision reads a revision with all pages of its changes.
func wholeRevision(page func(e ...edit) (*http.Response, error)) (answer, error) {
	whole, err := receive(page())
	if err != nil || whole.next == nil {
		return whole, err
	}
	var doc api.RevisionDetail
	if err := whole.decode(&doc); err != nil {
		return answer{}, err
	}
	for next := whole.next; next != nil; {
		a, err := receive(page(query(next)))
		if err != nil {
			return answer{}, err
		}
		var more api.RevisionDetail
		if err := a.decode(&more); err != nil {
			return answer{}, err
		}
		if len(more.Changes) == 0 {
			break
		}
		doc.Changes, next = append(doc.Changes, more.Changes...), a.next
	}
	whole.body, err = render.Encode(doc)
	return whole, err
}
