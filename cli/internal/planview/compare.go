package planview

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/resourceset"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// ObjectChange is the change of one Kubernetes object.
type ObjectChange struct {
	Action     string             `json:"action"` // create, update or delete
	APIVersion string             `json:"api_version"`
	Kind       string             `json:"kind"`
	Namespace  string             `json:"namespace"`
	Name       string             `json:"name"`
	Before     resourceset.Object `json:"before,omitempty"`
	After      resourceset.Object `json:"after,omitempty"`

	was, is string // both as YAML
}

// ClusterObjects has the changes of one cluster's objects.
type ClusterObjects struct {
	Cluster string         `json:"cluster"`
	Objects []ObjectChange `json:"objects"`
}

// Objects has the changes of objects that a plan leads to.
type Objects struct {
	Clusters  []ClusterObjects `json:"clusters"`
	Templates string           `json:"templates"` // the file; empty: the shipped ones
	// Left is the number of clusters with changed inputs that were not rendered.
	Left int `json:"left"`
	// Unread are the changed lists that no template reads.
	Unread []string `json:"unread"`
}

// objects returns the number of changed objects.
func (p Objects) objects() int {
	n := 0
	for _, c := range p.Clusters {
		n += len(c.Objects)
	}
	return n
}

// ErrFleetChanged means that the fleet changed after the plan was made, so that its effect and the inputs do not match.
var ErrFleetChanged = errors.New("the fleet was changed while its clusters were looked at: plan again")

// Source reads the fleet that a plan was made for.
type Source interface {
	// Cluster returns a cluster as templates see it: from the fleet, or from the plan that creates it.
	Cluster(id string) (api.FluxCluster, error)
	// Inputs returns the polled inputs of a list at the plan's revision, none for a cluster that the plan creates. After another
	// change of the fleet it fails with [ErrFleetChanged].
	Inputs(dns, list string) ([]resourceset.Input, error)
}

// Compare renders the inputs before and after a plan with templates, which turn them into objects on clusters, and compares the
// objects. It covers at most so many clusters (0: all), at least one of each group as far as the limit allows.
func Compare(plan api.Plan, sets []resourceset.Set, from Source, most int) (Objects, error) {
	out := Objects{Clusters: []ClusterObjects{}, Unread: []string{}}
	chosen, left := chooseClusters(plan.Groups, most)
	out.Left = left
	for _, group := range plan.Groups {
		for _, list := range render.SortedKeys(group.Effect) {
			if !slices.ContainsFunc(sets, func(set resourceset.Set) bool { return slices.Contains(set.Sources(), list) }) && !slices.Contains(out.Unread, list) {
				out.Unread = append(out.Unread, list)
			}
		}
	}
	for i, group := range plan.Groups {
		for _, id := range chosen[i] {
			objects, err := compareCluster(id, group.Effect, sets, from)
			if err != nil {
				return out, fmt.Errorf("cluster %q: %w", id, err)
			}
			out.Clusters = append(out.Clusters, ClusterObjects{id, objects})
		}
	}
	return out, nil
}

// chooseClusters returns the clusters to render of each group, and the number of the others.
func chooseClusters(groups []api.EffectGroup, most int) (chosen [][]string, left int) {
	chosen = make([][]string, len(groups))
	taken := 0
	for round, more := 0, true; more; round++ {
		more = false
		for i, g := range groups {
			if g.Forgotten || round >= len(g.Clusters) {
				continue // Flux keeps the objects of a forgotten cluster
			}
			more = true
			if most > 0 && taken >= most {
				left++
				continue
			}
			taken++
			chosen[i] = append(chosen[i], g.Clusters[round])
		}
	}
	return chosen, left
}

// compareCluster compares the objects that a cluster's changed inputs lead to.
func compareCluster(id string, effect map[string]api.EndpointEffect, sets []resourceset.Set, from Source) ([]ObjectChange, error) {
	cluster, err := from.Cluster(id)
	if err != nil {
		return nil, err
	}
	polled := map[string][]resourceset.Input{}
	var before, after []resourceset.Object
	for _, set := range sets {
		for _, list := range set.Sources() {
			e, affected := effect[list]
			if !affected {
				continue
			}
			if _, known := polled[list]; !known {
				if polled[list], err = from.Inputs(cluster.DNS, list); err != nil {
					return nil, err
				}
			}
			was, is, err := inputsBeforeAndAfter(polled[list], e, cluster)
			if err != nil {
				return nil, err
			}
			for _, side := range []struct {
				inputs  []resourceset.Input
				objects *[]resourceset.Object
			}{{was, &before}, {is, &after}} {
				made, err := set.RenderInputs(list, side.inputs)
				if err != nil {
					return nil, err
				}
				for _, obj := range made {
					withoutReceipt(obj)
				}
				*side.objects = append(*side.objects, made...)
			}
		}
	}
	return compareObjects(before, after)
}

// inputAnnotation holds the receipt of an object's input.
const inputAnnotation = "event.toolkit.fluxcd.io/input"

// withoutReceipt removes the receipt annotation from an object of an input that has no receipt yet.
func withoutReceipt(obj resourceset.Object) {
	metadata, _ := obj["metadata"].(resourceset.Object)
	if annotations, _ := metadata["annotations"].(resourceset.Object); annotations[inputAnnotation] == "" {
		delete(annotations, inputAnnotation)
	}
}

// inputsBeforeAndAfter returns the inputs with an effect before and after it.
func inputsBeforeAndAfter(inputs []resourceset.Input, e api.EndpointEffect, cluster api.FluxCluster) (before, after []resourceset.Input, err error) {
	for _, in := range inputs {
		var id string
		if err := json.Unmarshal(in["id"], &id); err != nil {
			return nil, nil, err
		}
		if slices.Contains(e.Removed, id) {
			before = append(before, in)
		}
		at := slices.IndexFunc(e.Changed, func(ch api.InputChange) bool { return ch.ID == id })
		if at < 0 {
			continue
		}
		changed, err := applyFieldChanges(in, e.Changed[at].Fields)
		if err != nil {
			return nil, nil, err
		}
		before, after = append(before, in), append(after, changed)
	}
	if len(before) != len(e.Removed)+len(e.Changed) {
		return nil, nil, ErrFleetChanged
	}
	where, err := render.Encode(cluster)
	if err != nil {
		return nil, nil, err
	}
	if len(after) > 0 { // the cluster after the change
		where = after[0]["cluster"]
	}
	for _, raw := range e.Added {
		var in resourceset.Input
		if err := json.Unmarshal(raw, &in); err != nil {
			return nil, nil, err
		}
		in["cluster"] = where
		if in["receipt"] == nil { // the server sets it when it serves the input; templates read the field
			in["receipt"] = json.RawMessage(`""`)
		}
		after = append(after, in)
	}
	return before, after, nil
}

// applyFieldChanges returns an input with changed fields. Its receipt stays: it is derived from the input. A change of a list's
// entry, or of a field without a parent, is unknown to this program and an error.
func applyFieldChanges(in resourceset.Input, fields []api.FieldChange) (resourceset.Input, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	whole := map[string]any{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&whole); err != nil {
		return nil, err
	}
	for _, f := range fields {
		at := whole
		steps := strings.Split(strings.TrimPrefix(f.Pointer, "/"), "/")
		for i, step := range steps {
			steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		}
		last := steps[len(steps)-1]
		for _, step := range steps[:len(steps)-1] {
			below, ok := at[step].(map[string]any)
			if !ok {
				return nil, fmt.Errorf("input %s: this program cannot follow the change of %q, which is in no object of it: plan without --rendered", in["id"], f.Pointer)
			}
			at = below
		}
		switch value, err := f.After.Get(); {
		case !f.After.IsSpecified():
			delete(at, last)
		case f.After.IsNull():
			at[last] = nil
		case err != nil:
			return nil, err
		default:
			at[last] = value
		}
	}
	if raw, err = json.Marshal(whole); err != nil {
		return nil, err
	}
	var out resourceset.Input
	return out, json.Unmarshal(raw, &out)
}

// compareObjects returns the differences between the objects of a cluster, deletions first.
func compareObjects(before, after []resourceset.Object) ([]ObjectChange, error) {
	is := map[string]resourceset.Object{}
	for _, obj := range after {
		is[resourceset.Identity(obj)] = obj
	}
	was := map[string]bool{}
	var gone, changed, made []ObjectChange
	for _, obj := range before {
		was[resourceset.Identity(obj)] = true
		ch, err := objectChangeOf(obj, is[resourceset.Identity(obj)])
		switch {
		case err != nil:
			return nil, err
		case ch.is == "":
			gone = append(gone, ch)
		case ch.is != ch.was:
			changed = append(changed, ch)
		}
	}
	for _, obj := range after {
		if was[resourceset.Identity(obj)] {
			continue
		}
		ch, err := objectChangeOf(nil, obj)
		if err != nil {
			return nil, err
		}
		made = append(made, ch)
	}
	return slices.Concat([]ObjectChange{}, gone, changed, made), nil
}

// objectChangeOf compares two versions of an object; nil where it does not exist.
func objectChangeOf(before, after resourceset.Object) (ObjectChange, error) {
	ch := ObjectChange{Action: "update", Before: before, After: after}
	obj := after
	switch {
	case after == nil:
		ch.Action, obj = "delete", before
	case before == nil:
		ch.Action = "create"
	}
	ch.APIVersion, ch.Kind = resourceset.Text(obj, "apiVersion"), resourceset.Text(obj, "kind")
	ch.Namespace, ch.Name = resourceset.Text(obj, "metadata", "namespace"), resourceset.Text(obj, "metadata", "name")
	var err error
	if ch.was, err = objectText(before); err == nil {
		ch.is, err = objectText(after)
	}
	return ch, err
}

func objectText(obj resourceset.Object) (string, error) {
	if obj == nil {
		return "", nil
	}
	text, err := resourceset.FormatYAML([]resourceset.Object{obj})
	return strings.TrimPrefix(text, "---\n"), err
}
