package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/urfave/cli/v2"
)

func (s *session) historyCommand() *cli.Command {
	flags := []cli.Flag{limitFlag(), &cli.BoolFlag{Name: "document", Usage: "of a cluster or component: only revisions that changed its own document"}}
	for _, f := range periodFilters() {
		flags = append(flags, f.Flag)
	}
	return &cli.Command{
		Name: "history", Usage: "List the revisions that changed a document, newest first; also of one that is deleted", ArgsUsage: "KIND NAME",
		Description: "The history of a cluster includes the revisions that changed its inputs through layers, the catalog and resource types. That of a\n" +
			"component includes those that changed what any cluster is served of it. SERVED names the inputs and fields that a revision changed,\n" +
			"for a component with the number of clusters; it is empty when the revision changed only the document. -o json has the values.\n\n" +
			args.ExampleText("history cluster demo-cluster-01 --since 7d", "history component/podinfo", "history resource/network-policies podinfo"),
		Flags: flags,
		Action: s.onDocument(func(c *cli.Context, v kindCommands, name string) error {
			for _, flag := range []string{"document", "since", "until"} {
				if c.IsSet(flag) && !v.servesHistory() {
					return args.Errorf("%s --%s is for clusters and components, not for %s", c.Command.HelpName, flag, v.OneTitle())
				}
			}
			return v.listHistory(c, name)
		}),
	}
}

// listHistory prints the revisions of a document.
func (v kindCommands) listHistory(c *cli.Context, id string) error {
	limit, err := limitOf(c)
	if err == nil {
		err = setPeriod(c, v.Env.Now())
	}
	if err != nil {
		return err
	}
	client, err := v.Connect(c)
	if err != nil {
		return err
	}
	view, docs, err := v.historyOf(c, client, id, limit)
	if err != nil {
		return err
	}
	return v.Print(c, kinds.Kind{Name: "revision", View: view}.OutputOf(docs, docs...))
}

// historyOf returns the revisions of a document, and their table. Those of a cluster and of a component include changes of inputs
// through other documents, unless --document leaves them out.
func (v kindCommands) historyOf(c *cli.Context, client conn.Client, id string, limit int) (render.View, []json.RawMessage, error) {
	list := func(parameters ...conn.Edit) ([]json.RawMessage, error) {
		const page = 1000
		return v.ReadList(limit, page, func(e ...conn.Edit) (*http.Response, error) {
			return v.Calls.History(c.Context, client, id, slices.Concat(parameters, e)...)
		})
	}
	if !v.servesHistory() {
		docs, err := list()
		return revisionView, docs, err
	}
	period := kinds.FilterEdit(c, periodFilters())
	if c.Bool("document") {
		docs, err := list(period)
		return revisionView, docs, err
	}
	docs, err := list(period, conn.Query(url.Values{"view": {"effective"}}))
	return planview.ServedRevisionView(kinds.NameOf), docs, err
}

// periodFilters select revisions by their time.
func periodFilters() []kinds.Filter {
	return []kinds.Filter{
		{Flag: &cli.StringFlag{Name: "since", Usage: "only changes at or after this `TIME`, such as 2026-01-02T15:04:05Z, or 168h or 7d ago"}, Param: "since"},
		{Flag: &cli.StringFlag{Name: "until", Usage: "only changes before this `TIME`, likewise"}, Param: "until"},
	}
}

// setPeriod replaces durations in the flags of periodFilters by times.
func setPeriod(c *cli.Context, now time.Time) error {
	for _, flag := range []string{"since", "until"} {
		at, err := args.PastTime(flag, c.String(flag), now)
		if err == nil && c.IsSet(flag) {
			err = c.Set(flag, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// servesHistory reports whether the server also lists the revisions that changed inputs of clusters because of a document of the
// kind.
func (v kindCommands) servesHistory() bool {
	return v.API == apiclient.KindCluster || v.API == apiclient.KindPlatformComponent
}

func (s *session) restoreCommand() *cli.Command {
	return &cli.Command{
		Name: "restore", Usage: "Restore one document, or the whole fleet, to its state at a revision, as a new revision",
		ArgsUsage: "REVISION [KIND NAME]",
		Description: "Documents that did not exist then are deleted, and Flux removes their objects: --plan shows the effect.\n\n" +
			args.ExampleText("restore 41 component grafana --plan", "restore 41 --yes"),
		Flags: slices.Concat([]cli.Flag{change.DryRunFlag(), change.YesFlag()}, change.PlannedFlags()),
		Action: func(c *cli.Context) error {
			operands := c.Args().Slice()
			if len(operands) == 0 {
				return args.Errorf("%s takes %s", c.Command.HelpName, c.Command.ArgsUsage)
			}
			revision, err := strconv.ParseInt(operands[0], 10, 64)
			if err != nil || revision < 1 {
				return args.Errorf("%q is not the number of a revision", operands[0])
			}
			op := change.Operation{"op": "restore", "revision": revision}
			what := fmt.Sprintf("restore the whole fleet to revision %d", revision)
			if len(operands) > 1 {
				n, name, err := documentOf(c, operands[1:])
				if err != nil {
					return err
				}
				op = n.Operation("restore", name, op)
				what = fmt.Sprintf("restore the %s %q to revision %d", n.Title, name, revision)
			}
			if c.String("reason") == "" {
				if err := c.Set("reason", fmt.Sprintf("restored to revision %d", revision)); err != nil {
					return err
				}
			}
			return s.Perform(c, change.Change{Operations: change.FixedOperations(op), Description: what})
		},
	}
}

// revisionView shows revisions, single ones and those of a list.
var revisionView = planview.RevisionView(kinds.NameOf)
