package fleet

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// changedBy returns the inputs that a revision changed, computed from the log.
func (w *world) changedBy(t require.TestingT, rev int64) map[string][]ChangedInput {
	later := Documents{}
	for i := len(w.log.commits) - 1; int64(i) >= rev; i-- {
		for _, ch := range w.log.commits[i].Changes {
			later.Set(ch.Kind, ch.ID, ch.Before)
		}
	}
	changed, err := w.state.InputsChangedBy(context.Background(), w.log.commits[rev-1].Changes, later)
	require.NoError(t, err)
	return changed
}

// servedReceipts returns the receipts of all served inputs of live clusters.
func servedReceipts(t require.TestingT, s *State) map[string]map[string]Receipt {
	out := map[string]map[string]Receipt{}
	for _, doc := range s.All(KindCluster) {
		out[doc.ID] = map[string]Receipt{}
		asked, err := s.DesiredInputs(doc)
		require.NoError(t, err)
		for _, list := range asked {
			i := 0
			for id := range list.Inputs {
				out[doc.ID][list.List+" "+id] = list.Receipts[i]
				i++
			}
		}
	}
	return out
}

// TestInputsChangedByAnyRevision: regardless of later commits, the changed inputs of a revision are those whose receipts
// differ between the answers before and after it.
func TestInputsChangedByAnyRevision(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := layeredWorld(t)
		states := []*State{w.state}
		for range rapid.IntRange(1, 8).Draw(rt, "commits") {
			w.commitRandomly(rt)
			if w.state != states[len(states)-1] {
				states = append(states, w.state)
			}
		}
		now := polls(rt, w.state)
		for rev := 2; rev <= len(states); rev++ {
			want := receiptsThatDiffer(servedReceipts(rt, states[rev-2]), servedReceipts(rt, states[rev-1]))
			found := map[string]map[string]Receipt{}
			for cluster, inputs := range w.changedBy(rt, int64(rev)) {
				found[cluster] = map[string]Receipt{}
				for _, in := range inputs {
					found[cluster][in.List+" "+in.ID] = in.Receipt
				}
			}
			require.Equal(rt, want, found, "revision %d", rev)
		}
		require.Equal(rt, now, polls(rt, w.state))
	})
}

// receiptsThatDiffer returns the receipts after a revision that are new or changed, by cluster and input; the zero Receipt
// stands for a removed input.
func receiptsThatDiffer(was, is map[string]map[string]Receipt) map[string]map[string]Receipt {
	out := map[string]map[string]Receipt{}
	for cluster, inputs := range is {
		changed := map[string]Receipt{}
		for input, receipt := range inputs {
			if old, there := was[cluster][input]; !there || old != receipt {
				changed[input] = receipt
			}
		}
		for input := range was[cluster] {
			if _, stays := inputs[input]; !stays {
				changed[input] = Receipt{}
			}
		}
		if len(changed) > 0 {
			out[cluster] = changed
		}
	}
	return out
}
