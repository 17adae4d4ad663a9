package ui

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

type clusterView struct {
	frame
	Cluster api.ClusterStatus
	States  []string
	Labels  []pair
	Layers  []string
	Due     time.Time // when its next poll is due; zero: not known
	Bar     bar
	Lists   []listView
	Failed  []api.InputStatus
	Changes []changeRow
	More    string // the rest of the history
	Protect bool
	Gone    bool    // decommissioned
	Actions []crumb // that the visitor may take
}

type pair struct{ Name, Value string }

// listView is a list that the cluster polls.
type listView struct {
	Name, State string
	Since       *time.Time
	Inputs      []inputRow
}

type inputRow struct {
	api.InputStatus
	Version string
}

// showCluster answers what is known of one cluster.
func showCluster(v *visit) error {
	id := v.r.PathValue("id")
	status, err := v.fleet.GetClusterStatusWithResponse(v.r.Context(), id, nil)
	if err != nil {
		return err
	}
	known := *status.JSON200
	doc, err := v.fleet.GetClusterWithResponse(v.r.Context(), id, &api.GetClusterParams{View: new("effective")})
	view := clusterView{Cluster: known, States: statesOf(known.State, known.States), Bar: makeBar(known.Counts, nil)}
	if known.SeenAt != nil && known.IntervalSeconds > 0 {
		view.Due = known.SeenAt.Add(time.Duration(known.IntervalSeconds * float32(time.Second)))
	}
	switch problem, answered := errors.AsType[*client.Error](err); {
	case err == nil:
		for name, value := range doc.JSON200.Labels {
			shown, _ := maskJSON(name, marshal(value), v.reveal())
			view.Labels = append(view.Labels, pair{name, strings.Trim(shown, `"`)})
		}
		slices.SortFunc(view.Labels, func(a, b pair) int { return cmp.Compare(a.Name, b.Name) })
		view.Layers, view.Protect = doc.JSON200.Layers, doc.JSON200.DeletionProtection
	case answered && problem.StatusCode == http.StatusNotFound: // only what it said is left
		view.Gone = true
	default:
		return err
	}
	for _, l := range known.Lists {
		list := listView{Name: l.List, State: l.State, Since: l.Since}
		for _, in := range known.Inputs {
			if in.List != l.List {
				continue
			}
			row := inputRow{InputStatus: in}
			row.Version = version(in.ComponentVersion, in.OCITag)
			list.Inputs = append(list.Inputs, row)
			if in.Failure != nil {
				view.Failed = append(view.Failed, in)
			}
		}
		view.Lists = append(view.Lists, list)
	}
	if v.offers() && !view.Gone {
		view.Actions = []crumb{{"Protect…", link("clusters", id, "protect")}, {"Delete…", link("clusters", id, "delete")}}
		if view.Protect {
			view.Actions = []crumb{{"Lift the protection…", link("clusters", id, "unprotect")}}
		}
	}
	view.More = changesOf("cluster", id)
	if view.Changes, _, err = v.changes(&api.ListRevisionsParams{Kind: new("cluster"), ID: &id, Limit: new(overviewChanges)}); err != nil {
		return err
	}
	view.frame = v.frame(id, "clusters")
	return v.show("cluster", view)
}

type inputView struct {
	frame
	Cluster, List, ID string
	Values            []valueRow
	Hidden            bool
	Reveal            string
	Contested         bool // somebody else said something else
}

type valueRow struct {
	Pointer, Value string
	Hidden         bool
	By             sayingView
	InsteadOf      []sayingView
}

type sayingView struct {
	api.Saying
	Text, Link string
}

// showInput answers who says each value of an input.
func showInput(v *visit) error {
	id, list, in := v.r.PathValue("id"), v.r.PathValue("list"), v.r.PathValue("in")
	explained, err := v.fleet.ExplainInputWithResponse(v.r.Context(), id, list, in, nil)
	if err != nil {
		return err
	}
	view := inputView{Cluster: id, List: list, ID: in, Reveal: "?reveal=true"}
	for _, one := range explained.JSON200.Inputs {
		for _, value := range one.Values {
			row := valueRow{Pointer: value.Pointer}
			row.Value, row.Hidden = maskJSON(value.Pointer, valueText(value.Value), v.reveal())
			row.By = saying(value.SaidBy, value.Pointer, v.reveal())
			for _, say := range value.InsteadOf {
				row.InsteadOf = append(row.InsteadOf, saying(say, value.Pointer, v.reveal()))
			}
			view.Hidden = view.Hidden || row.Hidden
			view.Contested = view.Contested || len(row.InsteadOf) > 0
			view.Values = append(view.Values, row)
		}
	}
	view.frame = v.frame(in+" on "+id, "clusters")
	return v.show("input", view)
}

func saying(say api.Saying, pointer string, reveal bool) sayingView {
	out := sayingView{Saying: say}
	out.Text, _ = maskJSON(pointer, valueText(say.Value), reveal)
	switch say.Kind {
	case "cluster":
		out.Link = link("clusters", say.ID)
	case "platform_component":
		out.Link = link("components", say.ID)
	case "layer":
		out.Link = link("layers", say.ID)
	}
	return out
}
