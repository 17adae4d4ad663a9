package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestAccessIsChecked: all problems of an access document are reported with their pointers, and risky subjects cause warnings.
func TestAccessIsChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for body, want := range map[string][]string{
		`{"id":"check","subjects":[{}],"may":["all"],"on":{}}`:                                                                     {"/id", "/subjects/0", "/may/0", "/on"},
		`{"id":"a","subjects":[{"token":"x","groups":["g"]},{"issuer":"corp"}],"may":["read"]}`:                                    {"/subjects/0", "/subjects/1"},
		`{"id":"a","subjects":[{"issuer":"corp","claims":{"ref":"a*b"},"groups":[""]}],"may":[]}`:                                  {"/subjects/0/groups/0", "/subjects/0/claims/ref", "/may"},
		`{"id":"a","subjects":[{"token":"x"}],"may":["admin"],"on":{"kinds":["cluster","token"],"components":["*x"]}}`:             {"/on/kinds/1", "/on/components/0", "/on/components", "/on"},
		`{"id":"a","subjects":[{"token":"x"}],"may":["write"],"on":{"selector":"team=web","namespaces":["later"]}}`:                {""},
		`{"id":"a","subjects":[{"token":"x"}],"may":["write"],"on":{"selector":" "}}`:                                              {"/on/selector"},
		`{"id":"a","subjects":[{"token":"x","address":"later"}],"may":["write"]}`:                                                  {""},
		fmt.Sprintf(`{"id":"a","subjects":[%s{"token":"x"}],"may":["read"]}`, strings.Repeat(`{"token":"x"},`, maxAccessSubjects)): {"/subjects"},
	} {
		var at []string
		for _, p := range w.refused(CodeInvalid, create(KindAccess, body)).Problems {
			at = append(at, p.Pointer)
		}
		require.ElementsMatch(t, want, at, body)
	}
	for _, selector := range []string{"team in (", ",", " , "} {
		w.refused(CodeInvalid, create(KindAccess, fmt.Sprintf(`{"id":"a","subjects":[{"token":"x"}],"may":["write"],"on":{"selector":%q}}`, selector)))
	}
	w.refused(CodeInvalid, create(KindFreeze, `{"id":"f","reason":"r","selector":" "}`))

	warnings := func(body string) string {
		return strings.Join(w.must(create(KindAccess, body)).Warnings, "\n")
	}
	require.Contains(t, warnings(`{"id":"a","subjects":[{"issuer":"github","claims":{"repository":"acme/web"}}],"may":["write"]}`), "without its id")
	require.Contains(t, warnings(`{"id":"b","subjects":[{"issuer":"github","claims":{"repository_id":"1"}}],"may":["write"]}`), "pull requests")
	require.Contains(t, warnings(`{"id":"d","subjects":[{"issuer":"corp","groups":["g"]}],"may":["read"],"expires_at":"2026-01-01T00:00:00Z"}`), "expired already")
	require.Empty(t, warnings(`{"id":"e","subjects":[{"issuer":"github","claims":{"repository":"acme/web","repository_id":"1","ref":"refs/heads/main"}}],"may":["write"]}`))
}

// TestAccessIsLimited: 500 documents are possible.
func TestAccessIsLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(func(tx *Tx) error {
		for i := range maxAccess {
			if _, err := tx.Create(KindAccess, fmt.Appendf(nil, `{"id":"a%d","subjects":[{"issuer":"corp","groups":["g%d"]}],"may":["read"]}`, i, i)); err != nil {
				return err
			}
		}
		return nil
	})
	w.refused(CodeInvalid, create(KindAccess, `{"id":"one-more","subjects":[{"issuer":"corp","groups":["g"]}],"may":["read"]}`))
}

// TestSubjectsOfAccess: an access document selects exactly the identities of its subjects.
func TestSubjectsOfAccess(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	run := &Subject{Issuer: "github", Sub: "repo:acme/web:ref:refs/heads/main", Claims: map[string]string{"repository_id": "1", "ref": "refs/heads/main"}}
	for name, test := range map[string]struct {
		subject string
		of      *Subject
		selects bool
	}{
		"a token":                     {`{"token":"ci"}`, &Subject{Token: "ci"}, true},
		"another token":               {`{"token":"ci"}`, &Subject{Token: "c"}, false},
		"a group":                     {`{"issuer":"corp","groups":["a","b"]}`, &Subject{Issuer: "corp", Groups: []string{"x", "b"}}, true},
		"another group":               {`{"issuer":"corp","groups":["a"]}`, &Subject{Issuer: "corp", Groups: []string{"A"}}, false},
		"a group is no pattern":       {`{"issuer":"corp","groups":["team-*"]}`, &Subject{Issuer: "corp", Groups: []string{"team-web"}}, false},
		"a group of another issuer":   {`{"issuer":"corp","groups":["a"]}`, &Subject{Issuer: "other", Groups: []string{"a"}}, false},
		"claims":                      {`{"issuer":"github","claims":{"repository_id":"1","ref":"refs/heads/*"}}`, run, true},
		"one claim differs":           {`{"issuer":"github","claims":{"repository_id":"1","ref":"refs/tags/*"}}`, run, false},
		"a claim is missing":          {`{"issuer":"github","claims":{"repository_id":"1","environment":"*"}}`, run, false},
		"the claim sub":               {`{"issuer":"github","claims":{"sub":"repo:acme/web:*"}}`, run, true},
		"claims and a group":          {`{"issuer":"github","claims":{"repository_id":"1"},"groups":["a"]}`, run, false},
		"a user is no identity":       {`{"issuer":"corp","claims":{"user":"ann"}}`, &Subject{Issuer: "corp", User: "ann"}, false},
		"a token named as a group is": {`{"issuer":"corp","groups":["ci"]}`, &Subject{Token: "ci"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, string(KindAccess), fmt.Sprintf(`{"id":"a","subjects":[%s],"may":["write"],"expires_at":"2026-01-02T04:00:00Z"}`, test.subject))
			require.Equal(t, test.selects, w.state.Rights(test.of, now).Include(RightWrite))
			require.Equal(t, test.selects, w.state.Rights(test.of, now).Everywhere(RightWrite))
			require.False(t, w.state.Rights(test.of, now).Include(RightRead), "exactly the listed rights")
			require.False(t, w.state.Rights(test.of, now.Add(time.Hour)).Include(RightWrite), "it has expired")
		})
	}
	require.Equal(t, Rights{}, newWorld(t).state.Rights(run, now))
	require.Equal(t, Rights{}, newWorld(t).state.Rights(nil, now))
}

// TestUnknownFieldsOfAccessGrantNothing: a newer version may have written a limit that this one does not know.
func TestUnknownFieldsOfAccessGrantNothing(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"id":"a","subjects":[{"token":"ci"}],"may":["write"],"on":{"selector":"team=web","later":1}}`,
		`{"id":"a","subjects":[{"token":"ci","later":1}],"may":["write"]}`,
		`{"id":"a","subjects":[{"token":"ci"}],"may":["write"],"hours":{"from":8,"to":18}}`,
	} {
		s, err := NewState(testRules, Head{}, time.Time{}, []Record{{Kind: KindAccess, ID: "a", Body: []byte(body)}})
		require.NoError(t, err)
		require.Equal(t, Rights{}, s.Rights(&Subject{Token: "ci"}, time.Time{}))
	}
}

// ci is the subject whose rights tests limit.
var ci = &Subject{Token: "ci"}

// grantCI creates an access document for the subject ci.
func (w *world) grantCI(id, may, on string) {
	w.t.Helper()
	if on != "" {
		on = `,"on":` + on
	}
	w.must(create(KindAccess, fmt.Sprintf(`{"id":%q,"subjects":[{"token":"ci"}],"may":%s%s}`, id, may, on)))
}

// limited runs an edit with the rights of the subject ci, without keeping it.
func (w *world) limited(edit func(*Tx) error) (Result, error) {
	tx := w.state.Begin()
	tx.Guard(Guard{Off: true})
	tx.LimitTo(w.state.Rights(ci, w.now), false)
	if err := edit(tx); err != nil {
		return Result{}, err
	}
	return tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: "token:ci (1)"})
}

// outside returns the documents and clusters that the refusal of an edit names; nil: it is not refused as out of scope.
func outside(err error) []string {
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeOutOfScope {
		return nil
	}
	names := []string{}
	for _, p := range e.Problems {
		names = append(names, string(p.Kind)+"/"+p.ID)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TestChangesOutOfScope: each attempt to bypass the limits of an access document is refused with the documents and clusters
// outside the limits; similar changes within the limits are possible.
func TestChangesOutOfScope(t *testing.T) {
	t.Parallel()
	const prod = `{"selector":"tier=prod","kinds":["cluster","layer","platform_component","freeze","rollout"]}`
	label := func(id, tier string) func(*Tx) error {
		return patch(KindCluster, id, fmt.Sprintf(`{"labels":{"tier":%q}}`, tier))
	}
	for name, test := range map[string]struct {
		may, on string
		before  func(w *world) // of another principal
		edit    func(w *world) func(*Tx) error
		outside []string // nil: it is permitted
	}{
		"a cluster within":    {`["write"]`, prod, nil, func(*world) func(*Tx) error { return assign("c2", KindComponent, "loki", "") }, nil},
		"a cluster of others": {`["write"]`, prod, nil, func(*world) func(*Tx) error { return assign("c0", KindComponent, "loki", "") }, []string{"cluster/c0"}},
		"a label of others":   {`["write"]`, prod, nil, func(*world) func(*Tx) error { return label("c0", "prod") }, []string{"cluster/c0"}},
		"a label, then a write": {`["write"]`, prod, nil, func(*world) func(*Tx) error {
			return both(label("c0", "prod"), assign("c0", KindComponent, "loki", ""))
		}, []string{"cluster/c0"}},
		"a cluster leaves": {`["write"]`, prod, nil, func(*world) func(*Tx) error { return label("c2", "dev") }, []string{"cluster/c2"}},
		"a layer within": {`["write"]`, prod, nil, func(*world) func(*Tx) error {
			return create(KindLayer, `{"id":"l","priority":40,"selector":"region==us,tier in (prod)"}`)
		}, nil},
		"a layer that matches later": {`["write"]`, prod, nil, func(*world) func(*Tx) error {
			return create(KindLayer, `{"id":"l","priority":40,"selector":"region=us"}`)
		}, []string{"layer/l"}},
		"a layer of another value": {`["write"]`, prod, nil, func(*world) func(*Tx) error {
			return create(KindLayer, `{"id":"l","priority":40,"selector":"tier in (prod,dev)"}`)
		}, []string{"layer/l"}},
		"a layer without the label": {`["write"]`, prod, nil, func(*world) func(*Tx) error {
			return create(KindLayer, `{"id":"l","priority":40,"selector":"tier!=prod"}`)
		}, []string{"layer/l"}},
		"a layer for all":    {`["write"]`, prod, nil, func(*world) func(*Tx) error { return patch(KindLayer, "base", `{"description":"x"}`) }, []string{"layer/base"}},
		"a freeze of others": {`["write"]`, prod, nil, func(*world) func(*Tx) error { return create(KindFreeze, `{"id":"f","reason":"r","all":true}`) }, []string{"freeze/f"}},
		"a freeze within": {`["write"]`, prod, nil, func(*world) func(*Tx) error {
			return create(KindFreeze, `{"id":"f","reason":"r","selector":"tier=prod"}`)
		}, nil},
		"a component of all": {`["write"]`, prod, nil, func(*world) func(*Tx) error { return patch(KindComponent, "grafana", `{"component_version":"18"}`) }, []string{"cluster/c0", "cluster/c1"}},
		"a component that a pinned cluster of others gets later": {`["write"]`, prod, func(w *world) {
			w.must(pinAll("c0", "c1", "c2", "c3"))
			w.must(withoutGuard(assign("c0", KindComponent, "loki", "")))
		}, func(*world) func(*Tx) error { return patch(KindComponent, "loki", `{"component_version":"18"}`) }, []string{"cluster/c0"}},
		"pins of others":            {`["write"]`, prod, nil, func(*world) func(*Tx) error { return pinAll("c0", "c1", "c2", "c3") }, []string{"cluster/c0", "cluster/c1"}},
		"the end of pins of others": {`["write"]`, prod, func(w *world) { w.must(pinAll("c0", "c2")) }, func(*world) func(*Tx) error { return unpinAll("c0", "c2") }, []string{"cluster/c0"}},
		"a pin within":              {`["write"]`, prod, nil, func(*world) func(*Tx) error { return pinAll("c2", "c3") }, nil},
		"the end of the pin of a cluster that left": {`["write"]`, prod, func(w *world) {
			w.must(pinAll("c2", "c3"))
			w.must(withoutGuard(both(patch(KindCluster, "c2", `{"labels":{"tier":"dev"}}`), patch(KindComponent, "grafana", `{"component_version":"18"}`))))
		}, func(*world) func(*Tx) error { return unpinAll("c2", "c3") }, []string{"cluster/c2"}},
		"a component within":                  {`["write"]`, prod, nil, func(*world) func(*Tx) error { return patch(KindComponent, "loki", `{"component_version":"18"}`) }, nil},
		"depends_on of a component of others": {`["write"]`, prod, func(w *world) { w.must(assign("c0", KindComponent, "loki", "")) }, func(*world) func(*Tx) error { return patch(KindComponent, "loki", `{"depends_on":[]}`) }, []string{"cluster/c0"}},
		"cascade":                             {`["write"]`, prod, func(w *world) { w.must(assign("c0", KindComponent, "loki", "")) }, func(*world) func(*Tx) error { return remove(KindComponent, "loki", DeleteOptions{Cascade: true}) }, []string{"cluster/c0"}},
		"a batch with one change of others": {`["write"]`, prod, nil, func(w *world) func(*Tx) error {
			return operations(w, patchOp(KindCluster, "c2", `{"patches":{"grafana":{"a":"1"}}}`), patchOp(KindCluster, "c1", `{"patches":{"grafana":{"a":"1"}}}`))
		}, []string{"cluster/c1"}},
		"revert of another's revision": {`["write","revert"]`, prod, func(w *world) { w.must(patch(KindCluster, "c0", `{"cluster_name":"x"}`)) }, func(w *world) func(*Tx) error {
			return operations(w, api.Operation{Op: "revert", Revision: int64(w.state.Revision()) - 1})
		}, []string{"cluster/c0"}},
		"restore": {`["write"]`, prod, func(w *world) { w.must(patch(KindCluster, "c0", `{"cluster_name":"x"}`)) }, func(w *world) func(*Tx) error {
			w.log.past = w.pastOf(1)
			return operations(w, api.Operation{Op: "restore", Revision: 1})
		}, []string{"cluster/c0"}},
		"a rollout of others": {`["write"]`, prod, nil, func(w *world) func(*Tx) error {
			return rollOut(w, "r", devFirst, patchOp(KindComponent, "grafana", `{"component_version":"18"}`))
		}, []string{"cluster/c0", "cluster/c1"}},
		"a rollout within": {`["write"]`, prod, nil, func(w *world) func(*Tx) error {
			return rollOut(w, "r", nil, patchOp(KindComponent, "loki", `{"component_version":"18"}`))
		}, nil},
		"a stage of others": {`["write"]`, prod, func(w *world) {
			w.must(rollOut(w, "r", devFirst, patchOp(KindComponent, "grafana", `{"component_version":"18"}`)))
		}, func(*world) func(*Tx) error { return act("r", RolloutStart) }, []string{"cluster/c0", "cluster/c1"}},
		"the approval of a stage of others": {`["approve"]`, prod, func(w *world) {
			w.must(rollOut(w, "r", []RolloutStage{{Name: "dev", Selector: "tier=dev", Approval: true}}, patchOp(KindComponent, "grafana", `{"component_version":"18"}`)))
		}, func(*world) func(*Tx) error { return act("r", RolloutApprove) }, []string{"cluster/c0", "cluster/c1"}},
		"a skipped stage of others": {`["write"]`, prod, func(w *world) {
			w.must(rollOut(w, "r", devFirst, patchOp(KindComponent, "grafana", `{"component_version":"18"}`)))
		}, func(*world) func(*Tx) error { return act("r", RolloutSkip) }, []string{"cluster/c0", "cluster/c1"}},
		"the pause of a rollout of others": {`["write"]`, prod, func(w *world) {
			w.must(rollOut(w, "r", devFirst, patchOp(KindComponent, "grafana", `{"component_version":"18"}`)))
		}, func(*world) func(*Tx) error { return act("r", RolloutPause) }, []string{"cluster/c0", "cluster/c1"}},
		"the abort of a rollout of others": {`["write"]`, prod, func(w *world) {
			w.must(rollOut(w, "r", devFirst, patchOp(KindComponent, "grafana", `{"component_version":"18"}`)))
		}, func(*world) func(*Tx) error { return act("r", RolloutAbort) }, []string{"cluster/c0", "cluster/c1"}},
		"the approval of a stage within": {`["approve"]`, prod, func(w *world) {
			w.must(rollOut(w, "r", []RolloutStage{{Name: "prod", Selector: "tier=prod", Approval: true}}, patchOp(KindComponent, "loki", `{"component_version":"18"}`)))
		}, func(*world) func(*Tx) error { return act("r", RolloutApprove) }, nil},
		"the time of the pin of a cluster that left": {`["write"]`, prod, func(w *world) {
			w.must(pinAll("c2"))
			w.must(withoutGuard(patch(KindCluster, "c2", `{"labels":{"tier":"dev"}}`)))
		}, func(*world) func(*Tx) error {
			return patch(KindCluster, "c2", `{"pinned":{"until":"2026-02-02T03:10:00Z"}}`)
		}, []string{"cluster/c2"}},
		"the time of a pin within": {`["write"]`, prod, func(w *world) { w.must(pinAll("c2")) }, func(*world) func(*Tx) error {
			return patch(KindCluster, "c2", `{"pinned":{"until":"2026-02-02T03:10:00Z"}}`)
		}, nil},
		"the name of a deleted cluster": {`["write"]`, prod, func(w *world) { w.must(withoutGuard(remove(KindCluster, "c0", DeleteOptions{Orphan: true}))) }, func(*world) func(*Tx) error {
			return create(KindCluster, `{"id":"mine","cluster_dns":"c0.example.com","environment":"dev","labels":{"tier":"prod"}}`)
		}, []string{"cluster/mine"}},
		"the name of a decommissioned cluster": {`["write"]`, prod, func(w *world) { w.must(withoutGuard(remove(KindCluster, "c0", DeleteOptions{}))) }, func(*world) func(*Tx) error {
			return create(KindCluster, `{"id":"c0","cluster_dns":"c0.example.com","environment":"dev","labels":{"tier":"prod"}}`)
		}, []string{"cluster/c0"}},
		"another kind":           {`["write"]`, `{"kinds":["cluster"]}`, nil, func(*world) func(*Tx) error { return patch(KindNamespace, "team", `{"labels":{"a":"b"}}`) }, []string{"namespace/team"}},
		"a selector alone":       {`["write"]`, `{"selector":"tier=prod"}`, nil, func(*world) func(*Tx) error { return patch(KindComponent, "loki", `{"component_version":"18"}`) }, []string{"platform_component/loki"}},
		"another component":      {`["write"]`, `{"components":["lo*"]}`, nil, func(*world) func(*Tx) error { return patch(KindComponent, "grafana", `{"component_version":"18"}`) }, []string{"platform_component/grafana"}},
		"a component by pattern": {`["write"]`, `{"components":["gra*"]}`, nil, func(*world) func(*Tx) error { return patch(KindComponent, "grafana", `{"component_path":"x"}`) }, nil},
		"another layer":          {`["write"]`, `{"layers":["base"]}`, nil, func(*world) func(*Tx) error { return patch(KindLayer, "prod", `{"description":"x"}`) }, []string{"layer/prod"}},
		"a version":              {`["push_version"]`, `{"components":["grafana"]}`, nil, func(*world) func(*Tx) error { return patch(KindComponent, "grafana", `{"component_version":"18"}`) }, nil},
		"more than a version": {`["push_version"]`, `{"components":["grafana"]}`, nil, func(*world) func(*Tx) error {
			return patch(KindComponent, "grafana", `{"component_version":"18","patches":{"a":"1"}}`)
		}, []string{"platform_component/grafana"}},
		"a component is no version": {`["push_version"]`, `{"components":["new"]}`, nil, func(*world) func(*Tx) error {
			return create(KindComponent, `{"id":"new","component_path":"p","oci_url":"https://charts.example.com"}`)
		}, []string{"platform_component/new"}},
		"a rollout of a version": {`["push_version"]`, `{"kinds":["platform_component","rollout"],"components":["grafana"]}`, nil, func(w *world) func(*Tx) error {
			return rollOut(w, "r", devFirst, patchOp(KindComponent, "grafana", `{"component_version":"18"}`))
		}, nil},
		"a rollout of more": {`["push_version"]`, `{"kinds":["platform_component","rollout"],"components":["grafana"]}`, nil, func(w *world) func(*Tx) error {
			return rollOut(w, "r", devFirst, patchOp(KindComponent, "grafana", `{"component_path":"x"}`))
		}, []string{"platform_component/grafana"}},
		"a revert": {`["revert"]`, ``, func(w *world) { w.must(patch(KindCluster, "c0", `{"cluster_name":"x"}`)) }, func(w *world) func(*Tx) error {
			return operations(w, api.Operation{Op: "revert", Revision: int64(w.state.Revision()) - 1})
		}, nil},
		"a revert and more": {`["revert"]`, ``, func(w *world) { w.must(patch(KindCluster, "c0", `{"cluster_name":"x"}`)) }, func(w *world) func(*Tx) error {
			return operations(w, api.Operation{Op: "revert", Revision: int64(w.state.Revision()) - 1}, patchOp(KindCluster, "c1", `{"cluster_name":"y"}`))
		}, []string{"cluster/c0", "cluster/c1"}},
		"an approval": {`["approve"]`, ``, func(w *world) {
			w.must(rollOut(w, "r", []RolloutStage{{Name: "dev", Selector: "tier=dev", Approval: true}}, patchOp(KindComponent, "grafana", `{"component_version":"18"}`)))
		}, func(*world) func(*Tx) error { return act("r", RolloutApprove) }, nil},
		"write approves nothing": {`["write"]`, ``, func(w *world) {
			w.must(rollOut(w, "r", []RolloutStage{{Name: "dev", Selector: "tier=dev", Approval: true}}, patchOp(KindComponent, "grafana", `{"component_version":"18"}`)))
		}, func(*world) func(*Tx) error { return act("r", RolloutApprove) }, []string{"rollout/r"}},
		"approve starts nothing": {`["approve"]`, ``, func(w *world) {
			w.must(rollOut(w, "r", devFirst, patchOp(KindComponent, "grafana", `{"component_version":"18"}`)))
		}, func(*world) func(*Tx) error { return act("r", RolloutStart) }, []string{"rollout/r"}},
		"its own rights": {`["write"]`, ``, nil, func(*world) func(*Tx) error { return patch(KindAccess, "ci", `{"may":["admin"]}`) }, []string{"access/ci"}},
		"further rights": {`["write"]`, ``, nil, func(*world) func(*Tx) error {
			return create(KindAccess, `{"id":"more","subjects":[{"token":"ci"}],"may":["admin"]}`)
		}, []string{"access/more"}},
		"rights as an admin": {`["admin"]`, ``, nil, func(*world) func(*Tx) error {
			return create(KindAccess, `{"id":"more","subjects":[{"token":"ci"}],"may":["write"]}`)
		}, nil},
		"admin writes nothing else": {`["admin"]`, ``, nil, func(*world) func(*Tx) error { return patch(KindComponent, "grafana", `{"component_version":"18"}`) }, []string{"platform_component/grafana"}},
		"a token": {`["write"]`, ``, nil, func(w *world) func(*Tx) error {
			return func(tx *Tx) error {
				_, err := tx.CreateToken(NewToken{ID: "t", Name: "t", Role: RoleAdmin}, w.now)
				return err
			}
		}, []string{"token/t"}},
		"read alone": {`["read"]`, ``, nil, func(*world) func(*Tx) error { return patch(KindComponent, "grafana", `{"component_version":"18"}`) }, []string{}},
		"plan alone": {`["plan"]`, ``, nil, func(*world) func(*Tx) error { return patch(KindComponent, "grafana", `{"component_version":"18"}`) }, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := tiers(t, prodLayer, baseLayer)
			w.state.rules.MaxRemovals = 1 << 20
			if test.before != nil {
				test.before(w)
			}
			w.grantCI("ci", test.may, test.on)
			_, err := w.limited(test.edit(w))
			if test.outside == nil {
				require.NoError(t, err)
				return
			}
			require.Equal(t, test.outside, outside(err), "%v", err)
			_, err = w.try(withoutGuard(test.edit(w)))
			require.NoError(t, err, "it is possible without limits")
		})
	}
}

// TestApprovalsAreARight: a change that also approves a stage needs both the right to write and the right to approve.
func TestApprovalsAreARight(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.must(rollOut(w, "r", []RolloutStage{{Name: "dev", Selector: "tier=dev", Approval: true}}, patchOp(KindComponent, "grafana", `{"component_version":"18"}`)))
	w.grantCI("ci", `["write"]`, ``)
	mixed := both(assign("c2", KindComponent, "loki", `{"component_version":"9"}`), act("r", RolloutApprove))
	for may, want := range map[string][]string{`["write"]`: {"rollout/r"}, `["approve"]`: {"cluster/c2", "rollout/r"}, `["write","approve"]`: nil} {
		w.must(patch(KindAccess, "ci", `{"may":`+may+`}`))
		_, err := w.limited(mixed)
		require.Equal(t, want, outside(err), may)
		_, err = w.limited(act("r", RolloutSkip))
		require.ErrorContains(t, err, "waits for the approval", may)
	}
}

// TestAccessDocumentsAreNotCombined: two narrow access documents do not permit one change that neither permits alone.
func TestAccessDocumentsAreNotCombined(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.grantCI("prod", `["write"]`, `{"selector":"tier=prod"}`)
	w.grantCI("dev", `["write"]`, `{"selector":"tier=dev"}`)
	one, other := assign("c0", KindComponent, "loki", ""), assign("c2", KindComponent, "loki", `{"component_version":"9"}`)
	for _, edit := range []func(*Tx) error{one, other} {
		_, err := w.limited(edit)
		require.NoError(t, err)
	}
	_, err := w.limited(both(one, other))
	require.Equal(t, []string{}, outside(err))
	require.ErrorContains(t, err, "not combined")

	_, err = w.limited(patch(KindCluster, "c0", `{"labels":{"tier":"prod"}}`))
	require.Equal(t, []string{"cluster/c0"}, outside(err), "one covers it before, the other after")
}

// TestOverrideOfFreezesIsARight: the access document that permits the change must grant override_freeze too.
func TestOverrideOfFreezesIsARight(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.grantCI("prod", `["write"]`, `{"selector":"tier=prod"}`)
	w.must(create(KindFreeze, `{"id":"f","reason":"r","all":true}`))
	override := func() error {
		tx := w.state.Begin()
		tx.Guard(Guard{OverrideFreezes: []string{"f"}})
		tx.LimitTo(w.state.Rights(ci, w.now), false)
		require.NoError(t, assign("c2", KindComponent, "loki", `{"component_version":"9"}`)(tx))
		_, err := tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: "token:ci (1)", Reason: "outage"})
		return err
	}
	require.Equal(t, []string{}, outside(override()))
	w.grantCI("more", `["override_freeze"]`, ``)
	require.Equal(t, []string{}, outside(override()), "it is in another document")
	w.must(patch(KindAccess, "prod", `{"may":["write","override_freeze"]}`))
	require.NoError(t, override())
}

// TestPlansAreLimited: a dry run needs the right to plan or to make the change, and warns if only the former permits it.
func TestPlansAreLimited(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	w.grantCI("prod", `["write"]`, `{"selector":"tier=prod"}`)
	w.grantCI("plan", `["plan"]`, `{"kinds":["cluster"]}`)
	plan := func(edit func(*Tx) error) (Result, error) {
		tx := w.state.Begin()
		tx.Guard(Guard{Off: true})
		tx.LimitTo(w.state.Rights(ci, w.now), true)
		require.NoError(t, edit(tx))
		return tx.Finish(Commit{ID: uuid.New(), At: w.now})
	}
	res, err := plan(assign("c2", KindComponent, "loki", `{"component_version":"9"}`))
	require.NoError(t, err)
	require.Empty(t, res.Warnings)
	res, err = plan(assign("c0", KindComponent, "loki", ""))
	require.NoError(t, err)
	require.Contains(t, res.Warnings, "the change would be refused: your access documents permit only to plan it")
	_, err = plan(patch(KindComponent, "grafana", `{"component_version":"18"}`))
	require.Equal(t, []string{"platform_component/grafana"}, outside(err))
	_, err = w.limited(assign("c0", KindComponent, "loki", ""))
	require.Equal(t, []string{"cluster/c0"}, outside(err), "the right to plan commits nothing")
	_, err = plan(create(KindAccess, `{"id":"more","subjects":[{"token":"ci"}],"may":["write"]}`))
	require.Equal(t, []string{"access/more"}, outside(err))
}

// TestAccessIsNeverReverted: neither a revert nor a restore grants rights again that were withdrawn.
func TestAccessIsNeverReverted(t *testing.T) {
	t.Parallel()
	w := tiers(t)
	w.grantCI("ci", `["write"]`, ``)
	granted := w.state.Revision()
	w.must(remove(KindAccess, "ci", DeleteOptions{}))
	require.Contains(t, w.refused(CodeInvalid, operations(w, api.Operation{Op: "revert", Revision: int64(granted) + 1})).Detail, "access documents, which are never reverted")
	w.log.past = w.pastOf(granted)
	w.must(operations(w, api.Operation{Op: "restore", Revision: int64(granted)}))
	require.Empty(t, w.state.docs[KindAccess])
	require.Equal(t, Rights{}, w.state.Rights(ci, w.now))
}
