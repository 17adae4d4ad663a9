package fleet

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/rendering"
)

// costly returns a fleet of clusters with one definition each, whose template takes many steps and reads the cluster's name.
func costly(t *testing.T, clusters, definitions int) *world {
	t.Helper()
	w := newWorld(t)
	w.must(create(KindResourceType, typeOf("things", strings.Replace(configMap, "name: <<", "name: << inputs.cluster.name >>-<< inputs.id >>-<<", 1))))
	w.must(func(tx *Tx) error {
		for i := range definitions {
			if _, err := tx.Create(ResourceKind("things"), []byte(fmt.Sprintf(`{"id":"d%d"}`, i))); err != nil {
				return err
			}
		}
		for i := range clusters {
			body := fmt.Sprintf(`{"id":"k%d","cluster_dns":"k%d.example.com","environment":"dev","resources":{"things":[{"id":"d0"}]}}`, i, i)
			if _, err := tx.Create(KindCluster, []byte(body)); err != nil {
				return err
			}
		}
		return nil
	})
	return w
}

const loops = `<< range until 600 >><< range until 400 >><< end >><< end >>`

// requireTemplateBudget requires that a change is refused because of its templates, and that it did not execute them much longer.
func requireTemplateBudget(t *testing.T, w *world, edit func(*Tx) error) {
	t.Helper()
	tx := w.state.Begin()
	tx.Guard(Guard{Off: true})
	require.Equal(t, w.state.templateSteps(), tx.work.templates.Left())
	tx.work.templates = rendering.NewBudget(2_000_000) // the real one takes seconds
	require.NoError(t, edit(tx))
	_, err := tx.Finish(Commit{ID: [16]byte{1}, At: w.now, Actor: "test"})
	e, isDomain := errors.AsType[*Error](err)
	require.True(t, isDomain, "%v", err)
	require.Equal(t, CodeLimitExceeded, e.Code)
	require.Contains(t, e.Detail, `the template of resource type "things" takes too long`)
	require.Contains(t, e.Detail, "may take 2000000 steps (15000000, and 5000 for each cluster")
	require.Contains(t, e.Detail, "shorten the loops")
	require.NotContains(t, e.Detail, "validations")
	require.Greater(t, tx.work.templates.Left(), -2_000_000) // of two processors, one execution each
}

// TestTemplateBudget: a template that takes long, but less than is refused of one execution, must not keep other changes waiting
// when it is executed for many clusters or definitions.
func TestTemplateBudget(t *testing.T) {
	t.Parallel()
	template := func(more string) func(*Tx) error {
		body := strings.Replace(configMap, "name: <<", "name: << inputs.cluster.name >>-<< inputs.id >>-<<", 1) + more
		return patch(KindResourceType, "things", fmt.Sprintf(`{"template":%q}`, body))
	}
	t.Run("clusters", func(t *testing.T) {
		t.Parallel()
		w := costly(t, 20, 1)
		requireTemplateBudget(t, w, template(loops))
	})
	t.Run("definitions", func(t *testing.T) {
		t.Parallel()
		w := costly(t, 0, 20)
		requireTemplateBudget(t, w, template(loops))
	})
	t.Run("output", func(t *testing.T) {
		t.Parallel()
		w := costly(t, 0, 20)
		requireTemplateBudget(t, w, template(`data: {a: << repeat 300000 "x" >>}`))
	})
	t.Run("a definition", func(t *testing.T) {
		t.Parallel()
		w := costly(t, 20, 1)
		// Stored by a version without the limit.
		w.state = withoutCheck(t, w, template(loops))
		requireTemplateBudget(t, w, patch(ResourceKind("things"), "d0", `{"spec":{"name":"y"}}`))
		// A change of something else remains possible, and one cluster at a time.
		w.must(create(KindNamespace, `{"id":"n"}`))
		w.must(confirmedBy(w, patch(KindCluster, "k1", `{"environment":"qa"}`)))
	})
}

// withoutCheck returns the State after an edit that is not validated.
func withoutCheck(t *testing.T, w *world, edit func(*Tx) error) *State {
	t.Helper()
	tx := w.state.Begin()
	require.NoError(t, edit(tx))
	edits, changes, err := tx.changes(w.now)
	require.NoError(t, err)
	next, err := w.state.with(Commit{Revision: w.state.Revision() + 1, At: w.now, Changes: changes}, edits, false)
	require.NoError(t, err)
	return next
}

// TestTemplatesOfStoredDefinitions: the first change of a new process executes the templates of all stored definitions, at no cost of
// its own.
func TestTemplatesOfStoredDefinitions(t *testing.T) {
	t.Parallel()
	w := costly(t, 1, 10)
	w.state = withoutCheck(t, w, patch(KindResourceType, "things", fmt.Sprintf(`{"template":%q}`, configMap+loops)))
	spent := w.state.newWork(t.Context())
	require.NotNil(t, w.state.sharedByDefinitions(spent))
	require.Equal(t, w.state.templateSteps(), spent.templates.Left())
}

// TestPlanOfTakeoversEnds: the warnings of a plan about new objects have a budget of their own, and tell what they omit.
func TestPlanOfTakeoversEnds(t *testing.T) {
	t.Parallel()
	w := costly(t, 1, 1)
	list := w.state.kinds.byKind[ResourceKind("things")]
	taken := &takeovers{base: w.state, next: w.state, work: work{templates: rendering.NewBudget(100)}}
	cluster := w.state.Effective(w.state.docs[KindCluster]["k0"])
	taken.compare(affected{id: "k0", before: cluster, after: cluster}, list, "d0")
	require.Contains(t, strings.Join(taken.all(), "\n"), "more definitions may begin to make objects")
	require.Contains(t, taken.work.templates.Costliest(), "executed it 1 times")
}

// TestCostOfComparisons: a comparison of a history costs what its templates take, so that pages of it end.
func TestCostOfComparisons(t *testing.T) {
	t.Parallel()
	w := costly(t, 1, 1)
	before := withoutCheck(t, w, patch(KindResourceType, "things", fmt.Sprintf(`{"template":%q}`, configMap+loops)))
	w.state = before
	next := withoutCheck(t, w, patch(ResourceKind("things"), "d0", `{"spec":{"name":"y"}}`))
	ch := Change{Kind: ResourceKind("things"), ID: "d0", Before: before.docs[ResourceKind("things")]["d0"].Body, After: next.docs[ResourceKind("things")]["d0"].Body}
	effect, err := NewComparison(t.Context()).Cluster("k0", before, next, []DocumentChange{{Revision: next.Revision(), Change: ch}})
	require.NoError(t, err)
	require.NotEmpty(t, effect.Effect)
	require.Greater(t, effect.Compared, 2*240_000/stepsPerInput)
}
