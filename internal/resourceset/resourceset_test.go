package resourceset_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
)

func execute(t *testing.T, text string, input map[string]any) (string, error) {
	t.Helper()
	parsed, err := resourceset.Parse(text)
	require.NoError(t, err, text)
	return parsed.Execute(input, resourceset.Limits{})
}

func TestExecute(t *testing.T) {
	t.Parallel()
	input := map[string]any{"id": "a", "list": []any{"x", int64(2)}, "map": map[string]any{"k": nil}, "none": nil}
	for text, want := range map[string]string{
		`<< inputs.id | quote >>`: `"a"`,
		`<<- range $i, $e := inputs.list >><< $i >>=<< $e >> <<- end >>`:                                               `0=x1=2`,
		`<< range 3 >><< . >><< end >>`:                                                                                `012`,
		`<< define "t" >>[<< . >>]<< end >><< template "t" inputs.id >>`:                                               `[a]`,
		`<< range $e := inputs.list >><< if eq (toString $e) "2" >><< break >><< end >><< $e >><< end >>`:              `x`,
		`<< with $x := inputs.id >><< $x >><< else >>no<< end >>`:                                                      `a`,
		`<< inputs.none >>|<< inputs.map.k >>|<< inputs.list | toJson >>`:                                              `<no value>|<no value>|["x",2]`,
		`<< printf "%-5s|%03d" inputs.id 7 >>`:                                                                         `a    |007`,
		`<< $m := dict "a" 1 >><< $_ := set $m "b" (list 1 2) >><< $m | toJson >>`:                                     `{"a":1,"b":[1,2]}`,
		`<< untilStep 127 130 1 | join "," >> << "a b" | replace " " "+" >> << regexReplaceAll "[^a-z]+" "aXb" "-" >>`: `127,128,129 a+b a-b`,
	} {
		got, err := execute(t, text, input)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	_, err := execute(t, `<< inputs.missing >>`, input)
	require.ErrorContains(t, err, "missing")
	_, err = execute(t, `<< fail "not this way" >>`, input)
	require.ErrorContains(t, err, "not this way")
	_, err = resourceset.Parse(`<< nothing >>`)
	require.ErrorContains(t, err, "nothing")
}

// TestOrderOfMaps: keys and values have an order, whatever that of Go is, and its reverse on request.
func TestOrderOfMaps(t *testing.T) {
	t.Parallel()
	input := map[string]any{"m": map[string]any{"a": 3, "b": 2, "c": 1, "d": 0}, "n": map[string]any{"0": "x"}}
	parsed, err := resourceset.Parse(`<< keys inputs.m inputs.n | join "," >> << values inputs.m | join "," >> << keys inputs.m | sortAlpha | join "," >>`)
	require.NoError(t, err)
	for range 20 {
		got, err := parsed.Execute(input, resourceset.Limits{})
		require.NoError(t, err)
		require.Equal(t, "a,b,c,d,0 3,2,1,0 a,b,c,d", got)
		got, err = parsed.Execute(input, resourceset.Limits{Reversed: true})
		require.NoError(t, err)
		require.Equal(t, "d,c,b,a,0 0,1,2,3 a,b,c,d", got)
	}
}

// TestNestedRanges: the time to parse a template does not grow with the square of its size, with which this one would take many minutes.
func TestNestedRanges(t *testing.T) {
	t.Parallel()
	const depth = 100_000
	_, err := resourceset.Parse(strings.Repeat("<< range 1 >>", depth) + strings.Repeat("<< end >>", depth))
	require.NoError(t, err)
}

// TestEndlessTemplates: any loop, recursion or growing value ends before it costs much.
func TestEndlessTemplates(t *testing.T) {
	t.Parallel()
	double := func(grow string) string {
		return `<< $x := list "a" >><< range $i := untilStep 0 60 1 >><< $x = ` + grow + ` >><< end >>`
	}
	for name, text := range map[string]string{
		"range over a number":     `<< range 1000000000000 >><< end >>`,
		"nested ranges":           `<< range 100000 >><< range 100000 >><< end >><< end >>`,
		"until":                   `<< range until 1000000000 >><< end >>`,
		"until, downwards":        `<< range until -1000000000 >><< end >>`,
		"untilStep":               `<< untilStep 0 1000000000 1 >>`,
		"untilStep over the edge": `<< untilStep 0 9223372036854775807 9223372036854775806 >>`,
		"untilStep, the lowest":   `<< untilStep -9223372036854775808 0 1 >>`,
		"seq":                     `<< seq 1 1000000000 >>`,
		"repeat":                  `<< repeat 1000000000 "x" >>`,
		"repeat and replace":      `<< repeat 100000 "x" | replace "x" (repeat 100000 "y") >>`,
		"replace nothing":         `<< repeat 100000 "x" | replace "" (repeat 100000 "y") >>`,
		"a regular replacement":   `<< regexReplaceAll "x" (repeat 100000 "x") (repeat 100000 "y") >>`,
		"a regular group":         `<< regexReplaceAll "(x+)" (repeat 100000 "x") (repeat 1000 "${1}") >>`,
		"large patterns":          `<< range until 10000 >><< regexMatch (repeat 400 "(a{1,900})") "x" >><< end >>`,
		"indent":                  `<< indent 1000000000 "x" >>`,
		"join":                    `<< untilStep 0 50000 1 | join (repeat 100000 "x") >>`,
		"printf":                  `<< printf "%999999d" 1 >>`,
		"printf, by an argument":  `<< printf "%*d" 999999 1 >>`,
		"printf, a precision":     `<< printf "%.999999f" 1.0 >>`,
		"output":                  `<< range until 100000 >>` + strings.Repeat("x", 100) + `<< end >>`,
		"recursion":               `<< define "t" >><< template "t" . >><< end >><< template "t" . >>`,
		"branching recursion":     `<< define "t" >><< if gt . 0 >><< template "t" (sub . 1) >><< template "t" (sub . 1) >><< end >><< end >><< template "t" 60 >>`,
		"a text that doubles":     `<< $x := "ab" >><< range until 60 >><< $x = print $x $x >><< end >>`,
		"a value that doubles":    double(`list $x $x`) + `<< $x | toJson >>`,
		"printed as it is":        double(`list $x $x`) + `<< $x >>`,
		"a list that doubles":     double(`concat $x $x`),
		"as HTML":                 double(`list $x $x`) + `<< html $x >>`,
		"a map in itself":         `<< $m := dict >><< $_ := set $m "m" $m >><< $m | toJson >>`,
		"in itself, printed":      `<< $m := dict >><< $_ := set $m "m" $m >><< $m >>`,
		"compared":                `<< untilStep 0 50000 1 | uniq >>`,
		"much of a long body":     `<< range until 100000 >><< if false >>` + strings.Repeat("x", 50_000) + `<< end >><< end >>`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := execute(t, text, map[string]any{})
			require.Error(t, err)
			require.ErrorIs(t, err, resourceset.ErrBudget)
		})
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	gone := errors.New("the client has gone")
	parsed, err := resourceset.Parse(`<< range until 50000 >><< end >>`)
	require.NoError(t, err)
	_, err = parsed.Execute(nil, resourceset.Limits{Stop: func() error { return gone }})
	require.ErrorIs(t, err, gone)
}

func FuzzExecute(f *testing.F) {
	f.Add(`<< range $i, $x := inputs.list >><< $i >><< $x | toJson >><< end >>`)
	f.Add(`<< define "t" >><< . >><< end >><< template "t" inputs >>`)
	f.Add(`<< with inputs.none >>x<< else >>y<< end >>`)
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := resourceset.Parse(text)
		if err != nil {
			return
		}
		out, err := parsed.Execute(map[string]any{"id": "a", "list": []any{"x", 1.5}, "none": nil}, resourceset.Limits{Units: 10_000, Bytes: 10_000})
		if err == nil && len(out) > 10_000 {
			t.Fatalf("%d bytes", len(out))
		}
	})
}

// TestBudgetOfRequest: the executions of a request end with its budget, and when it is canceled, also where no template is executed.
func TestBudgetOfRequest(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: x}\nspec:\n  inputsFrom: [{name: namespaces}]\n"
	poll := func(string) ([]resourceset.Input, error) {
		return []resourceset.Input{{"id": []byte(`"a"`)}, {"id": []byte(`"b"`)}}, nil
	}
	sets, err := resourceset.Read(head + "  resourcesTemplate: '{apiVersion: v1, kind: ConfigMap, metadata: {name: << inputs.id >>}}'\n---\n" + head)
	require.NoError(t, err)
	for i, set := range sets {
		made, err := set.Render(poll, &resourceset.Budget{Units: 10_000, Bytes: 10_000})
		require.NoError(t, err)
		require.Len(t, made, 2-2*i)
		_, err = set.Render(poll, &resourceset.Budget{Units: 2000, Bytes: 10_000})
		require.ErrorIs(t, err, resourceset.ErrSpent)
		stopped := errors.New("stopped")
		_, err = set.Render(poll, &resourceset.Budget{Units: 10_000, Bytes: 10_000, Stop: func() error { return stopped }})
		require.ErrorIs(t, err, stopped)
	}
	_, err = sets[0].Render(poll, &resourceset.Budget{Units: 10_000, Bytes: 200})
	require.ErrorIs(t, err, resourceset.ErrSpent)
	sets, err = resourceset.Read(head + "  resourcesTemplate: \"" + strings.Repeat("x", 200_000) + "\"\n")
	require.NoError(t, err)
	_, err = sets[0].Render(poll, &resourceset.Budget{Units: 10_000, Bytes: 10_000})
	require.ErrorContains(t, err, "larger than 128 KiB")
}
