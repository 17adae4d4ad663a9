package fleet

import (
	"fmt"
	"testing"
	"time"
)

// TestFastClockFreezesTheBudgetBriefly: at most for twice the window, after any commit by a correct clock.
func TestFastClockFreezesTheBudgetBriefly(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]func(*Tx) error{
		"a removal":      batch(`{"op":"set_component","cluster_ids":["c000","c001","c002","c003","c004"],"component_id":"grafana","enabled":false}`),
		"something else": batch(`{"op":"set_labels","all":true,"labels":{"a":"b"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fleetOf(t, 12) // and five an hour
			off := func(i int) func(*Tx) error {
				return assign(fmt.Sprintf("c%03d", i), KindComponent, "grafana", `{"enabled":false}`)
			}
			right := w.now
			w.now = right.Add(365 * 24 * time.Hour)
			w.must(ahead)
			w.now = right.Add(time.Minute)
			if name == "a removal" {
				w.refused(CodeConfirm, off(5))
				w.must(batch(`{"op":"set_labels","all":true,"labels":{"a":"c"}}`))
			} else {
				for i := range 5 {
					w.must(off(i))
				}
			}
			w.now = w.now.Add(2*time.Hour - time.Microsecond)
			w.refused(CodeConfirm, off(5))
			w.now = w.now.Add(time.Microsecond)
			w.must(off(5))
		})
	}
}
