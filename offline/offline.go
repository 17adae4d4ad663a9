// Package offline computes a fleet in one process, without a server and a store: from documents, by the rules and the merge of the server,
// to the Kubernetes objects of each cluster. It exists so that the command line can check files before there is a server.
package offline

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/charts"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
)

// The limits of the objects of one cluster.
const (
	renderUnits = 3_000_000_000
	renderBytes = 256 << 20
)

// Fleet is a fleet in memory. The zero value is empty and allows any environment.
type Fleet struct{ state *fleet.State }

// FluxProblems returns the problems of Flux settings of a component of a type, by their pointers.
func (f *Fleet) FluxProblems(kind string, settings map[string]any) map[string]string {
	out := map[string]string{}
	for _, p := range fleet.FluxProblems(kind, settings) {
		out[p.Pointer] = p.Detail
	}
	return out
}

// Create creates documents by kind, in the order of the kinds: definitions before the clusters that refer to them. If it refuses some,
// it creates none and calls refused for each problem, with the index in the documents of the kind and the pointer in
// the document.
func (f *Fleet) Create(kinds []string, documents map[string][]json.RawMessage, refused func(kind string, index int, pointer, detail string)) error {
	type place struct {
		kind  string
		index int
	}
	var ops []api.Operation
	var places []place
	for _, kind := range kinds {
		for i, document := range documents[kind] {
			ops = append(ops, api.Operation{Op: "create", Kind: kind, Document: document})
			places = append(places, place{kind, i})
		}
	}
	err := f.run(ops)
	if e, ok := errors.AsType[*fleet.Error](err); ok {
		for _, p := range e.Problems {
			var n int
			if _, scanErr := fmt.Sscanf(p.Pointer, "/operations/%d", &n); scanErr == nil && n < len(places) {
				_, pointer, _ := strings.Cut(p.Pointer, "/document")
				refused(places[n].kind, places[n].index, pointer, p.Detail)
			}
		}
	}
	return err
}

// Adopt moves the settings that all clusters of a layer have from their documents into the layer, for each layer in order.
func (f *Fleet) Adopt(layers []string) error {
	return f.run([]api.Operation{{Op: "adopt", Layers: layers}})
}

func (f *Fleet) run(ops []api.Operation) error {
	if f.state == nil {
		empty, err := fleet.NewState(fleet.Rules{}, fleet.Head{}, time.Time{}, nil)
		if err != nil {
			return err
		}
		f.state = empty
	}
	tx := f.state.Begin()
	tx.Guard(fleet.Guard{Off: true})
	batch := fleet.NewBatch(tx, nil)
	if _, err := batch.Run(ops); err != nil {
		return err
	}
	result, err := tx.Finish(fleet.Commit{Actor: "offline"})
	if err != nil {
		return batch.Locate(ops, err)
	}
	f.state = result.State
	return nil
}

// Documents returns the stored documents of a kind, sorted by id.
func (f *Fleet) Documents(kind string) (out []json.RawMessage) {
	if f.state == nil {
		return nil
	}
	for _, doc := range f.state.All(fleet.Kind(kind)) {
		out = append(out, doc.Body)
	}
	return out
}

// Render returns the objects that a cluster would have, by the shipped ResourceSets and the templates of resource types.
func (f *Fleet) Render(cluster string) ([]json.RawMessage, error) {
	doc, err := f.state.Find(fleet.KindCluster, cluster)
	if err != nil {
		return nil, err
	}
	var objects []json.RawMessage
	for _, kind := range fleet.Definitions() {
		list := kind.Endpoint()
		shipped, err := resourceset.ParseObjects(charts.ResourceSet(list))
		if err != nil {
			return nil, err
		}
		made, err := f.render(doc, list, shipped)
		if err != nil {
			return nil, err
		}
		objects = append(objects, made...)
	}
	for _, of := range f.state.All(fleet.KindResourceType) {
		var fields api.ResourceType
		if err := json.Unmarshal(of.Body, &fields); err != nil {
			return nil, err
		}
		if fields.Template == "" {
			continue
		}
		like := fleet.KindNamespace.Endpoint()
		sets, err := resourceset.ForType(charts.ResourceSet(like), like, of.ID, charts.Receipt+fields.Template)
		if err != nil {
			return nil, err
		}
		made, err := f.render(doc, of.ID, sets)
		if err != nil {
			return nil, err
		}
		objects = append(objects, made...)
	}
	return objects, nil
}

// render returns the objects that ResourceSets make of a list of a cluster.
func (f *Fleet) render(cluster *fleet.Document, list string, manifests []resourceset.Object) (objects []json.RawMessage, err error) {
	sets, err := resourceset.ReadObjects(manifests)
	if err != nil {
		return nil, err
	}
	raw, err := f.state.Inputs(cluster, list, nil)
	if err != nil {
		return nil, err
	}
	inputs := make([]resourceset.Input, len(raw))
	for i := range raw {
		if err := json.Unmarshal(raw[i], &inputs[i]); err != nil {
			return nil, err
		}
	}
	budget := &resourceset.Budget{Units: renderUnits, Bytes: renderBytes, Stop: func() error { return nil }}
	for _, set := range sets {
		made, err := set.Render(func(string) ([]resourceset.Input, error) { return inputs, nil }, budget)
		if err != nil {
			return nil, err
		}
		for _, obj := range made {
			objects = append(objects, obj.JSON)
		}
	}
	return objects, nil
}
