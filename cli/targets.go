package cli

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

// targets are the clusters or layers of a command.
type targets struct {
	ids        []string
	selector   string
	all        bool
	allowEmpty bool
	layers     []string // instead of clusters
}

// targetsUsage is the synopsis of targets.
const targetsUsage = "--cluster CLUSTER...|--selector SELECTOR|--all"

// assigningUsage is the synopsis of targets that may be layers.
const assigningUsage = targetsUsage + "|--layer LAYER..."

func targetFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "cluster", Usage: "the `CLUSTER`; repeat for more, all in one change"},
		&cli.StringFlag{Name: "selector", Aliases: []string{"l"}, Usage: "every cluster that matches this `SELECTOR` over labels, environment and id, such as 'environment=dev,region in (eu)'"},
		&cli.BoolFlag{Name: "all", Usage: "every cluster"},
		&cli.BoolFlag{Name: "allow-empty", Usage: "no error when no cluster is concerned"},
	}
}

// assigningFlags are targetFlags and the flag for layers.
func assigningFlags() []cli.Flag {
	return append(targetFlags(), &cli.StringSliceFlag{Name: "layer", Usage: "not on clusters, but on this `LAYER`; repeat for more"})
}

// targetsOf reads the flags of targetFlags or assigningFlags. Exactly one way to select is required.
func targetsOf(c *cli.Context) (targets, error) {
	t := targets{selector: c.String("selector"), all: c.Bool("all"), allowEmpty: c.Bool("allow-empty")}
	var err error
	if t.ids, err = uniqueNames(c, "cluster"); err != nil {
		return t, err
	}
	if t.layers, err = uniqueNames(c, "layer"); err != nil {
		return t, err
	}
	if c.IsSet("selector") && t.selector == "" {
		return t, args.Errorf("--selector must not be empty; --all means every cluster")
	}
	ways := 0
	for _, given := range []bool{len(t.ids) > 0, t.selector != "", t.all, len(t.layers) > 0} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		ways := "--cluster, --selector or --all"
		if hasFlag(c, "layer") {
			ways = "--cluster, --selector, --all or --layer"
		}
		return t, args.Errorf("%s needs %s, and only one of them", c.Command.HelpName, ways)
	}
	return t, nil
}

// hasFlag reports whether a command has a flag.
func hasFlag(c *cli.Context, name string) bool {
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

// single returns the only cluster, if it is named.
func (t targets) single() (string, bool) {
	if len(t.ids) == 1 {
		return t.ids[0], true
	}
	return "", false
}

// operation returns an operation on these targets.
func (t targets) operation(op string, fields map[string]any) operation {
	o := operation{"op": op}
	maps.Copy(o, fields)
	switch {
	case len(t.layers) > 0:
		o["layers"] = t.layers
	case len(t.ids) > 0:
		o["cluster_ids"] = t.ids
	case t.all:
		o["all"] = true
	default:
		o["selector"] = t.selector
	}
	if t.allowEmpty && len(t.ids)+len(t.layers) == 0 {
		o["allow_empty"] = true
	}
	return o
}

// planner returns a planner for that one operation.
func (t targets) planner(op string, fields map[string]any) planner {
	return func(client) ([]operation, error) { return []operation{t.operation(op, fields)}, nil }
}

// String describes the targets in a prompt.
func (t targets) String() string {
	switch {
	case len(t.layers) > planview.ShownNames:
		return "the clusters of " + summarize.Count(len(t.layers), "layer")
	case len(t.layers) > 0:
		return "the clusters of layer " + quotedList(t.layers)
	case len(t.ids) > planview.ShownNames:
		return summarize.Count(len(t.ids), "cluster")
	case len(t.ids) > 0:
		return quotedList(t.ids)
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
