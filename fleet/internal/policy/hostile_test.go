package policy

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// numbers is a list of n numbers.
func numbers(n int) string { return "[" + strings.Repeat("1,", n-1) + "1]" }

// hostileRules do much work in few nodes. steps are the least steps of one evaluation of the expression: its time, in units of about
// 100 ns. Before they were counted, most took 1 to 10.
func hostileRules() map[string]struct {
	expression string
	steps      uint64
} {
	long := strings.Repeat("a", 1000)
	return map[string]struct {
		expression string
		steps      uint64
	}{
		"nothing":                  {"true", 1},
		"arithmetic":               {"i + j * k >= 0", 4},
		"empty loops":              {"[].all(a, [].all(b, true))", 1},
		"conditions":               {strings.Repeat("i == 2 ? false : ", 20) + "true", 40},
		"fields of a document":     {"change.documents[0].after.nested.key1.number == 1", 7},
		"has":                      {"has(change.documents[0].after.nested.key1.number)", 6},
		"fields in an index":       {"{1: 1}[change.documents[0].after.nested.key1.number] == 1", 6},
		"fields in a condition":    {"(i == 1 ? change.documents[0].after.nested.key1.number : 2) == 1", 6},
		"1000 documents":           {"change.documents[0].kind == 'cluster'", 4},
		"inputs":                   {"effect.clusters[0].lists.platform_components[0].after.source.oci_url != ''", 8},
		"a list":                   {"[i" + strings.Repeat(",1", 2000) + "].size() > 0", 2000},
		"maps":                     {"[" + strings.Repeat("{1:i},", 300) + "{}].size() > 0", 300 * 10},
		"search in a constant":     {"!'" + long + strings.Repeat("ab", 1500) + "'.contains(change.author)", 1000},
		"size of a text":           {"change.reason.size() > 0", 1000},
		"equal texts":              {"change.reason + string(i) == change.reason + string(i)", 2 * 7500},
		"a text as a key":          {"{change.reason: 1}[change.reason] == 1", 1900},
		"expression":               {"!(change.author + string(k)).matches('(a|ab|b)*c(a|b){20}d')", 1000},
		"expression on a long one": {"!change.reason.matches('(x+x+)+y')", 10_000},
		"semver":                   {"!semver('1.2.3-' + string(k), '<1')", 50},
		"semver, a long range":     {"!semver('2.0.0', '" + strings.TrimSuffix(strings.Repeat("1 || ", 200), " || ") + "') || true", 400},
		"semver, many ranges":      {"semver('2.0.0', '>' + string(i) + '.' + string(j) + '.' + string(k)) || true", 70},
		"labels":                   {"matchesLabels({'b': 'x'}, '" + strings.Repeat("!a,", 300) + "b')", 200},
		"labels of a cluster":      {"matchesLabels(effect.clusters[0].before.labels, 'team in (a,b,c),!other')", 15},
		"time zone":                {"now.getHours('America/New_York') >= 0", 1000},
		"unknown time zone":        {"now.getHours('America/Nowhere') >= 0 || true", 1000},
		"times":                    {"string(now + duration('1h')) != ''", 5},
		"errors":                   {"(change.documents[0].after.missing == 1 || true)", 20},
		"errors of types":          {"(dyn(i) + dyn('x') == 1 || true)", 20},
		"numbers as texts":         {"string(double(i) * 1.5) != '' && double('1.25') > 1.0", 10},
		"documents compared":       {"change.documents[0].before.nested == change.documents[0].after.nested", 8000},
		"document in a list":       {"!(change.documents[0].before in [change.documents[0].after.nested])", 8000},
		"inputs compared":          {"effect.clusters[0].lists == effect.clusters[0].lists", 50},
		"joined lists":             {"[[1]].map(x, " + repeatPlus("x", 40) + ").map(x, " + repeatPlus("x", 40) + ").all(x, x.all(y, y > 0))", 10_000},
		"joined texts":             {"[change.author].map(x, " + repeatPlus("x", 50) + ").map(x, " + repeatPlus("x", 50) + ").all(x, x != '')", 100_000},
		"collected":                {"[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(l, [i, j, k, l]).size() > 0", 80},
	}
}

// compileHostile compiles an expression in loops over n numbers each, as many as a policy may have, up to three.
func compileHostile(t testing.TB, expression string, n int) (p *Program) {
	var err error
	for loops := 3; loops >= 0 && p == nil; loops-- {
		rule := expression
		for _, variable := range []string{"i", "j", "k"}[:loops] {
			rule = fmt.Sprintf("%s.all(%s, %s)", numbers(n), variable, rule)
		}
		p, err = Compile(rule, "")
	}
	require.NoError(t, err)
	return p
}

// evaluateHostile evaluates such an expression, and returns the steps.
func evaluateHostile(t testing.TB, expression string, in *Input, n int) (steps uint64, err error) {
	budget := NewBudget()
	_, err = compileHostile(t, expression, n).Eval(t.Context(), in, budget)
	return NewBudget().left - budget.left, err
}

// TestStepsOfHostileRules: the steps are in proportion to the work, and end each evaluation.
func TestStepsOfHostileRules(t *testing.T) {
	t.Parallel()
	in := hostileChange(t, 1)
	for name, c := range hostileRules() {
		spent, err := evaluateHostile(t, c.expression, in, 1)
		require.NoError(t, err, name)
		require.GreaterOrEqual(t, spent, c.steps, name)
	}
	spent, err := evaluateHostile(t, "effect.clusters.map(c, c.id).size() > 0 && effect.clusters.filter(c, c.removals == 1).size() > 0", hostileChange(t, 10_000), 1)
	require.NoError(t, err)
	require.Less(t, spent, uint64(300_000), "the steps of a list that grows are not those of its square")
}

// TestMemoryOfHostileRules: rules that build texts and lists allocate no more than some bytes for each step.
func TestMemoryOfHostileRules(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	in := hostileChange(t, 1)
	for name, expression := range map[string]string{
		"texts":         "['aaaaaaaa'].map(x, " + repeatPlus("x", 50) + ")" + strings.Repeat(".map(x, "+repeatPlus("x", 50)+")", 2) + ".all(x, x != '')",
		"doubled texts": "[change.reason]" + strings.Repeat(".map(x, "+repeatPlus("x", 16)+")", 3) + ".all(x, x != '')",
		"kept texts":    numbers(50) + ".map(a, change.reason + string(a)).size() > 0",
		"lists":         "[[1]]" + strings.Repeat(".map(x, "+repeatPlus("x", 60)+")", 3) + ".all(x, x != [])",
		"nested lists":  numbers(50) + ".map(a, " + numbers(50) + ".map(b, [a, b])).size() > 0",
		"maps":          numbers(50) + ".map(a, [" + strings.Repeat("{1:a},", 300) + "{}]).size() > 0",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		spent, err := evaluateHostile(t, expression, in, 50)
		runtime.ReadMemStats(&after)
		if err != nil {
			require.ErrorContains(t, err, "it takes more than", name)
		}
		require.LessOrEqual(t, spent, uint64(MaxCost))
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(bytesAllocatedPerStep*MaxCost), name)
	}
}

const bytesAllocatedPerStep = 64

func repeatPlus(name string, n int) string {
	return strings.TrimSuffix(strings.Repeat(name+" + ", n), " + ")
}

// hostileChange is a change with large documents.
func hostileChange(t testing.TB, clusters int) *Input {
	in := change(clusters)
	nested := map[string]any{}
	for i := range 1000 {
		nested[fmt.Sprint("key", i)] = map[string]any{"number": i, "text": "some text"}
	}
	body, err := json.Marshal(map[string]any{"nested": nested})
	require.NoError(t, err)
	in.Change.Author = strings.Repeat("ab", 128)
	in.Change.Reason = strings.Repeat("x", 60_000)
	in.Change.Documents[0].Before, in.Change.Documents[0].After = body, body
	for len(in.Change.Documents) < 1000 {
		in.Change.Documents = append(in.Change.Documents, &Document{Kind: "cluster", ID: "x", After: json.RawMessage(`{}`)})
	}
	return in
}

// BenchmarkHostileRules reports the processor time of a step, and that of all steps that the policies of a change may take, in rules that do
// much work.
func BenchmarkHostileRules(b *testing.B) {
	in := hostileChange(b, 1)
	cpuTime := func() time.Duration {
		var used syscall.Rusage
		require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
		return time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	for name, c := range hostileRules() {
		b.Run(name, func(b *testing.B) {
			p, left, began := compileHostile(b, c.expression, 50), uint64(0), cpuTime()
			for b.Loop() {
				budget := NewBudget()
				_, _ = p.Eval(b.Context(), in, budget) // most end for their steps
				left += budget.left
			}
			step := float64(cpuTime()-began) / float64(uint64(b.N)*NewBudget().left-left)
			b.ReportMetric(step, "cpu-ns/step")
			b.ReportMetric(step*float64(NewBudget().left+NewWarningBudget().left)/1e9, "cpu-s/change")
		})
	}
}
