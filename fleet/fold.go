package fleet

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// said is an entry of a list as a layer or a cluster says it: what it leaves empty it does not say.
type said[E any] struct {
	entry  E
	silent bool // about whether it is enabled
}

// folding is what the entries of a list are folded by.
type folding[E any] struct {
	id       func(*E) string
	lay      func(below, above said[E]) said[E] // leaf by leaf; nil: entries say nothing but the id
	settle   func(said[E]) E                    // where nobody is above; nil: the entry
	apart    func(l *layer) map[string]said[E]  // what a layer says about entries that it does not assign
	excluded func(x *api.Excludes) []string     // what a cluster does not take
	set      func(e *Effective, entries []E)    // makes it a cluster's list
	get      func(e *Effective) []E             // a cluster's list
}

// pile is what the layers of a stack say about a list together.
type pile[E any] struct {
	order   []string           // of those that they assign
	said    map[string]said[E] // by id; also about entries that only a cluster assigns
	settled []E                // what a cluster has that says nothing itself
}

// pileUp folds what layers say, the lowest first.
func (f *folding[E]) pileUp(layers []*layer, entries func(*layer) []said[E]) *pile[E] {
	p := &pile[E]{said: map[string]said[E]{}}
	add := func(id string, s said[E]) {
		if below, known := p.said[id]; known {
			s = f.over(below, s)
		}
		p.said[id] = s
	}
	assigned := map[string]bool{}
	for _, l := range layers {
		for _, s := range entries(l) {
			id := f.id(&s.entry)
			if add(id, s); !assigned[id] {
				assigned[id] = true
				p.order = append(p.order, id)
			}
		}
		if f.apart != nil {
			for id, s := range f.apart(l) {
				add(id, s)
			}
		}
	}
	p.settled = make([]E, len(p.order))
	for i, id := range p.order {
		p.settled[i] = f.settled(p.said[id])
	}
	return p
}

func (f *folding[E]) over(below, above said[E]) said[E] {
	if f.lay == nil {
		return above
	}
	return f.lay(below, above)
}

func (f *folding[E]) settled(s said[E]) E {
	if f.settle == nil {
		return s.entry
	}
	return f.settle(s)
}

// under is the list of a cluster that says something itself: entries in the order of first mention, the cluster's own last.
func (f *folding[E]) under(p *pile[E], own []E, excluded []string) []E {
	if len(own) == 0 && len(excluded) == 0 {
		return p.settled
	}
	place := make(map[string]int, len(own))
	for i := range own {
		if id := f.id(&own[i]); !hasKey(place, id) {
			place[id] = i
		}
	}
	lay := func(i int) E {
		s := said[E]{entry: own[i]}
		if below, known := p.said[f.id(&own[i])]; known {
			s = f.over(below, s)
		}
		return f.settled(s)
	}
	out, used := make([]E, 0, len(p.order)+len(own)), make([]bool, len(own))
	for i, id := range p.order {
		at, restated := place[id]
		switch {
		case restated:
			out, used[at] = append(out, lay(at)), true
		case !slices.Contains(excluded, id):
			out = append(out, p.settled[i])
		}
	}
	for i := range own {
		if !used[i] {
			out = append(out, lay(i))
		}
	}
	return out
}

func hasKey[V any](m map[string]V, key string) bool { _, ok := m[key]; return ok }

// listLayering is a folding whatever its entries are.
type listLayering struct {
	read     func(list json.RawMessage) (any, error) // a layer's entries
	ids      func(entries any) []string
	pile     func(layers []*layer) any
	lay      func(p any, own, e *Effective) // what the cluster says itself over a pile
	share    func(from, e *Effective)       // the list of another cluster
	excluded func(x *api.Excludes) []string
}

func (d definition[D, E, I]) layering() listLayering {
	f := d.folding
	f.id = d.entryID
	if f.get == nil {
		f.get = func(e *Effective) []E { return *d.list(e) }
		f.set = func(e *Effective, entries []E) { *d.list(e) = entries }
	}
	return f.layering(d.kind)
}

func (f folding[E]) layering(kind Kind) listLayering {
	return listLayering{
		read: func(list json.RawMessage) (any, error) { return f.read(list) },
		ids: func(entries any) []string {
			of := entries.([]said[E])
			ids := make([]string, len(of))
			for i := range of {
				ids[i] = f.id(&of[i].entry)
			}
			return ids
		},
		pile: func(layers []*layer) any {
			return f.pileUp(layers, func(l *layer) []said[E] {
				return l.lists[kind].([]said[E])
			})
		},
		lay: func(p any, own, e *Effective) {
			var excluded []string
			if x := own.cluster.Excludes; x != nil && f.excluded != nil {
				excluded = f.excluded(x)
			}
			f.set(e, f.under(p.(*pile[E]), f.get(own), excluded))
		},
		share:    func(from, e *Effective) { f.set(e, f.get(from)) },
		excluded: f.excluded,
	}
}

func (f *folding[E]) read(list json.RawMessage) ([]said[E], error) {
	if list == nil {
		return nil, nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(list, &items); err != nil {
		return nil, err
	}
	out := make([]said[E], len(items))
	for i, item := range items {
		if err := json.Unmarshal(item, &out[i].entry); err != nil {
			return nil, err
		}
		var on struct {
			Enabled *bool `json:"enabled"`
		}
		if err := json.Unmarshal(item, &on); err != nil {
			return nil, err
		}
		out[i].silent = on.Enabled == nil
	}
	return out, nil
}

// componentFolding: each setting by itself; the highest who says it.
var componentFolding = folding[api.ComponentAssignment]{
	lay: func(below, above said[api.ComponentAssignment]) said[api.ComponentAssignment] {
		b, a := below.entry, above.entry
		out := said[api.ComponentAssignment]{entry: api.ComponentAssignment{
			ID: a.ID, Enabled: a.Enabled, OCITag: first(a.OCITag, b.OCITag), ComponentPath: first(a.ComponentPath, b.ComponentPath),
			ComponentVersion: first(a.ComponentVersion, b.ComponentVersion), ValuesFrom: a.ValuesFrom,
		}, silent: below.silent && above.silent}
		if above.silent {
			out.entry.Enabled = b.Enabled
		}
		if len(a.ValuesFrom) == 0 {
			out.entry.ValuesFrom = b.ValuesFrom
		}
		return out
	},
	settle: func(s said[api.ComponentAssignment]) api.ComponentAssignment {
		if s.silent {
			s.entry.Enabled = true
		}
		return s.entry
	},
	apart: func(l *layer) map[string]said[api.ComponentAssignment] { return l.settings },
}

// resourceFolding: each property that is overridden by itself.
var resourceFolding = folding[api.ResourceAssignment]{
	id: func(e *api.ResourceAssignment) string { return e.ID },
	lay: func(below, above said[api.ResourceAssignment]) said[api.ResourceAssignment] {
		switch {
		case len(below.entry.Overrides) == 0:
			return above
		case len(above.entry.Overrides) == 0:
			return below
		}
		out := said[api.ResourceAssignment]{entry: api.ResourceAssignment{ID: above.entry.ID, Overrides: make(map[string]json.RawMessage, len(below.entry.Overrides)+len(above.entry.Overrides))}}
		maps.Copy(out.entry.Overrides, below.entry.Overrides)
		maps.Copy(out.entry.Overrides, above.entry.Overrides)
		return out
	},
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
		if out[id] = resourceFolding.under(p, own.Resources[id], excluded); len(out[id]) == 0 {
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
	resources map[string]*pile[api.ResourceAssignment] // by type
	patches   api.Patches                              // nil for a path: nobody below says it
	protects  bool
	bare      *Effective // what a cluster has that says nothing itself
}

// stackOf folds layers, which are sorted by rising priority.
func (ks *kindSet) stackOf(docs []*Document) *stack {
	layers := make([]*layer, len(docs))
	for i, d := range docs {
		layers[i] = d.layer()
	}
	st := &stack{layers: docs, key: stackKey(docs), lists: map[Kind]any{}, resources: map[string]*pile[api.ResourceAssignment]{}, patches: api.Patches{}}
	for _, a := range ks.lists[:ks.fixed] {
		st.lists[a.kind] = a.layering.pile(layers)
	}
	for _, l := range layers {
		for typeID := range l.resources {
			if st.resources[typeID] == nil {
				st.resources[typeID] = resourceFolding.pileUp(layers, func(l *layer) []said[api.ResourceAssignment] { return l.resources[typeID] })
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
