package cli

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

func (s revisionCommands) revisionCommand() *cli.Command {
	return &cli.Command{
		Name: "revision", Aliases: []string{"revisions"}, Usage: "History: changes with time, actor and reason",
		Subcommands: []*cli.Command{s.revertCommand()},
	}
}

// listOfCluster lists the revisions of the cluster that a flag names.
func (s revisionCommands) listOfCluster(c *cli.Context) error {
	for _, flag := range []string{"kind", "id", "actor", "sort-by", "watch"} {
		if c.IsSet(flag) {
			return args.Errorf("--cluster lists the history of a cluster, without --%s", flag)
		}
	}
	if err := args.CheckID("--cluster", c.String("cluster")); err != nil {
		return err
	}
	return kindCommands{s.session, kinds.Clusters}.listHistory(c, c.String("cluster"))
}

func (s revisionCommands) getCommand() *cli.Command {
	names := kinds.Names()
	last := len(names) - 1
	filters := append([]kinds.Filter{
		{Flag: &cli.StringFlag{Name: "kind", Usage: "only changes of this `KIND`: " + strings.Join(names[:last], ", ") + " or " + names[last]}, Param: "kind"},
		{Flag: &cli.StringFlag{Name: "id", Usage: "only changes of the document with this `ID`; needs --kind"}, Param: "id"},
		{Flag: &cli.StringFlag{Name: "actor", Usage: "only changes by this `ACTOR`"}, Param: "actor"},
	}, periodFilters()...)
	v := kindCommands{s.session, kinds.Kind{
		Name: revisionName, Plural: "revisions, newest first", View: revisionView,
		Calls: conn.RevisionCalls, Page: 1000,
	}}
	ofNamed, ofList := []cli.Flag{change.FullFlag()}, []cli.Flag{limitFlag(), sortFlag(), clusterFlag("only changes of this `CLUSTER` and of its inputs, as in history cluster")}
	for _, f := range filters {
		ofList = append(ofList, f.Flag)
	}
	ofList = append(ofList, watchFlags()...)
	return &cli.Command{
		Name: revisionName, Aliases: []string{"revisions"}, ArgsUsage: "[REVISION...]",
		Usage: "List revisions, newest first, or show some with their changes, before and after",
		Flags: append(ofNamed, ofList...),
		Action: listOrNamed(ofList, ofNamed, func(c *cli.Context) error {
			if c.IsSet("cluster") {
				return s.listOfCluster(c)
			}
			if err := setPeriod(c, s.Env.Now()); err != nil {
				return err
			}
			if c.Bool("watch") {
				return s.watchRevisions(c, v, filters)
			}
			return v.list(c, filters)
		}, s.get),
	}
}

// get prints revisions with their changes.
func (s revisionCommands) get(c *cli.Context) error {
	operands, err := args.SeveralOperands(c, "REVISION")
	if err != nil {
		return err
	}
	for _, arg := range operands {
		if n, err := strconv.ParseInt(arg, 10, 64); err != nil || n < 1 {
			return args.Errorf("%q is not the number of a revision", arg)
		}
	}
	client, err := s.Connect(c)
	if err != nil {
		return err
	}
	revisions := kinds.Kind{Name: revisionName, Plural: "revisions", Title: "revision", View: revisionView}
	var found []api.RevisionDetail
	revisions.Text = func(wide bool) string {
		var texts []string
		for _, rev := range found {
			texts = append(texts, planview.Revision(rev, s.PlanStyle(wide || c.Bool("full"), s.Env.StdoutTerminal)))
		}
		return strings.Join(texts, "\n")
	}
	return kindCommands{s.session, revisions}.getSeveral(c, operands, func(arg string) (conn.Answer, error) {
		n, err := strconv.ParseInt(arg, 10, 64)
		if err != nil {
			return conn.Answer{}, err
		}
		a, err := wholeRevision(func(e ...conn.Edit) (*http.Response, error) {
			return client.GetRevision(c.Context, n, nil, e...)
		})
		if err != nil {
			return a, err
		}
		found = append(found, api.RevisionDetail{})
		return a, a.Decode(&found[len(found)-1])
	})
}

// wholeRevision reads a revision with all pages of its changes.
func wholeRevision(page func(e ...conn.Edit) (*http.Response, error)) (conn.Answer, error) {
	whole, err := conn.Receive(page())
	if err != nil || whole.Next == nil {
		return whole, err
	}
	var doc api.RevisionDetail
	if err := whole.Decode(&doc); err != nil {
		return conn.Answer{}, err
	}
	for next := whole.Next; next != nil; {
		a, err := conn.Receive(page(conn.Query(next)))
		if err != nil {
			return conn.Answer{}, err
		}
		var more api.RevisionDetail
		if err := a.Decode(&more); err != nil {
			return conn.Answer{}, err
		}
		if len(more.Changes) == 0 {
			break
		}
		doc.Changes, next = append(doc.Changes, more.Changes...), a.Next
	}
	whole.Body, err = render.Encode(doc)
	return whole, err
}
