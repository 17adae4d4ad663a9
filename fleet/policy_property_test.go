package fleet

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// brokenRules are rules of policies, each with a function that reports whether a change breaks it, computed from the answers to polls.
var brokenRules = []struct {
	rule   string
	broken func(t require.TestingT, base *State, res Result) bool
}{
	{"effect.clusters.size() <= 1", func(t require.TestingT, base *State, res Result) bool { return len(differing(t, base, res.State)) > 1 }},
	{"effect.clusters.all(c, c.id != 'k0')", func(t require.TestingT, base *State, res Result) bool { return differing(t, base, res.State)["k0"] }},
	{"!change.documents.exists(d, d.kind == 'platform_component')", func(_ require.TestingT, _ *State, res Result) bool {
		for _, ch := range res.Commit.Changes {
			if ch.Kind == KindComponent {
				return true
			}
		}
		return false
	}},
	{"effect.clusters.all(c, c.lists.namespaces.all(e, e.after != null))", func(t require.TestingT, base *State, res Result) bool {
		for id := range differing(t, base, res.State) {
			was, had := base.Get(KindCluster, id)
			is, has := res.State.Get(KindCluster, id)
			if !had {
				continue
			}
			for _, ns := range was.Cluster().Namespaces {
				left := !has
				if has {
					left = true
					for _, other := range is.Cluster().Namespaces {
						left = left && other.ID != ns.ID
					}
				}
				if left {
					return true
				}
			}
		}
		return false
	}},
}

// differing returns the live clusters, before or after, with other answers, environments or labels.
func differing(t require.TestingT, base, next *State) map[string]bool {
	out := map[string]bool{}
	for _, s := range []*State{base, next} {
		for _, d := range s.All(KindCluster) {
			was, had := base.Get(KindCluster, d.ID)
			is, has := next.Get(KindCluster, d.ID)
			if had != has || fmt.Sprint(was.Cluster().Labels, was.Cluster().Environment) != fmt.Sprint(is.Cluster().Labels, is.Cluster().Environment) ||
				answersTo(t, base, was.Cluster().ClusterDNS) != answersTo(t, next, is.Cluster().ClusterDNS) {
				out[d.ID] = true
			}
		}
	}
	return out
}

// TestPoliciesAreObeyed: no accepted change breaks a rule of its base, whatever the change.
func TestPoliciesAreObeyed(t *testing.T) {
	t.Parallel()
	refused, accepted := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		w := drifted(rt, t, 0)
		chosen := rapid.SliceOfNDistinct(rapid.IntRange(0, len(brokenRules)-1), 1, 3, rapid.ID).Draw(rt, "policies")
		for _, i := range chosen {
			w.must(create(KindPolicy, fmt.Sprintf(`{"id":"p%d","rule":%q,"action":"deny"}`, i, brokenRules[i].rule)))
		}
		for range 8 {
			edit, what := randomEdit(rt)
			base := w.state
			res, err := w.try(edit)
			if e, ok := errors.AsType[*Error](err); ok && e.Code == CodePolicy {
				refused++
				continue
			}
			if err != nil {
				continue
			}
			accepted++
			for _, i := range chosen {
				require.False(rt, brokenRules[i].broken(rt, base, res), "%s breaks %s", what, brokenRules[i].rule)
			}
			w.keep(res)
		}
	})
	require.Positive(t, refused)
	require.Positive(t, accepted)
}
