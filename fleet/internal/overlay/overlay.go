// Package overlay merges the lists of several layers into one. For each entry the highest layer that sets a field wins, and
// entries keep the order of their first occurrence: these two rules are implemented here once for every kind. The package
// knows neither layers nor clusters, nor the type of an entry.
package overlay

import (
	"encoding/json"
	"slices"
)

// Entry is an entry of a layer's list. Its empty fields are unset.
type Entry[E any] struct {
	Value        E
	EnabledUnset bool // the entry does not set enabled
}

// Rules define how entries are merged.
type Rules[E any] struct {
	ID       func(*E) string
	Apply    func(below, above Entry[E]) Entry[E] // merges field by field; nil: above replaces below
	Finalize func(Entry[E]) E                     // fills in defaults after the merge; nil: none
}

// Layer is the contribution of one layer to a list.
type Layer[E any] struct {
	Entries  []Entry[E]
	Defaults map[string]Entry[E] // settings, by id, for entries that the layer does not list itself
}

// Merged is the merged list of several layers.
type Merged[E any] struct {
	order   []string            // ids of the listed entries
	entries map[string]Entry[E] // by id; also settings of entries that no layer lists
	final   []E
}

// Final returns the list for a cluster without settings of its own. It must not be changed.
func (p *Merged[E]) Final() []E { return p.final }

// Entry returns the merged settings of an entry, also if no layer lists it; not ok if no layer has settings for it.
func (p *Merged[E]) Entry(id string) (Entry[E], bool) {
	s, known := p.entries[id]
	return s, known
}

// Merge merges layers, the lowest first.
func (r *Rules[E]) Merge(layers []Layer[E]) *Merged[E] {
	p := &Merged[E]{entries: map[string]Entry[E]{}}
	add := func(id string, s Entry[E]) {
		if below, known := p.entries[id]; known {
			s = r.apply(below, s)
		}
		p.entries[id] = s
	}
	listed := map[string]bool{}
	for _, l := range layers {
		for _, s := range l.Entries {
			id := r.ID(&s.Value)
			if add(id, s); !listed[id] {
				listed[id] = true
				p.order = append(p.order, id)
			}
		}
		for id, s := range l.Defaults {
			add(id, s)
		}
	}
	p.final = make([]E, len(p.order))
	for i, id := range p.order {
		p.final[i] = r.finalize(p.entries[id])
	}
	return p
}

// apply merges an entry over the same one of lower layers.
func (r *Rules[E]) apply(below, above Entry[E]) Entry[E] {
	if r.Apply == nil {
		return above
	}
	return r.Apply(below, above)
}

// finalize returns an entry with defaults.
func (r *Rules[E]) finalize(s Entry[E]) E {
	if r.Finalize == nil {
		return s.Value
	}
	return r.Finalize(s)
}

// Over merges the own entries of a cluster over a merged list, without the excluded ids: entries in the order of first
// occurrence, own ones last. An own entry overrules its exclusion.
func (r *Rules[E]) Over(p *Merged[E], own []E, excluded []string) []E {
	if len(own) == 0 && len(excluded) == 0 {
		return p.final
	}
	place := make(map[string]int, len(own))
	for i := range own {
		id := r.ID(&own[i])
		if _, twice := place[id]; !twice {
			place[id] = i
		}
	}
	lay := func(i int) E {
		s := Entry[E]{Value: own[i]}
		if below, known := p.entries[r.ID(&own[i])]; known {
			s = r.apply(below, s)
		}
		return r.finalize(s)
	}
	out, used := make([]E, 0, len(p.order)+len(own)), make([]bool, len(own))
	for i, id := range p.order {
		at, restated := place[id]
		switch {
		case restated:
			out, used[at] = append(out, lay(at)), true
		case !slices.Contains(excluded, id):
			out = append(out, p.final[i])
		}
	}
	for i := range own {
		if !used[i] {
			out = append(out, lay(i))
		}
	}
	return out
}

// Read parses a list in which entries may omit enabled; a nil list has no entries.
func Read[E any](list json.RawMessage) ([]Entry[E], error) {
	if list == nil {
		return nil, nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(list, &items); err != nil {
		return nil, err
	}
	out := make([]Entry[E], len(items))
	for i, item := range items {
		if err := json.Unmarshal(item, &out[i].Value); err != nil {
			return nil, err
		}
		var on struct {
			Enabled *bool `json:"enabled"`
		}
		if err := json.Unmarshal(item, &on); err != nil {
			return nil, err
		}
		out[i].EnabledUnset = on.Enabled == nil
	}
	return out, nil
}
