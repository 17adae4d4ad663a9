package fleet

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

func TestNoOpMakesNoCommit(t *testing.T) {
	t.Parallel()
	w := demo(t)
	for _, edit := range []func(*Tx) error{
		put(KindCluster, "demo-cluster-01", `{"environment":"dev","labels":null}`),
		patch(KindComponent, "podinfo", `{"depends_on":["traefik"]}`),
		assign("demo-cluster-01", KindNamespace, "podinfo", ""),
		both(create(KindNamespace, `{"id":"x"}`), remove(KindNamespace, "x", DeleteOptions{})),
	} {
		res, err := w.try(edit)
		require.NoError(t, err)
		require.Empty(t, res.Commit.Changes)
		require.Same(t, w.state, res.State)
	}
}

func TestDocumentSentBackChangesNothing(t *testing.T) {
	t.Parallel()
	w := demo(t)
	for _, kind := range Kinds() {
		for _, doc := range w.state.All(kind) {
			body, err := jsontext.Canonical(doc.View())
			require.NoError(t, err)
			res, err := w.try(put(kind, doc.ID, string(body)))
			require.NoError(t, err)
			require.Empty(t, res.Commit.Changes, doc.ID)
		}
	}
}

// A parsed body is used again when a commit has to be repeated on a newer State.
func TestParsedBodyUnchanged(t *testing.T) {
	t.Parallel()
	w := demo(t)
	const settings = `{"id":null,"environment":"qa","labels":{"a":"b"},"platform_components":[{"id":"podinfo","oci_tag":"","values_from":[]}],"patches":{"podinfo":{"x":null,"y":"1"}}}`
	bodies := map[docKey][]string{{KindCluster, "demo-cluster-01"}: {settings}}
	for _, kind := range Kinds() {
		for _, doc := range w.state.All(kind) {
			body, err := jsontext.Canonical(doc.View())
			require.NoError(t, err)
			bodies[docKey{kind, doc.ID}] = append(bodies[docKey{kind, doc.ID}], string(body))
		}
	}
	for key, texts := range bodies {
		for _, text := range texts {
			body, err := ParseObject([]byte(text))
			require.NoError(t, err)
			for name, edit := range map[string][2]func(*Tx) (*Document, error){
				"put": {
					func(tx *Tx) (*Document, error) { return tx.PutObject(key.kind, key.id, body) },
					func(tx *Tx) (*Document, error) { return tx.Put(key.kind, key.id, []byte(text)) },
				},
				"patch": {
					func(tx *Tx) (*Document, error) { return tx.PatchObject(key.kind, key.id, body) },
					func(tx *Tx) (*Document, error) { return tx.Patch(key.kind, key.id, []byte(text)) },
				},
				"create": {
					func(tx *Tx) (*Document, error) { tx.edits[key] = nil; return tx.CreateObject(key.kind, body) },
					func(tx *Tx) (*Document, error) { tx.edits[key] = nil; return tx.Create(key.kind, []byte(text)) },
				},
			} {
				want, wantErr := edit[1](w.state.Begin())
				for range 2 {
					got, err := edit[0](w.state.Begin())
					require.Equal(t, wantErr, err, "%s %s", name, text)
					if err == nil {
						require.Equal(t, string(want.Body), string(got.Body), "%s %s", name, text)
					}
				}
			}
			again, err := ParseObject([]byte(text))
			require.NoError(t, err)
			require.Equal(t, again, body, text)
		}
	}
}

func TestUnknownStoredFieldsSurvive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	next, err := w.state.Apply(Commit{Revision: 1, Changes: []Change{{
		Kind: KindNamespace, ID: "n",
		After: []byte(`{"annotations":{},"deletion_policy":"delete","from_the_future":{"a":[1]},"id":"n","labels":{}}`),
	}}})
	require.NoError(t, err)
	w.state = next
	w.must(put(KindNamespace, "n", `{"labels":{"a":"b"}}`))
	w.must(patch(KindNamespace, "n", `{"annotations":{"c":"d"}}`))
	doc, ok := w.state.Get(KindNamespace, "n")
	require.True(t, ok)
	require.JSONEq(t, `{"annotations":{"c":"d"},"deletion_policy":"delete","from_the_future":{"a":[1]},"id":"n","labels":{"a":"b"}}`, string(doc.Body))
}

func TestRemovingAComponentDropsItsPatches(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*Tx) error{
		"unassign": func(tx *Tx) error { _, err := tx.Unassign("demo-cluster-01", KindComponent, "podinfo"); return err },
		"put":      put(KindCluster, "demo-cluster-01", `{"platform_components":[{"id":"cert-manager"},{"id":"traefik"}]}`),
		"patch":    patch(KindCluster, "demo-cluster-01", `{"platform_components":[{"id":"cert-manager"},{"id":"traefik"}]}`),
		"cascade":  remove(KindComponent, "podinfo", DeleteOptions{Cascade: true}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := demo(t)
			w.must(edit)
			doc, _ := w.state.Get(KindCluster, "demo-cluster-01")
			require.NotContains(t, doc.Cluster().Patches, "podinfo")
			require.Contains(t, doc.Cluster().Patches, "traefik")
		})
	}
	t.Run("new patches for it are refused", func(t *testing.T) {
		t.Parallel()
		w := demo(t)
		e := w.refused(CodeInvalid, put(KindCluster, "demo-cluster-01",
			`{"platform_components":[{"id":"traefik"}],"patches":{"podinfo":{"replicaCount":"77"}}}`))
		require.Equal(t, "/patches/podinfo", e.Problems[0].Pointer)
	})
}

func TestDeleteInUse(t *testing.T) {
	t.Parallel()
	w := demo(t)
	e := w.refused(CodeInUse, remove(KindComponent, "traefik", DeleteOptions{}))
	require.Contains(t, e.Detail, "1 cluster: demo-cluster-01")
	require.Contains(t, e.Detail, "1 platform component: podinfo")
	w.refused(CodeInUse, remove(KindNamespace, "podinfo", DeleteOptions{}))
	w.refused(CodeInUse, remove(KindRoleBinding, "dev-readers", DeleteOptions{}))
	w.refused(CodeNotFound, remove(KindNamespace, "nope", DeleteOptions{}))

	res := w.must(remove(KindComponent, "traefik", DeleteOptions{Cascade: true}))
	require.Len(t, res.Changes(), 3, "the component, the cluster, and podinfo which depended on it")
	require.Equal(t, []string{"cert-manager", "podinfo"}, ids(inputsOf(t, w.state, demoDNS, KindComponent)))

	w.must(both( // the order of edits does not matter: the result is validated
		remove(KindNamespace, "podinfo", DeleteOptions{}),
		func(tx *Tx) error { _, err := tx.Unassign("demo-cluster-01", KindNamespace, "podinfo"); return err },
	))
}

func TestDecommission(t *testing.T) {
	t.Parallel()
	w := demo(t)
	w.must(remove(KindCluster, "demo-cluster-01", DeleteOptions{}))
	require.Empty(t, w.state.All(KindCluster))
	require.Zero(t, w.state.Clusters())
	require.Len(t, w.state.Decommissioned(), 1)
	for _, r := range Definitions() {
		require.Equal(t, "{\"inputs\":[]}\n", poll(t, w.state, demoDNS, r))
	}
	w.refused(CodeNotFound, remove(KindCluster, "demo-cluster-01", DeleteOptions{}))
	w.must(remove(KindNamespace, "podinfo", DeleteOptions{})) // no document refers to it any more

	w.refused(CodeConflict, create(KindCluster, `{"id":"demo-cluster-01","cluster_dns":"elsewhere.example.com","environment":"dev"}`))
	t.Run("the same DNS name again ends it", func(t *testing.T) {
		w := &world{t: t, state: w.state, now: w.now}
		w.must(create(KindCluster, `{"id":"other","cluster_dns":"`+demoDNS+`","environment":"dev","namespaces":[{"id":"traefik"}]}`))
		require.Equal(t, []string{"traefik"}, ids(inputsOf(t, w.state, demoDNS, KindNamespace)))
		require.Empty(t, w.state.Decommissioned())
	})
	t.Run("and so does the same id with it", func(t *testing.T) {
		w := &world{t: t, state: w.state, now: w.now.Add(time.Hour)}
		w.must(create(KindCluster, `{"id":"demo-cluster-01","cluster_dns":"`+strings.ToUpper(demoDNS)+`","environment":"dev"}`))
		doc, ok := w.state.Get(KindCluster, "demo-cluster-01")
		require.True(t, ok)
		require.Equal(t, w.now, doc.CreatedAt, "a new cluster")
	})
	t.Run("orphan forgets it", func(t *testing.T) {
		w := &world{t: t, state: w.state, now: w.now}
		w.must(remove(KindCluster, "demo-cluster-01", DeleteOptions{Orphan: true}))
		_, ok := w.state.ByDNS(demoDNS)
		require.False(t, ok)
	})
}

func TestDeletionProtection(t *testing.T) {
	t.Parallel()
	w := demo(t)
	w.must(patch(KindCluster, "demo-cluster-01", `{"deletion_protection":true}`))
	w.refused(CodeProtected, remove(KindCluster, "demo-cluster-01", DeleteOptions{}))
	w.refused(CodeProtected, remove(KindCluster, "demo-cluster-01", DeleteOptions{Orphan: true}))
	w.refused(CodeInvalid, patch(KindCluster, "demo-cluster-01", `{"cluster_dns":"new.example.com"}`))
	w.refused(CodeInvalid, patch(KindCluster, "demo-cluster-01", `{"cluster_dns":"new.example.com","deletion_protection":false}`))
	w.must(patch(KindCluster, "demo-cluster-01", `{"deletion_protection":false}`))
	res := w.must(patch(KindCluster, "demo-cluster-01", `{"cluster_dns":"new.example.com"}`))
	require.Contains(t, res.Warnings[0], "answers 404 from now on")
	_, ok := w.state.ByDNS(demoDNS)
	require.False(t, ok)
}

func TestNamespacePolicyMustArriveBeforeTheNamespaceLeaves(t *testing.T) {
	t.Parallel()
	w := demo(t)
	unassign := func(tx *Tx) error { _, err := tx.Unassign("demo-cluster-01", KindNamespace, "podinfo"); return err }
	orphan := put(KindNamespace, "podinfo", `{"deletion_policy":"orphan"}`)
	e := w.refused(CodeInvalid, both(orphan, unassign))
	require.Contains(t, e.Detail, "would be deleted on cluster")

	w.now = w.now.Add(time.Hour)
	w.must(orphan)
	res, err := w.try(unassign)
	require.NoError(t, err)
	require.Len(t, res.Warnings, 2, "the cluster may not have polled yet")
	w.now = w.now.Add(settleTime)
	res, err = w.try(unassign)
	require.NoError(t, err)
	require.Empty(t, res.Warnings)
}

func TestStoredProblemsDoNotBlockOtherChanges(t *testing.T) {
	t.Parallel()
	w := demo(t)
	w.state.rules.Environments = []string{"prod"} // the server was reconfigured: the stored "dev" is no longer allowed
	res := w.must(patch(KindCluster, "demo-cluster-01", `{"labels":{"a":"b"}}`))
	require.Contains(t, strings.Join(res.Warnings, "\n"), "stored before and still wrong")
	require.Equal(t, 1, res.Stored)
	w.refused(CodeInvalid, patch(KindCluster, "demo-cluster-01", `{"environment":"qa"}`))
	w.must(patch(KindCluster, "demo-cluster-01", `{"environment":"prod"}`))
}

func TestProblemsOfACatalogChangeNameTheClusters(t *testing.T) {
	t.Parallel()
	w := demo(t)
	e := w.refused(CodeInvalid, patch(KindComponent, "podinfo", `{"patches":{"ui":"x"}}`))
	require.Contains(t, e.Detail, `cluster "demo-cluster-01": patches/podinfo`)
	e = w.refused(CodeInvalid, patch(KindComponent, "podinfo", `{"type":"kustomize","oci_url":"oci://r.example.com/x"}`))
	require.Contains(t, e.Problems[0].Detail, "substitution variables")
}

func TestLimits(t *testing.T) {
	t.Parallel()
	w := demo(t)
	big := func(n int) string { return `{"annotations":{"blob":"` + strings.Repeat("x", n) + `"}}` }
	size := len(pollSealed(t, w.state, demoDNS, KindNamespace))
	w.must(create(KindNamespace, `{"id":"n1","annotations":{"blob":""}}`))
	w.must(create(KindNamespace, `{"id":"n2","annotations":{"blob":""}}`))
	w.must(create(KindNamespace, `{"id":"n3","annotations":{"blob":""}}`))
	w.must(create(KindNamespace, `{"id":"n4","annotations":{"blob":""}}`))
	for _, id := range []string{"n1", "n2", "n3", "n4"} {
		w.must(assign("demo-cluster-01", KindNamespace, id, ""))
	}
	room := MaxAnswerBytes - len(pollSealed(t, w.state, demoDNS, KindNamespace))
	require.Greater(t, room, size)
	each := room / 4
	for _, id := range []string{"n1", "n2", "n3"} {
		w.must(put(KindNamespace, id, big(each)))
	}
	res := w.must(put(KindNamespace, "n4", big(room-3*each)))
	require.Len(t, pollSealed(t, w.state, demoDNS, KindNamespace), MaxAnswerBytes)
	require.Contains(t, strings.Join(res.Warnings, "\n"), "above 70 %")
	e := w.refused(CodeLimitExceeded, put(KindNamespace, "n4", big(room-3*each+1)))
	require.Contains(t, e.Detail, `cluster "demo-cluster-01" would be 921601 bytes`)
	w.must(put(KindNamespace, "n4", `{"labels":{}}`)) // no larger than before
}

func TestDeletionInUseNamesEveryDefinition(t *testing.T) {
	t.Parallel()
	w := demo(t)
	_, err := w.try(func(tx *Tx) error {
		_, err := tx.Delete(KindNamespace, "podinfo", DeleteOptions{})
		require.NoError(t, err)
		_, err = tx.Delete(KindComponent, "traefik", DeleteOptions{})
		return err
	})
	require.ErrorContains(t, err, `the namespace "podinfo" is used by 1 cluster: `)
	require.ErrorContains(t, err, `the platform component "traefik" is used by 1 cluster: `)
}

func TestSeedRefusesUnknownContent(t *testing.T) {
	t.Parallel()
	seed, err := ParseSeed([]byte(`{"clusters":[{"id":"a","deleted_at":"2026-01-02T03:04:05Z"},{"id":"b","_id":"c"}],"namespaces":[{"_id":"n"},{"_id":"m","id":"m"}]}`))
	require.NoError(t, err)
	err = seed.Check(testRules, nil)
	e, ok := errors.AsType[*Error](err)
	require.True(t, ok)
	require.Len(t, e.Problems, 2)
	require.Equal(t, "/clusters/0", e.Problems[0].Pointer)
	require.Contains(t, e.Problems[0].Detail, "decommissioned")
	require.Equal(t, "/clusters/1", e.Problems[1].Pointer)
}
