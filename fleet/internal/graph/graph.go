// Package graph finds dependency cycles. It knows neither components nor the reasons for dependencies.
package graph

import "slices"

// Graph maps nodes to their dependencies. Dependencies that are no nodes are ignored.
type Graph map[string][]string

// Knots returns the strongly connected components of more than one node, by each of their nodes (Tarjan's algorithm). It
// visits each edge once, and nodes in the given order, so that the result is deterministic.
func (g Graph) Knots(order []string) map[string][]string {
	found := map[string][]string{}
	seen, low, open := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	var visit func(id string)
	visit = func(id string) {
		number := len(seen) + 1
		seen[id], low[id], open[id] = number, number, true
		stack = append(stack, id)
		for _, dep := range g[id] {
			if _, there := g[dep]; !there {
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
	for _, id := range order {
		if seen[id] == 0 {
			visit(id)
		}
	}
	return found
}

// Cycle returns the shortest cycle through a node and other nodes of its knot, with the node at both ends; nil if there is
// none.
func (g Graph) Cycle(start string, knot []string) []string {
	from := map[string]string{}
	for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
		for _, dep := range g[queue[0]] {
			if dep == start && queue[0] == start || !slices.Contains(knot, dep) {
				continue // a dependency on itself is no cycle of several nodes
			}
			if dep == start {
				trail := []string{start}
				for id := queue[0]; id != start; id = from[id] {
					trail = append(trail, id)
				}
				trail = append(trail, start)
				slices.Reverse(trail)
				return trail
			}
			if _, known := from[dep]; !known {
				from[dep] = queue[0]
				queue = append(queue, dep)
			}
		}
	}
	return nil
}
