package clusterstatus

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConfirmedByDelivery: an input of a type without receipts is confirmed once the cluster was served it, not before.
func TestConfirmedByDelivery(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		class         inputClass
		sendsReceipts bool // of other inputs
		list          State
		want          State
		by            bool
	}{
		"delivered":                {enabledInput, true, Delivered, Confirmed, true},
		"to one without receipts":  {enabledInput, false, Delivered, Confirmed, true},
		"not yet":                  {enabledInput, false, Behind, Behind, false},
		"not yet, and not overdue": {enabledInput, true, Progressing, Progressing, false},
		"never":                    {enabledInput, false, Never, Behind, false},
		"failed":                   {enabledInput | failedInput, true, Delivered, Failed, false},
		"by a receipt":             {enabledInput | confirmedInput, true, Delivered, Confirmed, false},
		"disabled":                 {0, true, Delivered, Delivered, false},
	} {
		e := evaluation{cluster: &cluster{sendsReceipts: c.sendsReceipts}}
		state, by := e.inputState(c.class, ListStatus{State: c.list}, true)
		require.Equal(t, c.want, state, name)
		require.Equal(t, c.by, by, name)
	}
}
