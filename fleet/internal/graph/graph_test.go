package graph_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/graph"
)

// TestCycles: a node is in a knot if it can be reached from itself, and its cycle is a shortest way back.
func TestCycles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		node := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "none"})
		g := graph.Graph(rapid.MapOf(node, rapid.SliceOfN(node, 0, 3)).Draw(t, "graph"))
		delete(g, "none")
		order := slices.Sorted(maps.Keys(g))
		knots := g.Knots(order)
		for _, start := range order {
			steps := stepsBack(g, start)
			cycle := g.Cycle(start, knots[start])
			if steps == 0 {
				require.NotContains(t, knots, start)
				require.Nil(t, cycle)
				continue
			}
			require.Contains(t, knots[start], start)
			require.Len(t, cycle, steps+1)
			require.Equal(t, start, cycle[0])
			require.Equal(t, start, cycle[steps])
			for i := range steps {
				require.Contains(t, g[cycle[i]], cycle[i+1])
			}
		}
	})
}

// stepsBack returns the length of the shortest cycle through a node and other nodes; 0: there is none.
func stepsBack(g graph.Graph, start string) int {
	reached := map[string]bool{start: true}
	for steps := 1; steps <= len(g); steps++ {
		next := map[string]bool{}
		for id := range reached {
			for _, dep := range g[id] {
				if _, there := g[dep]; there && (dep != start || steps > 1) {
					next[dep] = true
				}
			}
		}
		if next[start] {
			return steps
		}
		reached = next
	}
	return 0
}
