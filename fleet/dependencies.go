package fleet

import (
	"fmt"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/graph"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

const maxDependencies = 256

// maxCycle is the maximum length of a cycle that a message lists.
const maxCycle = 20

// checkDependencies checks depends_on: existing components, listed once, without cycles.
func checkDependencies(c *checker, p *api.PlatformComponent) {
	c.atMost("/depends_on", len(p.DependsOn), maxDependencies, "dependencies")
	seen := map[string]bool{}
	for i, id := range p.DependsOn {
		if c.full() {
			return
		}
		at := jsontext.Pointer("depends_on", i)
		_, ok := c.next.Get(KindComponent, id)
		switch {
		case seen[id]:
			c.problem(at, "%q is listed twice", id)
		case id == p.ID:
			c.problem(at, "a component cannot depend on itself")
		case !ok:
			c.problem(at, "there is no platform component %q", id)
		}
		seen[id] = true
	}
	if cycle := c.next.catalog().cycle(p.ID); cycle != "" {
		c.problem("/depends_on", "%s", cycle)
	}
}

// catalog returns facts about all components, computed at the first call.
func (s *State) catalog() *catalog {
	c := &s.components
	c.once.Do(func() {
		docs := s.sorted(KindComponent, func(*Document) bool { return true })
		c.dependsOn, c.collapsed = make(graph.Graph, len(docs)), make(map[string][]string, len(docs))
		releases := make(map[string]string, len(docs))
		c.releases = map[string]bool{}
		deps := s.kinds.descriptor(KindComponent).dependsOn
		for _, d := range docs {
			c.dependsOn[d.ID] = deps(d)
			c.collapsed[collapse(d.ID)] = append(c.collapsed[collapse(d.ID)], d.ID)
			for _, version := range s.versions(KindComponent, d.ID) {
				name := version.Component().ReleaseName
				if other, known := releases[name]; known && other != d.ID {
					c.releases[name] = true
				}
				releases[name] = d.ID
			}
		}
		c.knots = c.dependsOn.Knots(idsOf(docs))
	})
	return c
}

// cycle describes how a component depends on itself through others; empty if it does not.
func (c *catalog) cycle(start string) string {
	knot := c.knots[start]
	switch {
	case len(knot) == 0:
		return ""
	case len(knot) > maxCycle:
		return fmt.Sprintf("%q and %d other components depend on each other", start, len(knot)-1)
	}
	return "the dependencies form a cycle: " + strings.Join(c.dependsOn.Cycle(start, knot), " -> ")
}

// collapse returns the part of a component's id that must be unique. Templates slugify ids, which joins dashes.
func collapse(id string) string {
	for strings.Contains(id, "--") {
		id = strings.ReplaceAll(id, "--", "-")
	}
	return id
}
