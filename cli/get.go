package cli

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/urfave/cli/v2"
)

// getCommand lists documents, or shows those that arguments name.
func (v kindCommands) getCommand() *cli.Command {
	var filters []kinds.Filter
	if v.Filters != nil {
		filters = v.Filters()
	}
	ofList := []cli.Flag{limitFlag(), sortFlag()}
	if v.Labeled {
		ofList = append(ofList, labelFlags()...)
	}
	for _, f := range filters {
		ofList = append(ofList, f.Flag)
	}
	var ofNamed []cli.Flag
	if v.Assignable != nil || slices.Contains([]string{kinds.Clusters.API, kinds.Layers.API, kinds.ResourceTypes.API}, v.API) {
		ofNamed = append(ofNamed, &cli.IntFlag{Name: "revision", Usage: "with NAME: as it was at revision `N`"})
	}
	return &cli.Command{
		Name: v.Name, Aliases: v.names(), ArgsUsage: "[NAME...]",
		Usage:  "List " + v.Plural + ", or show those of the given names",
		Flags:  slices.Concat(ofNamed, ofList, watchFlags()),
		Action: listOrNamed(ofList, ofNamed, func(c *cli.Context) error { return v.list(c, filters) }, v.get),
	}
}

// names returns the other names of the kind in commands.
func (v kindCommands) names() []string {
	if len(v.Aliases) > 0 || strings.Contains(v.Plural, " ") {
		return v.Aliases
	}
	return []string{v.Plural}
}

// listOrNamed returns the action of a command that lists without arguments, and shows documents by name with some.
func listOrNamed(ofList, ofNamed []cli.Flag, list, named cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		run, wrong, when := list, ofNamed, "without"
		if c.NArg() > 0 {
			run, wrong, when = named, ofList, "with"
		}
		for _, f := range wrong {
			if flag := f.Names()[0]; c.IsSet(flag) {
				return args.Errorf("%s has no --%s %s NAME", c.Command.HelpName, flag, when)
			}
		}
		return run(c)
	}
}

// list prints the documents that match the flags.
func (v kindCommands) list(c *cli.Context, filters []kinds.Filter) error {
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
}

// get prints the documents that arguments name.
func (v kindCommands) get(c *cli.Context) error {
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
