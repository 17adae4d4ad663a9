package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/fleetview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

// statusFilters are the flags that select the clusters of a status.
var statusFilters = []string{"selector", "component", "component-version", "oci-tag", "changed-in", "state", "shared-token", "drifted", "cause", "overrides"}

func (s clusterCommands) statusCommand() *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "Show the inputs that clusters have received, applied, and failed to apply", ArgsUsage: "[NAME]",
		Description: "Of one cluster input by input, with the cause of a failure; -o json has the whole message. Without NAME " +
			"of all clusters, with the first input of each that failed. With --group cause, clusters that fail at the same version of a component " +
			"for the same reason are one row. CAUSE is the message without names, numbers and digests; --cause ID lists the clusters of a row, " +
			"and -o wide shows the ids. BEGAN names the revision that changed the input shortly before; it may be a coincidence. " +
			"docs/status.md explains the states; none of them means healthy.\n\n" +
			args.ExampleText("cluster status demo-cluster-01", "cluster status --state failed,silent", "cluster status --group cause", "cluster status --state failed --cause 5f1c2ab96f0e", "cluster status --component podinfo --component-version 6.9.0", "cluster status --overrides version"),
		Flags: []cli.Flag{
			limitFlag(),
			&cli.StringFlag{Name: "selector", Aliases: []string{"l"}, Usage: "only clusters that match this `SELECTOR`"},
			&cli.StringFlag{Name: "component", Usage: "only the status of this `COMPONENT`, on clusters that have it"},
			&cli.StringFlag{Name: "component-version", Usage: "with --component: only clusters with this desired `VERSION` of it"},
			&cli.StringFlag{Name: "oci-tag", Usage: "with --component: only clusters with this desired `TAG` of it"},
			&cli.IntFlag{Name: "changed-in", Usage: "the progress of this `REVISION`: only clusters whose inputs it changed, and only the states of those inputs"},
			&cli.StringFlag{Name: "state", Usage: "only clusters in these `STATES`, separated by commas"},
			&cli.StringFlag{Name: "group", Usage: "group clusters by `FIELD`: cause, the reason of their failure"},
			&cli.StringFlag{Name: "cause", Usage: "only clusters that fail for the cause with this `ID`; list the causes with --group cause and the same filters"},
			&cli.StringFlag{Name: "overrides", Usage: "only clusters whose own document overrides `FIELD`: version, a version other than that of their layers or the catalog, or patches"},
			&cli.BoolFlag{Name: "shared-token", Usage: "only clusters that polled with a token that is not their own within an hour"},
			&cli.BoolFlag{Name: "drifted", Usage: "only clusters on which objects of a Helm release differ from what Flux installed, according to events of the last day"},
		},
		Action: func(c *cli.Context) error {
			var names []string
			if c.NArg() > 0 {
				names = []string{"NAME"}
			}
			operands, err := args.Operands(c, names...)
			if err != nil {
				return err
			}
			if len(operands) > 0 {
				for _, name := range append([]string{"limit", "group"}, statusFilters...) {
					if c.IsSet(name) {
						return args.Errorf("--%s is about all clusters: leave NAME out", name)
					}
				}
			}
			client, err := s.Connect(c)
			if err != nil {
				return err
			}
			if len(operands) > 0 {
				return s.printStatus(c, client, operands[0])
			}
			return s.printFleetStatus(c, client)
		},
	}
}

func (s clusterCommands) printStatus(c *cli.Context, client conn.Client, id string) error {
	a, err := conn.Receive(client.GetClusterStatus(c.Context, id, nil))
	if err != nil {
		return err
	}
	var known struct {
		api.ClusterStatus
		Inputs []json.RawMessage `json:"inputs"`
	}
	if err := a.Decode(&known); err != nil {
		return err
	}
	if known.DeletedAt != nil {
		s.Note("%s", fleetview.Decommission(&known.ClusterStatus))
	} else {
		seen := "has never polled"
		if known.SeenAt != nil {
			seen = "last polled at " + render.TimeOr(known.SeenAt, "-")
		}
		s.Note("%s is %s, and %s. Inputs: %s.", id, cmp.Or(strings.Join(known.States, " and "), known.State), seen, cmp.Or(fleetview.Counts(known.Counts), "none"))
	}
	if known.SharedTokenAt != nil {
		s.Note("Its last poll with a token that is not its own was at %s.", render.TimeOr(known.SharedTokenAt, "-"))
	}
	for _, e := range known.Events {
		if e.Severity == "error" {
			s.Note("%s at %s: %s", e.Object, render.Time(e.At), fleetview.FailureText(&e))
		}
	}
	return s.Print(c, kinds.Kind{Name: "input", View: fleetview.Inputs}.OutputOf(a.Body, known.Inputs...))
}

func (s clusterCommands) printFleetStatus(c *cli.Context, client conn.Client) error {
	limit, err := limitOf(c)
	if err != nil {
		return err
	}
	if limit == 0 {
		limit = conn.MaxPage
	}
	filter := url.Values{"limit": {strconv.Itoa(min(limit, conn.MaxPage))}}
	for _, name := range statusFilters {
		if c.IsSet(name) {
			filter.Set(strings.ReplaceAll(name, "-", "_"), c.String(name))
		}
	}
	if group := c.String("group"); group != "" {
		if group != "cause" {
			return args.Errorf("--group must be cause")
		}
		filter.Set("group", group)
	}
	a, err := conn.Receive(client.GetStatus(c.Context, nil, conn.Query(filter)))
	if err != nil {
		return err
	}
	var known struct {
		api.FleetStatus
		Clusters []json.RawMessage `json:"clusters"`
		Causes   []json.RawMessage `json:"causes"`
	}
	if err := a.Decode(&known); err != nil {
		return err
	}
	summaries := make([]api.ClusterSummary, len(known.Clusters))
	for i, raw := range known.Clusters {
		if err := json.Unmarshal(raw, &summaries[i]); err != nil {
			return fmt.Errorf("unexpected response of the server: %w", err)
		}
	}
	s.Note("%s: %s", summarize.Count(known.Total, "cluster"), cmp.Or(fleetview.Counts(known.Counts), "nothing is known"))
	if shown := max(len(known.Clusters), len(known.Causes)); a.Total > shown {
		s.Note("Showing %d of %d.", shown, a.Total)
	}
	if known.SharedTokens > 0 {
		s.Note("%s polled with a token that is not their own within an hour: cluster status --shared-token.", summarize.Count(known.SharedTokens, "cluster"))
	}
	if known.AllSilentSince != nil && !slices.ContainsFunc([]string{"selector", "component", "changed-in"}, c.IsSet) {
		s.Note("All clusters are silent: the last poll was at %s. Check the address of this service that they poll: its DNS name, certificate, load balancer and network policies.",
			render.TimeOr(known.AllSilentSince, "-"))
	}
	if c.String("group") != "" {
		return s.Print(c, kinds.Kind{Name: "cause", View: fleetview.Causes}.OutputOf(a.Body, known.Causes...))
	}
	shown := fleetview.ClusterStates
	if slices.ContainsFunc(summaries, func(c api.ClusterSummary) bool { return c.Failure != nil }) {
		shown = fleetview.FailedClusters
	}
	return s.Print(c, kinds.Kind{Name: kinds.Clusters.Name, View: shown}.OutputOf(a.Body, known.Clusters...))
}
