package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/rendering"
)

// The service does not connect to clusters, so it cannot know which objects exist there. Flux takes over each object that a
// template renders, whoever created it. A plan names the objects that definitions of resource types newly render and that
// exist as far as the service can know: on every cluster, or rendered by another definition before.

const (
	maxTakeovers        = 100 // maximum number of definitions in a plan
	maxTakeoversObjects = 10  // maximum number of objects of each definition
)

// takeovers collects the warnings about objects that a change newly renders.
type takeovers struct {
	base, next *State
	work       work            // with templates of its own: a change that is possible has a plan
	looked     map[string]bool // definitions with their overrides, before and after
	omitted    bool            // there were more than maxTakeovers
	warned     map[string]bool
	warnings   []string
}

// add checks the inputs that a change adds to one cluster; the clusters of a group of a plan have the same.
func (t *takeovers) add(a affected, effect map[string]api.EndpointEffect) {
	if a.after == nil || a.after.Deleted() {
		return
	}
	for _, endpoint := range sortedKeys(effect) {
		list := t.next.kinds.byEndpoint[endpoint]
		if list == nil || !list.hasTemplate() {
			continue
		}
		for _, in := range effect[endpoint].Added {
			var input struct {
				ID string `json:"id"`
			}
			if json.Unmarshal(in, &input) == nil {
				t.compare(a, list, input.ID)
			}
		}
		for _, change := range effect[endpoint].Changed {
			t.compare(a, list, change.ID)
		}
	}
}

// compare compares the objects of a definition on a cluster before and after.
func (t *takeovers) compare(a affected, list *descriptor, id string) {
	wasOverrides, was := t.base.entryOn(a.before, list.kind, id)
	overrides, is := t.next.entryOn(a.after, list.kind, id)
	if is == nil {
		return
	}
	key := fmt.Sprintf("%s/%s %t %s %s", list.kind, id, was != nil, overridesKey(wasOverrides), overridesKey(overrides))
	if t.looked[key] {
		return
	}
	if len(t.looked) >= maxTakeovers || t.work.stopped() != nil {
		t.omitted = true
		return
	}
	if t.looked == nil {
		t.looked, t.warned = map[string]bool{}, map[string]bool{}
	}
	t.looked[key] = true
	after := t.render(is, a.after, overrides)
	var before rendering.Result
	if was != nil {
		before = t.render(was, a.before, wasOverrides)
	}
	if t.work.stopped() != nil {
		t.omitted = true // one of them may be incomplete
		return
	}
	begun := slices.DeleteFunc(slices.Clone(after.Objects), func(o rendering.Object) bool {
		return slices.Contains(before.Objects, o) || after.Handling[o].Guarded || after.Handling[o].Opened
	})
	if len(begun) == 0 {
		return
	}
	if w := t.warning(a, list, id, begun, &after); !t.warned[w] {
		t.warned[w] = true
		t.warnings = append(t.warnings, w)
	}
}

// render returns the objects of a definition on a cluster.
func (t *takeovers) render(r *resource, on *Effective, overrides map[string]json.RawMessage) rendering.Result {
	return t.work.execute(r.typ().ID, func() rendering.Result { return r.renderOn(fluxCluster(on.cluster), overrides) })
}

// warning describes the objects that a definition newly renders on a cluster.
func (t *takeovers) warning(a affected, list *descriptor, id string, begun []rendering.Object, after *rendering.Result) string {
	var names, deleted []string
	more := ""
	removed := after.Deleted()
	for i, o := range begun {
		if i == maxTakeoversObjects {
			more = fmt.Sprintf(" and %d more", len(begun)-i)
			break
		}
		name := o.String()
		if slices.Contains(removed, o) {
			deleted = append(deleted, name)
		}
		if maker, ok := t.makerOn(a.before, o); ok {
			name += fmt.Sprintf(" (made by the %s %q until now)", t.base.kinds.noun(maker.kind), maker.id)
		} else if o.ExistsEverywhere() {
			name += " (exists on every cluster)"
		}
		names = append(names, name)
	}
	fate := "Flux keeps all of them when the definition is removed"
	if len(deleted) > 0 {
		fate = fmt.Sprintf("when the definition is removed, Flux deletes %s, even if it existed before; the annotation %s: %s prevents that",
			strings.Join(deleted, ", "), rendering.PruneKey, rendering.PruneDisabled)
	}
	return fmt.Sprintf("%s %q begins to make %s%s: Flux takes over an object that exists already and removes what kubectl, helm or kustomize set and the template does not list; %s",
		list.rules.noun, id, strings.Join(names, ", "), more, fate)
}

// all returns the warnings.
func (t *takeovers) all() []string {
	if t.omitted {
		return append(t.warnings, fmt.Sprintf("more definitions may begin to make objects; the first %d were checked", len(t.looked)))
	}
	return t.warnings
}

// entryOn returns a definition of a resource type and the overrides of a cluster that has it; nil if the cluster does not
// have it.
func (s *State) entryOn(has *Effective, kind Kind, id string) (map[string]json.RawMessage, *resource) {
	list := s.kinds.byKind[kind]
	if has == nil || list == nil || !list.hasTemplate() {
		return nil, nil
	}
	doc, ok := s.definition(has, kind, id)
	if !ok {
		return nil, nil
	}
	for _, e := range has.cluster.Resources[list.field] {
		if e.ID == id {
			return e.Overrides, doc.value.(*resource)
		}
	}
	return nil, nil
}

// makerOn returns the definition that renders an object on a cluster before the change.
func (t *takeovers) makerOn(has *Effective, o rendering.Object) (docKey, bool) {
	s := t.base
	if has == nil || has.Deleted() {
		return docKey{}, false
	}
	for _, list := range s.kinds.lists {
		switch {
		case list.hasTemplate():
			for _, e := range has.cluster.Resources[list.field] {
				doc, ok := s.definition(has, list.kind, e.ID)
				if ok && slices.Contains(doc.value.(*resource).rendered(e.Overrides, t.work).Objects, o) {
					return docKey{list.kind, e.ID}, true
				}
			}
		case !list.typed:
			if id := s.renderedFor(list, o); id != "" && slices.Contains(list.ids(has), id) && s.makesObject(has, docKey{list.kind, id}, o, t.work) {
				return docKey{list.kind, id}, true
			}
		}
	}
	return docKey{}, false
}
