// Package fold is who wins: lists of which several say something, one above the other, become the list that counts. Nothing here
// knows layers or clusters, or what an entry is; that the highest who says something has the last word, and that entries come in
// the order of first mention, is decided here once for every kind.
package fold

import (
	"encoding/json"
	"slices"
)

// Said is an entry of a list as somebody says it: what it leaves empty is not said.
type Said[E any] struct {
	Entry  E
	Silent bool // about whether it is enabled
}

// Rules are what the entries of a list are folded by.
type Rules[E any] struct {
	ID     func(*E) string
	Lay    func(below, above Said[E]) Said[E] // leaf by leaf; nil: entries say nothing but the id
	Settle func(Said[E]) E                    // where nobody is above; nil: the entry
}

// Layer is what one of several says about a list.
type Layer[E any] struct {
	Entries []Said[E]
	Apart   map[string]Said[E] // about entries that it does not have itself
}

// Pile is what several say about a list together.
type Pile[E any] struct {
	order   []string           // of those that they have
	said    map[string]Said[E] // by id; also about entries that nobody of them has
	settled []E
}

// Settled is the list where nobody else says anything. It must not be changed.
func (p *Pile[E]) Settled() []E { return p.settled }

// Pile folds what several say, the lowest first.
func (r *Rules[E]) Pile(layers []Layer[E]) *Pile[E] {
	p := &Pile[E]{said: map[string]Said[E]{}}
	add := func(id string, s Said[E]) {
		if below, known := p.said[id]; known {
			s = r.over(below, s)
		}
		p.said[id] = s
	}
	listed := map[string]bool{}
	for _, l := range layers {
		for _, s := range l.Entries {
			id := r.ID(&s.Entry)
			if add(id, s); !listed[id] {
				listed[id] = true
				p.order = append(p.order, id)
			}
		}
		for id, s := range l.Apart {
			add(id, s)
		}
	}
	p.settled = make([]E, len(p.order))
	for i, id := range p.order {
		p.settled[i] = r.settled(p.said[id])
	}
	return p
}

func (r *Rules[E]) over(below, above Said[E]) Said[E] {
	if r.Lay == nil {
		return above
	}
	return r.Lay(below, above)
}

func (r *Rules[E]) settled(s Said[E]) E {
	if r.Settle == nil {
		return s.Entry
	}
	return r.Settle(s)
}

// Under is the list of somebody above a pile, with entries of their own and without some of the pile's: entries in the order of
// first mention, the own ones last.
func (r *Rules[E]) Under(p *Pile[E], own []E, excluded []string) []E {
	if len(own) == 0 && len(excluded) == 0 {
		return p.settled
	}
	place := make(map[string]int, len(own))
	for i := range own {
		id := r.ID(&own[i])
		if _, twice := place[id]; !twice {
			place[id] = i
		}
	}
	lay := func(i int) E {
		s := Said[E]{Entry: own[i]}
		if below, known := p.said[r.ID(&own[i])]; known {
			s = r.over(below, s)
		}
		return r.settled(s)
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

// Read reads a list in which entries may leave out whether they are enabled; nil: there is none.
func Read[E any](list json.RawMessage) ([]Said[E], error) {
	if list == nil {
		return nil, nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(list, &items); err != nil {
		return nil, err
	}
	out := make([]Said[E], len(items))
	for i, item := range items {
		if err := json.Unmarshal(item, &out[i].Entry); err != nil {
			return nil, err
		}
		var on struct {
			Enabled *bool `json:"enabled"`
		}
		if err := json.Unmarshal(item, &on); err != nil {
			return nil, err
		}
		out[i].Silent = on.Enabled == nil
	}
	return out, nil
}
