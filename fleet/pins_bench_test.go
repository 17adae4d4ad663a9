package fleet

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// BenchmarkPins changes a component of 10,000 clusters, none or 100 of which are pinned, and
// plans, follows and polls the change.
func BenchmarkPins(b *testing.B) {
	base := loadShared(b, sharedFleet(b, 10_000, 5))
	for _, frozen := range []int{0, 100} {
		b.Run(fmt.Sprint(frozen, "-pinned"), func(b *testing.B) {
			s := base
			commit := func(edit func(*Tx) error) (res Result) {
				tx := s.Begin()
				require.NoError(b, edit(tx))
				res, err := tx.Finish(Commit{ID: uuid.New(), At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Actor: "test"})
				require.NoError(b, err)
				return res
			}
			var took [5]time.Duration
			lap := func(i int, do func()) {
				before := cpuTime(b)
				do()
				took[i] += cpuTime(b) - before
			}
			if frozen > 0 {
				ids := make([]string, frozen)
				for i := range ids {
					ids[i] = fmt.Sprintf("k%05d", i)
				}
				lap(0, func() {
					s = commit(pinAll(ids...)).State
				})
			}
			pollAll(b, s)
			n := 0
			for b.Loop() {
				n++
				runtime.GC()
				var res Result
				lap(1, func() { res = commit(patch(KindComponent, "c3", fmt.Sprintf(`{"component_version":"99.%d"}`, n))) })
				lap(2, func() {
					plan, err := res.Plan()
					require.NoError(b, err)
					require.Equal(b, 10_000-frozen, plan.Totals.Clusters)
				})
				lap(3, func() {
					_, err := s.Apply(res.Commit)
					require.NoError(b, err)
				})
				s = res.State
				lap(4, func() { pollAll(b, s) })
			}
			b.ReportMetric(0, "ns/op")
			took[0] *= time.Duration(n) // it was made once
			for i, name := range []string{"pin", "commit", "plan", "follow", "polls"} {
				b.ReportMetric(float64(took[i].Microseconds())/1000/float64(n), name+"-cpu-ms")
			}
		})
	}
}
