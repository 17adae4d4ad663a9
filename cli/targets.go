package cli

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/argv"
	"github.com/urfave/cli/v2"
)

// targets are the clusters a command is about.
type targets struct {
	ids        []string
	selector   string
	all        bool
	allowEmpty bool
}

// targetsUsage is how targets are written behind a command's name.
const targetsUsage = "--cluster CLUSTER...|--selector SELECTOR|--all"

func targetFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "cluster", Usage: "the `CLUSTER`; repeat for more, all in one change"},
		&cli.StringFlag{Name: "selector", Aliases: []string{"l"}, Usage: "every cluster that matches this `SELECTOR` over labels, environment and id, such as 'environment=dev,region in (eu)'"},
		&cli.BoolFlag{Name: "all", Usage: "every cluster"},
		&cli.BoolFlag{Name: "allow-empty", Usage: "no error when no cluster is concerned"},
	}
}

// targetsOf reads the flags of targetFlags, of which exactly one way to say which clusters must be there.
func targetsOf(c *cli.Context) (targets, error) {
	t := targets{selector: c.String("selector"), all: c.Bool("all"), allowEmpty: c.Bool("allow-empty")}
	for _, id := range c.StringSlice("cluster") {
		if err := checkID("--cluster", id); err != nil {
			return t, err
		}
		if !slices.Contains(t.ids, id) {
			t.ids = append(t.ids, id)
		}
	}
	if c.IsSet("selector") && t.selector == "" {
		return t, argv.Errorf("--selector must not be empty; --all means every cluster")
	}
	ways := 0
	for _, given := range []bool{len(t.ids) > 0, t.selector != "", t.all} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return t, argv.Errorf("%s needs --cluster, --selector or --all, and only one of them", c.Command.HelpName)
	}
	return t, nil
}

// one is the only cluster, if it is named.
func (t targets) one() (string, bool) {
	if len(t.ids) == 1 {
		return t.ids[0], true
	}
	return "", false
}

// operation makes an operation on these clusters.
func (t targets) operation(op string, fields map[string]any) operation {
	o := operation{"op": op}
	maps.Copy(o, fields)
	switch {
	case len(t.ids) > 0:
		o["cluster_ids"] = t.ids
	case t.all:
		o["all"] = true
	default:
		o["selector"] = t.selector
	}
	if t.allowEmpty && len(t.ids) == 0 {
		o["allow_empty"] = true
	}
	return o
}

// planner is that one operation as a change.
func (t targets) planner(op string, fields map[string]any) planner {
	return func(client) ([]operation, error) { return []operation{t.operation(op, fields)}, nil }
}

// String says which clusters, for a question.
func (t targets) String() string {
	switch {
	case len(t.ids) > shownNames:
		return count(len(t.ids), "cluster")
	case len(t.ids) > 0:
		quoted := make([]string, len(t.ids))
		for i, id := range t.ids {
			quoted[i] = fmt.Sprintf("%q", id)
		}
		return argv.ListOf(quoted)
	case t.all:
		return "every cluster"
	}
	return fmt.Sprintf("every cluster with %q", t.selector)
}
