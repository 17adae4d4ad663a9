package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/fleetview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

// errTimedOut: the state was not reached within the time.
var errTimedOut = errors.New("not in time")

// awaitedFilters are the flags of wait that select several clusters, as those of cluster status do.
var awaitedFilters = []string{"selector", "component", "component-version", "oci-tag", "changed-in"}

func (s *session) waitCommand() *cli.Command {
	return &cli.Command{
		Name: "wait", Usage: "Wait until clusters confirm their desired state", ArgsUsage: "[CLUSTER]",
		Description: "Of one cluster, or of all that the flags select. Exits with 0 when all are confirmed, 1 when one failed or none is selected, 2 when " +
			"neither happened in time. A cluster that does not poll is waited for. docs/status.md explains the states.\n\n" +
			args.ExampleText("wait demo-cluster-01 --component podinfo --within 10m", "wait --changed-in 42", "wait --selector environment=dev --component podinfo",
				"wait --component podinfo --component-version 6.9.0 --within 1h", "wait --rollout podinfo-6.9 --stage canary"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "cluster", Usage: "the `CLUSTER`, if it is no argument"},
			&cli.IntFlag{Name: "changed-in", Usage: "the clusters whose inputs this `REVISION` changed, and only these inputs"},
			&cli.StringFlag{Name: "selector", Aliases: []string{"l"}, Usage: "the clusters that match this `SELECTOR`"},
			&cli.StringFlag{Name: "component", Usage: "only this `COMPONENT`; without CLUSTER, on the clusters that have it"},
			&cli.StringFlag{Name: "component-version", Usage: "with --component: the clusters with this desired `VERSION` of it"},
			&cli.StringFlag{Name: "oci-tag", Usage: "with --component: the clusters with this desired `TAG` of it"},
			&cli.StringFlag{Name: "rollout", Usage: "the clusters whose inputs this `ROLLOUT` changes, until all of its stages have started"},
			&cli.StringFlag{Name: "stage", Usage: "with --rollout: only the stages up to this `STAGE`"},
			&cli.DurationFlag{Name: "within", Usage: "the maximum `TIME` to wait; default: --timeout, which otherwise limits requests", Value: 10 * time.Minute},
			&cli.DurationFlag{Name: "interval", Value: 2 * time.Second, Usage: "interval between two requests"},
		},
		Action: func(c *cli.Context) error {
			id := c.String("cluster")
			if c.NArg() > 0 && id == "" {
				operands, err := args.Operands(c, "CLUSTER")
				if err != nil {
					return err
				}
				id = strings.TrimPrefix(operands[0], kinds.Clusters.Name+"/") // as -o name prints it
			} else if _, err := args.Operands(c); err != nil {
				return err
			}
			if err := checkAwaited(c, id); err != nil {
				return err
			}
			client, err := s.Connect(c)
			if err != nil {
				return err
			}
			if id != "" {
				return s.wait(c, func() (progress, error) { return clusterProgress(c, client, id) })
			}
			if c.IsSet("rollout") {
				return s.wait(c, func() (progress, error) { return rolloutProgress(c, client) })
			}
			return s.wait(c, func() (progress, error) { return fleetProgress(c, client) })
		},
	}
}

// checkAwaited checks that the flags select clusters in one way.
func checkAwaited(c *cli.Context, id string) error {
	given := slices.DeleteFunc(slices.Clone(awaitedFilters), func(name string) bool { return !c.IsSet(name) })
	for _, name := range given {
		if fmt.Sprint(c.Value(name)) == "" {
			return args.Errorf("--%s must not be empty", name)
		}
		if id != "" && name != "component" {
			return args.Errorf("--%s selects clusters: leave CLUSTER out", name)
		}
		if !c.IsSet("component") && (name == "component-version" || name == "oci-tag") {
			return args.Errorf("--%s is for --component", name)
		}
	}
	switch {
	case c.IsSet("stage") && !c.IsSet("rollout"):
		return args.Errorf("--stage is for --rollout")
	case c.IsSet("rollout") && (id != "" || len(given) > 0):
		return args.Errorf("--rollout selects clusters: leave CLUSTER and other flags that select them out")
	case c.IsSet("rollout"):
		return args.CheckID("--rollout", c.String("rollout"))
	case id == "" && len(given) == 0:
		return args.Errorf("%s takes CLUSTER, or flags that select clusters: --changed-in, --selector, --component or --rollout", c.Command.HelpName)
	}
	return nil
}

// progress is one observation of what wait waits for.
type progress struct {
	text   string // the state
	late   string // the state in the error after the time; empty: text
	done   bool
	failed error // it cannot be reached
}

// wait observes progress until it ends, and shows its changes on standard error.
func (s *session) wait(c *cli.Context, observe func() (progress, error)) error {
	return s.follow(c, &progressLine{session: s, out: s.Env.Stderr, terminal: s.Env.StderrTerminal}, observe)
}

// follow observes progress until it ends, or for the time of --within, and shows its changes in a line.
func (s *session) follow(c *cli.Context, line *progressLine, observe func() (progress, error)) error {
	within, every := c.Duration("within"), c.Duration("interval")
	if every < time.Millisecond {
		return args.Errorf("--interval must be at least 1ms, such as 2s")
	}
	if within < 0 || within == 0 && c.IsSet("within") {
		return args.Errorf("--within must be positive, such as 10m")
	}
	if within > 0 && c.IsSet("timeout") && !c.IsSet("within") { // kubectl's name of this flag
		within = c.Duration("timeout")
	}
	ctx := c.Context
	if within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	defer line.end()
	last := progress{late: "nothing is known"}
	late := func() error {
		return fmt.Errorf("%w: %s after %s", errTimedOut, cmp.Or(last.late, last.text), within)
	}
	for {
		now, err := observe()
		switch {
		case err != nil && ctx.Err() != nil && c.Err() == nil:
			return late()
		case err != nil:
			return err
		case now.failed != nil:
			if line.every {
				line.show(now.text, true)
			}
			return now.failed
		case now.done:
			line.show(now.text, true)
			return nil
		}
		line.show(now.text+" ...", false)
		last = now
		select {
		case <-ctx.Done():
			if err := c.Err(); err != nil {
				return err
			}
			return late()
		case <-time.After(every):
		}
	}
}

// progressLine shows progress: at a terminal in one line, which is rewritten. In a file it is a line for the first state and for
// the last one, and between them for every observation that differs, or only for every quietRounds-th.
type progressLine struct {
	*session
	out      io.Writer
	terminal bool
	every    bool
	shown    string
	since    int // observations since the line was shown
}

const quietRounds = 15

func (l *progressLine) show(text string, last bool) {
	l.since++
	if l.Quiet || text == l.shown || !l.terminal && !last && l.shown != "" && l.since < quietRounds && !l.every {
		return
	}
	if l.shown, l.since = text, 0; !l.terminal {
		_, _ = fmt.Fprintln(l.out, render.Printable(text))
		return
	}
	if l.Env.Size != nil {
		if columns, _ := l.Env.Size(); columns > 1 && len(text) >= columns {
			text = text[:columns-1] // a longer line could not be rewritten
		}
	}
	_, _ = io.WriteString(l.out, "\r\x1b[K"+text) // erases the line
}

// end ends the line, so that an error begins in the next one.
func (l *progressLine) end() {
	if l.terminal && l.shown != "" {
		_, _ = io.WriteString(l.out, "\n")
	}
}

// clusterProgress returns the progress of one cluster, or of the component of the flag on it.
func clusterProgress(c *cli.Context, client conn.Client, id string) (progress, error) {
	known, err := conn.ReceiveAs[api.ClusterStatus](client.GetClusterStatus(c.Context, id, nil))
	if err != nil {
		return progress{}, err
	}
	state, failure, err := fleetview.AwaitedState(&known, c.String("component"))
	if err != nil {
		return progress{}, err
	}
	p := progress{text: state, late: fmt.Sprintf("%s is still %q", id, state), done: state == fleetview.StateConfirmed}
	if state == fleetview.StateFailed {
		p.failed = fmt.Errorf("it failed: %s", fleetview.FailureText(failure))
	}
	return p, nil
}

// namedFailures is the number of failed clusters that an error names.
const namedFailures = 5

// fleetProgress returns the progress of the clusters that the flags select.
func fleetProgress(c *cli.Context, client conn.Client) (progress, error) {
	filter := url.Values{"limit": {strconv.Itoa(namedFailures)}, "sort": {"state"}}
	for _, name := range awaitedFilters {
		if c.IsSet(name) {
			filter.Set(strings.ReplaceAll(name, "-", "_"), fmt.Sprint(c.Value(name)))
		}
	}
	known, err := conn.ReceiveAs[api.FleetStatus](client.GetStatus(c.Context, nil, conn.Query(filter)))
	if err != nil {
		return progress{}, err
	}
	revision := c.IsSet("changed-in")
	finished := known.Counts[fleetview.StateConfirmed] + known.Counts["superseded"]
	if revision && finished+known.Counts["delivered"] == known.Total {
		waiting, err := awaitingReceipts(c, client, filter, known)
		if err != nil {
			return progress{}, err
		}
		finished = known.Total - waiting
	}
	p := progress{
		text: fmt.Sprintf("%d of %s confirmed: %s", finished, summarize.Count(known.Total, "cluster"), fleetview.Counts(known.Counts)),
		done: finished == known.Total,
	}
	switch n := known.Counts[fleetview.StateFailed]; {
	case known.Total == 0 && revision:
		p.text = "the revision changed no input of these clusters"
	case known.Total == 0:
		p.failed = errors.New("no cluster is selected")
	case n > 0:
		p.failed = failuresOf(known, n)
	}
	return p, nil
}

// awaitingReceipts returns the number of clusters in the state delivered that have inputs to confirm. The others only lost inputs by
// the revision, and nothing confirms a removal.
func awaitingReceipts(c *cli.Context, client conn.Client, filter url.Values, known api.FleetStatus) (int, error) {
	if known.Counts["delivered"] == 0 {
		return 0, nil
	}
	filter.Set("state", "delivered")
	filter.Set("limit", strconv.Itoa(conn.MaxPage))
	some, err := conn.ReceiveAs[api.FleetStatus](client.GetStatus(c.Context, nil, conn.Query(filter)))
	waiting := known.Counts["delivered"] - len(some.Clusters) // more than a page
	for _, one := range some.Clusters {
		if one.Counts["delivered"] > 0 {
			waiting++
		}
	}
	return max(waiting, 0), err
}

// failuresOf returns the error that names the first failed clusters and their causes.
func failuresOf(known api.FleetStatus, n int) error {
	var lines []string
	for _, one := range known.Clusters {
		if one.Failure != nil {
			lines = append(lines, fmt.Sprintf("%s: %s %s", one.ID, one.Failure.ID, fleetview.FailureText(one.Failure)))
		}
	}
	if more := n - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%d of %s failed:\n  %s", n, summarize.Count(known.Total, "cluster"), strings.Join(lines, "\n  "))
}

// rolloutProgress returns the progress of the rollout of the flag, up to the stage of the flag. Offline clusters are not waited for.
func rolloutProgress(c *cli.Context, client conn.Client) (progress, error) {
	r, err := conn.ReceiveAs[api.Rollout](kinds.Rollouts.Calls.Get(c.Context, client, c.String("rollout")))
	if err != nil {
		return progress{}, err
	}
	last := len(r.Stages) - 1
	if name := c.String("stage"); name != "" {
		if last = slices.IndexFunc(r.Stages, func(s api.RolloutStageStatus) bool { return s.Name == name }); last < 0 {
			return progress{failed: fmt.Errorf("rollout %q has no stage %q", r.ID, name)}, nil
		}
	}
	switch r.State {
	case "completed":
		return progress{text: "completed", done: true}, nil
	case "aborted":
		return progress{failed: fmt.Errorf("rollout %q is aborted", r.ID)}, nil
	}
	done, affected, failed := r.Started > last && r.Complete, 0, 0
	var failures []api.ClusterSummary
	for _, stage := range r.Stages[:min(r.Started, last+1)] {
		p := stage.Progress
		if p == nil {
			done = false
			continue
		}
		affected, failed = affected+p.Affected, failed+p.Failed
		done = done && p.Confirmed+p.Offline == p.Affected && (p.Confirmed > 0 || p.Affected == 0)
		for _, f := range p.Failures[:min(len(p.Failures), namedFailures)] {
			failures = append(failures, api.ClusterSummary{ID: f.ClusterID, Failure: &f.Failure})
		}
	}
	if done {
		r.Waiting = nil
	}
	p := progress{text: describeRollout(&r, r.Stages[:last+1]), done: done}
	if failed > 0 {
		p.failed = failuresOf(api.FleetStatus{Total: affected, Clusters: failures}, failed)
	}
	return p, nil
}

// describeRollout describes the state of a rollout, the progress of the started ones of these stages, and what it waits for.
func describeRollout(r *api.Rollout, stages []api.RolloutStageStatus) string {
	if r.State == "completed" || r.State == "aborted" {
		return r.State
	}
	affected, confirmed, failed := 0, 0, 0
	for _, stage := range stages[:min(r.Started, len(stages))] {
		if p := stage.Progress; p != nil {
			affected, confirmed, failed = affected+p.Affected, confirmed+p.Confirmed, failed+p.Failed
		}
	}
	text := fmt.Sprintf("%s, %d of %d stages started, %d of %s confirmed", r.State, r.Started, len(r.Stages), confirmed, summarize.Count(affected, "cluster"))
	if failed > 0 {
		text += fmt.Sprintf(", %d failed", failed)
	}
	if why := r.PausedBecause; why != "" {
		text += ": " + why
	} else if r.Waiting != nil {
		text += ": " + r.Waiting.Message
	}
	return text
}
