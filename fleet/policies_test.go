package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/policy"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestPolicies: a policy keeps its fields, and changes by put and patch.
func TestPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, string(KindCluster), `{"id":"prod-1","cluster_dns":"prod-1.example.com","environment":"prod","labels":{"team":"web"}}`)
	w.must(create(KindPolicy, `{"id":"p","rule":"effect.count\n\t<= 2","action":"deny","match":{"environments":["prod","qa"],"selector":"team=web"}}`))
	p, _ := w.state.Get(KindPolicy, "p")
	cluster, _ := w.state.Get(KindCluster, "prod-1")
	require.True(t, p.Policy().Known())
	require.True(t, p.Policy().Matches(cluster.Cluster()))
	w.must(patch(KindPolicy, "p", `{"match":{"environments":["dev"]}}`))
	p, _ = w.state.Get(KindPolicy, "p")
	require.False(t, p.Policy().Matches(cluster.Cluster()), "all fields of match must match")
	w.must(patch(KindPolicy, "p", `{"match":{"environments":null,"selector":""},"suspended":false,"message":"","description":null}`))
	p, _ = w.state.Get(KindPolicy, "p")
	require.JSONEq(t, `{"id":"p","rule":"effect.count\n\t<= 2","action":"deny"}`, string(p.Body))
	require.True(t, p.Policy().Matches(cluster.Cluster()))
}

// TestPolicyProblems: each problem is at the field that has it.
func TestPolicyProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := "true" + strings.Repeat(" ", policy.MaxRuleBytes)
	for body, at := range map[string]string{
		`"rule":"","action":"deny"`:                                       "/rule",
		`"rule":"` + long + `","action":"deny"`:                           "/rule",
		`"rule":"effect.cluster.size() <= 1","action":"deny"`:             "/rule",
		`"rule":"effect.count","action":"deny"`:                           "/rule",
		`"rule":"true","action":"warn","message":"effect.count"`:          "/message",
		`"rule":"true","action":"refuse"`:                                 "/action",
		`"rule":"true"`:                                                   "/action",
		`"rule":"true","action":"warn","message":"` + long + `"`:          "/message",
		`"rule":"true","action":"warn","description":" x"`:                "/description",
		`"rule":"true","action":"warn","match":{"selector":"a in ("}`:     "",
		`"rule":"true","action":"warn","match":{"environments":["a b)"]}`: "",
	} {
		require.Equal(t, at, w.refused(CodeInvalid, create(KindPolicy, `{"id":"p",`+body+`}`)).Problems[0].Pointer, body)
	}
	problem := w.refused(CodeInvalid, create(KindPolicy, `{"id":"p","rule":"effect.count <= 1\n  && effect.clusterz.size() < 2","action":"deny"}`)).Problems[0]
	require.Contains(t, problem.Detail, "line 2, column 12: undefined field 'clusterz'")
	for i := range maxPolicies {
		w.must(create(KindPolicy, fmt.Sprintf(`{"id":"p-%d","rule":"true","action":"warn"}`, i)))
	}
	w.refused(CodeInvalid, create(KindPolicy, `{"id":"one-more","rule":"true","action":"warn"}`))
	require.Contains(t, w.must(create(KindFreeze, `{"id":"f","selector":"a=b","reason":"x"}`)).Warnings[0], "freeze")
}

// TestPolicyRights: writing a policy needs the right policy or admin, which are without limits. No restore and no revert changes one.
func TestPolicyRights(t *testing.T) {
	t.Parallel()
	edit := create(KindPolicy, `{"id":"p","rule":"true","action":"deny"}`)
	for may, allowed := range map[string]bool{`["read","write","plan","revert","approve","override_freeze"]`: false, `["policy"]`: true, `["read","admin"]`: true} {
		w := newWorld(t)
		w.grantCI("ci", may, "")
		_, err := w.limited(edit)
		require.Equal(t, allowed, err == nil, "%s: %v", may, err)
		_, err = w.limited(operations(w, patchOp(KindPolicy, "missing", `{}`)))
		require.Equal(t, allowed, outside(err) == nil, "%s: %v", may, err)
		_, err = w.limited(operations(w, patchOp(KindWebhook, "missing", `{}`)))
		require.Equal(t, may != `["read","admin"]`, outside(err) != nil, "%s: %v", may, err)
	}
	w := newWorld(t)
	require.Equal(t, "/on", w.refused(CodeInvalid, create(KindAccess, `{"id":"x","subjects":[{"token":"ci"}],"may":["policy"],"on":{"selector":"team=web"}}`)).Problems[0].Pointer)
	w.refused(CodeInvalid, create(KindAccess, `{"id":"x","subjects":[{"token":"ci"}],"may":["write"],"on":{"kinds":["policy"]}}`))

	tx := w.state.Begin()
	require.NoError(t, edit(tx))
	tx.RefuseAdminKinds()
	require.ErrorContains(t, tx.checkAdminKinds(), "changes of policies need the role or the right admin, or the right policy")
	w.must(edit)
	w.refused(CodeInvalid, operations(w, api.Operation{Op: "restore", Kind: string(KindPolicy), ID: "p", Revision: 1}))
}

// TestLabelsOfPolicies: a team with limits cannot take its cluster out of a policy by a label.
func TestLabelsOfPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, string(KindCluster), `{"id":"c","cluster_dns":"c.example.com","environment":"prod","labels":{"team":"web","tier":"critical"}}`)
	w.must(create(KindPolicy, `{"id":"critical","rule":"false","action":"warn","match":{"selector":"tier=critical"}}`))
	w.grantCI("team", `["read","write"]`, `{"selector":"team=web","kinds":["cluster"],"labels":["tier"]}`)
	relabel := patch(KindCluster, "c", `{"labels":{"tier":"dev"}}`)
	_, err := w.limited(relabel)
	require.Equal(t, []string{"cluster/c"}, outside(err))
	w.must(patch(KindPolicy, "critical", `{"suspended":true}`))
	_, err = w.limited(relabel)
	require.NoError(t, err)
}

// TestUnknownFieldsOfPolicies: a newer version may have written a field that restricts the policy, or extends its match.
func TestUnknownFieldsOfPolicies(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"a field": `{"id":"p","rule":"true","action":"deny","later":1}`,
		"a match": `{"id":"p","rule":"true","action":"deny","match":{"selector":"tier=none","later":["prod"]}}`,
	} {
		w := policed(t)
		stored, err := NewState(testRules, w.state.head, w.now, append(slices.Collect(w.state.Records()), Record{Kind: KindPolicy, ID: "p", Body: []byte(body)}))
		require.NoError(t, err)
		w.state = stored
		require.Contains(t, w.refused(CodePolicy, patch(KindComponent, "loki", `{"component_version":"6.0.0"}`)).Detail, "a field that this version does not know", name)
		w.must(remove(KindPolicy, "p", DeleteOptions{}))
	}
}
