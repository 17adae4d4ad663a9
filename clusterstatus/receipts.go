package clusterstatus

import (
	"maps"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// verdict is the result of receiptCounts.
type verdict int

const (
	counts    verdict = iota
	early             // the cluster may not have applied the removal of the input yet
	notServed         // the cluster was not served this input, or no longer is
	outdated          // the input was removed after the receipt, and served again later
)

// receiptCounts reports whether a receipt confirms its input. It is the only place that decides this, for receipts that
// arrive, that another process recorded, and that are stored. A receipt names content and not time, so that one that was sent
// before a change may arrive after it. The first line that applies decides:
//
//	the input was removed from the list                   | early: the cluster may not have applied the removal, and may
//	  less than 45 s before the receipt arrived,          | still send receipts of its previous list, also when the input
//	  by this process or, as far as it knows, another one | was served again since
//	the input is not in the list that the cluster was     | notServed: a cluster cannot apply an input before it is served
//	  served last, by whichever process                   |
//	the input was removed after the receipt arrived       | outdated: also when it was served again since
//	otherwise                                             | counts
//
// RecordReceipt has the consequence of each for a receipt that arrives, docs/status.md has both for users, and
// TestReceiptCounts has one case for each line. served is whether the input is in the list that was served last. wait is the
// remaining time of an early receipt.
func (c *cluster) receiptCounts(key inputKey, r receipt, served bool) (v verdict, wait time.Duration) {
	p := c.poll(key.list.Value())
	if p == nil || r.input == (fleet.Receipt{}) {
		return notServed, 0
	}
	old := c.invalidations[key]
	switch until := p.removed.blockedUntil(r); {
	case r.at < until:
		return early, min(settleTime, time.Duration(until-r.at)*time.Millisecond)
	case !served:
		return notServed, 0
	case old.input == r.input && r.at <= old.at:
		return outdated, 0
	}
	return counts, 0
}

// receiptRetryAfter is the time after which a cluster repeats a receipt of an input that this process does not know to be
// served: after two calls of Sync it knows the lists that other processes served.
const receiptRetryAfter = 2 * syncInterval

// maxReceipts is the limit of stored receipts of all clusters; further ones are dropped. A process stores one for each desired
// input, so a fleet of 10,000 clusters stays far below.
const maxReceipts = 5_000_000

// RecordRepeatedReceipt records a receipt that was recorded before and still counts, as nearly all do, and returns true. If it
// returns false it recorded nothing, and the caller calls RecordReceipt, which needs the desired inputs.
func (t *Tracker) RecordRepeatedReceipt(id, list, input string, r fleet.Receipt, now time.Time) bool {
	c := t.lookup(id)
	if c == nil {
		return false
	}
	key, at := newInputKey(list, input), now.UnixMilli()
	c.mu.Lock()
	old := c.receipts[key]
	if old.input != r || !c.polls.serves(list, r) {
		c.mu.Unlock()
		return false
	}
	if v, _ := c.receiptCounts(key, receipt{r, at}, true); v != counts {
		c.mu.Unlock()
		return false
	}
	c.seen = max(c.seen, at)
	c.receipts[key] = receipt{r, at}
	changed := c.needsWrite(key, old)
	if v, _ := c.receiptCounts(key, old, true); changed || v != counts {
		c.classified = nil
	}
	c.mu.Unlock()
	if changed {
		t.enqueue(c, kindReceipt, key)
	}
	return true
}

// RecordReceipt records a receipt that a cluster itself sent. desired is the desired list of the cluster. It returns 0 when
// the receipt was recorded, and when it names an input that the cluster does not have: such a receipt is ignored, because the
// removal of the input also removes its sender. Otherwise it recorded nothing, and the cluster has to send the receipt again
// after that time:
//
//	counts, and its id is desired         | recorded
//	counts, and its id is not desired     | again: the cluster was not served the removal yet, and the input may come back
//	early                                 | again, when it is no longer early
//	notServed, and its id is desired      | again: another process may have served it, or is about to
//	notServed, and its id is not desired  | ignored
//	outdated                              | again: its clock or that of another process is off by a moment
//
// So a process stores at most one receipt for each desired input, whichever receipts a cluster sends.
func (t *Tracker) RecordReceipt(id string, desired fleet.DesiredInputs, input string, r fleet.Receipt, now time.Time) (retryAfter time.Duration) {
	c, key, at := t.cluster(id), newInputKey(desired.List, input), now.UnixMilli()
	isDesired := false
	for one := range desired.Inputs {
		isDesired = isDesired || one == input
	}
	c.mu.Lock()
	c.seen = max(c.seen, at)
	if p := c.poll(desired.List); p != nil && !p.served.known && p.etag == desired.ETag {
		c.recordServed(desired, at) // another process served it, and the list was too long for its row
	}
	v, wait := c.receiptCounts(key, receipt{r, at}, c.polls.serves(desired.List, r))
	changed := false
	switch {
	case v == early:
		retryAfter = wait
	case v == notServed && !isDesired:
	case v != counts || !isDesired:
		retryAfter = receiptRetryAfter
	default:
		changed = c.storeReceipt(key, r, at)
	}
	c.mu.Unlock()
	if changed {
		t.enqueue(c, kindReceipt, key)
	}
	return retryAfter
}

// storeReceipt stores a receipt that counts, or that another process recorded, and reports whether its row has to be written.
func (c *cluster) storeReceipt(key inputKey, input fleet.Receipt, at int64) (changed bool) {
	old, known := c.receipts[key]
	if c.receipts == nil {
		c.receipts = map[inputKey]receipt{}
	}
	if !known && c.receiptCount.Add(1) > maxReceipts {
		c.receiptCount.Add(-1)
		return false
	}
	c.receipts[key], c.sendsReceipts, c.classified = receipt{input, at}, true, nil
	return !known || old.input != input || c.needsWrite(key, old)
}

// needsWrite reports whether a repetition of a stored receipt has to be written: it counts again, or it ends a failure.
func (c *cluster) needsWrite(key inputKey, old receipt) bool {
	if v := c.invalidations[key]; v.input == old.input && old.at <= v.at {
		return true
	}
	failure := c.events[key]
	return failure != nil && failure.isFailure() && failure.At.UnixMilli() > old.at
}

// dropReceipts removes the stored receipts for which drop returns true.
func (c *cluster) dropReceipts(drop func(on inputKey, r receipt) bool) {
	n := len(c.receipts)
	c.classified = nil
	maps.DeleteFunc(c.receipts, drop)
	c.receiptCount.Add(int64(len(c.receipts) - n))
	if len(c.receipts) == 0 {
		c.receipts = nil
	}
}

// invalidateReceipts removes the stored receipts of a list that do not count, after the list has changed or receipts of other
// processes were read. servedAt is when this process served the list, 0 when it has not. It returns the inputs whose
// invalidation is new. An invalidation is stored, so that after a restart and in every process the receipt does not count
// either when its input is served again.
func (c *cluster) invalidateReceipts(list string, servedAt int64) (invalidated []inputKey) {
	p := c.poll(list)
	if p != nil && !p.served.known {
		return nil
	}
	var served map[fleet.Receipt]struct{}
	if p != nil {
		served = p.served.set()
	}
	c.dropReceipts(func(key inputKey, r receipt) bool {
		if key.list.Value() != list {
			return false
		}
		_, is := served[r.input]
		verdict, _ := c.receiptCounts(key, r, is)
		switch {
		case verdict == counts:
			return false
		case verdict == early, verdict == notServed && p != nil && (servedAt > 0 || r.at >= p.since):
			c.addInvalidation(key, receipt{r.input, max(r.at, servedAt)})
			invalidated = append(invalidated, key)
		}
		return true
	})
	// An old invalidation of an input that is not served is needed only by processes that read the Store from the beginning,
	// and is there.
	maps.DeleteFunc(c.invalidations, func(key inputKey, verdict receipt) bool {
		_, is := served[verdict.input]
		return servedAt > 0 && !is && key.list.Value() == list && verdict.at < servedAt-pruneInterval.Milliseconds()
	})
	return invalidated
}

// addInvalidation records that receipts of an input up to a time do not count.
func (c *cluster) addInvalidation(key inputKey, v receipt) {
	if old := c.invalidations[key]; old.input == v.input && old.at >= v.at {
		return
	}
	if c.invalidations == nil {
		c.invalidations = map[inputKey]receipt{}
	}
	c.invalidations[key], c.classified = v, nil
}

// listPolls are the answers that a cluster was served last, one for each list.
type listPolls []listPoll

// find returns the answer for a list; nil when there is none.
func (ps listPolls) find(list string) *listPoll {
	for i := range ps {
		if ps[i].list == list {
			return &ps[i]
		}
	}
	return nil
}

// serves reports whether an input is known to be in the list that was served last.
func (ps listPolls) serves(list string, r fleet.Receipt) bool {
	p := ps.find(list)
	return p != nil && p.served.known && slices.Contains(p.served.receipts, r)
}
