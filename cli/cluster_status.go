package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

// States with a meaning for commands. The server may have others.
const (
	stateConfirmed = "confirmed"
	stateFailed    = "failed"
)

// statesOf formats counts of states: "11 confirmed, 1 failed".
func statesOf(counts api.StatusCounts) string {
	var out []string
	for _, state := range render.SortedKeys(counts) {
		out = append(out, fmt.Sprintf("%d %s", counts[state], state))
	}
	return strings.Join(out, ", ")
}

// failureMessage is the maximum length of a failure's message in a table, in characters.
const failureMessage = 160

// failureText formats a failure in one line: reason, then cause. The text is from outside and is made safe for a terminal.
func failureText(f *api.Failure) string {
	if f == nil {
		return ""
	}
	return strings.TrimSuffix(strings.ReplaceAll(render.Printable(f.Reason+": "+summarize.Cause(f.Message, failureMessage)), "\n", " "), ": ")
}

// clusterStateText returns a cluster's state, and failed beside a state that would hide it.
func clusterStateText(c api.ClusterSummary) string {
	if len(c.States) > 1 {
		return strings.Join(c.States, ",")
	}
	return c.State
}

// failedInput returns the id of the failed input, or else the object.
func failedInput(f *api.Failure) string {
	if f == nil {
		return ""
	}
	return firstNonEmpty(f.ID, f.Object)
}

var (
	fleetStatusView = render.View{
		Header: []string{"ID", "STATE", "ENVIRONMENT", "SEEN", "INPUTS"}, Narrow: 5,
		Row: render.RowOf(func(c api.ClusterSummary) []string {
			return []string{c.ID, clusterStateText(c), c.Environment, render.TimeOr(c.SeenAt, "-"), statesOf(c.Counts)}
		}),
	}
	// failedStatusView is fleetStatusView with the failed input of each cluster.
	failedStatusView = render.View{
		Header: []string{"ID", "STATE", "ENVIRONMENT", "SEEN", "FAILED", "MESSAGE", "INPUTS"}, Narrow: 6,
		Row: render.RowOf(func(c api.ClusterSummary) []string {
			return []string{c.ID, clusterStateText(c), c.Environment, render.TimeOr(c.SeenAt, "-"), failedInput(c.Failure), failureText(c.Failure), statesOf(c.Counts)}
		}),
	}
	inputStatusView = render.View{
		Header: []string{"ID", "LIST", "STATE", "SINCE", "MESSAGE", "VERSION", "TAG", "RECEIPT"}, Narrow: 5,
		Row: render.RowOf(func(in api.InputStatus) []string {
			return []string{in.ID, in.List, stateOf(in), render.TimeOr(in.Since, "-"), failureText(in.Failure), in.ComponentVersion, in.OCITag, in.Receipt}
		}),
	}
	versionStatusView = render.View{
		Header: []string{"VERSION", "TAG", "CLUSTERS", "STATES"}, Narrow: 4,
		Row: render.RowOf(func(v api.VersionStatus) []string {
			return []string{v.ComponentVersion, v.OCITag, strconv.Itoa(v.Clusters), statesOf(v.Counts)}
		}),
	}
)

// stateOf returns the state of an input, with its basis if that is no receipt.
func stateOf(in api.InputStatus) string {
	if in.ConfirmedBy != "" {
		return in.State + " (" + in.ConfirmedBy + ")"
	}
	return in.State
}

// clusterStates are the states of docs/status.md, the worst first.
var clusterStates = []string{"failed", "silent", "behind", "unknown", "never", "progressing", "delivered", "confirmed", "superseded"}

// statusFilters are the flags that select the clusters of a status.
var statusFilters = []string{"selector", "component", "component-version", "oci-tag", "changed-in", "state"}

func (s clusterCommands) statusCommand() *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "Show the inputs that clusters have received, applied, and failed to apply", ArgsUsage: "[NAME]",
		Description: "Of one cluster input by input, with the cause of a failure; -o json has the whole message. Without NAME " +
			"of all clusters, with the first input of each that failed. docs/status.md explains the states; none of them means healthy.\n\n" +
			args.ExampleText("cluster status demo-cluster-01", "cluster status --state failed,silent", "cluster status --component podinfo --component-version 6.9.0"),
		Flags: []cli.Flag{
			limitFlag(),
			&cli.StringFlag{Name: "selector", Aliases: []string{"l"}, Usage: "only clusters that match this `SELECTOR`"},
			&cli.StringFlag{Name: "component", Usage: "only the status of this `COMPONENT`, on clusters that have it"},
			&cli.StringFlag{Name: "component-version", Usage: "with --component: only clusters with this desired `VERSION` of it"},
			&cli.StringFlag{Name: "oci-tag", Usage: "with --component: only clusters with this desired `TAG` of it"},
			&cli.IntFlag{Name: "changed-in", Usage: "the progress of this `REVISION`: only clusters whose inputs it changed, and only the states of those inputs"},
			&cli.StringFlag{Name: "state", Usage: "only clusters in these `STATES`, separated by commas"},
		},
		Action: func(c *cli.Context) error {
			var names []string
			if c.NArg() > 0 {
				names = []string{"NAME"}
			}
			operands, err := arguments(c, names...)
			if err != nil {
				return err
			}
			if len(operands) > 0 {
				for _, name := range append([]string{"limit"}, statusFilters...) {
					if c.IsSet(name) {
						return args.Errorf("--%s is about all clusters: leave NAME out", name)
					}
				}
			}
			conn, err := s.connect(c)
			if err != nil {
				return err
			}
			if len(operands) > 0 {
				return s.printStatus(c, conn, operands[0])
			}
			return s.printFleetStatus(c, conn)
		},
	}
}

func (s clusterCommands) printStatus(c *cli.Context, conn client, id string) error {
	a, err := receive(conn.GetClusterStatus(c.Context, id, nil))
	if err != nil {
		return err
	}
	var known struct {
		api.ClusterStatus
		Inputs []json.RawMessage `json:"inputs"`
	}
	if err := a.decode(&known); err != nil {
		return err
	}
	if known.DeletedAt != nil {
		s.note("%s", decommissionText(&known.ClusterStatus))
	} else {
		seen := "has never polled"
		if known.SeenAt != nil {
			seen = "last polled at " + render.TimeOr(known.SeenAt, "-")
		}
		s.note("%s is %s, and %s. Inputs: %s.", id, firstNonEmpty(strings.Join(known.States, " and "), known.State), seen, firstNonEmpty(statesOf(known.Counts), "none"))
	}
	for _, e := range known.Events {
		if e.Severity == "error" {
			s.note("%s at %s: %s", e.Object, render.Time(e.At), failureText(&e))
		}
	}
	return s.print(c, documentKind{name: "input", view: inputStatusView}.outputOf(a.body, known.Inputs...))
}

// decommissionText describes the progress of a cluster's decommissioning. Its state alone, "behind" or "silent", reads like a
// problem of an active cluster.
func decommissionText(known *api.ClusterStatus) string {
	text := fmt.Sprintf("%s was decommissioned at %s", known.ID, render.TimeOr(known.DeletedAt, "-"))
	received := 0
	for _, list := range known.Lists {
		if list.State == "delivered" {
			received++
		}
	}
	switch {
	case known.SeenAt == nil:
		return text + ", and has never polled."
	case received == len(known.Lists):
		return text + ", and has received its empty lists: Flux there removes everything that came from here."
	case known.SeenAt.Before(*known.DeletedAt):
		return text + ", and has not polled since: it keeps its objects. Its last poll was at " + render.TimeOr(known.SeenAt, "-") + "."
	}
	return fmt.Sprintf("%s, and has received %d of %d empty lists. Its last poll was at %s.", text, received, len(known.Lists), render.TimeOr(known.SeenAt, "-"))
}

func (s clusterCommands) printFleetStatus(c *cli.Context, conn client) error {
	limit, err := limitOf(c)
	if err != nil {
		return err
	}
	if limit == 0 {
		limit = maxPage
	}
	filter := url.Values{"limit": {strconv.Itoa(min(limit, maxPage))}}
	for _, name := range statusFilters {
		if c.IsSet(name) {
			filter.Set(strings.ReplaceAll(name, "-", "_"), c.String(name))
		}
	}
	a, err := receive(conn.GetStatus(c.Context, nil, query(filter)))
	if err != nil {
		return err
	}
	var known struct {
		api.FleetStatus
		Clusters []json.RawMessage `json:"clusters"`
	}
	if err := a.decode(&known); err != nil {
		return err
	}
	summaries := make([]api.ClusterSummary, len(known.Clusters))
	for i, raw := range known.Clusters {
		if err := json.Unmarshal(raw, &summaries[i]); err != nil {
			return fmt.Errorf("unexpected response of the server: %w", err)
		}
	}
	s.note("%s: %s", summarize.Count(known.Total, "cluster"), firstNonEmpty(statesOf(known.Counts), "nothing is known"))
	if a.total > len(known.Clusters) {
		s.note("Showing %d of %d.", len(known.Clusters), a.total)
	}
	if known.AllSilentSince != nil && !slices.ContainsFunc([]string{"selector", "component", "changed-in"}, c.IsSet) {
		s.note("All clusters are silent: the last poll was at %s. Check the address of this service that they poll: its DNS name, certificate, load balancer and network policies.",
			render.TimeOr(known.AllSilentSince, "-"))
	}
	shown := fleetStatusView
	if slices.ContainsFunc(summaries, func(c api.ClusterSummary) bool { return c.Failure != nil }) {
		shown = failedStatusView
	}
	return s.print(c, documentKind{name: clusters.name, view: shown}.outputOf(a.body, known.Clusters...))
}

func (s componentCommands) statusCommand() *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "Show the desired versions of a component, and how many clusters confirmed them", ArgsUsage: "NAME",
		Description: args.ExampleText("component status podinfo"),
		Action: func(c *cli.Context) error {
			return s.printEntries(c, entries{
				view: versionStatusView, field: "versions", names: func(id string, _ []json.RawMessage) ([]string, error) {
					return []string{components.name + "/" + id}, nil
				},
				ask: func(conn client, id string) (*http.Response, error) {
					return conn.GetPlatformComponentStatus(c.Context, id, nil)
				},
			})
		},
	}
}

// errTimedOut: the state was not reached within the time.
var errTimedOut = errors.New("not in time")

// waitEvery is the interval between two requests.
const waitEvery = 2 * time.Second

func (s *session) waitCommand() *cli.Command {
	return &cli.Command{
		Name: "wait", Usage: "Wait until a cluster confirms its desired state", ArgsUsage: "[CLUSTER]",
		Description: "Exits with 0 when it is confirmed, 1 when it failed, 2 when neither happened in time. Without --component all of the cluster " +
			"is waited for.\n\n" + args.ExampleText("wait demo-cluster-01 --component podinfo --within 10m"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "cluster", Usage: "the `CLUSTER`, if it is no argument"},
			&cli.StringFlag{Name: "component", Usage: "only this `COMPONENT` of it"},
			&cli.DurationFlag{Name: "within", Usage: "the maximum `TIME` to wait; default: --timeout, which otherwise limits requests", Value: 10 * time.Minute},
		},
		Action: func(c *cli.Context) error {
			id := c.String("cluster")
			if c.NArg() > 0 && id == "" {
				operands, err := arguments(c, "CLUSTER")
				if err != nil {
					return err
				}
				id = strings.TrimPrefix(operands[0], clusters.name+"/") // as -o name prints it
			} else if _, err := arguments(c); err != nil {
				return err
			}
			if id == "" {
				return args.Errorf("%s takes CLUSTER", c.Command.HelpName)
			}
			conn, err := s.connect(c)
			if err != nil {
				return err
			}
			return s.wait(c, conn, id)
		},
	}
}

func (s *session) wait(c *cli.Context, conn client, id string) error {
	within := c.Duration("within")
	if c.IsSet("timeout") && !c.IsSet("within") { // kubectl's name of this flag
		within = c.Duration("timeout")
	}
	ctx, cancel := context.WithTimeout(c.Context, within)
	defer cancel()
	last := "not known"
	late := func() error {
		return fmt.Errorf("%w: %s is still %q after %s", errTimedOut, id, last, within)
	}
	for {
		a, err := receive(conn.GetClusterStatus(c.Context, id, nil))
		if err != nil && ctx.Err() != nil && c.Err() == nil {
			return late()
		}
		if err != nil {
			return err
		}
		var known api.ClusterStatus
		if err := a.decode(&known); err != nil {
			return err
		}
		state, failure, err := waitState(&known, c.String("component"))
		switch {
		case err != nil:
			return err
		case state == stateConfirmed:
			s.note("confirmed")
			return nil
		case state == stateFailed:
			return fmt.Errorf("it failed: %s", failureText(failure))
		case state != last:
			s.note("%s ...", state)
		}
		last = state
		select {
		case <-ctx.Done():
			if err := c.Err(); err != nil {
				return err
			}
			return late()
		case <-time.After(waitEvery):
		}
	}
}

// waitState returns the state that wait compares, of a cluster or of a component on it.
func waitState(known *api.ClusterStatus, component string) (state string, failure *api.Failure, err error) {
	state = known.State
	found := component == ""
	for _, in := range known.Inputs {
		switch {
		case component == "" && in.Failure != nil:
			failure = in.Failure
		case component != "" && in.List == "platform-components" && in.ID == component:
			found, state, failure = true, in.State, in.Failure
		}
	}
	if !found {
		return "", nil, fmt.Errorf("cluster %q has no component %q", known.ID, component)
	}
	return state, failure, nil
}

// addStateColumns adds the state of each cluster to a table that begins with their ids. When the server is too old or busy, the
// list is shown without it.
func addStateColumns(c *cli.Context, s *session, conn client, tables func() ([]render.Table, error)) func() ([]render.Table, error) {
	return func() ([]render.Table, error) {
		out, err := tables()
		if err != nil || len(out) != 1 {
			return out, err
		}
		if len(out[0].Rows) == 0 {
			out[0].Header = append(slices.Clone(out[0].Header), "STATE", "SEEN")
			return out, nil
		}
		var known api.FleetStatus
		a, err := receive(conn.GetStatus(c.Context, nil, statusFilter(c, out[0].Rows), query(url.Values{"limit": {strconv.Itoa(maxPage)}})))
		if err == nil {
			err = a.decode(&known)
		}
		if err != nil {
			s.note("STATE and SEEN are left out: %s", errorText(err))
			return out, nil
		}
		of := map[string]api.ClusterSummary{}
		for _, summary := range known.Clusters {
			of[summary.ID] = summary
		}
		t := &out[0]
		t.Header = append(slices.Clone(t.Header), "STATE", "SEEN")
		for i, row := range t.Rows {
			summary := of[row[0]]
			t.Rows[i] = append(slices.Clone(row), summary.State, render.TimeOr(summary.SeenAt, "-"))
		}
		return out, nil
	}
}

// Limits of a selector; the server parses the ids in it as label values.
const (
	maxSelector   = 4096
	maxLabelValue = 63
)

// statusFilter selects the clusters in the rows of a list: by id, or with the list's own filters if there are too many. The filter
// by component is left out: it would select the status of that component.
func statusFilter(c *cli.Context, rows [][]string) edit {
	ids := make([]string, len(rows))
	long := false
	for i, row := range rows {
		ids[i] = row[0]
		long = long || len(row[0]) > maxLabelValue
	}
	if selector := "id in (" + strings.Join(ids, ",") + ")"; !long && len(selector) <= maxSelector {
		return query(url.Values{"selector": {selector}})
	}
	var those []filter
	for _, f := range clusterFilters() {
		if f.param == "environment" || f.param == "selector" {
			those = append(those, f)
		}
	}
	return filterEdit(c, those)
}
