package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// fleetOf has so many clusters, half dev and half prod, each with two components, two namespaces and a role binding.
func fleetOf(t *testing.T, clusters int) *world {
	docs := []string{
		string(KindComponent), `{"id":"grafana","component_path":"grafana","oci_url":"https://charts.example.com","component_version":"17.0.0"}`,
		string(KindComponent), `{"id":"loki","component_path":"loki","oci_url":"https://charts.example.com","depends_on":["grafana"]}`,
		string(KindNamespace), `{"id":"team"}`,
		string(KindNamespace), `{"id":"kept","deletion_policy":"orphan"}`,
		string(KindRoleBinding), `{"id":"readers","role":"view","subjects":[{"kind":"Group","name":"dev"}]}`,
	}
	for i := range clusters {
		docs = append(docs, string(KindCluster), fmt.Sprintf(
			`{"id":"c%03d","cluster_dns":"c%03d.example.com","environment":%q,"platform_components":[{"id":"grafana"},{"id":"loki"}],"namespaces":[{"id":"team"},{"id":"kept"}],"rolebindings":[{"id":"readers"}]}`,
			i, i, []string{"dev", "prod"}[i%2]))
	}
	w := newWorld(t, docs...)
	w.state.rules.MaxRemovals = 5
	return w
}

func batch(ops ...string) func(*Tx) error {
	return func(tx *Tx) error {
		var parsed []api.Operation
		if err := json.Unmarshal([]byte("["+strings.Join(ops, ",")+"]"), &parsed); err != nil {
			return err
		}
		_, err := NewBatch(tx, nil).Run(parsed)
		return err
	}
}

func (w *world) plan(edit func(*Tx) error) api.Plan {
	w.t.Helper()
	res, err := w.try(both(func(tx *Tx) error { tx.Guard(Guard{Off: true}); return nil }, edit))
	require.NoError(w.t, err)
	plan, err := res.Plan()
	require.NoError(w.t, err)
	return plan
}

func confirmed(hash string, edit func(*Tx) error) func(*Tx) error {
	return both(func(tx *Tx) error { tx.Guard(Guard{PlanHash: hash}); return nil }, edit)
}

func TestPlanOfACatalogChange(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 6)
	w.must(assign("c000", KindComponent, "grafana", `{"component_version":"16.0.0"}`))
	plan := w.plan(patch(KindComponent, "grafana", `{"component_version":"17.1.0"}`))
	require.Equal(t, api.PlanTotals{Clusters: 5, Changed: 5}, plan.Totals, "one cluster is pinned")
	require.False(t, plan.ConfirmationRequired)
	require.Len(t, plan.Groups, 1)
	require.Equal(t, []string{"c001", "c002", "c003", "c004", "c005"}, plan.Groups[0].Clusters)
	got, err := json.Marshal(plan.Groups[0].Effect)
	require.NoError(t, err)
	require.JSONEq(t, `{"platform-components":{"added":[],"removed":[],"changed":[{"id":"grafana","removal":false,
		"fields":[{"pointer":"/component_version","before":"17.0.0","after":"17.1.0"}]}]}}`, string(got))
}

func TestBatchOverClusters(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 6)
	w.must(create(KindNamespace, `{"id":"new"}`))
	w.must(batch(
		`{"op":"set_component","selector":"environment=dev","component_id":"grafana","component_version":"17.1.0"}`,
		`{"op":"patch_values","cluster_ids":["c001"],"component_id":"loki","values":{"a.b":"1"},"field_manager":"ci"}`,
		`{"op":"assign_namespace","all":true,"namespace_id":"new"}`,
		`{"op":"set_labels","selector":"id in (c001,c002)","labels":{"ring":"1"}}`,
		`{"op":"unassign_rolebinding","cluster_ids":["c005"],"rolebinding_id":"readers"}`,
		`{"op":"create","kind":"namespace","document":{"id":"late"}}`,
		`{"op":"assign_namespace","selector":"ring=1","namespace_id":"late"}`,
	))
	require.Equal(t, Revision(3), w.state.Revision(), "one commit")
	version := func(dns string) any { return inputsOf(t, w.state, dns, KindComponent)[0]["component_version"] }
	require.Equal(t, "17.1.0", version("c000.example.com"))
	require.Equal(t, "17.0.0", version("c001.example.com"))
	require.Equal(t, []string{"team", "kept", "new", "late"}, ids(inputsOf(t, w.state, "c002.example.com", KindNamespace)), "operations see those before them")
	require.Empty(t, inputsOf(t, w.state, "c005.example.com", KindRoleBinding))
	doc, _ := w.state.Get(KindCluster, "c001")
	require.Equal(t, map[string][]string{"ci": {"a.b"}}, doc.OwnedPatches("loki").Managers)
}

func TestBatchReportsEveryProblemAndChangesNothing(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 2)
	e := w.refused(CodeInvalid, batch(
		`{"op":"assign_namespace","all":true,"namespace_id":"kept"}`,
		`{"op":"set_component","selector":"environment=moon","component_id":"grafana","enabled":false}`,
		`{"op":"set_component","component_id":"grafana","enabled":false}`,
		`{"op":"set_component","selector":"","cluster_ids":[],"component_id":"grafana"}`,
		`{"op":"patch","kind":"namespace","id":"gone","patch":{}}`,
		`{"op":"create","kind":"namespace","document":{"id":"team"}}`,
		`{"op":"patch_values","cluster_ids":["c000","nope"],"component_id":"grafana","values":{"a":"1"}}`,
		`{"op":"unassign_component","all":true}`,
	))
	var at []string
	for _, p := range e.Problems {
		at = append(at, p.Pointer)
	}
	require.Equal(t, []string{"/operations/1", "/operations/2", "/operations/3", "/operations/4", "/operations/5", "/operations/6", "/operations/7"}, at)
	require.Contains(t, e.Problems[0].Detail, "applies to no cluster")
	w.refused(CodeNotFound, batch(`{"op":"patch","kind":"namespace","id":"gone","patch":{}}`))
	w.must(batch(`{"op":"set_component","selector":"environment=moon","component_id":"grafana","enabled":false,"allow_empty":true}`))

	ops := []api.Operation{{Op: "patch", Kind: "namespace", ID: "team", Patch: json.RawMessage(`{"labels":{"x":"not ok!"}}`)}}
	tx := w.state.Begin()
	b := NewBatch(tx, nil)
	_, err := b.Run(ops)
	require.NoError(t, err)
	_, err = tx.Finish(Commit{})
	var located *Error
	require.True(t, errors.As(b.Locate(ops, err), &located))
	require.Equal(t, "/operations/0/patch/labels/x", located.Problems[0].Pointer)
}

func TestRemovalsNeedAPlan(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*Tx) error{
		"cascade of a component":      remove(KindComponent, "grafana", DeleteOptions{Cascade: true}),
		"disabling it everywhere":     batch(`{"op":"set_component","all":true,"component_id":"grafana","enabled":false}`),
		"another type":                patch(KindComponent, "grafana", `{"type":"kustomize","oci_url":"oci://r.example.com/x"}`),
		"another release name":        patch(KindComponent, "grafana", `{"release_name":"graphs"}`),
		"another namespace":           patch(KindComponent, "grafana", `{"target_namespace":"graphs"}`),
		"decommissioning many":        batch(`{"op":"delete","kind":"cluster","id":"c000"}`, `{"op":"delete","kind":"cluster","id":"c001"}`),
		"a namespace on two clusters": batch(`{"op":"unassign_namespace","cluster_ids":["c000","c001"],"namespace_id":"team"}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fleetOf(t, 6)
			w.refused(CodeConfirm, edit)
			plan := w.plan(edit)
			require.True(t, plan.ConfirmationRequired)
			w.refused(CodeStale, confirmed("0123", edit))
			moved := &world{t: t, state: w.state, now: w.now}
			moved.must(put(KindRoleBinding, "readers", `{"role":"edit"}`))
			moved.must(confirmed(plan.PlanHash, edit)) // an unrelated change keeps the plan valid
			w.must(batch(`{"op":"set_labels","all":true,"labels":{"a":"b"}}`))
			if !strings.HasPrefix(name, "another ") && name != "cascade of a component" {
				w.refused(CodeStale, confirmed(plan.PlanHash, edit))
			}
		})
	}
	for name, edit := range map[string]func(*Tx) error{
		"few removals":             batch(`{"op":"set_component","cluster_ids":["c000","c001"],"component_id":"grafana","enabled":false}`),
		"one cluster":              remove(KindCluster, "c000", DeleteOptions{}),
		"clusters are forgotten":   batch(`{"op":"delete","kind":"cluster","id":"c000","mode":"orphan"}`, `{"op":"delete","kind":"cluster","id":"c001","mode":"orphan"}`),
		"namespaces that are kept": batch(`{"op":"unassign_namespace","all":true,"namespace_id":"kept"}`),
	} {
		t.Run(name+" need none", func(t *testing.T) {
			t.Parallel()
			w := fleetOf(t, 6)
			w.must(edit)
		})
	}
}

// TestPlanEqualsLaterPolls compares plans of random changes with the polls before and after.
func TestPlanEqualsLaterPolls(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t,
			string(KindComponent), `{"id":"c0","component_path":"p","oci_url":"https://charts.example.com"}`,
			string(KindComponent), `{"id":"c1","component_path":"p","oci_url":"https://charts.example.com","depends_on":["c0"],"patches":{"a":"1"}}`,
			string(KindNamespace), `{"id":"n0"}`,
			string(KindCluster), `{"id":"k0","cluster_dns":"k0.example.com","environment":"dev","platform_components":[{"id":"c0"},{"id":"c1"}],"namespaces":[{"id":"n0"}]}`,
			string(KindCluster), `{"id":"k1","cluster_dns":"k1.example.com","environment":"dev","platform_components":[{"id":"c1"},{"id":"c0"}]}`)
		for range rapid.IntRange(1, 12).Draw(rt, "edits") {
			edit, what := randomEdit(rt)
			res, err := w.try(both(func(tx *Tx) error { tx.Guard(Guard{Off: true}); return nil }, edit))
			if err != nil {
				continue
			}
			plan, err := res.Plan()
			require.NoError(rt, err, what)
			requirePlanned(rt, w.state, res.State, plan, what)
			w.state = res.State
		}
	})
}

func requirePlanned(t require.TestingT, before, after *State, plan api.Plan, what string) {
	effects := map[string]map[string]api.EndpointEffect{}
	for _, g := range plan.Groups {
		for _, id := range g.Clusters {
			if !g.Forgotten { // a renamed cluster is orphaned under its old name, and new under the other
				effects[id] = g.Effect
			}
		}
	}
	for id, doc := range after.docs[KindCluster] {
		was, _ := before.ByDNS(doc.Cluster().ClusterDNS) // clusters poll by name
		for _, r := range Definitions() {
			e := effects[id][r.Endpoint()]
			var expected []string
			for _, in := range decodeInputs(t, before, was, r) {
				expected = append(expected, in["id"].(string))
			}
			if forgotten := before.docs[KindOrphan][lowerName(doc.Cluster())]; was == nil && forgotten != nil {
				var served []string
				for _, in := range decodeInputs(t, after, doc, r) {
					if enabled, set := in["enabled"].(bool); !set || enabled {
						served = append(served, in["id"].(string))
					}
				}
				for _, one := range forgotten.value.(*orphanRecord).Installed {
					if one.Kind == r && !slices.Contains(served, one.ID) { // the cluster has it still
						expected = append(expected, one.ID)
					}
				}
			}
			for _, gone := range e.Removed {
				if was == nil && !slices.Contains(expected, gone) && slices.Contains(ids(decodeInputs(t, after, doc, r)), gone) {
					continue // the cluster keeps the input with changes: Flux replaces the object
				}
				require.Contains(t, expected, gone, what)
				expected = remove1(expected, gone)
			}
			for _, added := range e.Added {
				var in map[string]any
				require.NoError(t, json.Unmarshal(added, &in))
				expected = append(expected, in["id"].(string))
			}
			now := decodeInputs(t, after, doc, r)
			require.ElementsMatch(t, expected, ids(now), what)
			requireFields(t, decodeInputs(t, before, was, r), now, e, what)
		}
	}
}

// requireFields: an input is reported as changed if and only if it changed.
func requireFields(t require.TestingT, before, after []map[string]any, e api.EndpointEffect, what string) {
	was := map[string]string{}
	for _, in := range before {
		body, err := json.Marshal(in)
		require.NoError(t, err)
		was[in["id"].(string)] = string(body)
	}
	changed := map[string]bool{}
	for _, c := range e.Changed {
		changed[c.ID] = true
	}
	for _, in := range after {
		body, err := json.Marshal(in)
		require.NoError(t, err)
		id := in["id"].(string)
		if old, stays := was[id]; stays {
			require.Equal(t, old != string(body), changed[id], "%s: %s", what, id)
		}
	}
}

func decodeInputs(t require.TestingT, s *State, d *Document, r Kind) []map[string]any {
	if d == nil {
		return nil
	}
	return inputsOf(t, s, d.Cluster().ClusterDNS, r)
}

func remove1(list []string, id string) []string {
	for i, v := range list {
		if v == id {
			return append(append([]string{}, list[:i]...), list[i+1:]...)
		}
	}
	return list
}

// TestGuardCountsByName: the answers to a name determine the installations there, whichever document they come from.
func TestGuardCountsByName(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*Tx) error{
		"names are swapped with clusters that have nothing": both(
			put(KindCluster, "c000", `{"cluster_dns":"e0.example.com"}`), put(KindCluster, "c001", `{"cluster_dns":"e1.example.com"}`),
			put(KindCluster, "empty0", `{"cluster_dns":"c000.example.com"}`), put(KindCluster, "empty1", `{"cluster_dns":"c001.example.com"}`)),
		"clusters are forgotten and made anew without anything": batch(
			`{"op":"delete","kind":"cluster","id":"c000","mode":"orphan"}`, `{"op":"create","kind":"cluster","document":{"id":"n0","cluster_dns":"c000.example.com","environment":"dev"}}`,
			`{"op":"delete","kind":"cluster","id":"c001","mode":"orphan"}`, `{"op":"create","kind":"cluster","document":{"id":"n1","cluster_dns":"c001.example.com","environment":"dev"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fleetOf(t, 2)
			w.must(create(KindCluster, `{"id":"empty0","cluster_dns":"e0.example.com","environment":"dev"}`))
			w.must(create(KindCluster, `{"id":"empty1","cluster_dns":"e1.example.com","environment":"dev"}`))
			w.refused(CodeConfirm, edit)
			require.Positive(t, w.plan(edit).Totals.Removals)
		})
	}
}

func TestRestoreNeedsARevision(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 2)
	for _, op := range []string{`{"op":"restore"}`, `{"op":"restore","kind":"cluster","id":"c000"}`, `{"op":"restore","revision":1,"cluster_ids":["c000"]}`} {
		w.refused(CodeInvalid, batch(op))
	}
	for _, selector := range []string{" ", "\\t", "  ", "\\u0000environment=dev"} {
		w.refused(CodeInvalid, batch(`{"op":"unassign_component","component_id":"loki","selector":"`+selector+`"}`))
	}
}

func TestDeletionProtectionHoldsAgainstRestoreAndBatch(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 1)
	w.must(remove(KindCluster, "c000", DeleteOptions{}))
	gone, _ := w.state.ByDNS("c000.example.com")
	w.must(create(KindCluster, `{"id":"c000","cluster_dns":"c000.example.com","environment":"dev","deletion_protection":true}`))
	w.refused(CodeProtected, func(tx *Tx) error { _, err := tx.restore(KindCluster, "c000", gone.Body); return err })
	w.refused(CodeProtected, both(patch(KindCluster, "c000", `{"deletion_protection":false}`), remove(KindCluster, "c000", DeleteOptions{})))
}

func TestBatchSeesItsOwnDeletions(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 1)
	gone := `{"op":"delete","kind":"cluster","id":"c000"}`
	w.refused(CodeNotFound, batch(gone, gone))
	w.refused(CodeNotFound, batch(gone, `{"op":"patch","kind":"cluster","id":"c000","patch":{"labels":{"a":"b"}}}`))
	w.must(confirmedBy(w, batch(gone, `{"op":"create","kind":"cluster","document":{"id":"heir","cluster_dns":"c000.example.com","environment":"dev"}}`)))
	require.Empty(t, w.state.Decommissioned())
	w.must(batch(`{"op":"delete","kind":"cluster","id":"heir"}`, `{"op":"create","kind":"cluster","document":{"id":"heir","cluster_dns":"c000.example.com","environment":"qa"}}`))
	doc, ok := w.state.Get(KindCluster, "heir")
	require.True(t, ok)
	require.Equal(t, "qa", doc.Cluster().Environment)
}

func TestStoredSizesMayShrink(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 1)
	big, err := json.Marshal(map[string]any{"id": "big", "labels": map[string]string{}, "annotations": map[string]string{"x": strings.Repeat("y", MaxAnswerBytes)}, "deletion_policy": "delete"})
	require.NoError(t, err)
	w.must(create(KindNamespace, `{"id":"big"}`))
	w.must(assign("c000", KindNamespace, "big", ""))
	before, _ := w.state.Get(KindNamespace, "big")
	grown, err := w.state.Apply(Commit{Revision: w.state.Revision() + 1, Changes: []Change{{Kind: KindNamespace, ID: "big", Before: before.Body, After: big}}})
	require.NoError(t, err)
	w.state = grown
	w.must(patch(KindCluster, "c000", `{"labels":{"a":"b"}}`))
	w.must(patch(KindNamespace, "team", `{"labels":{}}`))
	w.refused(CodeLimitExceeded, patch(KindNamespace, "team", `{"labels":{"one":"more"}}`))
	w.must(batch(`{"op":"unassign_namespace","cluster_ids":["c000"],"namespace_id":"team"}`))
}

// TestBatchEqualsSingleEdits although it runs them on all processors, and problems come in the order of clusters.
func TestBatchEqualsSingleEdits(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 300)
	together, err := w.try(batch(
		`{"op":"set_component","all":true,"component_id":"grafana","oci_tag":"v2","values_from":[{"kind":"Secret","name":"s"}]}`,
		`{"op":"set_labels","all":true,"labels":{"tier":"x"}}`,
		`{"op":"apply_values","selector":"environment=dev","component_id":"loki","values":{"a.b":"1","c":{"d":[1,"<&>"]}},"field_manager":"ci"}`,
		`{"op":"unassign_rolebinding","all":true,"rolebinding_id":"readers"}`,
		`{"op":"assign_rolebinding","all":true,"rolebinding_id":"readers"}`))
	require.NoError(t, err)
	alone, err := w.try(func(tx *Tx) error {
		for _, d := range w.state.All(KindCluster) {
			edits := []func(*Tx) error{
				assign(d.ID, KindComponent, "grafana", `{"oci_tag":"v2","values_from":[{"kind":"Secret","name":"s"}]}`),
				func(tx *Tx) error { _, err := tx.SetLabels(d.ID, []byte(`{"tier":"x"}`)); return err },
				func(tx *Tx) error { _, err := tx.Unassign(d.ID, KindRoleBinding, "readers"); return err },
				assign(d.ID, KindRoleBinding, "readers", ""),
			}
			if d.Cluster().Environment == "dev" {
				edits = append(edits, func(tx *Tx) error {
					_, err := tx.ApplyValues(d.ID, "loki", []byte(`{"a.b":"1","c":{"d":[1,"<&>"]}}`), PatchOptions{Manager: "ci"})
					return err
				})
			}
			if err := both(edits...)(tx); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Len(t, together.Commit.Changes, 300)
	require.Equal(t, alone.Commit.Changes, together.Commit.Changes)

	w.must(batch(`{"op":"unassign_component","selector":"id in (c100,c200,c299)","component_id":"loki"}`))
	refused := w.refused(CodeInvalid, batch(`{"op":"set_component","cluster_ids":["c299","c000","c200","nobody","c100"],"component_id":"loki","oci_tag":"v2"}`))
	require.Len(t, refused.Problems, 4)
	for i, cluster := range []string{"c100", "c200", "c299", "nobody"} {
		require.Contains(t, refused.Problems[i].Detail, cluster)
	}
}

func parsedOperations(t *testing.T, ops string) (out []api.Operation) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(ops), &out))
	return out
}
