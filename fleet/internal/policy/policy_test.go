package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// change returns a change with an effect on some clusters.
func change(clusters int) *Input {
	effect := &Effect{Removals: clusters}
	for i := range clusters {
		effect.Clusters = append(effect.Clusters, &Cluster{
			ID: fmt.Sprintf("k%d", i), Removals: 1,
			Before: &Version{Environment: "prod", Labels: map[string]string{"team": "a"}},
			After:  &Version{Environment: "dev"},
			Lists: &Lists{
				Components: []*Entry[api.FluxPlatformComponent]{
					{ID: "new", After: &api.FluxPlatformComponent{
						ID: "new", ComponentVersion: "2.0.0", Source: api.FluxSource{OCIURL: "oci://registry/x"}, DependsOn: []string{"other"},
						Patches: api.PatchValues{"replicas": json.RawMessage(`3`)}, Values: map[string]any{"image": map[string]any{"tag": "latest"}},
					}},
					{ID: "gone", Before: &api.FluxPlatformComponent{ID: "gone"}},
				},
				RoleBindings: []*Entry[api.FluxRoleBinding]{{ID: "admins", After: &api.FluxRoleBinding{Role: "cluster-admin", Subjects: []api.FluxSubject{{Name: "ann"}}}}},
				Resources:    map[string][]*Entry[map[string]any]{"quota": {{ID: "q", After: &map[string]any{"cpu": 4.0}}}},
			},
		})
	}
	return &Input{
		Change: &Change{Kind: "change", Actor: "ann", Documents: []*Document{{Kind: "cluster", ID: "k0", Action: "update", Before: json.RawMessage(`{"id":"k0","n":1}`), After: json.RawMessage(`{"id":"k0","n":2}`)}}},
		Effect: func() (*Effect, error) { return effect, nil },
		Recent: Recent{Removals: 3},
		Now:    time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule string
		want bool
	}{
		{`effect.clusters.size() == 2`, true},
		{`effect.count == 2 && effect.removals == 2 && recent.removals == 3`, true},
		{`effect.clusters.all(c, c.environment == 'dev' && c.before.environment == 'prod' && c.removals == 1)`, true},
		{`effect.clusters.all(c, c.after != null && has(c.before))`, true},
		{`effect.clusters.all(c, matchesLabels(c.before.labels, 'team in (a,b)') && !matchesLabels(c.labels, 'team'))`, true},
		{`effect.clusters.exists(c, c.lists.rolebindings.exists(r, r.after.role == 'cluster-admin' && r.after.subjects.exists(s, s.name == 'ann')))`, true},
		{`effect.clusters[0].lists.platform_components.filter(e, e.before == null).map(e, e.id) == ['new']`, true},
		{`effect.clusters[0].lists.platform_components.filter(e, !has(e.after)).map(e, e.id) == ['gone']`, true},
		{`effect.clusters[0].lists.platform_components.all(e, e.after.source.oci_url == '' || e.after.source.oci_url.startsWith('oci://registry/'))`, true},
		{`effect.clusters[0].lists.platform_components[0].after.values.image.tag != 'latest'`, false},
		{`effect.clusters[0].lists.platform_components[0].after.patches.replicas > 2`, true},
		{`effect.clusters[0].lists.platform_components[0].after.depends_on == ['other']`, true},
		{`effect.clusters[0].lists.platform_components[1].after.depends_on.size() == 0`, true},
		{`effect.clusters[0].lists.resources.exists(r, r.type == 'quota' && r.id == 'q' && r.before == null && r.after.cpu <= 4)`, true},
		{`effect.clusters[0].lists.namespaces == []`, true},
		{`change.documents.all(d, d.action == 'update' && d.before.n < d.after.n)`, true},
		{`semver('1.2.3', '>=1.0.0, <2.0.0') && !semver('2.0.0', '<2') && !semver('latest', '*')`, true},
		{`now.getFullYear() == 2026 && now < timestamp('2027-01-01T00:00:00Z') && now.getDayOfWeek() == 5`, true},
		{`change.actor.matches('^a.n$') && change.source == '' && !has(change.rollout)`, true},
		{`false`, false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			p, err := Compile(c.rule, "'no: ' + change.actor")
			require.NoError(t, err)
			v, err := p.Eval(t.Context(), change(2), NewBudget())
			require.NoError(t, err)
			if c.want {
				require.Equal(t, Verdict{}, v)
			} else {
				require.Equal(t, Verdict{true, "no: ann"}, v)
			}
		})
	}
}

func TestMistakesAreFoundWhenWritten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rule, message, want string }{
		{"", "", "rule: is required"},
		{"effect.clusters.size()", "", "rule: the result is int; it must be bool"},
		{"change.documents[0].after.x", "", "rule: the result is dyn; it must be bool"},
		{"true", "1", "message: the result is int; it must be string"},
		{"true &&\n effect.cluster == 1", "", "rule: line 2, column 8: undefined field 'cluster'"},
		{"effect.clusters.all(c, c.lists.platform_components.all(e, e.after.version == ''))", "", "undefined field 'version'"},
		{"effect.clusters.all(c, c.lists.components.size() == 0)", "", "undefined field 'components'"},
		{"other == 1", "", "undeclared reference to 'other'"},
		{"true", "'a' +", "message: line 1, column 6: Syntax error"},
		{"'a'.matches('(')", "", "invalid matches argument"},
		{"effect.clusters.all(c, c.after.environment == 1)", "", "no matching overload"},
		{"get('https://example.com') == ''", "", "undeclared reference to 'get'"},
		{strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200), "", "recursion"},
		{strings.Repeat("[", 80) + strings.Repeat("]", 80) + " == []", "", "recursion"},
		{"true" + strings.Repeat(" || true", 1200), "", "at most 8192"},
		{"'x' == '" + strings.Repeat("x", 9000) + "'", "", "at most 8192"},
		{"effect.clusters.all(a, effect.clusters.all(b, a.id == b.id))", "", "may cost too much"},
		{"[1].all(a, [1].all(b, [1].all(c, [1].all(d, [1].all(e, true)))))", "", "nesting"},
		{"false" + strings.Repeat(" || false", 50), "", "51 constants as operands"},
		{"\xff == 1", "", "not valid UTF-8"},
		{"true", strings.Repeat("'x' + ", 400) + "'x'", "at most 2048"},
	} {
		_, err := Compile(c.rule, c.message)
		var problems RuleErrors
		require.ErrorAs(t, err, &problems, c.rule)
		require.Contains(t, err.Error(), c.want, c.rule)
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestCostlyRulesOfOrdinaryPoliciesArePossible(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{
		"effect.clusters.all(c, c.lists.rolebindings.all(r, r.after.role != 'cluster-admin' || r.after.subjects.all(s, r.before.subjects.exists(b, b.name == s.name))))",
		"effect.clusters.all(c, c.lists.platform_components.all(e, e.after.source.oci_url.matches('^oci://registry[.]example[.]com/.*$') && semver(e.after.component_version, '>=1')))",
		"effect.clusters.filter(c, matchesLabels(c.labels, 'tier=gold')).size() <= 3",
		"change.documents.all(d, d.kind != 'cluster' || d.before.environment == d.after.environment)",
		"effect.clusters.all(c, c.lists.platform_components.all(e, e.after.images.all(i, !i.new_tag.endsWith('latest'))))",
	} {
		_, err := Compile(rule, "effect.clusters.map(c, c.id)[0] + string(effect.clusters.size())")
		require.NoError(t, err, rule)
	}
}

// TestRulesOfTheDocumentation: the examples compile.
func TestRulesOfTheDocumentation(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/policy-rules.md")
	require.NoError(t, err)
	rules := regexp.MustCompile("(?m)^[|] [^|`]+ [|] `([^`]+)` [|]$").FindAllSubmatch(text, -1)
	require.Len(t, rules, 6)
	for _, rule := range rules {
		_, err := Compile(strings.ReplaceAll(string(rule[1]), `\|`, "|"), "")
		require.NoError(t, err, "%s", rule[1])
	}
}

func TestEvaluationStops(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ rule, want string }{
		"doubled texts":  {`[change.actor + change.actor]` + strings.Repeat(`.map(x, x`+strings.Repeat(` + x`, 50)+`)`, 4) + `[0] != ''`, "it takes more than"},
		"many documents": {`change.documents[0].after.all(k, change.documents[0].after.all(l, change.documents[0].after.all(m, change.documents[0].after.all(o, k + l + m + o != ''))))`, "it takes more than"},
		"no such key":    {`change.documents[0].after.missing == 1`, "no such key: missing"},
		"no element":     {`effect.clusters[7].id == ''`, "index out of bounds: 7"},
		"division":       {`1 / recent.removals * 0 == 1 / (recent.removals - 3)`, "division by zero"},
		"wrong selector": {`matchesLabels({'a': 'b'}, '=,=')`, "selector"},
		"wrong range":    {`semver('1.0.0', 'x y z')`, "range"},
		"an object":      {`fleet.Recent{removals: 1}.removals == 1`, "cannot make"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := Compile(c.rule, "")
			if err != nil { // refused before
				require.Contains(t, err.Error(), "may cost too much")
				return
			}
			in, large := change(1), map[string]int{}
			for i := range 80 {
				large[fmt.Sprint("key", i)] = i
			}
			in.Change.Documents[0].After, err = json.Marshal(large)
			require.NoError(t, err)
			_, err = p.Eval(t.Context(), in, NewBudget())
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestStepsOfArguments: calls whose time depends on their arguments count steps for these. Before, each was one step, and these rules took
// minutes or hours.
func TestStepsOfArguments(t *testing.T) {
	t.Parallel()
	nested, values := map[string]any{}, map[string]any{}
	for i := range 1000 {
		nested[fmt.Sprint("key", i)] = map[string]any{"number": i, "text": "some text"}
		values[fmt.Sprint("key", i)] = i
	}
	in := change(1)
	in.Change.Reason = strings.Repeat("ab ", 20_000)
	for _, body := range []*json.RawMessage{&in.Change.Documents[0].Before, &in.Change.Documents[0].After} {
		var err error
		*body, err = json.Marshal(map[string]any{"nested": nested})
		require.NoError(t, err)
	}
	effect, err := in.Effect()
	require.NoError(t, err)
	effect.Clusters[0].Lists.Components[0].After.Values = values
	for rule, least := range map[string]uint64{
		"change.documents[0].before == change.documents[0].after":                                                     1000,
		"!(change.documents[0].before != change.documents[0].after)":                                                  1000,
		"change.documents[0].before in [change.documents[0].after]":                                                   1000,
		"effect.clusters[0].lists.platform_components[0] == effect.clusters[0].lists.platform_components[0]":          1000,
		"change.documents[0].after.nested.map(k, k).exists(k, k in change.documents[0].after.nested.map(l, l))":       2000,
		"!change.reason.matches('(a|ab|b)*c(a|b){50}d')":                                                              20_000,
		"now.getDayOfWeek('Europe/Berlin') == 5":                                                                      100,
		"effect.clusters.all(c, now.getHours('America/New_York') == 22) && !semver('2.0.0', '<2')":                    110,
		"effect.clusters[0].lists.platform_components[0].after.values == change.documents[0].after || change != null": 1000,
	} {
		p, err := Compile(rule, "")
		require.NoError(t, err, rule)
		budget := NewBudget()
		v, err := p.Eval(t.Context(), in, budget)
		require.NoError(t, err, rule)
		require.False(t, v.Failed, rule)
		require.Greater(t, NewBudget().left-budget.left, least, rule)
	}
}

// TestFieldsAreConvertedOnce: a loop that reads a large field converts it once.
func TestFieldsAreConvertedOnce(t *testing.T) {
	t.Parallel()
	input := &Entry[api.FluxPlatformComponent]{After: &api.FluxPlatformComponent{Values: map[string]any{"a": 1}}}
	read := func() any {
		list := objectTypes["fleet.Lists"].fields["platform_components"]
		all, err := list.get(&Lists{Components: []*Entry[api.FluxPlatformComponent]{input}})
		require.NoError(t, err)
		entry := all.(traits.Lister).Get(types.IntZero).(*object)
		after, err := entry.of.fields["after"].get(entry.value)
		require.NoError(t, err)
		values, err := after.(*object).of.fields["values"].get(after.(*object).value)
		require.NoError(t, err)
		return values
	}
	require.Same(t, read(), read())
}

func TestPatternsOfMatches(t *testing.T) {
	t.Parallel()
	_, err := Compile("change.reason.matches('^[A-Z]{2,5}-[0-9]{1,9}$') || 'ab'.matches('(a|b){2}')", "")
	require.NoError(t, err)
	for pattern, want := range map[string]string{"change.actor": "must be a literal", "'(a{30}){30}'": "at most 500 are possible", "'('": "invalid matches argument"} {
		_, err := Compile("change.reason.matches("+pattern+")", "")
		require.ErrorContains(t, err, want)
	}
}

func TestEffectIsComputedOnlyForRulesThatReadIt(t *testing.T) {
	t.Parallel()
	in := change(1)
	in.Effect = func() (*Effect, error) { return nil, errors.New("it is broken") }
	p, err := Compile("change.documents.size() == 1 || effect.clusters.size() == 0", "")
	require.NoError(t, err)
	v, err := p.Eval(t.Context(), in, NewBudget())
	require.NoError(t, err)
	require.Equal(t, Verdict{}, v)

	p, err = Compile("effect.clusters.size() == 0", "")
	require.NoError(t, err)
	_, err = p.Eval(t.Context(), in, NewBudget())
	require.ErrorContains(t, err, "it is broken")
}

func TestErrorsOfListsAndMessages(t *testing.T) {
	t.Parallel()
	in := change(1)
	effect, _ := in.Effect()
	effect.Clusters[0].Lists = &Lists{Fill: func(*Lists, ListName) error { return errors.New("no inputs") }}
	p, err := Compile("effect.clusters.all(c, c.lists.namespaces.size() == 0)", "")
	require.NoError(t, err)
	_, err = p.Eval(t.Context(), in, NewBudget())
	require.ErrorContains(t, err, "no inputs")

	p, err = Compile("false", "string(change.documents[7].id)")
	require.NoError(t, err)
	_, err = p.Eval(t.Context(), in, NewBudget())
	require.ErrorContains(t, err, "its message: index out of bounds")

	p, err = Compile("false", `'a\n\u0000b' + change.reason`)
	require.NoError(t, err)
	in.Change.Reason = strings.Repeat("é", 3000)
	v, err := p.Eval(t.Context(), in, NewBudget())
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(v.Message, "a  bé"))
	require.Len(t, []rune(v.Message), MaxMessageCharacters)
}

func TestBudgetAndContextEndEvaluations(t *testing.T) {
	t.Parallel()
	p, err := Compile("effect.clusters.all(c, c.environment == 'dev')", "")
	require.NoError(t, err)
	budget := NewBudget()
	_, err = p.Eval(t.Context(), change(1000), budget)
	require.NoError(t, err)
	spent := NewBudget().left - budget.left
	require.Greater(t, spent, uint64(1000))
	budget.left = 100
	for range 2 {
		_, err = p.Eval(t.Context(), change(1000), budget)
		require.ErrorContains(t, err, "together take too many steps")
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("it is over"))
	_, err = p.Eval(ctx, change(1), NewBudget())
	require.ErrorContains(t, err, "it is over")
}

// FuzzRule: no text makes Compile or Eval panic.
func FuzzRule(f *testing.F) {
	for _, rule := range []string{
		"true", "effect.clusters.all(c, c.lists.platform_components.all(e, e.after.values.x == 1))", "has(change.actor) && [1,2].map(x, x)[0] == 1",
		"semver('1', '^1')", "matchesLabels({}, 'a=b')", "now - duration('1h') < now", "fleet.Cluster{}", "[[[[1]]]]", "'a'.matches('a*')", "type(effect) == fleet.Effect",
		"effect == effect", "change.documents == change.documents", "effect.clusters[0] == effect.clusters[1]", "{effect: 1}.size() == 1", "b'abc' + b'c' == b''",
		"string(effect)", "dyn(effect).clusters.size() == 1", "effect.clusters[0].lists.platform_components[0].after == effect.clusters[0].lists.platform_components[1].before",
	} {
		f.Add(rule, "'x'")
		f.Add("false", rule)
	}
	f.Fuzz(func(t *testing.T, rule, message string) {
		hangs := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("it takes too long: %q, %q", rule, message)) })
		defer hangs.Stop()
		p, err := Compile(rule, message)
		if err != nil {
			var problems RuleErrors
			require.ErrorAs(t, err, &problems)
			require.NotEmpty(t, problems)
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if v, err := p.Eval(ctx, change(3), NewBudget()); err == nil {
			require.LessOrEqual(t, len([]rune(v.Message)), MaxMessageCharacters)
		}
		require.NoError(t, ctx.Err(), "it takes too long")
	})
}

// BenchmarkEval evaluates rules on 10,000 clusters.
func BenchmarkEval(b *testing.B) {
	for name, rule := range map[string]string{
		"count":      "effect.clusters.size() <= 100000",
		"clusters":   "effect.clusters.all(c, c.removals == 1)",
		"labels":     "effect.clusters.all(c, matchesLabels(c.before.labels, 'team=a'))",
		"components": "effect.clusters.all(c, c.lists.platform_components.all(e, e.after.component_version != 'latest'))",
		"document":   "change.documents.all(d, d.kind != 'x')",
	} {
		p, err := Compile(rule, "")
		require.NoError(b, err)
		in := change(10_000)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				budget := NewBudget()
				v, err := p.Eval(b.Context(), in, budget)
				require.NoError(b, err)
				require.False(b, v.Failed)
				b.ReportMetric(float64(NewBudget().left-budget.left), "steps")
			}
		})
	}
}

// TestReadsRecentCount: the clusters of an hour are recorded for every rule that may read their number.
func TestReadsRecentCount(t *testing.T) {
	t.Parallel()
	for rule, reads := range map[string]bool{
		"recent.count < 50":                               true,
		"effect.count + recent.count < 50":                true,
		"[recent].all(r, r.count + effect.count <= 50)":   true,
		"recent.removals < 50":                            false,
		"recent.removals + recent.count < 50":             true,
		"[recent.removals].all(r, r + effect.count < 50)": false,
		"effect.count < 50":                               false,
	} {
		p, err := Compile(rule, "")
		require.NoError(t, err, rule)
		require.Equal(t, reads, p.ReadsRecentCount, rule)
	}
}
