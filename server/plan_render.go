package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
)

// renderedClusters is the number of clusters of a plan that are rendered unless the request has another.
const renderedClusters = 100

// renderPlan returns the objects that a change makes different. It renders the affected inputs of clusters before and after it, at
// first those of one cluster of each group.
func (s *Server) renderPlan(c echo.Context, res fleet.Result, plan api.Plan, req api.PlanRendering) (*api.RenderedPlan, error) {
	sets, err := resourceSets(req.ResourceSets, res.State, res.Base())
	if err != nil {
		return nil, err
	}
	for _, set := range sets {
		set.AcceptAnyCluster()
	}
	out := &api.RenderedPlan{Clusters: []api.RenderedCluster{}, Unread: unreadLists(plan.Groups, sets)}
	budget := newRenderBudget(c)
	for round, more := 0, true; more; round++ {
		more = false
		for _, group := range plan.Groups {
			if group.Forgotten || round >= len(group.Clusters) { // Flux keeps the objects of a forgotten cluster
				continue
			}
			more = true
			if err := requestOf(c).job.Interrupted(); err != nil {
				return nil, err
			}
			if len(out.Clusters) >= cmp.Or(req.Clusters, renderedClusters) || budget.Spent() {
				out.Left++
				continue
			}
			cluster, err := res.State.FindIncludingDeleted(group.Clusters[round])
			if err != nil {
				return nil, err
			}
			one := renderedChange{res: res, dns: cluster.Cluster().ClusterDNS, effect: group.Effect, receipts: map[string]json.RawMessage{}}
			objects, err := one.compare(sets, budget)
			if errors.Is(err, resourceset.ErrSpent) {
				out.Left++
				continue
			}
			problem, err := s.renderProblem(c, err)
			if err != nil {
				return nil, err
			}
			out.Clusters = append(out.Clusters, api.RenderedCluster{Cluster: cluster.ID, Objects: append([]api.ObjectChange{}, objects...), Error: problem})
		}
	}
	return out, nil
}

// unreadLists returns the changed lists that no set reads.
func unreadLists(groups []api.EffectGroup, sets []*resourceset.Set) []string {
	lists := map[string]bool{}
	for _, group := range groups {
		for list := range group.Effect {
			lists[list] = true
		}
	}
	for _, set := range sets {
		for _, list := range set.Sources() {
			delete(lists, list)
		}
	}
	return append([]string{}, slices.Sorted(maps.Keys(lists))...)
}

// renderedChange is the change of one cluster.
type renderedChange struct {
	res      fleet.Result
	dns      string // of the cluster
	effect   map[string]api.EndpointEffect
	receipts map[string]json.RawMessage // of the inputs before, by list and id
}

// compare returns the differences between the objects of the cluster, deletions first.
func (r *renderedChange) compare(sets []*resourceset.Set, budget *resourceset.Budget) ([]api.ObjectChange, error) {
	var gone, changed, made []api.ObjectChange
	var sides [2][]resourceset.Rendered
	for i, st := range []*fleet.State{r.res.Base(), r.res.State} {
		poll := func(list string) ([]resourceset.Input, error) { return r.inputs(st, list) }
		for _, set := range sets {
			if !slices.ContainsFunc(set.Sources(), func(list string) bool { _, affected := r.effect[list]; return affected }) {
				continue
			}
			objects, err := set.Render(poll, budget)
			if err != nil {
				return nil, err
			}
			sides[i] = append(sides[i], objects...)
		}
	}
	was, is := byIdentity(sides[0]), byIdentity(sides[1])
	for _, obj := range sides[0] {
		now, stays := is[obj.Identity()]
		switch {
		case !stays:
			gone = append(gone, objectChange("delete", obj, obj.JSON, nil))
		case !bytes.Equal(obj.JSON, now.JSON):
			changed = append(changed, objectChange("update", now, obj.JSON, now.JSON))
		}
	}
	for _, obj := range sides[1] {
		if _, existed := was[obj.Identity()]; !existed {
			made = append(made, objectChange("create", obj, nil, obj.JSON))
		}
	}
	return slices.Concat(gone, changed, made), nil
}

// inputs returns the affected inputs of a list, first of the State before. A changed input keeps its receipt, which follows from the
// input, so that objects differ only because of other fields.
func (r *renderedChange) inputs(st *fleet.State, list string) ([]resourceset.Input, error) {
	e, ids := r.effect[list], map[string]bool{}
	for _, id := range e.Removed {
		ids[id] = true
	}
	for _, ch := range e.Changed {
		ids[ch.ID] = true
	}
	for _, raw := range e.Added {
		var in struct{ ID string }
		if err := json.Unmarshal(raw, &in); err != nil {
			return nil, err
		}
		ids[in.ID] = true
	}
	doc, exists := st.ByDNS(r.dns)
	if !exists || len(ids) == 0 || !st.ShowsList(list) {
		return nil, nil
	}
	inputs, err := inputsOf(st, doc, list, ids)
	if broken, ok := errors.AsType[*fleet.Error](err); ok && broken.Code == fleet.CodeUnresolved && st == r.res.Base() {
		return nil, nil // it could not be answered before
	}
	for _, in := range inputs {
		key := list + " " + string(in["id"])
		if _, existed := r.receipts[key]; !existed {
			r.receipts[key] = in["receipt"]
		}
		in["receipt"] = r.receipts[key]
	}
	return inputs, err
}

func byIdentity(objects []resourceset.Rendered) map[string]resourceset.Rendered {
	out := make(map[string]resourceset.Rendered, len(objects))
	for _, obj := range objects {
		out[obj.Identity()] = obj
	}
	return out
}

func objectChange(action string, obj resourceset.Rendered, before, after json.RawMessage) api.ObjectChange {
	return api.ObjectChange{Action: action, APIVersion: obj.APIVersion, Kind: obj.Kind, Namespace: obj.Namespace, Name: obj.Name, Before: before, After: after}
}
