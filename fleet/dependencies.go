package fleet

import (
	"fmt"
	"slices"
	"sync"
)

// catalog is what the components of a State are together. It is worked out once, however many of them a commit checks:
// that happens while everybody else's changes wait.
type catalog struct {
	once      sync.Once
	dependsOn map[string][]string
	knots     map[string][]string // the components that depend on each other, by the id of each that does
	collapsed map[string][]string // by what ids have to differ in
	releases  map[string]bool     // the names of Helm releases that several components have
}

// maxCycle is how long a cycle may be to be spelled out.
const maxCycle = 20

func (s *State) catalog() *catalog {
	c := &s.components
	c.once.Do(func() {
		docs := s.sorted(KindComponent, func(*Document) bool { return true })
		c.dependsOn, c.collapsed = make(map[string][]string, len(docs)), make(map[string][]string, len(docs))
		releases := make(map[string]bool, len(docs))
		c.releases = map[string]bool{}
		deps := s.kinds.assigned(KindComponent).dependsOn
		for _, d := range docs {
			c.dependsOn[d.ID] = deps(d)
			c.collapsed[collapse(d.ID)] = append(c.collapsed[collapse(d.ID)], d.ID)
			if name := d.Component().ReleaseName; releases[name] {
				c.releases[name] = true
			} else {
				releases[name] = true
			}
		}
		c.knots = knots(docs, c.dependsOn)
	})
	return c
}

// knots are the strongly connected components of a graph that have more than one node (Tarjan): each edge is looked at
// once.
func knots(docs []*Document, edges map[string][]string) map[string][]string {
	found := map[string][]string{}
	seen, low, open := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	var visit func(id string)
	visit = func(id string) {
		number := len(seen) + 1
		seen[id], low[id], open[id] = number, number, true
		stack = append(stack, id)
		for _, dep := range edges[id] {
			if _, there := edges[dep]; !there {
				continue
			}
			if seen[dep] == 0 {
				visit(dep)
				low[id] = min(low[id], low[dep])
			} else if open[dep] {
				low[id] = min(low[id], seen[dep])
			}
		}
		if low[id] != number {
			return
		}
		at := len(stack) - 1
		for stack[at] != id {
			at--
		}
		knot := slices.Clone(stack[at:])
		stack = stack[:at]
		for _, member := range knot {
			if open[member] = false; len(knot) > 1 {
				found[member] = knot
			}
		}
	}
	for _, d := range docs {
		if seen[d.ID] == 0 {
			visit(d.ID)
		}
	}
	return found
}

// cycle describes how a component depends on itself by way of others, or is empty.
func (c *catalog) cycle(start string) string {
	knot := c.knots[start]
	if len(knot) == 0 {
		return ""
	}
	if len(knot) > maxCycle {
		return fmt.Sprintf("%q and %d other components depend on each other", start, len(knot)-1)
	}
	// The shortest way back.
	from := map[string]string{}
	for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
		for _, dep := range c.dependsOn[queue[0]] {
			if dep == start && queue[0] == start || !slices.Contains(knot, dep) {
				continue // depending on oneself is reported as that
			}
			if dep == start {
				trail := start
				for id := queue[0]; id != start; id = from[id] {
					trail = id + " -> " + trail
				}
				return "the dependencies form a cycle: " + start + " -> " + trail
			}
			if _, known := from[dep]; !known {
				from[dep] = queue[0]
				queue = append(queue, dep)
			}
		}
	}
	return ""
}
