package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/urfave/cli/v2"
)

func (v kindCommands) historyCommand() *cli.Command {
	return &cli.Command{
		Name: "history", Usage: "List the revisions that changed a " + v.title + ", newest first; also of one that is deleted",
		Description: v.historyDescription(),
		ArgsUsage:   "NAME",
		Flags:       v.historyFlags(),
		Action: withArguments(func(c *cli.Context, operands []string) error {
			limit, err := limitOf(c)
			if err == nil {
				err = setPeriod(c, v.env.Now())
			}
			if err != nil {
				return err
			}
			conn, err := v.connect(c)
			if err != nil {
				return err
			}
			view, docs, err := v.historyOf(c, conn, operands[0], limit)
			if err != nil {
				return err
			}
			return v.print(c, documentKind{name: "revision", view: view}.outputOf(docs, docs...))
		}),
	}
}

// historyOf returns the revisions of a document, and their table. Those of a cluster and of a component include changes of inputs
// through other documents, unless --document leaves them out.
func (v kindCommands) historyOf(c *cli.Context, conn client, id string, limit int) (render.View, []json.RawMessage, error) {
	list := func(parameters ...edit) ([]json.RawMessage, error) {
		const page = 1000
		return v.readList(limit, page, func(e ...edit) (*http.Response, error) {
			return v.api.history(c.Context, conn, id, slices.Concat(parameters, e)...)
		})
	}
	if !v.servesHistory() {
		docs, err := list()
		return revisionView, docs, err
	}
	period := filterEdit(c, periodFilters())
	if c.Bool("document") {
		docs, err := list(period)
		return revisionView, docs, err
	}
	docs, err := list(period, query(url.Values{"view": {"effective"}}))
	return planview.ServedRevisionView(nameOfKind), docs, err
}

// servesHistory reports whether the server also lists the revisions that changed inputs of clusters because of a document of the
// kind.
func (v kindCommands) servesHistory() bool {
	return v.kind == apiclient.KindCluster || v.kind == apiclient.KindPlatformComponent
}

func (v kindCommands) historyFlags() []cli.Flag {
	flags := []cli.Flag{limitFlag()}
	if v.servesHistory() {
		flags = append(flags, &cli.BoolFlag{Name: "document", Usage: "only revisions that changed the " + v.title + "'s own document"})
		for _, f := range periodFilters() {
			flags = append(flags, f.flag)
		}
	}
	return flags
}

func (v kindCommands) historyDescription() string {
	const rest = "it is empty when the revision changed only the document. -o json has their values."
	switch v.kind {
	case apiclient.KindCluster:
		return "It includes the revisions that changed the cluster's inputs through layers, the catalog and resource types. SERVED names " +
			"the inputs and fields that a revision changed; " + rest
	case apiclient.KindPlatformComponent:
		return "It includes the revisions that changed what any cluster is served of the component, by way of layers, clusters and the components " +
			"that it depends on. SERVED has the number of these clusters and the fields that a revision changed; " + rest
	}
	return ""
}

func atRevision(n int64) url.Values { return url.Values{"revision": {strconv.FormatInt(n, 10)}} }

func (s *session) restoreCommand() *cli.Command {
	return &cli.Command{
		Name: "restore", Usage: "Restore one document, or the whole fleet, to its state at a revision, as a new revision",
		ArgsUsage: "REVISION [KIND NAME]",
		Description: "Documents that did not exist then are deleted, and Flux removes their objects: --plan shows the effect.\n\n" +
			args.ExampleText("restore 41 component grafana --plan", "restore 41 --yes"),
		Flags: slices.Concat([]cli.Flag{dryRunFlag(), yesFlag()}, plannedFlags()),
		Action: func(c *cli.Context) error {
			operands := c.Args().Slice()
			if len(operands) != 1 && len(operands) != 3 {
				return args.Errorf("%s takes REVISION, or REVISION KIND NAME, not %s", c.Command.HelpName, counted(operands))
			}
			revision, err := strconv.ParseInt(operands[0], 10, 64)
			if err != nil || revision < 1 {
				return args.Errorf("%q is not the number of a revision", operands[0])
			}
			op := operation{"op": "restore", "revision": revision}
			what := fmt.Sprintf("restore the whole fleet to revision %d", revision)
			if len(operands) == 3 {
				n, ok := findKind(operands[1])
				if !ok {
					return args.Errorf("there is no kind %q; there are %s", operands[1], args.ListOf(kindWords()))
				}
				if err := args.CheckID("NAME", operands[2]); err != nil {
					return err
				}
				op = n.operation("restore", operands[2], op)
				what = fmt.Sprintf("restore the %s %q to revision %d", n.title, operands[2], revision)
			}
			if c.String("reason") == "" {
				if err := c.Set("reason", fmt.Sprintf("restored to revision %d", revision)); err != nil {
					return err
				}
			}
			return s.perform(c, change{operations: fixedOperations(op), description: what})
		},
	}
}
