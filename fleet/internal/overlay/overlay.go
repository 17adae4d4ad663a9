// Package fold is who wins: lists of which several say something, one above the other, become the list that counts. Nothing here
// knows layers or clusters, or what an entry is; that the highest who says something has the last word, and that entries come in
// the order of first mention, is decided here once for every kind.
package overlay

import (
	"encoding/json"
	"slices"
)

// Said is an entry of a list as somebody says it: what it leaves empty is not said.
type Entry[E any] struct {
	Value        E
	EnabledUnset bool // about whether it is enabled
}

// Rules are what the entries of a list are folded by.
type Rules[E any] struct {
	ID       func(*E) string
	Apply    func(below, above Entry[E]) Entry[E] // leaf by leaf; nil: entries say nothing but the id
	Finalize func(Entry[E]) E                     // where nobody is above; nil: the entry
}

// Layer is what one of several says about a list.
type Layer[E any] struct {
	Entries  []Entry[E]
	Defaults map[string]Entry[E] // about entries that it does not have itself
}

// Pile is what several say about a list together.
type Merged[E any] struct {
	order   []string            // of those that they have
	entries map[string]Entry[E] // by id; also about entries that nobody of them has
	final   []E
}

// Settled is the list where nobody else says anything. It must not be changed.
func (p *Merged[E]) Final() []E { return p.final }

// Pile folds what several say, the lowest first.
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

func (r *Rules[E]) apply(below, above Entry[E]) Entry[E] {
	if r.Apply == nil {
		return above
	}
	return r.Apply(below, above)
}

func (r *Rules[E]) finalize(s Entry[E]) E {
	if r.Finalize == nil {
		return s.Value
	}
	return r.Finalize(s)
}

// Under is the list of somebody above a pile, with entries of their own and without some of the pile's: entries in the order of
// first mention, the own ones last.
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

// Read reads a list in which entries may leave out whether they are enabled; nil: there is none.
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
