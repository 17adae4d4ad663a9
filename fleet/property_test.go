package fleet

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// TestAcceptedChangesKeepAFleetThatAnswers runs random edits, valid and invalid. After an accepted one every cluster has an
// answer within its bound, which a replica following the log computes too; a refused one returns a domain error.
func TestAcceptedChangesKeepAFleetThatAnswers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t,
			string(KindComponent), `{"id":"c0","component_path":"p","oci_url":"https://charts.example.com"}`,
			string(KindComponent), `{"id":"c1","component_path":"p","oci_url":"oci://registry.example.com/x","depends_on":["c0"],"patches":{"A":"1"}}`,
			string(KindNamespace), `{"id":"n0"}`,
			string(KindRoleBinding), `{"id":"b0","role":"view","subjects":[{"kind":"User","name":"jo"}]}`,
			string(KindCluster), `{"id":"k0","cluster_dns":"k0.example.com","environment":"dev","platform_components":[{"id":"c0"},{"id":"c1"}],"namespaces":[{"id":"n0"}]}`)
		accepted := 0
		for range rapid.IntRange(1, 25).Draw(rt, "edits") {
			edit, what := randomEdit(rt)
			res, err := w.try(edit)
			if err != nil {
				var e *Error
				require.True(rt, errors.As(err, &e), "%s: %v", what, err)
				continue
			}
			accepted++
			if len(res.Commit.Changes) > 0 {
				followed, err := w.state.Apply(res.Commit)
				require.NoError(rt, err)
				require.Equal(rt, polls(rt, res.State), polls(rt, followed), what)
				sameDocuments(rt, res, followed, what)
			}
			w.state = res.State
			for _, doc := range w.state.docs[KindCluster] {
				for _, r := range Definitions() {
					a, err := w.state.Answer(doc, r)
					require.NoError(rt, err, what)
					require.GreaterOrEqual(rt, w.state.bound(w.state.Effective(doc), w.state.kinds.descriptor(r)), a.Size, "%s: %s of %s", what, r, doc.ID)
				}
			}
		}
		rt.Logf("%d accepted", accepted)
	})
}

// sameDocuments: documents of a change equal those decoded from the stored text, which has its canonical form.
func sameDocuments(rt *rapid.T, res Result, followed *State, what string) {
	for _, ch := range res.Commit.Changes {
		made, read := res.State.docs[ch.Kind][ch.ID], followed.docs[ch.Kind][ch.ID]
		require.Equal(rt, read == nil, made == nil, what)
		if made == nil {
			continue
		}
		require.Equal(rt, read.value, made.value, what)
		require.Equal(rt, read.bound, made.bound, what)
		if read.own != nil {
			require.Equal(rt, []int{read.own.bound, read.own.block}, []int{made.own.bound, made.own.block}, what)
		}
		stored, err := unstructured.Decode(made.Body)
		require.NoError(rt, err, what)
		text, err := jsontext.Canonical(stored)
		require.NoError(rt, err, what)
		require.Equal(rt, string(text), string(made.Body), what)
	}
}

// TestBoundHoldsForAnyPatches covers the only part of the bound that is not a plain sum.
func TestBoundHoldsForAnyPatches(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		oci := rapid.Bool().Draw(rt, "kustomize")
		url := "https://charts.example.com"
		if oci {
			url = "oci://registry.example.com/x"
		}
		w := newWorld(t,
			string(KindComponent), fmt.Sprintf(`{"id":"c","component_path":"p","oci_url":%q,"patches":%s}`, url, randomPatches(rt, oci)),
			string(KindCluster), `{"id":"k","cluster_dns":"k.example.com","environment":"dev","platform_components":[{"id":"c"}]}`)
		res, err := w.try(put(KindCluster, "k", fmt.Sprintf(`{"patches":{"c":%s}}`, randomPatches(rt, oci))))
		if err != nil {
			return // the two sets contradict each other
		}
		doc, _ := res.State.Get(KindCluster, "k")
		a, err := res.State.Answer(doc, KindComponent)
		require.NoError(rt, err)
		require.GreaterOrEqual(rt, res.State.bound(res.State.Effective(doc), res.State.kinds.descriptor(KindComponent)), a.Size)
	})
}

func randomPatches(t *rapid.T, kustomize bool) string {
	if kustomize {
		return rapid.SampledFrom([]string{`{}`, `{"A":1,"B":true}`, `{"C":"<&>","A":"x y"}`}).Draw(t, "variables")
	}
	set := map[string]any{}
	shapes := []string{"a", "b.c", "b.d.e", "l[3]", "l[0]", "m[1].x", "m[1].y", `s\.t.u`}
	values := []any{"1", "true", "null", "text <&> \u2028 \"q\"", "\"7\"", 3, 1.5, true, []any{1, nil}, map[string]any{"k": "v"}}
	for range rapid.IntRange(0, 5).Draw(t, "patches") {
		set[rapid.SampledFrom(shapes).Draw(t, "path")] = rapid.SampledFrom(values).Draw(t, "value")
	}
	body, err := jsontext.Canonical(set)
	require.NoError(t, err)
	return string(body)
}

// randomEdit draws from few names, so that edits interact.
func randomEdit(t *rapid.T) (func(*Tx) error, string) {
	n := func(what string) int { return rapid.IntRange(0, 3).Draw(t, what) }
	kind := rapid.SampledFrom(Kinds()).Draw(t, "kind")
	id := map[Kind]string{KindCluster: "k", KindComponent: "c", KindNamespace: "n", KindRoleBinding: "b"}[kind] + fmt.Sprint(n("id"))
	definition := rapid.SampledFrom([]Kind{KindComponent, KindNamespace, KindRoleBinding}).Draw(t, "definition")
	defID := map[Kind]string{KindComponent: "c", KindNamespace: "n", KindRoleBinding: "b"}[definition] + fmt.Sprint(n("definition id"))
	cluster := fmt.Sprintf("k%d", n("cluster"))
	body := map[Kind]string{
		KindCluster:     fmt.Sprintf(`{"id":%q,"cluster_dns":"k%d.example.com","environment":"dev","platform_components":[{"id":"c%d","oci_tag":"v1"},{"id":"c%d"}],"namespaces":[{"id":"n%d"}],"patches":{"c%d":%s}}`, id, n("dns"), n("x"), n("y"), n("z"), n("p"), randomPatches(t, false)),
		KindComponent:   fmt.Sprintf(`{"id":%q,"component_path":"p","oci_url":%q,"depends_on":["c%d"],"patches":%s}`, id, rapid.SampledFrom([]string{"https://charts.example.com", "oci://registry.example.com/x"}).Draw(t, "url"), n("dep"), randomPatches(t, rapid.Bool().Draw(t, "vars"))),
		KindNamespace:   fmt.Sprintf(`{"id":%q,"labels":{"x":"%d"},"deletion_policy":%q}`, id, n("label"), rapid.SampledFrom([]string{"delete", "orphan"}).Draw(t, "policy")),
		KindRoleBinding: fmt.Sprintf(`{"id":%q,"role":"role%d","subjects":[{"kind":"User","name":"jo"}]}`, id, n("role")),
	}[kind]
	switch op := rapid.IntRange(0, 10).Draw(t, "op"); op {
	case 0:
		return create(kind, body), "create " + body
	case 1:
		return put(kind, id, body), "put " + body
	case 2:
		return patch(kind, id, body), "patch " + body
	case 3:
		opt := DeleteOptions{Cascade: rapid.Bool().Draw(t, "cascade"), Orphan: rapid.Bool().Draw(t, "orphan")}
		return remove(kind, id, opt), fmt.Sprintf("delete %s %+v", id, opt)
	case 4:
		return assign(cluster, definition, defID, ""), "assign " + defID + " to " + cluster
	case 5:
		return func(tx *Tx) error { _, err := tx.Unassign(cluster, definition, defID); return err }, "unassign " + defID + " from " + cluster
	case 6:
		settings := rapid.SampledFrom([]string{`{"enabled":false}`, `{"oci_tag":"v2","enabled":true}`, `{"oci_tag":null}`, `{"component_path":"","component_version":"<3>"}`, `{"enabled":3}`}).Draw(t, "settings")
		return assign(cluster, KindComponent, defID, settings), "set " + defID + " on " + cluster + ": " + settings
	case 7:
		labels := rapid.SampledFrom([]string{`{"tier":"dev"}`, `{"tier":null,"x":"1"}`, `{}`, `null`, `"no"`, `{"x":1}`}).Draw(t, "labels")
		return func(tx *Tx) error { _, err := tx.SetLabels(cluster, []byte(labels)); return err }, "label " + cluster + ": " + labels
	case 8, 9:
		return randomOwnership(t, cluster, "c"+fmt.Sprint(n("component")))
	default:
		return both(create(kind, body), assign(cluster, definition, defID, "")), "create and assign " + body
	}
}

func randomOwnership(t *rapid.T, cluster, component string) (func(*Tx) error, string) {
	opt := PatchOptions{
		Manager: rapid.SampledFrom([]string{"", "ci", "ops"}).Draw(t, "manager"),
		Force:   rapid.Bool().Draw(t, "force"), Retain: rapid.Bool().Draw(t, "retain"),
	}
	values := []byte(randomPatches(t, rapid.Bool().Draw(t, "kustomize")))
	how := rapid.SampledFrom([]string{"patch", "apply", "relinquish"}).Draw(t, "how")
	return func(tx *Tx) error {
		var err error
		switch how {
		case "patch":
			_, err = tx.PatchValues(cluster, component, values, opt)
		case "apply":
			_, err = tx.ApplyValues(cluster, component, values, opt)
		default:
			_, err = tx.Relinquish(cluster, component, opt)
		}
		return err
	}, fmt.Sprintf("%s %s on %s: %s %+v", how, component, cluster, values, opt)
}
