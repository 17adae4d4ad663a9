package fleet

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// overridePolicies finishes a change that overrides policies.
func (w *world) overridePolicies(reason string, prepare func(*Tx), change func(*Tx) error, ids ...string) (Result, error) {
	w.t.Helper()
	tx := w.state.Begin()
	tx.Guard(Guard{OverridePolicies: ids})
	prepare(tx)
	require.NoError(w.t, change(tx))
	return tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: "token:ci (1)", Reason: reason})
}

// asAdmin leaves a Tx without limits.
func asAdmin(*Tx) {}

// errorOf returns an error of a code.
func errorOf(t *testing.T, err error, code Code) *Error {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, code, e.Code, "%v", e)
	return e
}

// TestOverrideOfPolicies: the named policies are overridden, with a reason, a record and a warning; every other one still refuses.
func TestOverrideOfPolicies(t *testing.T) {
	t.Parallel()
	w := policed(
		t, noProd, never,
		`{"id":"second","rule":"false","action":"approve"}`,
		`{"id":"broken","rule":"change.documents[0].after.missing == 1","action":"deny"}`,
		`{"id":"holds","rule":"true","action":"deny"}`,
		`{"id":"warns","rule":"false","action":"warn"}`,
	)
	change := patch(KindComponent, "loki", `{"component_version":"6.0.0"}`)
	all := []string{"no-prod", "never", "second", "broken"}
	for i, id := range all {
		others := append(append([]string{"holds"}, all[:i]...), all[i+1:]...)
		_, err := w.overridePolicies("INC-1", asAdmin, change, others...)
		e := errorOf(t, err, CodePolicy)
		require.Len(t, e.Problems, 1)
		require.Equal(t, id, e.Problems[0].ID)
	}
	for _, reason := range []string{"", " \t ", "\u200b\u00a0"} {
		_, err := w.overridePolicies(reason, asAdmin, change, all...)
		require.Contains(t, errorOf(t, err, CodeInvalid).Problems[0].Detail, "a reason is required to override the policy")
	}

	res, err := w.overridePolicies("INC-1", asAdmin, change, append(all, "holds", "warns", "missing")...)
	require.NoError(t, err)
	operations, _, _ := res.Commit.Requested()
	var overridden []string
	for _, op := range operations {
		if op.Op == "override" && op.Kind == string(KindPolicy) {
			overridden = append(overridden, op.ID)
		}
	}
	require.Equal(t, []string{"broken", "never", "no-prod", "second"}, overridden, "only those that refuse the change")
	require.Equal(t, "no-prod", operations[2].ID)
	require.Equal(t, 2, operations[2].Clusters)
	require.Contains(t, res.Warnings, `policy "no-prod" is overridden: changes c2`)
	require.Contains(t, res.Warnings, `policy "warns": its rule is false for this change`)

	res, err = w.overridePolicies("", asAdmin, create(KindFreeze, `{"id":"f","all":true,"reason":"x"}`), all...)
	require.NoError(t, err, "nothing is overridden")
	operations, _, _ = res.Commit.Requested()
	require.Len(t, operations, 1)
	require.Equal(t, "create", operations[0].Op)
}

// TestOverrideOfPoliciesIsNoOtherOverride: rights, freezes and the guard refuse as without it.
func TestOverrideOfPoliciesIsNoOtherOverride(t *testing.T) {
	t.Parallel()
	w := policed(t, never)
	remove := patch(KindLayer, "prod", `{"platform_components":[]}`)
	_, err := w.overridePolicies("INC-1", func(tx *Tx) { tx.Guard(Guard{OverridePolicies: []string{"never"}, Keep: true}) }, remove)
	_ = errorOf(t, err, CodeConfirm)
	_, err = w.overridePolicies("INC-1", func(tx *Tx) { tx.Guard(Guard{OverridePolicies: []string{"never"}, PlanHash: "other"}) }, remove)
	_ = errorOf(t, err, CodeStale)
	w.must(create(KindFreeze, `{"id":"f","all":true,"reason":"x"}`))
	_, err = w.overridePolicies("INC-1", asAdmin, patch(KindComponent, "loki", `{"component_version":"6.0.0"}`), "never", "f")
	_ = errorOf(t, err, CodeFrozen)
}

// TestOverrideOfPoliciesIsARight: the access document that permits the change must grant override_policy too. Role write may not.
func TestOverrideOfPoliciesIsARight(t *testing.T) {
	t.Parallel()
	w := policed(t)
	w.grantCI("prod", `["write","override_freeze","override_source"]`, `{"selector":"tier=prod"}`)
	w.must(create(KindPolicy, never))
	limited := func(tx *Tx) { tx.LimitTo(w.state.Rights(ci, w.now), false) }
	change := assign("c2", KindComponent, "loki", `{"component_version":"9"}`)
	override := func(prepare func(*Tx), change func(*Tx) error) error {
		_, err := w.overridePolicies("INC-1", prepare, change, "never")
		return err
	}
	grant := func(edit func(*Tx) error) {
		res, err := w.overridePolicies("INC-1", asAdmin, edit, "never")
		require.NoError(t, err)
		w.state = res.State
	}
	require.Equal(t, []string{}, outside(override(limited, change)))
	require.ErrorContains(t, override(limited, change), "grants override_policy as well")
	grant(create(KindAccess, `{"id":"more","subjects":[{"token":"ci"}],"may":["override_policy","policy"]}`))
	require.Equal(t, []string{}, outside(override(limited, change)), "it is in another document")
	grant(patch(KindAccess, "prod", `{"may":["write","override_policy"]}`))
	require.NoError(t, override(limited, change))
	require.Equal(t, []string{"cluster/c0"}, outside(override(limited, assign("c0", KindComponent, "loki", `{"component_version":"9"}`))), "the right has the limits of its document")

	err := override((*Tx).RefuseAdminKinds, change)
	_ = errorOf(t, err, CodeOutOfScope)
	require.ErrorContains(t, err, "override_policy")
}

// TestEventsWithoutRules: what the log and the events of a change tell of policies that warned, refused or were overridden is their ids.
func TestEventsWithoutRules(t *testing.T) {
	t.Parallel()
	const secret = `"rule":"effect.count == 0 || 'zebra' == ''","description":"zebra","message":"'zebra'","match":{"selector":"tier in (prod,zebra)"}`
	w := policed(t, `{"id":"warns","action":"warn",`+secret+`}`, `{"id":"refuses","action":"deny",`+secret+`}`)
	res, err := w.overridePolicies("INC-1", asAdmin, patch(KindComponent, "loki", `{"component_version":"6.0.0"}`), "refuses")
	require.NoError(t, err)
	require.Contains(t, strings.Join(res.Warnings, " "), "zebra")
	require.Contains(t, string(res.Commit.Operations), "refuses")
	require.NotContains(t, string(res.Commit.Operations), "zebra")
	for _, ch := range res.Commit.Changes {
		require.NotContains(t, string(ch.Before)+string(ch.After), "zebra")
		events, err := ch.Events()
		require.NoError(t, err)
		require.NotContains(t, fmt.Sprint(events), "zebra")
	}
}
