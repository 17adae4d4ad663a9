package fleet

import (
	"cmp"
	"encoding/json"
	"maps"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/fold"
)

// folding is what the entries of a list are folded by, and where layers and clusters have them.
type folding[E any] struct {
	fold.Rules[E]
	apart    func(l *layer) map[string]fold.Said[E] // what a layer says about entries that it does not assign
	excluded func(own *Effective) []string          // ids that a cluster refuses of its layers; nil: the kind cannot be excluded
	set      func(e *Effective, entries []E)        // makes it a cluster's list
	get      func(e *Effective) []E                 // a cluster's list
}

// pile is what layers say about a list together, the lowest first.
func (f *folding[E]) pile(layers []*layer, entries func(*layer) []fold.Said[E]) *fold.Pile[E] {
	says := make([]fold.Layer[E], len(layers))
	for i, l := range layers {
		if says[i].Entries = entries(l); f.apart != nil {
			says[i].Apart = f.apart(l)
		}
	}
	return f.Pile(says)
}

// listLayering is a folding whatever its entries are.
type listLayering struct {
	read     func(list json.RawMessage) (any, error) // a layer's entries
	ids      func(entries any) []string
	pile     func(layers []*layer) any
	lay      func(p any, own, e *Effective) // what the cluster says itself over a pile
	share    func(from, e *Effective)       // the list of another cluster
	excluded func(own *Effective) []string
}

func (d definition[D, E, I]) layering() listLayering {
	f := d.folding
	f.ID = d.entryID
	if f.get == nil {
		f.get = func(e *Effective) []E { return *d.list(e) }
		f.set = func(e *Effective, entries []E) { *d.list(e) = entries }
	}
	return f.layering(d.kind)
}

func (f folding[E]) layering(kind Kind) listLayering {
	return listLayering{
		read: func(list json.RawMessage) (any, error) { return fold.Read[E](list) },
		ids: func(entries any) []string {
			of := entries.([]fold.Said[E])
			ids := make([]string, len(of))
			for i := range of {
				ids[i] = f.ID(&of[i].Entry)
			}
			return ids
		},
		pile: func(layers []*layer) any {
			return f.pile(layers, func(l *layer) []fold.Said[E] {
				return l.lists[kind].([]fold.Said[E])
			})
		},
		lay: func(p any, own, e *Effective) {
			var excluded []string
			if own.cluster.Excludes != nil && f.excluded != nil {
				excluded = f.excluded(own)
			}
			f.set(e, f.Under(p.(*fold.Pile[E]), f.get(own), excluded))
		},
		share:    func(from, e *Effective) { f.set(e, f.get(from)) },
		excluded: f.excluded,
	}
}

var componentFolding = folding[api.ComponentAssignment]{
	Rules: fold.Rules[api.ComponentAssignment]{Lay: layComponent, Settle: settleComponent},
	apart: func(l *layer) map[string]fold.Said[api.ComponentAssignment] { return l.settings },
}

// layComponent: each setting by itself; the highest who says it.
func layComponent(below, above fold.Said[api.ComponentAssignment]) fold.Said[api.ComponentAssignment] {
	b, a := below.Entry, above.Entry
	out := fold.Said[api.ComponentAssignment]{Entry: api.ComponentAssignment{
		ID: a.ID, Enabled: a.Enabled, OCITag: cmp.Or(a.OCITag, b.OCITag), ComponentPath: cmp.Or(a.ComponentPath, b.ComponentPath),
		ComponentVersion: cmp.Or(a.ComponentVersion, b.ComponentVersion), ValuesFrom: a.ValuesFrom,
	}, Silent: below.Silent && above.Silent}
	if above.Silent {
		out.Entry.Enabled = b.Enabled
	}
	if len(a.ValuesFrom) == 0 {
		out.Entry.ValuesFrom = b.ValuesFrom
	}
	return out
}

func settleComponent(s fold.Said[api.ComponentAssignment]) api.ComponentAssignment {
	if s.Silent {
		s.Entry.Enabled = true
	}
	return s.Entry
}

var resourceFolding = folding[api.ResourceAssignment]{Rules: fold.Rules[api.ResourceAssignment]{
	ID: func(e *api.ResourceAssignment) string { return e.ID }, Lay: layResource,
}}

// layResource: each property that is overridden by itself.
func layResource(below, above fold.Said[api.ResourceAssignment]) fold.Said[api.ResourceAssignment] {
	switch {
	case len(below.Entry.Overrides) == 0:
		return above
	case len(above.Entry.Overrides) == 0:
		return below
	}
	out := fold.Said[api.ResourceAssignment]{Entry: api.ResourceAssignment{ID: above.Entry.ID, Overrides: make(map[string]json.RawMessage, len(below.Entry.Overrides)+len(above.Entry.Overrides))}}
	maps.Copy(out.Entry.Overrides, below.Entry.Overrides)
	maps.Copy(out.Entry.Overrides, above.Entry.Overrides)
	return out
}

// resourcesUnder is what a cluster has of resource types.
func (st *stack) resourcesUnder(own *api.Cluster) map[string][]api.ResourceAssignment {
	if len(st.resources) == 0 && own.Excludes == nil {
		return own.Resources
	}
	out := map[string][]api.ResourceAssignment{}
	maps.Copy(out, own.Resources)
	for id, p := range st.resources {
		var excluded []string
		if own.Excludes != nil {
			excluded = own.Excludes.Resources[id]
		}
		if out[id] = resourceFolding.Under(p, own.Resources[id], excluded); len(out[id]) == 0 {
			delete(out, id)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// stack is what some layers amount to, for all clusters that are matched by just these.
type stack struct {
	layers    []*Document // by rising priority
	key       string      // see stackKey
	lists     map[Kind]any
	resources map[string]*fold.Pile[api.ResourceAssignment] // by type
	patches   api.Patches                                   // nil for a path: nobody below says it
	protects  bool
	bare      *Effective // what a cluster has that says nothing itself
}

// stackOf folds layers, which are sorted by rising priority.
func (ks *kindSet) stackOf(docs []*Document) *stack {
	layers := make([]*layer, len(docs))
	for i, d := range docs {
		layers[i] = d.layer()
	}
	st := &stack{layers: docs, key: stackKey(docs), lists: map[Kind]any{}, resources: map[string]*fold.Pile[api.ResourceAssignment]{}, patches: api.Patches{}}
	for _, a := range ks.lists[:ks.fixed] {
		st.lists[a.kind] = a.layering.pile(layers)
	}
	for _, l := range layers {
		for typeID := range l.resources {
			if st.resources[typeID] == nil {
				st.resources[typeID] = resourceFolding.pile(layers, func(l *layer) []fold.Said[api.ResourceAssignment] { return l.resources[typeID] })
			}
		}
		for component, values := range l.Patches {
			if st.patches[component] == nil {
				st.patches[component] = api.PatchValues{}
			}
			for path, value := range values {
				if st.patches[component][path] = value; string(value) == "null" {
					st.patches[component][path] = nil
				}
			}
		}
		if l.DeletionProtection != nil {
			st.protects = *l.DeletionProtection
		}
	}
	nothing := ks.blank()
	st.bare = &Effective{value: ks.copied(nothing.value)}
	st.bare.cluster = ks.cluster(st.bare.value)
	ks.fold(st, nothing, st.bare)
	return st
}

// stackKey names a stack among those of the same layers.
func stackKey(layers []*Document) string {
	var key strings.Builder
	for _, d := range layers {
		key.WriteString(d.ID)
		key.WriteByte(0)
	}
	return key.String()
}
