package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// randomAccess draws the body of an access document, mostly of the subject ci.
func randomAccess(t *rapid.T, id string) string {
	pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	var on []string
	for _, limit := range []string{
		pick("selector", "", "", `"selector":"tier=prod"`, `"selector":"tier=dev"`, `"selector":"region=eu"`, `"selector":"environment=dev"`, `"selector":"id=c1"`),
		pick("kinds", "", `"kinds":["cluster"]`, `"kinds":["cluster","layer","rollout"]`, `"kinds":["platform_component","cluster","layer","namespace","rollout","freeze","resource_type","resource/quotas"]`),
		pick("components", "", "", `"components":["grafana"]`, `"components":["l*"]`),
		pick("layers", "", "", `"layers":["prod"]`, `"layers":["b*"]`),
	} {
		if limit != "" {
			on = append(on, limit)
		}
	}
	body := fmt.Sprintf(`{"id":%q,"subjects":[{"token":%q}],"may":%s`, id, pick("token", "ci", "ci", "ci", "other"),
		pick("may", `["write"]`, `["write"]`, `["write"]`, `["read","write","approve","revert","push_version"]`, `["push_version"]`, `["revert"]`, `["plan"]`))
	if len(on) > 0 {
		body += `,"on":{` + strings.Join(on, ",") + `}`
	}
	return body + `,"expires_at":` + pick("expiry", `"2026-01-02T03:10:00Z"`, `"2027-01-01T00:00:00Z"`) + `}`
}

// inSelector reports whether a cluster has the label of a selector with one requirement, independently of the code under test.
func inSelector(selector string, c *api.Cluster) bool {
	key, value, _ := strings.Cut(selector, "=")
	return selector == "" || c.Labels[key] == value && value != "" || key == "environment" && c.Environment == value || key == "id" && c.ID == value
}

// coveredByHand reports whether an access document covers a commit: each changed document, and each name whose answers
// differ. It compares answers, and reads only the bodies of documents.
func coveredByHand(t require.TestingT, a api.Access, base *State, res Result) bool {
	if !slices.Contains(a.May, "write") && !slices.Contains(a.May, "push_version") && !slices.Contains(a.May, "revert") && !slices.Contains(a.May, "approve") {
		return false
	}
	if a.On == nil {
		return true
	}
	match := func(patterns []string, id string) bool {
		return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
			return p == id || strings.HasSuffix(p, "*") && strings.HasPrefix(id, strings.TrimSuffix(p, "*"))
		})
	}
	for _, ch := range res.Commit.Changes {
		if ch.Kind == KindBudget || ch.Kind == KindOrphan {
			continue
		}
		selected := ch.Kind == KindCluster && a.On.Selector != "" || ch.Kind == KindComponent && len(a.On.Components) > 0 || ch.Kind == KindLayer && len(a.On.Layers) > 0
		if len(a.On.Kinds) > 0 {
			selected = slices.Contains(a.On.Kinds, string(ch.Kind))
		}
		if !selected || ch.Kind == KindComponent && !match(a.On.Components, ch.ID) || ch.Kind == KindLayer && !match(a.On.Layers, ch.ID) {
			return false
		}
		for _, s := range []*State{base, res.State} {
			if doc := s.docs[ch.Kind][ch.ID]; doc != nil && ch.Kind == KindCluster && !inSelector(a.On.Selector, doc.Cluster()) {
				return false
			}
		}
	}
	names := map[string]bool{}
	for _, s := range []*State{base, res.State} {
		for name := range s.byDNS {
			names[name] = true
		}
	}
	for name := range names {
		if answersTo(t, base, name) == answersTo(t, res.State, name) {
			continue
		}
		for _, s := range []*State{base, res.State} {
			if doc, ok := s.ByDNS(name); ok && !inSelector(a.On.Selector, doc.Cluster()) {
				return false
			}
		}
	}
	return true
}

// TestAcceptedChangesAreWithinTheirAccess: for random access documents and writes of any kind, one access document of the
// subject covers each document that an accepted change changes, and each cluster whose answers differ, before and after.
func TestAcceptedChangesAreWithinTheirAccess(t *testing.T) {
	t.Parallel()
	first := tiers(t, prodLayer, baseLayer)
	first.state.rules.MaxRemovals = 1 << 20
	accepted, refused := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{t: t, state: first.state, now: first.now, log: log{commits: slices.Clone(first.log.commits)}}
		var all []api.Access
		for i := range rapid.IntRange(1, 3).Draw(rt, "access documents") {
			body := randomAccess(rt, fmt.Sprint("a", i))
			res, err := w.try(create(KindAccess, body))
			if err != nil {
				continue // limits that contradict each other
			}
			w.keep(res)
			all = append(all, *w.state.docs[KindAccess][fmt.Sprint("a", i)].View().(*api.Access))
		}
		for range rapid.IntRange(1, 8).Draw(rt, "writes") {
			base := w.state
			what, edit := randomWrite(rt, w)
			free, err := w.try(withoutGuard(edit))
			if err != nil || len(free.Commit.Changes) == 0 {
				continue
			}
			res, err := w.limited(edit)
			if err != nil {
				require.NotNil(rt, outside(err), "%s: %v", what, err)
				refused++
				if rapid.Bool().Draw(rt, "another principal makes it") {
					w.keep(free)
				}
				continue
			}
			accepted++
			require.True(rt, slices.ContainsFunc(all, func(a api.Access) bool {
				return a.Subjects[0].Token == "ci" && a.ExpiresAt.After(w.now) && coveredByHand(rt, a, base, res)
			}), "no access document covers: %s", what)
			w.keep(res)
		}
	})
	t.Logf("%d changes accepted, %d refused", accepted, refused)
	require.Positive(t, accepted)
	require.Positive(t, refused)
}
