package change

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

// Targets are the clusters or layers of a command.
type Targets struct {
	Ids        []string
	selector   string
	all        bool
	allowEmpty bool
	Layers     []string // instead of clusters
}

// TargetsUsage is the synopsis of targets.
const TargetsUsage = "--cluster CLUSTER...|--selector SELECTOR|--all"

// AssigningUsage is the synopsis of targets that may be layers.
const AssigningUsage = TargetsUsage + "|--layer LAYER..."

// TargetFlags are the flags that select clusters.
func TargetFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "cluster", Usage: "the `CLUSTER`; repeat for more, all in one change"},
		&cli.StringFlag{Name: "selector", Aliases: []string{"l"}, Usage: "every cluster that matches this `SELECTOR` over labels, environment and id, such as 'environment=dev,region in (eu)'"},
		&cli.BoolFlag{Name: "all", Usage: "every cluster"},
		&cli.BoolFlag{Name: "allow-empty", Usage: "no error when no cluster is concerned"},
	}
}

// ClusterFlags are TargetFlags without --allow-empty, for commands that fail if no cluster matches.
func ClusterFlags() []cli.Flag {
	return slices.DeleteFunc(TargetFlags(), func(f cli.Flag) bool { return f.Names()[0] == "allow-empty" })
}

// AssigningFlags are TargetFlags and the flag for layers.
func AssigningFlags() []cli.Flag {
	return append(TargetFlags(), &cli.StringSliceFlag{Name: "layer", Usage: "not on clusters, but on this `LAYER`; repeat for more"})
}

// TargetsOf reads the flags of TargetFlags or AssigningFlags. Exactly one way to select is required.
func TargetsOf(c *cli.Context) (Targets, error) {
	t := Targets{selector: c.String("selector"), all: c.Bool("all"), allowEmpty: c.Bool("allow-empty")}
	var err error
	if t.Ids, err = uniqueNames(c, "cluster"); err != nil {
		return t, err
	}
	if t.Layers, err = uniqueNames(c, "layer"); err != nil {
		return t, err
	}
	if c.IsSet("selector") && t.selector == "" {
		return t, args.Errorf("--selector must not be empty; --all means every cluster")
	}
	ways := 0
	for _, given := range []bool{len(t.Ids) > 0, t.selector != "", t.all, len(t.Layers) > 0} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		ways := "--cluster, --selector or --all"
		if HasFlag(c, "layer") {
			ways = "--cluster, --selector, --all or --layer"
		}
		return t, args.Errorf("%s needs %s, and only one of them", c.Command.HelpName, ways)
	}
	return t, nil
}

// HasTargetFlags reports whether flags select the clusters of a command that also takes the name of one as its argument.
func HasTargetFlags(c *cli.Context) bool {
	return c.IsSet("cluster") || c.IsSet("selector") || c.IsSet("all")
}

// ClustersOf returns the clusters of a command: the one that the argument NAME names, or those that TargetFlags select.
func ClustersOf(c *cli.Context) (Targets, error) {
	operands := c.Args().Slice()
	switch many := HasTargetFlags(c); {
	case many && len(operands) > 0, !many && len(operands) != 1:
		return Targets{}, args.Errorf("%s takes NAME, or --cluster, --selector or --all", c.Command.HelpName)
	case many:
		return TargetsOf(c)
	}
	return Targets{Ids: operands}, args.CheckID("NAME", operands[0])
}

// PerformOnEach makes one change, with operations on each cluster.
func (s *Engine) PerformOnEach(c *cli.Context, on Targets, ch Change, operations func(id string) []Operation) error {
	ch.Recomputed = len(on.Ids) == 0
	ch.Operations = func(client conn.Client) ([]Operation, error) {
		selected, err := s.clustersOf(c, client, on)
		var ops []Operation
		for _, cluster := range selected {
			of := operations(cluster.ID)
			if cluster.Revision > 0 { // one that was changed may not match any more
				of[0]["if_match"] = strconv.FormatInt(cluster.Revision, 10)
			}
			ops = append(ops, of...)
		}
		return ops, err
	}
	if _, single := on.Single(); single {
		return s.PerformOn(c, kinds.Clusters, ch)
	}
	return s.Perform(c, ch)
}

type selectedCluster struct {
	ID       string `json:"id"`
	Revision int64  `json:"revision"` // 0 for one that was named
}

// clustersOf returns the clusters of targets. It is an error if no cluster matches.
func (s *Engine) clustersOf(c *cli.Context, client conn.Client, on Targets) ([]selectedCluster, error) {
	if len(on.Ids) > 0 {
		named := make([]selectedCluster, len(on.Ids))
		for i, id := range on.Ids {
			named[i].ID = id
		}
		return named, nil
	}
	filter := url.Values{}
	if !on.all {
		filter.Set("selector", on.selector)
	}
	docs, err := s.ReadList(0, kinds.Clusters.Page, func(e ...conn.Edit) (*http.Response, error) {
		return kinds.Clusters.Calls.List(c.Context, client, append([]conn.Edit{conn.Query(filter)}, e...)...)
	})
	if err != nil {
		return nil, err
	}
	if len(docs) == 0 {
		return nil, fmt.Errorf("no cluster matches %q; nothing was changed", cmp.Or(on.selector, "--all"))
	}
	selected := make([]selectedCluster, len(docs))
	for i, doc := range docs {
		if err := json.Unmarshal(doc, &selected[i]); err != nil {
			return nil, err
		}
	}
	return selected, nil
}

// HasFlag reports whether a command has a flag.
func HasFlag(c *cli.Context, name string) bool {
	return slices.ContainsFunc(c.Command.Flags, func(f cli.Flag) bool { return f.Names()[0] == name })
}

// uniqueNames returns the ids of a flag without duplicates.
func uniqueNames(c *cli.Context, flag string) ([]string, error) {
	var ids []string
	for _, id := range c.StringSlice(flag) {
		if err := args.CheckID("--"+flag, id); err != nil {
			return nil, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Single returns the only cluster, if it is named.
func (t Targets) Single() (string, bool) {
	if len(t.Ids) == 1 {
		return t.Ids[0], true
	}
	return "", false
}

// Operation returns an operation on these targets.
func (t Targets) Operation(op string, fields map[string]any) Operation {
	o := Operation{"op": op}
	maps.Copy(o, fields)
	switch {
	case len(t.Layers) > 0:
		o["layers"] = t.Layers
	case len(t.Ids) > 0:
		o["cluster_ids"] = t.Ids
	case t.all:
		o["all"] = true
	default:
		o["selector"] = t.selector
	}
	if t.allowEmpty && len(t.Ids)+len(t.Layers) == 0 {
		o["allow_empty"] = true
	}
	return o
}

// Planner returns a planner for that one operation.
func (t Targets) Planner(op string, fields map[string]any) Planner {
	return func(conn.Client) ([]Operation, error) { return []Operation{t.Operation(op, fields)}, nil }
}

// String describes the targets in a prompt.
func (t Targets) String() string {
	switch {
	case len(t.Layers) > planview.ShownNames:
		return "the clusters of " + summarize.Count(len(t.Layers), "layer")
	case len(t.Layers) > 0:
		return "the clusters of layer " + quotedList(t.Layers)
	case len(t.Ids) > planview.ShownNames:
		return summarize.Count(len(t.Ids), "cluster")
	case len(t.Ids) > 0:
		return quotedList(t.Ids)
	case t.all:
		return "every cluster"
	}
	return fmt.Sprintf("every cluster with %q", t.selector)
}

func quotedList(ids []string) string {
	quoted := make([]string, len(ids))
	for i, id := range ids {
		quoted[i] = fmt.Sprintf("%q", id)
	}
	return args.ListOf(quoted)
}
