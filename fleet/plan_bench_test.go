package fleet

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// BenchmarkPlan plans changes of 10,000 clusters, each with 30 components, and reports the processor time of each step. The
// baseline is the time of encoding/json to read the changed documents, before and after; the ratio compares the whole plan
// with it.
func BenchmarkPlan(b *testing.B) {
	const clusters = 10_000
	base := loadShared(b, sharedFleet(b, clusters, 0))
	templated, patched := templatedFleet(b, clusters), patchedFleet(b, base)
	assigned := assignedFleet(b, templated)
	cluster := func(i int) string { return fmt.Sprintf(`"cluster_ids":["k%05d"]`, i) }
	repeated := func(n int, op func(i int) string) string {
		ops := make([]string, n)
		for i := range ops {
			ops[i] = op(i)
		}
		return strings.Join(ops, ",")
	}
	for _, c := range []struct {
		name, operations string
		base             *State
		groups           int
	}{
		{"labels", `{"op":"set_labels","all":true,"labels":{"wave":"1"}}`, base, 0},
		{"catalog", `{"op":"patch","kind":"platform_component","id":"c0","patch":{"component_version":"2.0.0"}}`, base, 1},
		{"catalog-patched", `{"op":"patch","kind":"platform_component","id":"c1","patch":{"component_version":"2.0.0"}}`, patched, 1},
		{"tags", `{"op":"set_component","all":true,"component_id":"c3","component_version":"2.0.0"}`, base, 1},
		{"named", repeated(2000, func(i int) string {
			return fmt.Sprintf(`{"op":"patch_values",%s,"component_id":"c3","values":{"replicaCount":"%d"}}`, cluster(i), i)
		}), base, 2000},
		{"selectors", repeated(2000, func(i int) string {
			return fmt.Sprintf(`{"op":"set_labels","selector":"id=k%05d","labels":{"wave":"%d"}}`, i, i%8)
		}), base, 0},
		{"overrides", repeated(1000, func(i int) string {
			return fmt.Sprintf(`{"op":"assign_resource",%s,"type":"settings","resource_id":"a","overrides":{"name":"n%d"}}`, cluster(i), i)
		}), templated, 1000},
		{"definition", `{"op":"patch","kind":"resource","type":"settings","id":"a","patch":{"spec":{"list":["x"]}}}`, assigned, 1},
		{"type", `{"op":"patch","kind":"resource_type","id":"settings","patch":{"template":"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: ns}\n"}}`, assigned, 0},
		{"type-of-cluster", `{"op":"patch","kind":"resource_type","id":"settings","patch":{"template":"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: ns}\n# << inputs.cluster.name >>\n"}}`, assigned, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			var operations []api.Operation
			require.NoError(b, json.Unmarshal([]byte("["+c.operations+"]"), &operations))
			var edit, finish, plan, baseline time.Duration
			lap := func(total *time.Duration, do func()) {
				before := cpuTime(b)
				do()
				*total += cpuTime(b) - before
			}
			for b.Loop() {
				runtime.GC()
				tx := c.base.Begin()
				tx.Guard(Guard{Off: true})
				var res Result
				var err error
				lap(&edit, func() {
					_, err = NewBatch(tx, nil).Run(operations)
					require.NoError(b, err)
				})
				lap(&finish, func() {
					res, err = tx.Finish(Commit{ID: uuid.New(), At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Actor: "test"})
					require.NoError(b, err)
				})
				lap(&plan, func() {
					p, err := res.Plan()
					require.NoError(b, err)
					require.Len(b, p.Groups, c.groups)
				})
				lap(&baseline, func() {
					for _, ch := range res.Commit.Changes {
						for _, text := range []json.RawMessage{ch.Before, ch.After} {
							var document any
							require.NoError(b, json.Unmarshal(text, &document))
						}
					}
				})
			}
			ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(b.N) }
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(ms(edit), "edit-cpu-ms")
			b.ReportMetric(ms(finish), "finish-cpu-ms")
			b.ReportMetric(ms(plan), "plan-cpu-ms")
			if baseline > 0 {
				b.ReportMetric(float64(edit+finish+plan)/float64(baseline), "cpu-ratio")
			}
		})
	}
}

// patchedFleet returns a fleet in which each cluster has another value of its own for a component.
func patchedFleet(b *testing.B, base *State) *State {
	b.Helper()
	tx := base.Begin()
	for _, d := range base.All(KindCluster) {
		_, err := tx.PatchValues(d.ID, "c1", fmt.Appendf(nil, `{"name":%q}`, d.ID), PatchOptions{})
		require.NoError(b, err)
	}
	res, err := tx.Finish(Commit{ID: uuid.New(), Revision: base.Revision() + 1, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Actor: "test"})
	require.NoError(b, err)
	return res.State
}

// templatedFleet returns a fleet with a definition of a resource type that has a template. No cluster has it.
func templatedFleet(b *testing.B, clusters int) *State {
	b.Helper()
	tx := loadShared(b, sharedFleet(b, clusters, 0)).Begin()
	_, err := tx.Create(KindResourceType, []byte(typeWith(b, "settings", configMap, map[string]any{"overridable": []string{"name"}})))
	require.NoError(b, err)
	_, err = tx.Create(ResourceKind("settings"), []byte(`{"id":"a"}`))
	require.NoError(b, err)
	res, err := tx.Finish(Commit{ID: uuid.New(), At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Actor: "test"})
	require.NoError(b, err)
	return res.State
}

// assignedFleet returns a fleet in which each cluster has the definition of the resource type.
func assignedFleet(b *testing.B, templated *State) *State {
	b.Helper()
	tx := templated.Begin()
	var operations []api.Operation
	require.NoError(b, json.Unmarshal([]byte(`[{"op":"assign_resource","all":true,"type":"settings","resource_id":"a"}]`), &operations))
	_, err := NewBatch(tx, nil).Run(operations)
	require.NoError(b, err)
	res, err := tx.Finish(Commit{ID: uuid.New(), At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Actor: "test"})
	require.NoError(b, err)
	return res.State
}

// cpuTime returns the processor time of this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
