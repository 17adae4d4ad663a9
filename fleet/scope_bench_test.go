package fleet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// BenchmarkScope commits a change of one cluster, and one of a component that 10,000 clusters use, with and without the limits of
// an access document, alternately. Before "component after cluster" a cluster changes. The ratio compares the medians of the
// processor time.
func BenchmarkScope(b *testing.B) {
	base := loadShared(b, sharedFleet(b, 10_000, 0))
	tx := base.Begin()
	_, err := tx.Create(KindAccess, []byte(`{"id":"ci","subjects":[{"token":"ci"}],"may":["write"],"on":{"selector":"id!=other","kinds":["cluster","platform_component"]}}`))
	require.NoError(b, err)
	granted, err := tx.Finish(Commit{ID: uuid.New(), Actor: "test"})
	require.NoError(b, err)
	cluster, component := patch(KindCluster, "k00001", `{"patches":{"c0":{"replicaCount":"7"}}}`), patch(KindComponent, "c3", `{"component_version":"99.0.0"}`)
	for _, c := range []struct {
		name         string
		edit         func(*Tx) error
		afterCluster bool
	}{
		{"cluster", cluster, false},
		{"component", component, false},
		{"component after cluster", component, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			var times [2][]time.Duration // without and with limits
			s := granted.State
			for n := 0; b.Loop(); n++ {
				for limited := range times {
					if c.afterCluster {
						tx := s.Begin()
						require.NoError(b, patch(KindCluster, fmt.Sprintf("k%05d", n%10_000), fmt.Sprintf(`{"labels":{"n":"%d"}}`, n))(tx))
						res, err := tx.Finish(Commit{ID: uuid.New(), Actor: "test"})
						require.NoError(b, err)
						s = res.State
					}
					before := cpuTime(b)
					tx := s.Begin()
					if limited == 1 {
						tx.LimitTo(s.Rights(ci, time.Time{}), false)
					}
					require.NoError(b, c.edit(tx))
					_, err := tx.Finish(Commit{ID: uuid.New(), Actor: "test"})
					require.NoError(b, err)
					times[limited] = append(times[limited], cpuTime(b)-before)
				}
			}
			median := func(of []time.Duration) float64 { return float64(slices.Sorted(slices.Values(of))[len(of)/2]) }
			b.ReportMetric(median(times[0])/1e6, "unlimited-cpu-ms")
			b.ReportMetric(median(times[1])/median(times[0]), "cpu-ratio")
		})
	}
}
