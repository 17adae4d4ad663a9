package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/variables"
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
