package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// flux simulates Flux on a cluster that polls by a name. It shares no code with the guard.
type flux struct {
	components map[string]string // deployment by id
	namespaces map[string]string // last applied deletion policy by id
	bindings   map[string]bool
}

// poll applies the answers to the cluster, and returns the number of removed objects. A name without a cluster keeps all.
func (f *flux) poll(t require.TestingT, s *State, dns string) int {
	if _, ok := s.ByDNS(dns); !ok {
		return 0
	}
	removed := 0
	components, namespaces, bindings := map[string]string{}, map[string]string{}, map[string]bool{}
	for _, in := range inputsOf(t, s, dns, KindComponent) {
		if on, _ := in["enabled"].(bool); on {
			source := in["source"].(map[string]any)
			if in["type"] == "helm" {
				source = nil
			}
			path := in["component_path"].(string)
			if inPath, _ := in["cluster_env_enabled"].(bool); inPath && in["type"] == "kustomize" {
				path += "/" + in["cluster"].(map[string]any)["environment"].(string)
			}
			namespace := in["target_namespace"]
			if in["type"] == "kustomize" && in["override_namespace"] == nil {
				namespace = nil
			}
			components[in["id"].(string)] = fmt.Sprint(in["type"], in["release_name"], namespace, path, source["oci_url"])
		}
	}
	for _, in := range inputsOf(t, s, dns, KindNamespace) {
		namespaces[in["id"].(string)] = in["deletion_policy"].(string)
	}
	for _, in := range inputsOf(t, s, dns, KindRoleBinding) {
		bindings[in["id"].(string)] = true
	}
	for id, how := range f.components {
		if components[id] != how {
			removed++
		}
	}
	for id, policy := range f.namespaces {
		if _, stays := namespaces[id]; !stays && policy == policyDelete {
			removed++
		}
	}
	for id := range f.bindings {
		if !bindings[id] {
			removed++
		}
	}
	f.components, f.namespaces, f.bindings = components, namespaces, bindings
	return removed
}

// TestUnconfirmedRemovalsOfAnHourAreBounded: any sequence of changes, through any process, within an hour and without a
// plan's hash, removes at most MAX_REMOVALS objects.
func TestUnconfirmedRemovalsOfAnHourAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		const most = 4
		w := fleetOf(t, 3)
		w.state.rules.MaxRemovals = most
		w.must(patch(KindComponent, "loki", `{"type":"kustomize","oci_url":"oci://registry.example.com/loki"}`))
		var names []string
		for i := range 5 {
			names = append(names, fmt.Sprintf("c%03d.example.com", i))
		}
		polled := map[string]*flux{}
		for _, dns := range names {
			polled[dns] = &flux{}
			polled[dns].poll(rt, w.state, dns)
		}
		type loss struct {
			at      time.Time
			removed int
		}
		var lost []loss
		clockGoesBack := rapid.Bool().Draw(rt, "clock goes back")
		var late time.Duration
		for range rapid.IntRange(1, 40).Draw(rt, "edits") {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 25).Draw(rt, "minutes")) * time.Minute)
			truth := w.now
			if clockGoesBack { // deletion policies depend on the clock alone
				late += time.Duration(rapid.SampledFrom([]int{0, 0, 0, 30, 120}).Draw(rt, "back")) * time.Minute
			}
			w.now = truth.Add(-late)
			edit, what := removingEdit(rt, names, !clockGoesBack)
			confirms := rapid.IntRange(0, 5).Draw(rt, "confirm") == 0
			if confirms {
				if res, err := w.try(both(func(tx *Tx) error { tx.Guard(Guard{Off: true}); return nil }, edit)); err == nil {
					plan, err := res.Plan()
					require.NoError(rt, err)
					edit = confirmed(plan.PlanHash, edit)
				}
			}
			res, err := w.try(edit)
			w.now = truth
			if err != nil {
				continue
			}
			w.state = restarted(rt, w.state, res)
			removed := 0
			for _, dns := range names {
				removed += polled[dns].poll(rt, w.state, dns)
			}
			rt.Logf("%s at %s: %d removed", what, truth.Format(time.TimeOnly), removed)
			if !confirms {
				lost = append(lost, loss{truth, removed})
			}
			within := 0
			for _, l := range lost {
				if truth.Sub(l.at) < time.Hour {
					within += l.removed
				}
			}
			require.LessOrEqual(rt, within, most, "removed within an hour")
		}
	})
}

// restarted returns the State after a change as the process has it that made it, as one that follows the log, or as one that
// has just started.
func restarted(t *rapid.T, base *State, res Result) *State {
	if len(res.Commit.Changes) == 0 {
		return res.State
	}
	switch rapid.IntRange(0, 2).Draw(t, "process") {
	case 0:
		next, err := base.Apply(res.Commit)
		require.NoError(t, err)
		return next
	case 1:
		next, err := NewState(res.State.rules, res.State.Head(), res.State.At(), slices.Collect(res.State.Records()))
		require.NoError(t, err)
		return next
	}
	return res.State
}

// removingEdit draws an edit that may remove objects from clusters.
func removingEdit(t *rapid.T, names []string, policies bool) (func(*Tx) error, string) {
	cluster := fmt.Sprintf("c%03d", rapid.IntRange(0, 4).Draw(t, "cluster"))
	dns := rapid.SampledFrom(names).Draw(t, "dns")
	component := rapid.SampledFrom([]string{"grafana", "loki"}).Draw(t, "component")
	lists := rapid.SampledFrom([]string{
		`"platform_components":[],"namespaces":[],"rolebindings":[]`,
		`"platform_components":[{"id":"grafana"},{"id":"loki"}],"namespaces":[{"id":"team"},{"id":"kept"}],"rolebindings":[{"id":"readers"}]`,
		`"platform_components":[{"id":"loki","component_path":"other"}],"namespaces":[{"id":"kept"}],"rolebindings":[]`,
	}).Draw(t, "lists")
	edits := []func() (func(*Tx) error, string){
		func() (func(*Tx) error, string) {
			return put(KindCluster, cluster, "{"+lists+"}"), "put " + cluster + lists
		},
		func() (func(*Tx) error, string) {
			field := rapid.SampledFrom([]string{"platform_components", "namespaces", "rolebindings"}).Draw(t, "field")
			return patch(KindCluster, cluster, `{"`+field+`":null}`), "null " + field + " of " + cluster
		},
		func() (func(*Tx) error, string) {
			return func(tx *Tx) error { _, err := tx.Unassign(cluster, KindComponent, component); return err }, "unassign " + component + " from " + cluster
		},
		func() (func(*Tx) error, string) {
			settings := rapid.SampledFrom([]string{`{"enabled":false}`, `{"enabled":true}`, `{"component_path":"elsewhere"}`, `{"component_path":null}`, `{}`}).Draw(t, "settings")
			return assign(cluster, KindComponent, component, settings), component + " on " + cluster + settings
		},
		func() (func(*Tx) error, string) {
			opt := DeleteOptions{Orphan: rapid.Bool().Draw(t, "orphan")}
			return remove(KindCluster, cluster, opt), fmt.Sprint("delete ", cluster, opt)
		},
		func() (func(*Tx) error, string) {
			body := fmt.Sprintf(`{"id":%q,"cluster_dns":%q,"environment":"dev",%s}`, cluster, dns, lists)
			return create(KindCluster, body), "create " + body
		},
		func() (func(*Tx) error, string) {
			return patch(KindCluster, cluster, fmt.Sprintf(`{"cluster_dns":%q}`, dns)), "rename " + cluster + " to " + dns
		},
		func() (func(*Tx) error, string) {
			body := rapid.SampledFrom([]string{`{"release_name":"x"}`, `{"target_namespace":"y"}`, `{"component_path":"z"}`, `{"oci_url":"oci://elsewhere.example.com/x"}`, `{"type":"helm"}`, `{"type":"kustomize"}`, `{"cluster_env_enabled":true}`, `{"cluster_env_enabled":false}`}).Draw(t, "deployment")
			return patch(KindComponent, component, body), component + body
		},
		func() (func(*Tx) error, string) {
			body := `{"environment":"` + rapid.SampledFrom([]string{"dev", "qa"}).Draw(t, "environment") + `"}`
			return patch(KindCluster, cluster, body), cluster + body
		},
		func() (func(*Tx) error, string) {
			return remove(KindComponent, component, DeleteOptions{Cascade: true}), "cascade " + component
		},
		func() (func(*Tx) error, string) {
			return create(KindComponent, `{"id":"grafana","component_path":"grafana","oci_url":"https://charts.example.com"}`), "create grafana"
		},
		func() (func(*Tx) error, string) {
			return batch(`{"op":"set_component","all":true,"component_id":"` + component + `","enabled":false}`), "disable " + component
		},
		func() (func(*Tx) error, string) {
			return batch(`{"op":"unassign_rolebinding","all":true,"rolebinding_id":"readers"}`), "unassign readers"
		},
	}
	if policies {
		edits = append(edits, func() (func(*Tx) error, string) {
			policy := rapid.SampledFrom([]string{policyDelete, policyOrphan}).Draw(t, "policy")
			return patch(KindNamespace, "team", `{"deletion_policy":"`+policy+`"}`), "team " + policy
		}, func() (func(*Tx) error, string) {
			return func(tx *Tx) error { _, err := tx.Unassign(cluster, KindNamespace, "team"); return err }, "unassign team from " + cluster
		})
	}
	return rapid.SampledFrom(edits).Draw(t, "edit")()
}

// TestNoRouteBypassesTheBudget: small steps, each of which would pass by itself, are refused together.
func TestNoRouteBypassesTheBudget(t *testing.T) {
	t.Parallel()
	onEach := func(steps func(id string) []func(*Tx) error) []func(*Tx) error {
		var out []func(*Tx) error
		for i := range 6 {
			out = append(out, steps(fmt.Sprintf("c%03d", i))...)
		}
		return out
	}
	one := func(edit func(id string) func(*Tx) error) []func(*Tx) error {
		return onEach(func(id string) []func(*Tx) error { return []func(*Tx) error{edit(id)} })
	}
	empty := func(id, dns string) func(*Tx) error {
		return create(KindCluster, fmt.Sprintf(`{"id":%q,"cluster_dns":"%s.example.com","environment":"dev"}`, id, dns))
	}
	for name, steps := range map[string][]func(*Tx) error{
		"a loop of single assignments": one(func(id string) func(*Tx) error {
			return func(tx *Tx) error { _, err := tx.Unassign(id, KindComponent, "grafana"); return err }
		}),
		"a loop of disabling": one(func(id string) func(*Tx) error {
			return assign(id, KindComponent, "grafana", `{"enabled":false}`)
		}),
		"PUT []":         one(func(id string) func(*Tx) error { return put(KindCluster, id, `{"rolebindings":[]}`) }),
		"PATCH null":     one(func(id string) func(*Tx) error { return patch(KindCluster, id, `{"platform_components":null}`) }),
		"decommission":   one(func(id string) func(*Tx) error { return remove(KindCluster, id, DeleteOptions{}) }),
		"component_path": one(func(id string) func(*Tx) error { return assign(id, KindComponent, "loki", `{"component_path":"p"}`) }),
		"forget, then register again": onEach(func(id string) []func(*Tx) error {
			return []func(*Tx) error{remove(KindCluster, id, DeleteOptions{Orphan: true}), empty("n"+id, id)}
		}),
		"rename, then register the old name": onEach(func(id string) []func(*Tx) error {
			return []func(*Tx) error{patch(KindCluster, id, fmt.Sprintf(`{"cluster_dns":"n%s.example.com"}`, id)), empty("n"+id, id)}
		}),
		"orphan, then cascade at once": {
			patch(KindNamespace, "team", `{"deletion_policy":"orphan"}`), remove(KindNamespace, "team", DeleteOptions{Cascade: true}),
		},
		"a catalog's path":   {patch(KindComponent, "loki", `{"component_path":"other"}`)},
		"a catalog's source": {patch(KindComponent, "grafana", `{"oci_url":"oci://elsewhere.example.com/x"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fleetOf(t, 6)
			if name == "a catalog's source" {
				w.must(confirmedBy(w, patch(KindComponent, "grafana", `{"type":"kustomize","oci_url":"oci://registry.example.com/x"}`)))
			}
			w.now = w.now.Add(10 * time.Minute)
			var refused error
			for _, step := range steps {
				w.now = w.now.Add(time.Second)
				res, err := w.try(step)
				if err != nil {
					refused = err
					break
				}
				w.state = res.State
			}
			require.Error(t, refused)
			var why *Error
			require.ErrorAs(t, refused, &why)
			require.Equal(t, CodeConfirm, why.Code, "%v", refused)
		})
	}
}

func confirmedBy(w *world, edit func(*Tx) error) func(*Tx) error {
	return confirmed(w.plan(edit).PlanHash, edit)
}

func TestBudgetRefillsAndIgnoresConfirmedRemovals(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 12) // and five an hour
	off := func(i int) func(*Tx) error {
		return assign(fmt.Sprintf("c%03d", i), KindComponent, "grafana", `{"enabled":false}`)
	}
	w.must(confirmedBy(w, batch(`{"op":"set_component","cluster_ids":["c000","c001","c002","c003","c004","c005"],"component_id":"grafana","enabled":false}`)))
	for i := 6; i < 11; i++ {
		w.now = w.now.Add(10 * time.Minute)
		w.must(off(i))
	}
	e := w.refused(CodeConfirm, off(11))
	require.Contains(t, e.Detail, "1 installed thing would be removed from 1 cluster, 5 were within the last hour without a plan_hash (revisions 3, 4, 5, 6, 7), and more than 5 in an hour need to be confirmed")
	require.True(t, w.plan(off(11)).ConfirmationRequired)
	w.must(assign("c011", KindNamespace, "team", "")) // an edit without removals passes
	w.must(batch(`{"op":"set_labels","all":true,"labels":{"a":"b"}}`))

	w.now = w.now.Add(-24 * time.Hour) // a clock that goes back does not refill the budget
	w.refused(CodeConfirm, off(11))
	w.now = w.now.Add(24 * time.Hour)
	w.now = w.now.Add(20*time.Minute - time.Microsecond)
	w.refused(CodeConfirm, off(11))
	w.now = w.now.Add(time.Microsecond) // an hour after the first of them
	w.must(off(11))
}

// TestRemovalAfterClockWentBack by less than the window: the first removal after an empty hour has no earlier entry to take
// its time from. It counts from the newest known time; otherwise it would expire as soon as the clock is corrected.
func TestRemovalAfterClockWentBack(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 12) // and five an hour
	off := func(from, to int) func(*Tx) error {
		var ids []string
		for i := from; i < to; i++ {
			ids = append(ids, fmt.Sprintf(`"c%03d"`, i))
		}
		return batch(`{"op":"set_component","cluster_ids":[` + strings.Join(ids, ",") + `],"component_id":"grafana","enabled":false}`)
	}
	w.now = w.now.Add(2 * time.Hour) // empty ones
	w.must(batch(`{"op":"set_labels","all":true,"labels":{"a":"b"}}`))
	right := w.now
	w.now = right.Add(-50 * time.Minute)
	w.must(off(5, 10))
	w.now = right.Add(time.Minute)
	w.refused(CodeConfirm, off(10, 11))
	w.now = right.Add(time.Hour) // since the newest known time
	w.must(off(10, 11))
}

func TestBudgetStaysSmall(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 1)
	w.state.rules.MaxRemovals = 10_000
	for i := range 700 {
		w.now = w.now.Add(3 * time.Second)
		w.must(assign("c000", KindComponent, "grafana", fmt.Sprintf(`{"enabled":%t}`, i%2 == 1)))
	}
	spent := w.state.recentRemovals(w.now)
	require.Equal(t, 350, removalsIn(spent), "35 minutes of them")
	require.LessOrEqual(t, len(spent), maxBudgetEntries)
	require.Less(t, len(w.state.docs[KindBudget][budgetID].Body), 10_000)
}

func TestProtectionHoldsForEveryRoute(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*Tx) error{
		"PUT []":            put(KindCluster, "c000", `{"namespaces":[]}`),
		"PATCH null":        patch(KindCluster, "c000", `{"rolebindings":null}`),
		"unassign":          func(tx *Tx) error { _, err := tx.Unassign("c000", KindComponent, "loki"); return err },
		"a namespace kept":  func(tx *Tx) error { _, err := tx.Unassign("c000", KindNamespace, "kept"); return err },
		"disable":           assign("c000", KindComponent, "grafana", `{"enabled":false}`),
		"another path":      assign("c000", KindComponent, "grafana", `{"component_path":"p"}`),
		"cascade":           remove(KindNamespace, "team", DeleteOptions{Cascade: true}),
		"batch":             batch(`{"op":"unassign_component","all":true,"component_id":"grafana"}`),
		"catalog's type":    patch(KindComponent, "grafana", `{"type":"kustomize","oci_url":"oci://r.example.com/x"}`),
		"catalog's release": patch(KindComponent, "grafana", `{"release_name":"g"}`),
		"catalog's path":    patch(KindComponent, "grafana", `{"component_path":"g"}`),
		"lifted meanwhile":  put(KindCluster, "c000", `{"deletion_protection":false,"namespaces":[]}`),
		"as it once was":    func(tx *Tx) error { _, err := tx.restore(KindCluster, "c000", []byte(once)); return err },
		"decommissioned":    remove(KindCluster, "c000", DeleteOptions{}),
		"forgotten":         remove(KindCluster, "c000", DeleteOptions{Orphan: true}),
		"with its plan_hash": func(tx *Tx) error {
			tx.Guard(Guard{PlanHash: "any"})
			return put(KindCluster, "c000", `{"namespaces":[]}`)(tx)
		},
		"only planned": func(tx *Tx) error {
			tx.Guard(Guard{Off: true})
			return put(KindCluster, "c000", `{"namespaces":[]}`)(tx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fleetOf(t, 2)
			w.must(put(KindCluster, "c000", `{"deletion_protection":true}`))
			e := w.refused(CodeProtected, edit)
			require.Contains(t, e.Detail, "c000")
			w.must(put(KindCluster, "c001", `{"namespaces":[]}`))
			w.must(assign("c000", KindComponent, "grafana", `{"component_version":"17.2.0"}`)) // an edit without removals passes
			w.must(patch(KindComponent, "grafana", `{"component_version":"17.3.0"}`))
		})
	}
}

const once = `{"id":"c000","cluster_name":"c000","cluster_dns":"c000.example.com","environment":"dev","labels":{},"platform_components":[],"namespaces":[],"rolebindings":[],"patches":{},"deletion_protection":false}`
