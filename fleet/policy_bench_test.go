package fleet

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// benchmarkRules are those of the policies of BenchmarkPolicies: four that read inputs of all clusters, eight that read clusters, and eight
// on documents.
var benchmarkRules = []string{
	"effect.clusters.size() <= 1000000",
	"change.documents.all(d, d.kind != 'rolebinding')",
	"effect.clusters.all(c, c.removals == 0)",
	"change.documents.size() <= 1000000",
	"effect.clusters.all(c, c.lists.rolebindings.size() == 0)",
}

// BenchmarkPolicies plans a change of all 10,000 clusters with 30 components each, and commits a change of one, without and with 20
// or 100 policies, alternately. The ratio compares the medians of the processor time.
func BenchmarkPolicies(b *testing.B) {
	base := loadShared(b, sharedFleet(b, 10_000, 0))
	with := map[int]*State{20: withManyPolicies(b, base, 20), maxPolicies: withManyPolicies(b, base, maxPolicies)}
	for _, c := range []struct {
		name, operations string
		policies         int
		plan             bool
	}{
		{"plan catalog", `{"op":"patch","kind":"platform_component","id":"c0","patch":{"component_version":"2.0.0"}}`, 20, true},
		{"plan catalog, many policies", `{"op":"patch","kind":"platform_component","id":"c0","patch":{"component_version":"2.0.0"}}`, maxPolicies, true},
		{"plan labels", `{"op":"set_labels","all":true,"labels":{"wave":"1"}}`, 20, true},
		{"plan tags", `{"op":"set_component","all":true,"component_id":"c3","component_version":"2.0.0"}`, 20, true},
		{"commit cluster", `{"op":"patch","kind":"cluster","id":"k00001","patch":{"patches":{"c0":{"replicaCount":"7"}}}}`, 20, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			operations := operationsOf(b, c.operations)
			var times [2][]time.Duration
			for b.Loop() {
				for i, s := range []*State{base, with[c.policies]} {
					before := cpuTime(b)
					tx := s.Begin()
					tx.Guard(Guard{Off: c.plan})
					_, err := NewBatch(tx, nil).Run(operations)
					require.NoError(b, err)
					res, err := tx.Finish(Commit{ID: uuid.New(), At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Actor: "test"})
					require.NoError(b, err)
					if c.plan {
						p, err := res.Plan()
						require.NoError(b, err)
						require.Len(b, p.Policies, c.policies*i)
					}
					times[i] = append(times[i], cpuTime(b)-before)
				}
			}
			median := func(of []time.Duration) float64 { return float64(slices.Sorted(slices.Values(of))[len(of)/2]) }
			b.ReportMetric(median(times[0])/1e6, "without-cpu-ms")
			b.ReportMetric(median(times[1])/median(times[0]), "cpu-ratio")
		})
	}
}
