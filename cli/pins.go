package cli

import (
	"fmt"
	"net/url"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// pinCommands are the commands that pin and unpin clusters.
func (s clusterCommands) pinCommands() []*cli.Command {
	const usage = "NAME...|--selector SELECTOR"
	flags := slices.Concat([]cli.Flag{
		&cli.StringFlag{Name: "selector", Aliases: []string{"l"}, Usage: "the clusters that match this label `SELECTOR`, as in get clusters"},
	}, change.WriteFlags(), []cli.Flag{change.YesFlag()}, change.PlannedFlags())
	return []*cli.Command{
		{
			Name: "pin", Usage: "Keep what clusters are served, whatever changes, until cluster unpin", ArgsUsage: usage,
			Flags: append([]cli.Flag{&cli.StringFlag{Name: "until", Usage: "end at this `TIME`, such as 2027-01-04T06:00:00Z, or 12h or 7d from now; default: with cluster unpin"}}, flags...),
			Description: "The clusters, at most 100, are served exactly what they are served now, regardless of changes of components, namespaces, layers and their\n" +
				"own documents. The plan of a change names the pinned clusters that it reaches later, and that of cluster unpin what they will be served.\n\n" +
				args.ExampleText("cluster pin demo-cluster-01 --reason 'INC-7: do not touch'", "cluster pin --selector shop=eu --until 7d --reason CHG-2027", "cluster unpin demo-cluster-01 --plan"),
			Action: func(c *cli.Context) error {
				pin := map[string]any{"reason": c.String("reason")}
				if pin["reason"] == "" {
					return args.Errorf("%s needs --reason: the documents of the clusters state it", c.Command.HelpName)
				}
				if c.IsSet("until") {
					at, err := args.FutureTime("until", c.String("until"), s.Env.Now())
					if err != nil {
						return err
					}
					pin["until"] = render.Time(at)
				}
				return s.setPin(c, pin)
			},
		},
		{
			Name: "unpin", Usage: "End the pins of clusters: they are served the changes since then", ArgsUsage: usage, Flags: flags,
			Description: args.ExampleText("cluster unpin demo-cluster-01 --plan", "cluster unpin --selector shop=eu"),
			Action:      func(c *cli.Context) error { return s.setPin(c, nil) },
		},
	}
}

// setPin sets the pin of the named clusters, or of those that match a selector.
func (s clusterCommands) setPin(c *cli.Context, pin any) error {
	names, selector := c.Args().Slice(), c.String("selector")
	if (len(names) > 0) == (selector != "") {
		return args.Errorf("%s takes NAME..., or --selector", c.Command.HelpName)
	}
	for _, name := range names {
		if err := args.CheckID("NAME", name); err != nil {
			return err
		}
	}
	return s.Perform(c, change.Change{Recomputed: selector != "", Single: len(names) == 1, Operations: func(client conn.Client) ([]change.Operation, error) {
		on := names
		if selector != "" {
			matching, err := conn.ReceiveAs[[]api.Cluster](client.ListClusters(c.Context, &api.ListClustersParams{}, conn.Query(url.Values{"selector": {selector}})))
			if err == nil && len(matching) == 0 {
				err = fmt.Errorf("no cluster matches %q", selector)
			}
			if err != nil {
				return nil, err
			}
			for _, cluster := range matching {
				on = append(on, cluster.ID)
			}
		}
		ops := make([]change.Operation, len(on))
		for i, name := range on {
			ops[i] = kinds.Clusters.Operation("patch", name, map[string]any{"patch": map[string]any{"pinned": pin}})
		}
		return ops, nil
	}})
}
