package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const volumeTemplate = `---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: << inputs.id | quote >>\n  namespace: << inputs.namespace | quote >>\n  labels: {note: << inputs.note | quote >>}\nspec: {}\n`

var kindVolume = ResourceKind("volumes")

// volumes is a fleet of clusters in prod, each with a volume in a namespace that clusters and layers may override.
func volumes(t *testing.T, clusters int, more string) *world {
	t.Helper()
	w := newWorld(t)
	template := volumeTemplate
	if strings.Contains(more, removalKeep) {
		template = strings.Replace(template, `  labels:`, `  annotations: {fluxcd.controlplane.io/prune: disabled}\n  labels:`, 1)
	}
	docs := []string{
		string(KindResourceType), `{"id":"volumes","overridable":["namespace","note"],"template":"` + template + `"` + more + `,"schema":{"type":"object","additionalProperties":false,
			"required":["namespace"],"properties":{"namespace":{"type":"string"},"note":{"type":"string","default":""},"other":{"type":"string","default":"o"}}}}`,
		string(kindVolume), `{"id":"v","spec":{"namespace":"data"}}`,
		string(KindLayer), `{"id":"far","priority":10,"selector":"region=far","resources":{"volumes":[{"id":"v","overrides":{"namespace":"far"}}]}}`,
		string(KindLayer), `{"id":"all","priority":1,"all":true,"resources":{"volumes":[{"id":"v"}]}}`,
	}
	for i := range clusters {
		docs = append(docs, string(KindCluster), fmt.Sprintf(`{"id":"c%d","cluster_dns":"c%d.example.com","environment":"prod"}`, i, i))
	}
	for i := 0; i < len(docs); i += 2 {
		w.must(create(Kind(docs[i]), docs[i+1]))
	}
	w.state.rules.MaxRemovals, w.state.rules.Protected = 0, []string{"prod"}
	return w
}

// TestRenameIsARemoval: Flux deletes an object whose name or namespace changes, for any reason.
func TestRenameIsARemoval(t *testing.T) {
	t.Parallel()
	moved := strings.ReplaceAll(volumeTemplate, "inputs.namespace", "inputs.other")
	for name, c := range map[string]struct {
		before func(*Tx) error
		edit   func(*Tx) error
		lose   int
	}{
		"PATCH":             {nil, patch(kindVolume, "v", `{"spec":{"namespace":"store"}}`), 3},
		"PUT":               {nil, put(kindVolume, "v", `{"spec":{"namespace":"store"}}`), 3},
		"batch":             {nil, batch(`{"op":"patch","kind":"resource","type":"volumes","id":"v","patch":{"spec":{"namespace":"store"}}}`), 3},
		"override":          {nil, assign("c0", kindVolume, "v", `{"overrides":{"namespace":"store"}}`), 1},
		"override by batch": {nil, batch(`{"op":"assign_resource","all":true,"type":"volumes","resource_id":"v","overrides":{"namespace":"store"}}`), 3},
		"override by PATCH": {nil, patch(KindCluster, "c0", `{"resources":{"volumes":[{"id":"v","overrides":{"namespace":"store"}}]}}`), 1},
		"an override that goes": {
			assign("c0", kindVolume, "v", `{"overrides":{"namespace":"store"}}`),
			assign("c0", kindVolume, "v", `{"overrides":null}`), 1,
		},
		"a layer's override": {nil, patch(KindLayer, "all", `{"resources":{"volumes":[{"id":"v","overrides":{"namespace":"store"}}]}}`), 3},
		"another layer":      {nil, create(KindLayer, `{"id":"top","priority":20,"all":true,"resources":{"volumes":[{"id":"v","overrides":{"namespace":"store"}}]}}`), 3},
		"a label":            {nil, patch(KindCluster, "c1", `{"labels":{"region":"far"}}`), 1},
		"the template":       {nil, patch(KindResourceType, "volumes", `{"template":"`+moved+`"}`), 3},
		"a constant in the template": {
			nil, patch(KindResourceType, "volumes", `{"template":"`+strings.ReplaceAll(volumeTemplate, "PersistentVolumeClaim", "ConfigMap")+`"}`), 3,
		},
		"the template goes":        {nil, patch(KindResourceType, "volumes", `{"template":""}`), 3},
		"made again in one commit": {nil, both(remove(kindVolume, "v", DeleteOptions{}), create(kindVolume, `{"id":"v","spec":{"namespace":"store"}}`)), 3},
		"less identity and another namespace": {
			nil, both(patch(KindResourceType, "volumes", `{"template":"","identity":[]}`), patch(kindVolume, "v", `{"spec":{"namespace":"store"}}`)), 3,
		},
		"what names nothing":       {nil, patch(kindVolume, "v", `{"spec":{"note":"n"}}`), 0},
		"an override of the same":  {nil, assign("c0", kindVolume, "v", `{"overrides":{"namespace":"data"}}`), 0},
		"an override of the note":  {nil, assign("c0", kindVolume, "v", `{"overrides":{"note":"x"}}`), 0},
		"the rest of the template": {nil, patch(KindResourceType, "volumes", `{"template":"`+strings.ReplaceAll(volumeTemplate, "inputs.note", "inputs.other")+`"}`), 0},
		"the description":          {nil, patch(KindResourceType, "volumes", `{"description":"x"}`), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := volumes(t, 3, "")
			if c.before != nil {
				w.must(confirmedBy(w, c.before))
			}
			plan := w.plan(c.edit)
			require.Equal(t, c.lose, plan.Totals.Removals)
			if c.lose == 0 {
				w.must(c.edit)
				return
			}
			require.True(t, plan.ConfirmationRequired)
			require.Equal(t, c.lose, plan.Protected[0].Removals)
			text, err := json.Marshal(plan.Groups)
			require.NoError(t, err)
			require.Contains(t, string(text), `"id":"v","removal":true`)
			w.refused(CodeConfirm, c.edit)
			w.must(confirmed(plan.PlanHash, c.edit))
		})
	}
}

// TestRenamedObjectsAndDeletionProtection: deletion_protection holds, and restore does not bypass the guard.
func TestRenamedObjectsAndDeletionProtection(t *testing.T) {
	t.Parallel()
	w := volumes(t, 2, "")
	w.must(patch(KindCluster, "c1", `{"deletion_protection":true}`))
	e := w.refused(CodeProtected, patch(kindVolume, "v", `{"spec":{"namespace":"store"}}`))
	require.Contains(t, e.Detail, `"c1"`)
	w.must(patch(kindVolume, "v", `{"spec":{"note":"n"}}`))
	doc, _ := w.state.Get(kindVolume, "v")
	w.must(patch(KindCluster, "c1", `{"deletion_protection":false}`))
	w.must(confirmedBy(w, patch(kindVolume, "v", `{"spec":{"namespace":"store"}}`)))
	w.refused(CodeConfirm, func(tx *Tx) error { _, err := tx.restore(kindVolume, "v", doc.Body); return err })
}

// TestDeclaredIdentityOfAType: only a type whose objects are not known has one.
func TestDeclaredIdentityOfAType(t *testing.T) {
	t.Parallel()
	renamed := patch(kindVolume, "v", `{"spec":{"namespace":"store"}}`)
	noted := patch(kindVolume, "v", `{"spec":{"note":"n"}}`)
	count := func(w *world, edit func(*Tx) error) int { return w.plan(edit).Totals.Removals }

	w := volumes(t, 2, `,"removal":"keep"`) // Flux leaves the object
	require.Zero(t, count(w, renamed))
	w = volumes(t, 2, "")
	e := w.refused(CodeInvalid, patch(KindResourceType, "volumes", `{"identity":["namespace"]}`))
	require.Contains(t, e.Problems[0].Detail, "leave identity out")
	for _, template := range []string{"", `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: << inputs.namespace | quote >>, namespace: << dig \"settings\" \"namespace\" \"\" inputs >>}\n`} {
		w = volumes(t, 2, "")
		res := w.must(confirmedBy(w, patch(KindResourceType, "volumes", `{"template":"`+template+`"}`)))
		require.Contains(t, strings.Join(res.Warnings, " "), "it is not known which fields name its objects")
		require.Equal(t, 2, count(w, noted), "nobody knows what is named after it: %s", template)
		w.must(patch(KindResourceType, "volumes", `{"identity":["namespace"]}`))
		require.Zero(t, count(w, noted))
		require.Equal(t, 2, count(w, renamed))
		e := w.refused(CodeInvalid, patch(KindResourceType, "volumes", `{"identity":["namespace","nothing"]}`))
		require.Equal(t, "/identity/1", e.Problems[0].Pointer)
		w.must(patch(KindResourceType, "volumes", `{"identity":[]}`))
		if template != "" {
			require.Equal(t, 2, count(w, renamed), "the template renders another name")
		}
	}
}

// TestIdentityMadeOfTheCluster: objects are also renamed by a change of the cluster itself.
func TestIdentityMadeOfTheCluster(t *testing.T) {
	t.Parallel()
	w := volumes(t, 2, "")
	w.must(confirmedBy(w, patch(KindResourceType, "volumes", `{"template":"`+strings.ReplaceAll(volumeTemplate, "inputs.id", "inputs.cluster.name")+`"}`)))
	rename := patch(KindCluster, "c0", `{"cluster_name":"other"}`)
	require.Equal(t, 1, w.plan(rename).Totals.Removals)
	w.refused(CodeConfirm, rename)
}

// TestIdentityOfAnOrphanedCluster: a cluster that takes over its name with the same resources under other object names loses
// the old objects.
func TestIdentityOfAnOrphanedCluster(t *testing.T) {
	t.Parallel()
	w := volumes(t, 2, "")
	w.must(confirmedBy(w, remove(KindCluster, "c0", DeleteOptions{Orphan: true})))
	heir := func(namespace string) func(*Tx) error {
		return create(KindCluster, `{"id":"heir","cluster_dns":"c0.example.com","environment":"prod","resources":{"volumes":[{"id":"v","overrides":{"namespace":"`+namespace+`"}}]}}`)
	}
	require.Equal(t, 1, w.plan(heir("store")).Totals.Removals)
	require.Zero(t, w.plan(heir("data")).Totals.Removals)
	w.refused(CodeConfirm, heir("store"))
	w.must(heir("data"))
}
