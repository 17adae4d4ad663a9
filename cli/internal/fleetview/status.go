package fleetview

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// States with a meaning for commands. The server may have others.
const (
	StateConfirmed = "confirmed"
	StateFailed    = "failed"
)

const componentList = "platform-components"

// Counts formats counts of states: "11 confirmed, 1 failed".
func Counts(counts api.StatusCounts) string {
	var out []string
	for _, state := range render.SortedKeys(counts) {
		out = append(out, fmt.Sprintf("%d %s", counts[state], state))
	}
	return strings.Join(out, ", ")
}

// failureMessage is the maximum length of a failure's message in a table, in characters.
const failureMessage = 160

// FailureText formats a failure in one line: reason, then cause. The text is from outside and is made safe for a terminal.
func FailureText(f *api.Failure) string {
	if f == nil {
		return ""
	}
	return strings.TrimSuffix(strings.ReplaceAll(render.Printable(f.Reason+": "+summarize.OneLine(f.Message, failureMessage)), "\n", " "), ": ")
}

// clusterStateText returns a cluster's state, and failed beside a state that would hide it.
func clusterStateText(c api.ClusterSummary) string {
	if len(c.States) > 1 {
		return strings.Join(c.States, ",")
	}
	return c.State
}

// failedInput returns the id of the failed component, another input with its list, or else the object.
func failedInput(f *api.Failure) string {
	switch {
	case f == nil:
		return ""
	case f.ID == "":
		return f.Object
	}
	return inputName(f.List, f.ID)
}

func inputName(list, id string) string {
	if list == "" || list == componentList {
		return id
	}
	return list + "/" + id
}

// causeText describes the clusters of a group: why they fail, or else their state.
func causeText(g api.FailureCause) string {
	switch {
	case g.OtherCauses > 0:
		return summarize.Count(g.OtherCauses, "other cause")
	case g.Cause == "":
		return g.State
	}
	return strings.ReplaceAll(render.Printable(g.Cause), "\n", " ")
}

// causeStart describes when the clusters of a group began to fail: "40s after revision 29".
func causeStart(g api.FailureCause) string {
	if g.Revision == 0 || g.Since == nil || g.RevisionAt == nil {
		return "-"
	}
	return fmt.Sprintf("%s after revision %d", g.Since.Sub(*g.RevisionAt).Round(time.Second), g.Revision)
}

func shownClusters(g api.FailureCause) string {
	text := strings.Join(g.ClusterIds, ",")
	if more := g.Clusters - len(g.ClusterIds); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func environmentCounts(g api.FailureCause) string {
	var out []string
	for _, name := range render.SortedKeys(g.Environments) {
		out = append(out, fmt.Sprintf("%s %d", name, g.Environments[name]))
	}
	return strings.Join(out, ", ")
}

var (
	// ClusterStates is the table of clusters with their states.
	ClusterStates = render.View{
		Header: []string{"ID", "STATE", "ENVIRONMENT", "SEEN", "INPUTS", "TOKEN CREATED", "SHARED TOKEN"}, Narrow: 5,
		Row: render.RowOf(func(c api.ClusterSummary) []string {
			return []string{c.ID, clusterStateText(c), c.Environment, render.TimeOr(c.SeenAt, "-"), Counts(c.Counts), render.TimeOr(c.TokenCreatedAt, "-"), render.TimeOr(c.SharedTokenAt, "-")}
		}),
	}
	// FailedClusters is [ClusterStates] with the failed input of each cluster.
	FailedClusters = render.View{
		Header: []string{"ID", "STATE", "ENVIRONMENT", "SEEN", "COMPONENT", "MESSAGE", "INPUTS"}, Narrow: 6,
		Row: render.RowOf(func(c api.ClusterSummary) []string {
			return []string{c.ID, clusterStateText(c), c.Environment, render.TimeOr(c.SeenAt, "-"), failedInput(c.Failure), FailureText(c.Failure), Counts(c.Counts)}
		}),
	}
	// Causes is the table of the causes of failures.
	Causes = render.View{
		Header: []string{"COMPONENT", "VERSION", "CLUSTERS", "ENVIRONMENTS", "SINCE", "BEGAN", "CAUSE", "ID", "LATEST", "FIRST CLUSTERS"}, Narrow: 7,
		Row: render.RowOf(func(g api.FailureCause) []string {
			return []string{
				cmp.Or(inputName(g.List, g.Input), "-"), cmp.Or(g.ComponentVersion, "-"), strconv.Itoa(g.Clusters), environmentCounts(g), render.TimeOr(g.Since, "-"), causeStart(g), causeText(g),
				cmp.Or(g.ID, "-"), render.TimeOr(g.Latest, "-"), shownClusters(g),
			}
		}),
	}
	// Inputs is the table of a cluster's inputs.
	Inputs = render.View{
		Header: []string{"ID", "LIST", "STATE", "SINCE", "MESSAGE", "VERSION", "TAG", "RECEIPT"}, Narrow: 5,
		Row: render.RowOf(func(in api.InputStatus) []string {
			return []string{in.ID, in.List, stateOf(in), render.TimeOr(in.Since, "-"), FailureText(cmp.Or(in.Failure, in.Drift)), in.ComponentVersion, in.OCITag, in.Receipt}
		}),
	}
	// Versions is the table of the desired versions of a component.
	Versions = render.View{
		Header: []string{"VERSION", "TAG", "CLUSTERS", "STATES"}, Narrow: 4,
		Row: render.RowOf(func(v api.VersionStatus) []string {
			return []string{v.ComponentVersion, v.OCITag, strconv.Itoa(v.Clusters), Counts(v.Counts)}
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

// States are the states of docs/status.md, the worst first.
var States = []string{"failed", "silent", "behind", "unknown", "never", "progressing", "delivered", "confirmed", "superseded"}

// Decommission describes the progress of a cluster's decommissioning. Its state alone, "behind" or "silent", reads like a
// problem of an active cluster.
func Decommission(known *api.ClusterStatus) string {
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

// AwaitedState returns the state that wait compares, of a cluster or of a component on it.
func AwaitedState(known *api.ClusterStatus, component string) (state string, failure *api.Failure, err error) {
	state = known.State
	found := component == ""
	for _, in := range known.Inputs {
		switch {
		case component == "" && in.Failure != nil:
			failure = in.Failure
		case component != "" && in.List == componentList && in.ID == component:
			found, state, failure = true, in.State, in.Failure
		}
	}
	if !found {
		return "", nil, fmt.Errorf("cluster %q has no component %q", known.ID, component)
	}
	return state, failure, nil
}
