package server_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// TestStatusOfChangingFleet: while a fleet changes and its clusters poll and confirm, a status that uses an earlier evaluation equals one
// from the desired inputs and all receipts. clusterstatus has this test for observations; this one is about commits.
func TestStatusOfChangingFleet(t *testing.T) {
	t.Parallel()
	w := setupWith(t, options{empty: true})
	r := rand.New(rand.NewPCG(1, 1))
	now, tracker := w.clock.Now(), clusterstatus.NewTracker(clusterstatus.Config{})
	update := func(edit func(tx *fleet.Tx) error) {
		_, err := w.replica.Update(t.Context(), store.Meta{Actor: "test"}, edit)
		require.NoError(t, err)
	}
	update(func(tx *fleet.Tx) error { return fillFleet(tx, 6, 4) })
	update(func(tx *fleet.Tx) error {
		_, err := tx.Create(fleet.KindLayer, []byte(`{"id":"base","priority":1,"all":true}`))
		return err
	})
	patch := func(kind fleet.Kind, id, format string, args ...any) {
		w.clock.advance(5 * time.Minute) // the limit of removals is for an hour
		update(func(tx *fleet.Tx) error {
			_, err := tx.Patch(kind, id, fmt.Appendf(nil, format, args...))
			return err
		})
	}
	classified, states := 0, map[clusterstatus.State]bool{}
	for step := range 1200 {
		now = now.Add(time.Duration(r.IntN(20)) * time.Second)
		st := w.replica.State()
		cluster := st.All(fleet.KindCluster)[r.IntN(6)]
		switch r.IntN(12) {
		case 0:
			patch(fleet.KindComponent, fmt.Sprint("component-", r.IntN(4)), `{"component_version":"2.0.%d"}`, r.IntN(3))
		case 1:
			patch(fleet.KindCluster, cluster.ID, `{"platform_components":[{"id":"component-0"},{"id":"component-%d","enabled":%t}]}`, 1+r.IntN(3), r.IntN(2) == 0)
		case 2:
			patch(fleet.KindLayer, "base", `{"platform_components":[{"id":"component-3","component_version":"3.0.%d"}]}`, r.IntN(2))
		case 3:
			patch(fleet.KindLayer, "base", `{"description":"changes no input, %d"}`, step)
		case 4, 5, 6, 7:
			desired, err := st.DesiredInputs(cluster)
			require.NoError(t, err)
			for _, list := range desired {
				if tracker.RecordPoll(clusterstatus.Poll{Cluster: cluster.ID, List: list.List, ETag: list.ETag, Agent: "flux-operator/v1"}, now) {
					tracker.RecordServed(cluster.ID, list, now)
				}
				i := 0
				for id := range list.Inputs {
					if r.IntN(5) > 0 {
						tracker.RecordReceipt(cluster.ID, list, id, list.Receipts[i], now)
					}
					i++
				}
			}
		default:
		}
		st = w.replica.State()
		for _, doc := range st.All(fleet.KindCluster) {
			q := clusterstatus.Query{Cluster: doc.ID, DesiredVersion: st.ID(), Now: now, OfflineAfter: clusterstatus.OfflineAfter}
			got, ok := tracker.EvaluateClassified(q)
			if ok {
				classified++
			} else {
				var err error
				q.Desired, err = st.DesiredReceipts(doc)
				require.NoError(t, err)
				got = tracker.Evaluate(q)
			}
			if r.IntN(3) > 0 { // otherwise all answers were always encoded
				continue
			}
			var err error
			q.DesiredVersion = nil
			q.Desired, err = st.DesiredInputs(doc)
			require.NoError(t, err)
			require.Equal(t, tracker.Evaluate(q), got, "step %d", step)
			states[got.State] = true
		}
	}
	require.Greater(t, classified, 2000)
	require.GreaterOrEqual(t, len(states), 5, states)
}
