package fleet

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryKindHasAUse: each kind is in the table or describes the fleet. A kind that is in neither is only for admins.
func TestEveryKindHasAUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name := range w.state.kinds.byName {
		_, listed := kindUses[name]
		described := slices.Contains(w.state.kinds.names(), name)
		require.True(t, listed != described, "kind %s: add it to kindUses", name)
	}
	for name, use := range kindUses {
		require.NotNil(t, w.state.kinds.byName[name], "%s", name)
		require.False(t, use.internal && use.batch, "%s", name)
	}
	require.Equal(t, kindUse{}, w.state.kinds.useOf("later"))
}

// TestKindOfNoListIsForAdmins: a right to write without limits does not permit changes of a kind that no list names, and operations of
// batches do not take it.
func TestKindOfNoListIsForAdmins(t *testing.T) {
	t.Parallel()
	later := kindRules{name: "later", noun: "later document", collection: "later", empty: func() any { return new(strategy) }, normalize: func(map[string]any) {}, check: func(*checker, *Document) {}, bound: func(any) int { return 0 }}
	w := newWorld(t)
	kinds := *w.state.kinds
	kinds.byName = maps.Clone(kinds.byName)
	kinds.byName[later.name] = &later
	w.state.kinds = &kinds
	w.grantCI("write", `["read","write","plan"]`, "")
	edit := create("later", `{"id":"x"}`)
	_, err := w.limited(edit)
	require.Equal(t, []string{"later/x"}, outside(err))
	tx := w.state.Begin()
	require.NoError(t, edit(tx))
	tx.RefuseAdminKinds()
	require.ErrorContains(t, tx.checkAdminKinds(), "need the role or the right admin", "so a token of role write is refused")
	w.refused(CodeInvalid, operations(w, patchOp("later", "x", `{}`)))
}
