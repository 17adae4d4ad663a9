package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/internal/variables"
)

// referringWorld has a layer with references, and clusters a and b, of which b has a variable of its own.
func referringWorld(t *testing.T, more ...string) *world {
	t.Helper()
	return newWorld(t, append([]string{
		string(KindComponent), `{"id":"h","component_path":"p","oci_url":"https://charts.example.com","patches":{"host":"g.${cluster.labels.region}"}}`,
		string(KindNamespace), `{"id":"n","labels":{"c":"${cluster.id}"}}`,
		string(KindLayer), `{"id":"all","priority":1,"all":true,"variables":{"d":"${cluster.labels.region}.x","r":2},"platform_components":[{"id":"h"}],"namespaces":[{"id":"n"}],"patches":{"h":{"replicas":"${vars.r}","quoted":"'${vars.r}'","text":"$${cluster.id} $${A} ${B}","both":"${vars.d}${cluster.id}"}}}`,
		string(KindCluster), `{"id":"a","cluster_dns":"a.example.com","environment":"dev","labels":{"region":"eu"}}`,
		string(KindCluster), `{"id":"b","cluster_dns":"b.example.com","environment":"dev","labels":{"region":"us"},"variables":{"r":3}}`,
	}, more...)...)
}

func TestVariablesServed(t *testing.T) {
	t.Parallel()
	w := referringWorld(t)
	for dns, want := range map[string]string{
		"a.example.com": `{"both":"eu.xa","host":"g.eu","quoted":"2","replicas":2,"text":"${cluster.id} $${A} ${B}"}`,
		"b.example.com": `{"both":"us.xb","host":"g.us","quoted":"3","replicas":3,"text":"${cluster.id} $${A} ${B}"}`,
	} {
		in := inputsOf(t, w.state, dns, KindComponent)[0]
		got, err := json.Marshal(in["values"])
		require.NoError(t, err)
		require.JSONEq(t, want, string(got))
	}
	require.Equal(t, map[string]any{"c": "b"}, inputsOf(t, w.state, "b.example.com", KindNamespace)[0]["labels"])
}

// TestFleetsByHand: random fleets with references are served what the same fleets with the values in their place are, by the process
// that makes the change, by one that follows, and by one that starts; and plans say what changes.
func TestFleetsByHand(t *testing.T) {
	t.Parallel()
	committed, refused := 0, map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		w := layeredWorld(t)
		text := rapid.SampledFrom([]string{"x", "${cluster.id}", "g.${cluster.labels.tier}", "${vars.a}${vars.b}", "${vars.a}", "$${vars.a}", "${A}", "$${A}", "'${vars.b}'", "${cluster.labels['region']}", "${cluster.dns}-${cluster.environment}"})
		word := rapid.SampledFrom([]string{`"eu"`, `"us"`, `3`, `true`, `"${cluster.id}"`, `"${vars.b}"`, `"${cluster.labels.tier}"`, `null`})
		layers := 0
		for range rapid.IntRange(1, 14).Draw(rt, "commits") {
			k := fmt.Sprintf("k%d", rapid.IntRange(0, 2).Draw(rt, "k"))
			c := rapid.SampledFrom([]string{"c0", "c1"}).Draw(rt, "c")
			v, err := json.Marshal(text.Draw(rt, "text"))
			require.NoError(rt, err)
			var edit func(*Tx) error
			switch rapid.IntRange(0, 11).Draw(rt, "op") {
			case 0:
				edit = patch(KindCluster, k, `{"platform_components":[{"id":"c0"},{"id":"c1"}],"namespaces":[{"id":"n0"}],"resources":{"t":[{"id":"r0"}]}}`)
			case 1:
				edit = patch(KindCluster, k, fmt.Sprintf(`{"patches":{"c0":{"z":%s}}}`, v))
			case 2, 3:
				edit = patch(KindCluster, k, fmt.Sprintf(`{"variables":{%q:%s}}`, rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "v"), word.Draw(rt, "w")))
			case 4:
				edit = patch(KindCluster, k, fmt.Sprintf(`{"labels":{"tier":%s}}`, rapid.SampledFrom([]string{`"a"`, `"b"`, `null`}).Draw(rt, "l")))
			case 5:
				edit = patch(KindComponent, c, fmt.Sprintf(`{"patches":{"q":%s}}`, v))
			case 6:
				edit = patch(KindNamespace, "n0", fmt.Sprintf(`{"annotations":{"q":%s}}`, v))
			case 7:
				edit = patch(ResourceKind("t"), "r0", fmt.Sprintf(`{"spec":{"z":[%s]}}`, v))
			case 8:
				layers++
				edit = create(KindLayer, fmt.Sprintf(`{"id":"l%d","priority":%d,"all":true,"variables":{"a":%s,"b":%s},"platform_components":[{"id":"c0"}],"namespaces":[{"id":"n0"}],"patches":{"c0":{"z":%s}}}`, layers, layers, strings.ReplaceAll(word.Draw(rt, "w"), "null", "1"), strings.ReplaceAll(word.Draw(rt, "w2"), "null", "1"), v))
			case 9:
				edit = patch(KindLayer, "l1", fmt.Sprintf(`{"variables":{"a":%s}}`, word.Draw(rt, "w")))
			case 10:
				edit = patch(KindCluster, k, fmt.Sprintf(`{"resources":{"t":[{"id":"r0","overrides":{"y":%s}}]}}`, v))
			case 11:
				edit = patch(KindCluster, k, fmt.Sprintf(`{"cluster_dns":%q}`, rapid.SampledFrom([]string{"x.example.com", k + ".example.com"}).Draw(rt, "dns")))
			}
			tx := w.state.Begin()
			tx.Guard(Guard{Off: true})
			err = edit(tx)
			var res Result
			if err == nil {
				res, err = tx.Finish(Commit{ID: newCommitID(rt), At: w.now, Actor: "test"})
			}
			if err != nil {
				refused[strings.SplitN(err.Error(), " ", 2)[0]]++
				continue
			}
			if len(res.Commit.Changes) == 0 {
				continue
			}
			committed++
			plan, err := res.Plan()
			require.NoError(rt, err)
			requirePlanned(rt, w.state, res.State, plan, "references")
			followed, err := w.state.Apply(res.Commit)
			require.NoError(rt, err)
			want := polls(rt, res.State)
			require.Equal(rt, want, polls(rt, followed))
			var records []Record
			for r := range res.State.Records() {
				records = append(records, r)
			}
			loaded, err := NewState(testRules, res.State.head, res.State.at, records)
			require.NoError(rt, err)
			require.Equal(rt, want, polls(rt, loaded))
			for _, d := range res.State.All(KindCluster) {
				flat := byHand(rt, res.State, d)
				for _, a := range res.State.kinds.lists {
					require.Equal(rt, poll(rt, flat, d.Cluster().ClusterDNS, a.kind), want[d.Cluster().ClusterDNS+"/"+a.endpoint])
					answer, err := res.State.Answer(d, a.kind)
					require.NoError(rt, err)
					require.GreaterOrEqual(rt, res.State.bound(res.State.Effective(d), a), answer.Size)
				}
			}
			w.state = res.State
			w.now = w.now.Add(time.Minute)
		}
	})
	t.Logf("%d committed, refused: %v", committed, refused)
}

// byHand returns a fleet of one cluster without layers, in which the references are replaced in the texts of all documents, except escaped ones.
func byHand(t require.TestingT, s *State, d *Document) *State {
	c := d.Cluster()
	known := map[string]string{"${cluster.id}": c.ID, "${cluster.dns}": c.ClusterDNS, "${cluster.environment}": c.Environment}
	for k, v := range c.Labels {
		known["${cluster.labels."+k+"}"], known["${cluster.labels['"+k+"']}"] = v, v
	}
	add := func(vars map[string]json.RawMessage) {
		for name, value := range vars {
			known["${vars."+name+"}"], _ = variables.Text(value)
		}
	}
	for _, l := range s.All(KindLayer) { // their ids are in the order of their priority: there are at most 9
		add(l.layer().Variables)
	}
	add(c.Variables)
	flat := flattened(t, s, d)
	var records []Record
	for r := range flat.Records() {
		text := strings.ReplaceAll(strings.ReplaceAll(string(r.Body), "$${vars.", "\x01vars."), "$${cluster.", "\x01cluster.")
		for range maxNested {
			for ref, value := range known {
				text = strings.ReplaceAll(text, ref, value)
			}
		}
		r.Body = []byte(strings.ReplaceAll(text, "\x01", "$${"))
		records = append(records, r)
	}
	made, err := NewState(testRules, flat.head, flat.at, records)
	require.NoError(t, err)
	return made
}

// TestMissingVariable: a change after which a cluster would be served a reference without a value is refused, whatever causes it.
func TestMissingVariable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(*Tx) error
		says string
	}{
		"label removed":        {patch(KindCluster, "a", `{"labels":{"region":null}}`), `${cluster.labels.region}: there is no label "region" (in the platform component "h"), on 1 cluster: a`},
		"through a variable":   {patch(KindCluster, "a", `{"labels":{"region":null}}`), `${vars.d}: ${cluster.labels.region}: there is no label "region" (both of the platform component "h", set by layer "all")`},
		"variable removed":     {patch(KindLayer, "all", `{"variables":{"d":null}}`), `${vars.d}: there is no variable "d" (both of the platform component "h", set by layer "all"), on 2 clusters: a, b`},
		"text of the catalog":  {patch(KindComponent, "h", `{"patches":{"host":"g.${vars.nope}"}}`), `${vars.nope}: there is no variable "nope" (in the platform component "h"), on 2 clusters: a, b`},
		"text of a layer":      {patch(KindLayer, "all", `{"patches":{"h":{"host":"g.${vars.nope}"}}}`), `there is no variable "nope"`},
		"text of a cluster":    {patch(KindCluster, "a", `{"patches":{"h":{"host":"g.${vars.nope}"}}}`), `(host of the platform component "h", set by cluster "a"), on 1 cluster: a`},
		"text of a namespace":  {patch(KindNamespace, "n", `{"labels":{"c":"${cluster.labels.zone}"}}`), `${cluster.labels.zone}: there is no label "zone" (in the namespace "n"), on 2 clusters: a, b`},
		"new cluster":          {create(KindCluster, `{"id":"c","cluster_dns":"c.example.com","environment":"dev"}`), `there is no label "region"`},
		"selector":             {patch(KindLayer, "all", `{"all":false,"selector":"id=b"}`), ""},
		"cycle":                {patch(KindCluster, "a", `{"variables":{"r":"${vars.s}","s":"${vars.r}"}}`), "it refers to itself"},
		"cycle through layers": {patch(KindCluster, "a", `{"variables":{"d":"${vars.r}","r":"${vars.d}"}}`), "it refers to itself"},
		"result too long":      {patch(KindCluster, "a", `{"variables":{"r":"`+strings.Repeat("${vars.s}", 100)+`","s":"`+strings.Repeat("y", 1000)+`"}}`), "at most 4096 are possible"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := referringWorld(t)
			if c.says == "" {
				w.must(func(tx *Tx) error { tx.Guard(Guard{Off: true}); return c.edit(tx) })
				return
			}
			var all []string
			for _, p := range w.refused(CodeMissingVariable, c.edit).Problems {
				all = append(all, p.Detail)
			}
			require.Contains(t, strings.Join(all, "\n"), c.says)
		})
	}
}

// TestReferencesRefused: references where they are not possible, and those without a valid form.
func TestReferencesRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		edit func(*Tx) error
		at   string
	}{
		{patch(KindComponent, "h", `{"oci_url":"https://${cluster.id}.example.com"}`), "/oci_url"},
		{patch(KindComponent, "h", `{"component_version":"${vars.r}"}`), "/component_version"},
		{patch(KindComponent, "h", `{"release_name":"${vars.r}"}`), "/release_name"},
		{patch(KindComponent, "h", `{"target_namespace":"${vars.r}"}`), "/target_namespace"},
		{patch(KindComponent, "h", `{"component_path":"a/${vars.r}"}`), "/component_path"},
		{patch(KindComponent, "h", `{"patches":{"a":"${vars.1}"}}`), "/patches/a"},
		{patch(KindComponent, "h", `{"patches":{"a":"${cluster.nope}"}}`), "/patches/a"},
		{patch(KindComponent, "h", `{"patches":{"a":"${vars.a"}}`), "/patches/a"},
		{patch(KindComponent, "h", `{"patches":{"a":{"${vars.r}":1}}}`), "/patches/a/${vars.r}"},
		{patch(KindLayer, "all", `{"overrides":{"h":{"component_version":"${vars.r}"}}}`), "/overrides/h/component_version"},
		{patch(KindLayer, "all", `{"platform_components":[{"id":"h","oci_tag":"${vars.r}"}]}`), "/platform_components/0/oci_tag"},
		{patch(KindLayer, "all", `{"variables":{"a b":"x"}}`), "/variables/a b"},
		{patch(KindLayer, "all", `{"variables":{"a":["x"]}}`), "/variables/a"},
		{patch(KindLayer, "all", `{"variables":{"a":"`+strings.Repeat("z", 1025)+`"}}`), "/variables/a"},
		{patch(KindLayer, "all", `{"variables":{"password":"`+strings.Repeat("z", 1025)+`"}}`), "/variables/password"},
		{patch(KindCluster, "a", `{"labels":{"x":"${cluster.id}"}}`), "/labels/x"},
		{create(KindRoleBinding, `{"id":"r","role":"view","subjects":[{"kind":"User","name":"${cluster.labels.region}"}]}`), "/subjects/0/name"},
		{patch(KindComponent, "h", `{"depends_on":["${cluster.id}"]}`), "/depends_on/0"},
		{patch(KindComponent, "h", `{"patches":{"a":"`+strings.Repeat("${cluster.id}", 1001)+`"}}`), ""},
	} {
		w := referringWorld(t)
		err := w.refused(CodeInvalid, c.edit)
		var at []string
		for _, p := range err.Problems {
			at = append(at, p.Pointer)
		}
		require.Contains(t, at, c.at, "%v", err)
	}
	w := referringWorld(t)
	w.must(patch(KindComponent, "h", `{"description":"uses ${vars.domain}"}`))
	w.must(patch(KindNamespace, "n", `{"labels":{"c":"${cluster.labels.region}"}}`))
	require.ErrorContains(t, w.refused(CodeInvalid, patch(KindCluster, "a", `{"labels":{"region":"`+strings.Repeat("a", 64)+`"}}`)), "63")
	require.ErrorContains(t, w.refused(CodeInvalid, both(patch(KindCluster, "a", `{"variables":{"t":"not a label value"}}`), patch(KindNamespace, "n", `{"labels":{"c":"${vars.r}${vars.t}"}}`), patch(KindLayer, "all", `{"variables":{"t":"x"}}`))), `cluster "a"`)
}

// TestVariableTraps: what decides without building inputs sees the results of references.
func TestVariableTraps(t *testing.T) {
	t.Parallel()
	plan := func(w *world, edit func(*Tx) error) api.Plan {
		t.Helper()
		tx := w.state.Begin()
		tx.Guard(Guard{Off: true})
		require.NoError(t, edit(tx))
		res, err := tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: "test"})
		require.NoError(t, err)
		p, err := res.Plan()
		require.NoError(t, err)
		requirePlanned(t, w.state, res.State, p, "trap")
		return p
	}
	require.Equal(t, 1, plan(referringWorld(t), patch(KindCluster, "a", `{"labels":{"region":"us"}}`)).Totals.Changed, "a label")
	require.Equal(t, 1, plan(referringWorld(t), patch(KindLayer, "all", `{"variables":{"r":5}}`)).Totals.Changed, "b has its own")
	require.Equal(t, 2, plan(referringWorld(t), patch(KindComponent, "h", `{"patches":{"host":"l.${cluster.labels.region}"}}`)).Totals.Changed, "the text in the catalog")
	require.Equal(t, 0, plan(referringWorld(t), patch(KindCluster, "a", `{"labels":{"other":"x"}}`)).Totals.Changed)
	require.Equal(t, 0, plan(referringWorld(t), patch(KindCluster, "a", `{"variables":{"d":"eu.x"}}`)).Totals.Changed, "another text with the same result")

	named := []string{
		string(KindResourceType), typeWith(t, "cm", configMap, map[string]any{}),
		string(ResourceKind("cm")), `{"id":"x","spec":{"name":"s-${cluster.labels.region}"}}`,
	}
	w := referringWorld(t, named...)
	w.must(patch(KindCluster, "a", `{"resources":{"cm":[{"id":"x"}]}}`))
	require.Equal(t, 1, plan(w, patch(KindCluster, "a", `{"labels":{"region":"us"}}`)).Totals.Removals, "the object has another name")

	w = referringWorld(t, append(named, string(ResourceKind("cm")), `{"id":"y","spec":{"name":"s-eu"}}`)...)
	w.refused(CodeObjectConflict, patch(KindCluster, "a", `{"resources":{"cm":[{"id":"x"},{"id":"y"}]}}`))
	w.must(patch(KindCluster, "b", `{"resources":{"cm":[{"id":"x"},{"id":"y"}]}}`))
	w.refused(CodeObjectConflict, patch(KindCluster, "b", `{"labels":{"region":"eu"}}`))

	w = referringWorld(t, string(KindComponent), `{"id":"k","component_path":"p","oci_url":"oci://r.example.com/x","type":"kustomize","patches":{"A":"${vars.t}"}}`)
	w.must(patch(KindCluster, "a", `{"variables":{"t":"y"},"platform_components":[{"id":"k"}]}`))
	w.refused(CodeInvalid, patch(KindCluster, "a", `{"variables":{"t":"a\nb"}}`))

	w = referringWorld(t)
	w.must(patch(KindLayer, "all", `{"overrides":{"h":{"values_from":[{"kind":"Secret","name":"s-${vars.r}"}]}}}`))
	require.Contains(t, poll(t, w.state, "b.example.com", KindComponent), `"name":"s-3"`)
	w.refused(CodeInvalid, patch(KindCluster, "b", `{"variables":{"r":"A_B"}}`))
	w.refused(CodeInvalid, patch(KindLayer, "all", `{"variables":{"r":"A_B"}}`))

	w = referringWorld(t)
	w.must(create(KindFreeze, `{"id":"f","selector":"id=a","reason":"r"}`))
	w.refused(CodeFrozen, patch(KindCluster, "a", `{"labels":{"region":"us"}}`))
	w.refused(CodeFrozen, patch(KindLayer, "all", `{"variables":{"r":5}}`))
	w.refused(CodeFrozen, patch(KindComponent, "h", `{"patches":{"host":"l.${cluster.labels.region}"}}`))
	w.must(patch(KindCluster, "b", `{"labels":{"region":"de"}}`))

	w = referringWorld(t)
	before := poll(t, w.state, "a.example.com", KindComponent)
	w.must(patch(KindCluster, "a", `{"pinned":{"reason":"r"}}`))
	w.must(patch(KindCluster, "a", `{"labels":{"region":"us"}}`))
	w.must(patch(KindLayer, "all", `{"variables":{"r":5}}`))
	w.must(patch(KindComponent, "h", `{"patches":{"host":"l.${cluster.labels.region}"}}`))
	require.Equal(t, before, poll(t, w.state, "a.example.com", KindComponent), "pinned")
	var records []Record
	for r := range w.state.Records() {
		records = append(records, r)
	}
	loaded, err := NewState(testRules, w.state.head, w.state.at, records)
	require.NoError(t, err)
	require.Equal(t, before, poll(t, loaded, "a.example.com", KindComponent), "pinned, in a new process")
	w.must(patch(KindCluster, "a", `{"pinned":null}`))
	require.Contains(t, poll(t, w.state, "a.example.com", KindComponent), "l.us")
}

// TestVariablesInRollouts: a stage changes a variable of a layer, and a text of the catalog, for its clusters only; an abort takes them back.
func TestVariablesInRollouts(t *testing.T) {
	t.Parallel()
	w := referringWorld(t)
	host := func(cluster string) any {
		return inputsOf(t, w.state, cluster+".example.com", KindComponent)[0]["values"].(map[string]any)["host"]
	}
	first := polls(t, w.state)
	w.must(rollOut(w, "r", []RolloutStage{{Name: "a", Selector: "id=a"}, {Name: "b", Selector: "id=b"}},
		patchOp(KindLayer, "all", `{"variables":{"d":"${cluster.dns}","zone":"z-${cluster.id}"}}`),
		patchOp(KindComponent, "h", `{"patches":{"host":"l.${vars.zone}"}}`)))
	require.Equal(t, first, polls(t, w.state))
	w.must(act("r", "start"))
	require.Equal(t, []any{"l.z-a", "g.us"}, []any{host("a"), host("b")})
	w.must(patch(KindCluster, "a", `{"variables":{"zone":"own"}}`))
	require.Equal(t, []any{"l.own", "g.us"}, []any{host("a"), host("b")})
	w.refused(CodeMissingVariable, patch(KindCluster, "b", `{"labels":{"region":null}}`))
	w.must(patch(KindCluster, "a", `{"labels":{"region":null}}`)) // neither text refers to it where the rollout is
	w.refused(CodeMissingVariable, act("r", "abort"))
	w.must(patch(KindCluster, "a", `{"labels":{"region":"eu"},"variables":null}`))
	w.must(act("r", "abort"))
	require.Equal(t, first, polls(t, w.state))
}

// TestVariablesTakenBack: a revert and a restore of variables.
func TestVariablesTakenBack(t *testing.T) {
	t.Parallel()
	w := referringWorld(t)
	first := polls(t, w.state)
	w.must(patch(KindLayer, "all", `{"variables":{"r":5}}`))
	changed := w.state.Revision()
	w.must(patch(KindLayer, "all", `{"variables":{"other":1}}`))
	require.NotEqual(t, first, polls(t, w.state))
	w.must(operations(w, api.Operation{Op: "revert", Revision: int64(changed)}))
	require.Equal(t, first, polls(t, w.state))
	w.must(patch(KindLayer, "all", `{"patches":{"h":{"replicas":"1","quoted":"1"}},"variables":{"r":null}}`))
	gone := w.state.Revision()
	w.must(patch(KindCluster, "b", `{"variables":null}`))
	w.must(operations(w, api.Operation{Op: "revert", Revision: int64(gone)}))
	require.Contains(t, poll(t, w.state, "b.example.com", KindComponent), `"replicas":2`)
}

// TestVariablesOfLimitedReaders: a reader of one cluster sees its results, and errors name no other cluster.
func TestVariablesOfLimitedReaders(t *testing.T) {
	t.Parallel()
	w := referringWorld(t)
	w.grantCI("team", `["read","write","plan"]`, `{"selector":"id=a"}`)
	s := w.state.VisibleTo(w.state.Rights(ci, w.now))
	require.Equal(t, poll(t, w.state, "a.example.com", KindComponent), poll(t, s, "a.example.com", KindComponent))
	require.Equal(t, poll(t, w.state, "a.example.com", KindNamespace), poll(t, s, "a.example.com", KindNamespace))
	for _, edit := range []func(*Tx) error{
		patch(KindLayer, "all", `{"variables":{"r":7}}`), patch(KindLayer, "all", `{"variables":{"r":null}}`), patch(KindComponent, "h", `{"patches":{"host":"${vars.nope}"}}`),
	} {
		_, err := w.limited(edit)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "b.example.com")
		require.NotContains(t, err.Error(), "a, b")
	}
}

// TestHiddenValuesDecideNothing: the answer to a principal that reads a component and no clusters does not depend on the variables
// and labels of the clusters: neither on whether there is one, nor on its value.
func TestHiddenValuesDecideNothing(t *testing.T) {
	t.Parallel()
	w := referringWorld(t)
	w.grantCI("maintainers", `["read","write","plan"]`, `{"components":["h"]}`)
	_, want := w.limited(patch(KindComponent, "h", `{"patches":{"x":"text"}}`))
	require.NotEmpty(t, outside(want))
	for _, text := range []string{"${vars.r}", "${vars.nope}", "${cluster.labels.region}", "${cluster.labels.nope}", "900719925474099${vars.r}", "900719925474098${vars.r}"} {
		_, err := w.limited(patch(KindComponent, "h", `{"patches":{"x":"`+text+`"}}`))
		require.Equal(t, want, err, text)
	}
}

// TestResolvedBytes: the results of references, which are limited, are counted.
func TestResolvedBytes(t *testing.T) {
	t.Parallel()
	w := referringWorld(t)
	before := w.state.layers.resolvedBytes
	require.Positive(t, before)
	w.must(patch(KindCluster, "a", `{"variables":{"r":"`+strings.Repeat("y", 1000)+`"}}`))
	require.Greater(t, w.state.layers.resolvedBytes, before+1900, "it is used twice")
}

// TestLimitStopsResults: the results of references beyond the limit are not computed, and neither are those of a document with too many.
func TestLimitStopsResults(t *testing.T) {
	t.Parallel()
	const n = 100 // clusters, with 4 MB of results each
	docs := []string{
		string(KindComponent), `{"id":"h","component_path":"p","oci_url":"https://charts.example.com"}`,
		string(KindLayer), `{"id":"all","priority":1,"all":true,"variables":{"a":"${cluster.id}` + strings.Repeat("x", 1000) + `","v":"` + strings.Repeat("${vars.a}", 4) + `"},"platform_components":[{"id":"h"}]}`,
	}
	for i := range n {
		docs = append(docs, string(KindCluster), fmt.Sprintf(`{"id":"c%d","cluster_dns":"c%d.example.com","environment":"dev"}`, i, i))
	}
	w := newWorld(t, docs...)
	err := w.refused(CodeLimitExceeded, patch(KindLayer, "all", `{"patches":{"h":{"p":"`+strings.Repeat("${vars.v}", 990)+`"}}}`))
	var bytes int
	_, scanErr := fmt.Sscanf(err.Error(), "the values of references would take more than %d bytes", &bytes)
	require.NoError(t, scanErr, err.Error())
	require.Less(t, bytes, maxResolvedBytes+16<<20)
	require.ErrorContains(t, w.refused(CodeInvalid, patch(KindLayer, "all", `{"patches":{"h":{"p":"`+strings.Repeat("${vars.v}", 1001)+`"}}}`)), "has 1006 references")
}

// TestValuesOfReferencesCount: each cluster has the values of its references in memory, also if only variables have them.
func TestValuesOfReferencesCount(t *testing.T) {
	t.Parallel()
	w := referringWorld(t)
	before := w.state.layers.resolvedBytes
	w.must(patch(KindLayer, "all", `{"variables":{"big":"${cluster.id}`+strings.Repeat("y", 1000)+`","used":"${vars.big}"}}`))
	require.Greater(t, w.state.layers.resolvedBytes, before+2000, "on two clusters")
	w.must(patch(KindLayer, "all", `{"variables":{"big":"`+strings.Repeat("y", 1000)+`"}}`))
	a, b := w.state.layers.effective["a"].chain.facts, w.state.layers.effective["b"].chain.facts
	require.NotSame(t, a, b, "they have other regions")
	w.must(both(patch(KindCluster, "b", `{"labels":{"region":"eu"},"variables":null}`), patch(KindNamespace, "n", `{"labels":{"c":"${cluster.environment}"}}`), patch(KindLayer, "all", `{"patches":{"h":{"both":"x"}}}`)))
	require.Same(t, w.state.layers.effective["a"].chain.facts, w.state.layers.effective["b"].chain.facts)
}

// TestReferencesOnlyInRollouts: the same rules hold where only the variant of a rollout has references.
func TestReferencesOnlyInRollouts(t *testing.T) {
	t.Parallel()
	w := newWorld(t,
		string(KindComponent), `{"id":"h","component_path":"p","oci_url":"https://charts.example.com","patches":{"host":"x"}}`,
		string(KindNamespace), `{"id":"n"}`,
		string(KindLayer), `{"id":"all","priority":1,"all":true,"platform_components":[{"id":"h"}],"namespaces":[{"id":"n"}]}`,
		string(KindCluster), `{"id":"a","cluster_dns":"a.example.com","environment":"dev","labels":{"region":"eu"}}`,
		string(KindCluster), `{"id":"b","cluster_dns":"b.example.com","environment":"dev","labels":{"region":"us"},"variables":{"v":"y"}}`,
	)
	w.must(rollOut(w, "r", []RolloutStage{{Name: "a", Selector: "id=a"}, {Name: "b", Selector: "id=b"}},
		patchOp(KindComponent, "h", `{"patches":{"host":"l.${cluster.labels.region}"}}`), patchOp(KindNamespace, "n", `{"labels":{"v":"${cluster.labels.region}"}}`)))
	w.must(act("r", "start"))
	require.Contains(t, poll(t, w.state, "a.example.com", KindComponent), "l.eu")
	w.refused(CodeMissingVariable, patch(KindCluster, "a", `{"labels":{"region":null}}`))
	w.must(patch(KindCluster, "b", `{"labels":{"region":null}}`))
}

// TestExpandedTemplatesHaveABudget: the change that gives a cluster other values of references pays for executing the template with them.
func TestExpandedTemplatesHaveABudget(t *testing.T) {
	t.Parallel()
	w := referringWorld(t, string(KindResourceType), typeWith(t, "cm", configMap, map[string]any{}), string(ResourceKind("cm")), `{"id":"x","spec":{"name":"s-${cluster.id}"}}`)
	during := w.state.newWork(t.Context())
	w.must(patch(KindCluster, "a", `{"resources":{"cm":[{"id":"x"}]}}`))
	after := w.state.newWork(t.Context())
	made, ok := w.state.definition(w.state.Effective(w.state.docs[KindCluster]["a"]), ResourceKind("cm"), "x")
	require.True(t, ok)
	require.Equal(t, []bool{false, true}, []bool{during.isStored(made.value), after.isStored(made.value)})
}

// TestResolvedBytesOfFormerValues: values that no cluster has any more do not count.
func TestResolvedBytesOfFormerValues(t *testing.T) {
	t.Parallel()
	w := referringWorld(t)
	before := w.state.layers.resolvedBytes
	for range 20 {
		w.must(patch(KindCluster, "a", `{"labels":{"region":"xx"}}`))
		w.must(patch(KindCluster, "a", `{"labels":{"region":"eu"}}`))
	}
	require.Equal(t, before, w.state.layers.resolvedBytes)
}

// TestExpandedOnceItIsServed: a definition with values that its kind refuses is refused when a cluster gets it, not only when it is made.
func TestExpandedOnceItIsServed(t *testing.T) {
	t.Parallel()
	w := referringWorld(t)
	w.must(patch(KindCluster, "a", `{"excludes":{"namespaces":["n"]},"variables":{"v":"no label value"}}`))
	w.must(both(patch(KindLayer, "all", `{"variables":{"v":"x"}}`), patch(KindNamespace, "n", `{"labels":{"c":"${vars.v}"}}`)))
	require.ErrorContains(t, w.refused(CodeInvalid, patch(KindCluster, "a", `{"excludes":null}`)), "label value")
}

// TestStoredProblemOfExpanded: a problem that a definition with references had before does not refuse another change of its cluster.
func TestStoredProblemOfExpanded(t *testing.T) {
	t.Parallel()
	w := referringWorld(t)
	var records []Record
	for r := range w.state.Records() {
		r.Body = []byte(strings.Replace(string(r.Body), `"component_path":"p"`, `"component_path":"../p"`, 1))
		records = append(records, r)
	}
	var err error
	w.state, err = NewState(testRules, w.state.head, w.state.at, records)
	require.NoError(t, err)
	_, err = w.try(patch(KindCluster, "a", `{"labels":{"other":"x"}}`))
	require.NoError(t, err)
}

// TestAdoptedReferences: settings that clusters have in common are adopted into a layer with their references.
func TestAdoptedReferences(t *testing.T) {
	t.Parallel()
	w := referringWorld(t)
	w.must(both(patch(KindCluster, "a", `{"patches":{"h":{"own":"o.${cluster.id}"}}}`), patch(KindCluster, "b", `{"patches":{"h":{"own":"o.${cluster.id}"}}}`)))
	first := polls(t, w.state)
	w.must(operations(w, api.Operation{Op: "adopt", Layers: []string{"all"}}))
	require.Equal(t, first, polls(t, w.state))
	require.Empty(t, w.state.docs[KindCluster]["a"].Cluster().Patches)
	require.Contains(t, string(w.state.docs[KindLayer]["all"].Body), "o.${cluster.id}")
}

// An encoded text expands to the encoding of the expanded text.
func TestExpandText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		part := rapid.OneOf(rapid.SampledFrom([]string{"${cluster.id}", "$${vars.x}", "${vars.x}", "$", "{", `"`, "\\", "<", "\u2028"}), rapid.String())
		text := ""
		for range rapid.IntRange(0, 5).Draw(rt, "parts") {
			text += part.Draw(rt, "part")
		}
		v := rapid.String().Draw(rt, "value")
		value := func(string) (string, error) { return v, nil }
		plain, err := variables.Expand(text, value)
		encoded, encodeErr := jsontext.Canonical(map[string]any{"a": []any{text}})
		require.NoError(rt, encodeErr)
		got, jsonErr := expandText(encoded, value)
		require.Equal(rt, err == nil, jsonErr == nil, "%v, %v", err, jsonErr)
		if err != nil {
			return
		}
		want, err := jsontext.Canonical(map[string]any{"a": []any{plain}})
		require.NoError(rt, err)
		require.Equal(rt, string(want), string(got))
	})
}
