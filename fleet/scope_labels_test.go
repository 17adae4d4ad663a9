package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestKindsThatSelectClusters: each kind of stored document with a selector is among clusterSelections, also kinds that are added later.
func TestKindsThatSelectClusters(t *testing.T) {
	t.Parallel()
	var hasSelector func(reflect.Type) bool
	hasSelector = func(of reflect.Type) bool {
		if of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			return hasSelector(of.Elem())
		}
		if of.Kind() == reflect.Struct {
			for f := range of.Fields() {
				if f.Name == "Selector" && f.Type.Kind() == reflect.String || f.IsExported() && hasSelector(f.Type) {
					return true
				}
			}
		}
		return false
	}
	require.True(t, hasSelector(reflect.TypeFor[access]()))
	for _, k := range newWorld(t).state.kinds.byName {
		// Rollouts copy the stages of strategies, and no stage of a strategy selects clusters by itself.
		selects := k.name != KindStrategy && hasSelector(reflect.TypeOf(k.empty()))
		require.Equal(t, selects, clusterSelections[k.name] != nil, "%s", k.name)
	}
}

// selectsByHand evaluates a selector of the test, independently of the code under test.
func selectsByHand(selector string, c *api.Cluster) bool {
	for part := range strings.SplitSeq(selector, ",") {
		key, value, _ := strings.Cut(part, "=")
		negated := strings.HasSuffix(key, "!")
		have := maps.Clone(c.Labels)
		have["id"], have["environment"] = c.ID, c.Environment
		if key = strings.TrimSuffix(key, "!"); (have[key] == value) == negated {
			return false
		}
	}
	return true
}

// storedSelectors returns the selectors of the stored documents of others, by kind/id/position, from their texts. Those of the access
// documents of the token ci are omitted.
func storedSelectors(t require.TestingT, s *State) map[string]string {
	out := map[string]string{}
	add := func(kind Kind, id string, at int, selector string) {
		if selector != "" {
			out[fmt.Sprintf("%s/%s/%d", kind, id, at)] = selector
		}
	}
	for _, kind := range []Kind{KindLayer, KindFreeze, KindRollout, KindAccess} {
		for id, d := range s.docs[kind] {
			var doc struct {
				Selector string                      `json:"selector"`
				State    string                      `json:"state"`
				Stages   []struct{ Selector string } `json:"stages"`
				On       struct{ Selector string }   `json:"on"`
				Subjects []struct{ Token string }    `json:"subjects"`
			}
			require.NoError(t, json.Unmarshal(d.Body, &doc))
			if len(doc.Subjects) > 0 && doc.Subjects[0].Token == "ci" {
				continue
			}
			add(kind, id, 0, doc.Selector)
			add(kind, id, 0, doc.On.Selector)
			for i, stage := range doc.Stages {
				add(kind, id, i+1, stage.Selector)
			}
		}
	}
	return out
}

// randomLabels is a fleet with documents of other teams that select by labels, and the access documents of the token ci for team=a.
type randomLabels struct {
	*world
	labels   []string // that ci may write
	kinds    []string
	readsAll bool
}

func newRandomLabels(t *testing.T, rt *rapid.T) *randomLabels {
	pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(rt, label) }
	r := &randomLabels{world: newWorld(t, string(KindComponent), `{"id":"app","component_path":"app","oci_url":"https://charts.example.com"}`,
		string(KindComponent), `{"id":"other","component_path":"other","oci_url":"https://charts.example.com"}`)}
	r.state.rules.MaxRemovals = 1 << 20
	for i := range 5 {
		r.must(create(KindCluster, fmt.Sprintf(`{"id":"c%d","cluster_dns":"c%d.example.com","environment":%q,"labels":%s,"platform_components":[{"id":%q}]}`, i, i,
			pick("environment", "dev", "qa"), r.randomLabels(rt, pick("team", "a", "a", "b")), pick("component", "app", "other"))))
	}
	selector := func() string {
		parts := []string{}
		for _, part := range []string{pick("team part", "", "", "team=a", "team=b"), pick("tier part", "", "tier=x", "tier=y", "tier!=x"), pick("zone part", "", "zone=x", "zone=y"), pick("rest part", "", "", "environment=qa", "id=new")} {
			if part != "" {
				parts = append(parts, part)
			}
		}
		return strings.Join(append(parts, "id!=never"), ",")
	}
	for i := range rapid.IntRange(1, 3).Draw(rt, "layers") {
		r.tryKeep(create(KindLayer, fmt.Sprintf(`{"id":"l%d","priority":%d,"selector":%q,"patches":{"app":{"v":"%d"}}}`, i, i+1, selector(), i)))
	}
	for i := range rapid.IntRange(0, 1).Draw(rt, "freezes") {
		r.tryKeep(create(KindFreeze, fmt.Sprintf(`{"id":"f%d","reason":"r","selector":%q,"from":"2030-01-01T00:00:00Z"}`, i, selector())))
	}
	for i := range rapid.IntRange(0, 2).Draw(rt, "others' access") {
		r.tryKeep(create(KindAccess, fmt.Sprintf(`{"id":"o%d","subjects":[{"issuer":"corp","groups":["g"]}],"may":["read"],"on":{"selector":%q}}`, i, selector())))
	}
	if rapid.Bool().Draw(rt, "rollout") {
		r.tryKeep(rollOut(r.world, "r", []RolloutStage{{Name: "one", Selector: selector()}, {Name: "two", Selector: selector()}}, patchOp(KindComponent, pick("rolled", "app", "other"), `{"component_path":"new"}`)))
	}
	on := []string{`"selector":"team=a"`}
	if pick("kinds", "cluster", "both") == "both" {
		r.kinds = []string{"cluster", "layer"}
		on = append(on, `"kinds":["cluster","layer"]`)
	}
	for _, key := range []string{"tier", "zone", "environment"} {
		if rapid.Bool().Draw(rt, "may write "+key) {
			r.labels = append(r.labels, key)
		}
	}
	if len(r.labels) > 0 {
		on = append(on, `"labels":["`+strings.Join(r.labels, `","`)+`"]`)
	}
	r.must(create(KindAccess, `{"id":"write","subjects":[{"token":"ci"}],"may":["read","write"],"on":{`+strings.Join(on, ",")+`}}`))
	if r.readsAll = rapid.Bool().Draw(rt, "reads all"); r.readsAll {
		r.must(create(KindAccess, `{"id":"read","subjects":[{"token":"ci"}],"may":["read"]}`))
	}
	return r
}

func (r *randomLabels) randomLabels(rt *rapid.T, team string) string {
	labels := map[string]string{"team": team}
	for _, key := range []string{"tier", "zone"} {
		if v := rapid.SampledFrom([]string{"", "x", "y"}).Draw(rt, key); v != "" {
			labels[key] = v
		}
	}
	text, _ := json.Marshal(labels)
	return string(text)
}

func (r *randomLabels) tryKeep(edit func(*Tx) error) {
	if res, err := r.try(withoutGuard(edit)); err == nil {
		r.keep(res)
	}
}

// write draws a change, and the same with another value of the labels that it writes.
func (r *randomLabels) write(rt *rapid.T) (what string, edit func(value string) func(*Tx) error) {
	pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(rt, label) }
	key, cluster := pick("key", "tier", "zone", "environment", "team"), pick("cluster", "c0", "c1", "c2", "c3", "c4")
	label := func(value string) string {
		if key == "environment" {
			return fmt.Sprintf(`{"environment":%q}`, value)
		}
		return fmt.Sprintf(`{"labels":{%q:%q}}`, key, value)
	}
	switch what = pick("write", "label", "label", "label", "create", "again", "layer"); what {
	case "label":
		return what, func(value string) func(*Tx) error { return patch(KindCluster, cluster, label(value)) }
	case "create":
		labels, environment := map[string]string{"team": "a"}, pick("new environment", "dev", "qa")
		written, id := pick("written", "tier", "zone", "none"), pick("new id", "new", "newer")
		return what, func(value string) func(*Tx) error {
			if written != "none" {
				labels[written] = value
			}
			text, _ := json.Marshal(labels)
			return create(KindCluster, fmt.Sprintf(`{"id":%q,"cluster_dns":"new.example.com","environment":%q,"labels":%s}`, id, environment, text))
		}
	case "again": // deleted and created in one change
		return what, func(value string) func(*Tx) error {
			return both(remove(KindCluster, cluster, DeleteOptions{Orphan: true}), create(KindCluster, fmt.Sprintf(`{"id":%q,"cluster_dns":"%s.example.com","environment":"dev","labels":{"team":"a",%q:%q}}`, cluster, cluster, key, value)))
		}
	default: // a layer of its own that selects by the label
		return what, func(value string) func(*Tx) error {
			return both(create(KindLayer, fmt.Sprintf(`{"id":"own","priority":90,"selector":"team=a,%s=%s"}`, key, value)), patch(KindCluster, cluster, label(value)))
		}
	}
}

// TestLabelChangesStayInScope: for random fleets, limits and changes, no accepted change of ci makes a document apply to a cluster that ci
// could not read before, or takes a cluster out of a document outside its limits; and a refusal because of a document that it cannot
// read is the same for every value of the label.
func TestLabelChangesStayInScope(t *testing.T) {
	t.Parallel()
	accepted, hidden := map[string]int{}, 0
	rapid.Check(t, func(rt *rapid.T) {
		r := newRandomLabels(t, rt)
		for range rapid.IntRange(1, 3).Draw(rt, "writes") {
			base, visible := r.state, r.state.VisibleTo(r.state.Rights(ci, r.now))
			what, edit := r.write(rt)
			res, err := r.limited(edit(rapid.SampledFrom([]string{"x", "y", "dev", "qa"}).Draw(rt, "value")))
			if err != nil {
				// The other writes change more than the label, so they are changes also with its present value.
				if (what == "label" || what == "create") && strings.Contains(scopeProblems(err), "may not read select") {
					hidden++
					for _, value := range []string{"x", "y", "qa", "q1"} {
						if changed, other := r.limited(edit(value)); outside(other) != nil || other == nil && len(changed.Commit.Changes) > 0 {
							require.Equal(rt, scopeProblems(err), scopeProblems(other), "%s with value %s", what, value)
						}
					}
				}
				continue
			}
			accepted[what]++
			r.checkMemberships(rt, what, base, visible, res)
			r.keep(res)
		}
	})
	t.Logf("accepted %v, refused because of invisible documents: %d", accepted, hidden)
	require.Positive(t, accepted["label"])
	require.Positive(t, accepted["create"])
	require.Positive(t, hidden)
}

func scopeProblems(err error) string {
	var text []string
	if e, ok := errors.AsType[*Error](err); ok {
		for _, p := range e.Problems {
			text = append(text, p.ID+": "+p.Detail)
		}
	}
	return strings.Join(text, "\n")
}

// checkMemberships compares which documents select which clusters before and after an accepted change.
func (r *randomLabels) checkMemberships(rt *rapid.T, what string, base, visible *State, res Result) {
	for name, selector := range storedSelectors(rt, base) {
		parts := strings.Split(name, "/")
		kind, id := Kind(parts[0]), parts[1]
		known := kind != KindAccess && visible.docs[kind][id] != nil && !visible.ReachesOthers(visible.docs[kind][id])
		within := kind == KindLayer && slices.Contains(r.kinds, "layer") && slices.Contains(strings.Split(selector, ","), "team=a")
		appliesToOwn := false
		for _, d := range visible.docs[KindCluster] {
			appliesToOwn = appliesToOwn || !d.Deleted() && d.Cluster().Labels["team"] == "a" && selectsByHand(selector, d.Cluster())
		}
		for cluster, d := range res.State.docs[KindCluster] {
			if d.Deleted() {
				continue
			}
			is, before := selectsByHand(selector, d.Cluster()), base.docs[KindCluster][cluster]
			switch {
			case before == nil || before.Deleted():
				require.True(rt, !is || known || appliesToOwn, "%s: %s (%s) applies to the new cluster %s", what, name, selector, cluster)
			case !selectsByHand(selector, before.Cluster()):
				require.True(rt, !is || known, "%s: %s (%s) begins to apply to %s", what, name, selector, cluster)
			default:
				require.True(rt, is || within, "%s: %s (%s) applies no longer to %s", what, name, selector, cluster)
			}
		}
	}
}
