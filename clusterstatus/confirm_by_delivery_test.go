package clusterstatus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestConfirmedByDelivery: an input of a type without receipts is confirmed once the cluster was served it, not before.
func TestConfirmedByDelivery(t *testing.T) {
	t.Parallel()
	since := time.UnixMilli(1)
	for name, c := range map[string]struct {
		in   InputStatus
		list State
		want State
		by   bool
	}{
		"delivered":               {InputStatus{Enabled: true, State: Delivered}, Delivered, Confirmed, true},
		"to one without receipts": {InputStatus{Enabled: true, State: Unknown}, Delivered, Confirmed, true},
		"not yet":                 {InputStatus{Enabled: true, State: Unknown}, Behind, Behind, false},
		"never":                   {InputStatus{Enabled: true, State: Unknown}, Never, Behind, false},
		"failed":                  {InputStatus{Enabled: true, State: Failed}, Delivered, Failed, false},
		"by a receipt":            {InputStatus{Enabled: true, State: Confirmed}, Delivered, Confirmed, false},
	} {
		c.in.confirmByDelivery(ListStatus{State: c.list, Since: since})
		require.Equal(t, c.want, c.in.State, name)
		require.Equal(t, c.by, c.in.ByDelivery, name)
	}
}
