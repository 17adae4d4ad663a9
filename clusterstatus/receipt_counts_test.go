package clusterstatus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// TestReceiptCounts has a case for each line of the table of receiptCounts, for the limits of each condition, and for the order
// of the lines. All receipts arrive at noon.
func TestReceiptCounts(t *testing.T) {
	t.Parallel()
	at, settled := noon.UnixMilli(), settleTime.Milliseconds()
	removed := func(before int64) removedInputs { return removedInputs{byInput: []receipt{{rcpt(1), at - before}}} }
	for name, c := range map[string]struct {
		poll         *listPoll
		invalidation receipt
		input        fleet.Receipt
		served       bool
		want         verdict
		wait         time.Duration
	}{
		"served":                             {poll: &listPoll{}, input: rcpt(1), served: true, want: counts},
		"never polled":                       {input: rcpt(1), served: true, want: notServed},
		"disabled input":                     {poll: &listPoll{}, served: true, want: notServed},
		"not served":                         {poll: &listPoll{}, input: rcpt(1), want: notServed},
		"just removed":                       {poll: &listPoll{removed: removed(0)}, input: rcpt(1), want: early, wait: settleTime},
		"just removed and served again":      {poll: &listPoll{removed: removed(0)}, input: rcpt(1), served: true, want: early, wait: settleTime},
		"removed and served again":           {poll: &listPoll{removed: removed(settled - 1)}, input: rcpt(1), served: true, want: early, wait: time.Millisecond},
		"removed 45 s ago and served again":  {poll: &listPoll{removed: removed(settled)}, input: rcpt(1), served: true, want: counts},
		"removed 45 s ago":                   {poll: &listPoll{removed: removed(settled)}, input: rcpt(1), want: notServed},
		"removed a moment later":             {poll: &listPoll{removed: removed(-1)}, input: rcpt(1), served: true, want: early, wait: settleTime},
		"another input removed":              {poll: &listPoll{removed: removed(0)}, input: rcpt(2), served: true, want: counts},
		"too many removed before":            {poll: &listPoll{removed: removedInputs{allAt: at - 1}}, input: rcpt(2), served: true, want: early, wait: settleTime - time.Millisecond},
		"too many removed later":             {poll: &listPoll{removed: removedInputs{allAt: at + 1}}, input: rcpt(2), served: true, want: counts},
		"invalidated, served again":          {poll: &listPoll{}, invalidation: receipt{rcpt(1), at}, input: rcpt(1), served: true, want: outdated},
		"invalidated, not served":            {poll: &listPoll{}, invalidation: receipt{rcpt(1), at}, input: rcpt(1), want: notServed},
		"invalidated before":                 {poll: &listPoll{}, invalidation: receipt{rcpt(1), at - 1}, input: rcpt(1), served: true, want: counts},
		"previous input invalidated":         {poll: &listPoll{}, invalidation: receipt{rcpt(2), at}, input: rcpt(1), served: true, want: counts},
		"invalidated and just removed again": {poll: &listPoll{removed: removed(0)}, invalidation: receipt{rcpt(1), at}, input: rcpt(1), served: true, want: early, wait: settleTime},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := newInputKey("components", "c0")
			x := &cluster{invalidations: map[inputKey]receipt{key: c.invalidation}}
			if c.poll != nil {
				c.poll.list = "components"
				x.polls = listPolls{{list: "namespaces"}, *c.poll}
			}
			got, wait := x.receiptCounts(key, receipt{c.input, at}, c.served)
			require.Equal(t, c.want, got)
			require.Equal(t, c.wait, wait)
		})
	}
}

// TestRecordReceipt has a case for each line of the table of RecordReceipt.
func TestRecordReceipt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		served       [][]byte // the lists that the cluster was served, a minute apart, the last one at noon
		desired      []byte
		invalidation receipt
		again        time.Duration
		recorded     bool
	}{
		"counts, desired":         {served: [][]byte{{1}}, desired: []byte{1}, recorded: true},
		"counts, not desired":     {served: [][]byte{{1}}, again: receiptRetryAfter},
		"early, desired":          {served: [][]byte{{1}, {2}}, desired: []byte{1}, again: settleTime - time.Second},
		"early, not desired":      {served: [][]byte{{1}, {}}, again: settleTime - time.Second},
		"not served, desired":     {served: [][]byte{{2}}, desired: []byte{1}, again: receiptRetryAfter},
		"not served, not desired": {served: [][]byte{{}}},
		"outdated":                {served: [][]byte{{1}}, desired: []byte{1}, invalidation: receipt{rcpt(1), noon.Add(time.Minute).UnixMilli()}, again: receiptRetryAfter},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracker, key := NewTracker(Config{}), newInputKey("components", "c0")
			for i, list := range c.served {
				at := noon.Add(time.Duration(i+1-len(c.served)) * time.Minute)
				tracker.RecordPoll(Poll{Cluster: "x", List: "components", ETag: string(list)}, at)
				tracker.RecordServed("x", desiredLists(string(list), list...)[0], at)
			}
			tracker.cluster("x").addInvalidation(key, c.invalidation)
			require.Equal(t, c.again, tracker.RecordReceipt("x", desiredLists("desired", c.desired...)[0], "c0", rcpt(1), noon.Add(time.Second)))
			_, recorded := tracker.cluster("x").receipts[key]
			require.Equal(t, c.recorded, recorded)
		})
	}
}
