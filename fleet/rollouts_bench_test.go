package fleet

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// BenchmarkRollouts starts the stages of a rollout over 10,000 clusters, a third and then the rest, and completes it; first
// a layer change of the same size, for comparison. server's BenchmarkRolloutPolls measures polls meanwhile.
func BenchmarkRollouts(b *testing.B) {
	for _, layers := range []int{0, 5} {
		b.Run(fmt.Sprint(layers, "-layers"), func(b *testing.B) {
			s := loadShared(b, sharedFleet(b, 10_000, layers))
			pollAll(b, s)
			heap := func() float64 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return float64(m.HeapAlloc) / (1 << 20)
			}
			step := func(name string, edit func(*Tx) error) {
				tx := s.Begin()
				tx.Guard(Guard{Off: true})
				start := time.Now()
				require.NoError(b, edit(tx))
				res, err := tx.Finish(Commit{ID: uuid.New(), At: start, Actor: "test"})
				require.NoError(b, err)
				b.ReportMetric(time.Since(start).Seconds()*1000, name+"-commit-ms")
				start = time.Now()
				_, err = s.Apply(res.Commit)
				require.NoError(b, err)
				b.ReportMetric(time.Since(start).Seconds()*1000, name+"-follow-ms")
				start = time.Now()
				plan, err := res.Plan()
				require.NoError(b, err)
				b.ReportMetric(time.Since(start).Seconds()*1000, name+"-plan-ms")
				b.ReportMetric(float64(plan.Totals.Clusters), name+"-clusters")
				s = res.State
			}
			w := &world{state: s}
			for b.Loop() {
				if layers > 0 {
					step("layer", patch(KindLayer, "l0", `{"patches":{"c0":{"replicaCount":"3"}}}`))
				}
				size := heap()
				step("create", rollOut(w, "r", []RolloutStage{{Name: "third", All: true, Percent: 30}}, patchOp(KindComponent, "c3", `{"component_version":"99.0.0"}`)))
				step("start", act("r", RolloutStart))
				pollAll(b, s)
				b.ReportMetric(heap()/size, "heap-ratio")
				step("pause", act("r", RolloutPause))
				step("resume", act("r", RolloutResume))
				step("rest", act("r", RolloutStart))
				pollAll(b, s)
				step("complete", act("r", RolloutComplete))
				start := time.Now()
				pollAll(b, s)
				b.ReportMetric(time.Since(start).Seconds()*1000, "polls-after-ms")
				step("delete", remove(KindRollout, "r", DeleteOptions{}))
				step("again", patch(KindComponent, "c3", `{"component_version":"1.0.0"}`))
			}
		})
	}
}
