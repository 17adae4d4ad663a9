package ui

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/redact"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

type clusterView struct {
	frame
	Managed managed
	Cluster api.ClusterStatus
	States  []string
	Labels  []nameValue
	Layers  []string
	Due     time.Time // when its next poll is due; zero: unknown
	Bar     stateBar
	Lists   []listView
	Failed  []failedInput
	Strip   *strip // nil: none
	Changes []changeRow
	Recent  int    // changes of the last 24 hours, which are all in Changes unless it is clusterChanges
	Older   string // not empty: older changes have not been looked through
	Protect bool
	Gone    bool // decommissioned
	created time.Time
	Actions []pageLink // that the token permits
	Freezes []freezeRow
	Pins    []pinRow // at most one
	Compare string
	Access  string // the address of who may change it; empty: the token may not read that
	// Incident is the state of the cluster as text, to be pasted into a chat.
	Incident string

	Variables []nameValue // its own and those of its layers
}

// listView is a list that the cluster polls.
type listView struct {
	Name, State string
	Since       *time.Time
	Inputs      []inputRow
}

// clusterChanges is the largest number of changes on the page of a cluster.
const clusterChanges = 50

// maxCausingTime is the longest time from a change to a failure that may be its consequence.
const maxCausingTime = time.Hour

// failedInput is an input at which the cluster failed, with the change that may be the cause.
type failedInput struct {
	api.InputStatus
	Since   time.Time
	Cause   *changeRow // the last change of the input before the failure; nil: none within an hour
	After   string     // time from the change to the failure
	Similar string     // the address of the clusters that fail for the same reason; empty: unknown
}

type inputRow struct {
	api.InputStatus
	Version string
	Change  string // the address of the form that changes the component; empty: none
}

// showCluster shows the status, the desired state and the history of one cluster, also of a decommissioned one.
func showCluster(req *pageRequest) error {
	id := req.r.PathValue("id")
	status, err := req.fleet.GetClusterStatusWithResponse(req.r.Context(), id, nil)
	if err != nil {
		return err
	}
	known := *status.JSON200
	doc, err := req.fleet.GetClusterWithResponse(req.r.Context(), id, &api.GetClusterParams{View: new("effective")})
	view := clusterView{Cluster: known, States: statesOf(known.State, known.States), Bar: makeStateBar(known.Counts, nil)}
	if known.SeenAt != nil && known.IntervalSeconds > 0 {
		view.Due = known.SeenAt.Add(time.Duration(known.IntervalSeconds * float32(time.Second)))
	}
	switch problem, answered := errors.AsType[*client.Error](err); {
	case err == nil:
		view.Labels, view.Variables = maskedTexts(doc.JSON200.Labels, req.reveal()), maskedTexts(doc.JSON200.Variables, req.reveal())
		if doc.JSON200.Pinned != nil {
			view.Pins = []pinRow{req.pinRow(doc.JSON200)}
		}
		view.Managed = req.managedBy(doc.HTTPResponse)
		view.Layers, view.Protect, view.created = doc.JSON200.Layers, doc.JSON200.DeletionProtection, doc.JSON200.CreatedAt
	case answered && problem.StatusCode == http.StatusNotFound: // decommissioned: only its reported status remains
		view.Gone = true
	default:
		return err
	}
	changes := !view.Gone && req.mayChange(runningRollout, client.KindCluster, id)
	for _, l := range known.Lists {
		list := listView{Name: l.List, State: l.State, Since: l.Since}
		for _, in := range known.Inputs {
			if in.List != l.List {
				continue
			}
			row := inputRow{InputStatus: in}
			row.Version = versionText(in.ComponentVersion, in.OCITag)
			if changes && l.List == componentList {
				row.Change = versionAddress(in.ID, client.KindCluster, id)
			}
			list.Inputs = append(list.Inputs, row)
			if in.Failure != nil {
				view.Failed = append(view.Failed, failedInput{InputStatus: in, Since: in.Failure.At})
			}
		}
		view.Lists = append(view.Lists, list)
	}
	view.Compare = compareLink(id, "")
	if !view.Gone && req.may("admin") {
		view.Access = link("clusters", id, "access")
	}
	if !view.Gone && req.mayChange(writing, client.KindCluster, id) {
		view.Actions = []pageLink{{"Protect…", link("clusters", id, "protect")}, {"Delete…", link("clusters", id, "delete")}}
		if view.Protect {
			view.Actions = []pageLink{{"Remove protection…", link("clusters", id, "unprotect")}}
		}
	}
	var freezes []api.Freeze
	if !view.Gone {
		if freezes, err = req.freezesOf(id); err != nil {
			return err
		}
	}
	if view.Freezes, _, err = req.activeFreezes(freezes); err != nil {
		return err
	}
	if err := req.changesOfCluster(&view, freezes); err != nil {
		return err
	}
	view.Incident = incidentText(&view, req.transport.revision)
	return req.show("cluster", id, "clusters", &view)
}

// maskedTexts returns values by name, masked unless reveal is set.
func maskedTexts[T any](texts map[string]T, reveal bool) (out []nameValue) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		shown, _ := redact.JSON(name, redact.Display(texts[name]), reveal)
		out = append(out, nameValue{name, strings.Trim(shown, `"`)})
	}
	return out
}

// changesOfCluster sets the changes, what each failure began after, and the last day. All changes of the last day are shown, and a few more.
func (req *pageRequest) changesOfCluster(view *clusterView, freezes []api.Freeze) (err error) {
	id := view.Cluster.ID
	if view.Changes, view.Older, err = req.changes(&api.ListRevisionsParams{Kind: new(client.KindCluster), ID: &id, Limit: new(clusterChanges)}); err != nil {
		return err
	}
	day := req.page.cfg.Now().Add(-24 * time.Hour)
	for i := range view.Changes {
		row := &view.Changes[i]
		if row.At.After(day) {
			view.Recent++
		}
		if row.Effect != nil && row.At.After(view.created) {
			row.Compare = compareRevisionLink(id, row.Revision)
		}
	}
	if err := req.causesOfFailures(view); err != nil {
		return err
	}
	marks := revisionMarks(view.Changes[:view.Recent])
	view.Changes = view.Changes[:min(len(view.Changes), max(view.Recent, overviewChanges))]
	if view.Gone {
		return nil
	}
	view.Strip, err = req.makeStrip(stripSource{of: api.GetStatusHistoryParams{Cluster: &id}, marks: marks, freezes: freezes})
	return err
}

// causesOfFailures sets the last change before each failure, and the link to the clusters that fail for the same reason.
func (req *pageRequest) causesOfFailures(view *clusterView) error {
	if len(view.Failed) == 0 {
		return nil
	}
	group := api.GetStatusParamsGroupCause
	status, err := req.fleet.GetStatusWithResponse(req.r.Context(), &api.GetStatusParams{Selector: new("id=" + view.Cluster.ID), Group: &group})
	if err != nil {
		return err
	}
	for i := range view.Failed {
		in := &view.Failed[i]
		for _, cause := range *status.JSON200.Causes {
			if cause.List == in.List && cause.Input == in.ID && cause.ID != "" {
				in.Similar = filter{State: "failed", Cause: cause.ID}.page()
				if cause.Since != nil {
					in.Since = *cause.Since
				}
			}
		}
		for n := range view.Changes {
			change := &view.Changes[n]
			if passed := in.Since.Sub(change.At); passed >= 0 && passed <= maxCausingTime && change.changesInput(in.List, in.ID) {
				in.Cause, in.After = change, duration(passed)
				break // they are sorted, the newest first
			}
		}
	}
	return nil
}

type inputView struct {
	frame
	Cluster, List, ID string
	Values            []valueRow
	Hidden            bool
	Reveal            string
	Change            string // the address of the form that changes the version of the component; empty: the token may not
	AnyOverridden     bool   // a value overrides another document's
}

// valueRow is a value of an input with its source.
type valueRow struct {
	Pointer, Value string
	Hidden         bool
	Source         sourceView
	Overridden     []sourceView
}

type sourceView struct {
	api.ValueSource
	Text, Link string
}

// showInput shows the source of each value of an input, and the overridden values.
func showInput(req *pageRequest) error {
	id, list, in := req.r.PathValue("id"), req.r.PathValue("list"), req.r.PathValue("in")
	explained, err := req.fleet.ExplainInputWithResponse(req.r.Context(), id, list, in, nil)
	if err != nil {
		return err
	}
	view := inputView{Cluster: id, List: list, ID: in, Reveal: "?reveal=true"}
	for _, one := range explained.JSON200.Inputs {
		for _, value := range one.Values {
			row := valueRow{Pointer: value.Pointer}
			row.Value, row.Hidden = redact.JSON(value.Pointer, valueText(value.Value), req.reveal())
			row.Source = makeSource(value.SetBy, value.Pointer, req.reveal())
			for _, source := range value.InsteadOf {
				row.Overridden = append(row.Overridden, makeSource(source, value.Pointer, req.reveal()))
			}
			view.Hidden = view.Hidden || row.Hidden
			view.AnyOverridden = view.AnyOverridden || len(row.Overridden) > 0
			view.Values = append(view.Values, row)
		}
	}
	if list == componentList {
		view.Change = req.versionLink(in, client.KindCluster, id)
	}
	return req.show("input", in+" on "+id, "clusters", &view)
}

// makeSource returns a source of a value, masked unless reveal is set, with a link to its document.
func makeSource(source api.ValueSource, pointer string, reveal bool) sourceView {
	out := sourceView{ValueSource: source}
	out.Text, _ = redact.JSON(pointer, valueText(source.Value), reveal)
	if k, ok := kindNamed(source.Kind); ok && k.section != "" {
		out.Link = k.page(source.ID)
	}
	return out
}

// incidentText returns the revision of the fleet, the states and the failures of a cluster as lines of text.
func incidentText(view *clusterView, revision string) string {
	lines := []string{fmt.Sprintf("Cluster %s (%s), revision %s: %s", view.Cluster.ID, view.Cluster.Environment, revision, strings.Join(view.States, ", "))}
	if view.Cluster.SeenAt != nil {
		lines = append(lines, "Last poll "+view.Cluster.SeenAt.UTC().Format(time.RFC3339))
	}
	for _, in := range view.Failed {
		lines = append(lines, fmt.Sprintf("%s %s since %s: %s", in.ID, in.Failure.Reason, in.Failure.At.UTC().Format(time.RFC3339), summarize.OneLine(in.Failure.Message, 240)))
	}
	return strings.Join(lines, "\n")
}
