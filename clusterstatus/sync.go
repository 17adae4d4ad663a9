package clusterstatus

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
)

// Run exchanges what is noted with the table until ctx ends. It writes what is left, and closes the table.
func (t *Tracker) Run(ctx context.Context) {
	tick := time.NewTicker(syncInterval)
	defer tick.Stop()
	for {
		t.Sync(ctx, time.Now())
		select {
		case <-ctx.Done():
			if t.cfg.Store == nil {
				return
			}
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), syncInterval)
			defer cancel()
			t.lastSeenWrite = time.Time{}
			t.reportFailure(last, errors.Join(t.write(last, time.Now(), 0), t.cfg.Store.Close()))
			return
		case <-tick.C:
		}
	}
}

// Exchange reads what is new elsewhere and writes what is new here: in this order, since what is written hides what the table has
// lost. Run does it again and again; it is not for several goroutines at once.
func (t *Tracker) Sync(ctx context.Context, now time.Time) {
	if t.cfg.Store == nil {
		t.reportFailure(ctx, t.prune(ctx, now))
		return
	}
	err := t.read(ctx, now)
	t.resync()
	err = errors.Join(err, t.write(ctx, now, seenInterval), t.prune(ctx, now))
	t.reportFailure(ctx, err)
	if err == nil {
		t.recent.drop(now.Add(-maxWriteDelay))
	}
}

// failed logs trouble with the table once, until it is over.
func (t *Tracker) reportFailure(ctx context.Context, err error) {
	switch {
	case err == nil:
		if t.failing { // it may have lost the last that it was told; what it did not take is told again anyway
			for _, batch := range t.recent.batches {
				t.requeue(batch.rows)
			}
			t.recent = recentWrites{}
		}
		t.failing = false
	case ctx.Err() != nil:
	case errors.Is(err, ErrDenied):
		t.failures.Add(1)
		if !t.denied {
			t.cfg.Logger.WarnContext(ctx, "what clusters say here is kept in memory and told to no other process: the role may not write to the table of observations", "error", err)
		}
		t.denied = true
	default:
		t.failures.Add(1)
		if !t.failing {
			t.cfg.Logger.WarnContext(ctx, "what clusters say cannot be exchanged with other processes at the moment; it is kept in memory", "error", err)
		}
		t.failing = true
	}
}

// write writes what waits for it, and where the table's word that a cluster was seen is as old as that, that it was.
func (t *Tracker) write(ctx context.Context, now time.Time, age time.Duration) error {
	t.queue.Lock()
	pending, overflowed := t.pending, t.overflowed
	t.overflowed = false
	t.pending = make(map[pendingRow]struct{}, min(len(pending), maxBatch))
	t.queue.Unlock()
	if overflowed {
		t.resyncAll()
	}
	if now.Sub(t.lastSeenWrite) >= seenCheckInterval {
		t.lastSeenWrite = now
		due := now.Add(-age).UnixMilli()
		for _, c := range t.allClusters() {
			c.mu.Lock()
			if c.seen > c.storedSeen && c.storedSeen <= due {
				pending[pendingRow{c, subject{kind: kindSeen, key: newInputKey("", "")}}] = struct{}{}
			}
			for i := range c.polls {
				c.polls[i].removed.expire(now.UnixMilli())
			}
			c.mu.Unlock()
		}
	}
	batch, rows := make([]pendingRow, 0, maxBatch), make([]Row, 0, maxBatch+1)
	var err error
	flush := func() {
		if err == nil {
			mark := t.lossDetector.nextTime(now)
			if err = t.cfg.Store.Put(ctx, append(rows, t.lossDetector.row(mark))); err == nil {
				t.recent.add(now, batch)
				t.lossDetector.at[t.lossDetector.slot] = mark
			}
			if err == nil && t.denied {
				t.denied = false
				t.resyncAll()
			}
		}
		if err != nil && !errors.Is(err, ErrDenied) {
			t.requeue(batch)
		}
		batch, rows = batch[:0], rows[:0]
	}
	for _, w := range sortRows(pending) {
		w.cluster.mu.Lock()
		row, ok := w.cluster.encodeRow(w.subject)
		if w.subject.kind == kindSeen {
			w.cluster.storedSeen = w.cluster.seen
		}
		w.cluster.mu.Unlock()
		if !ok {
			continue
		}
		if batch, rows = append(batch, w), append(rows, row); len(rows) == maxBatch {
			flush()
		}
	}
	if row, ok := t.filters.encode(now); ok && err == nil && !t.denied {
		if err = t.cfg.Store.Put(ctx, []Row{row}); err == nil {
			t.filters.markWritten(row.ObservedAt)
		}
	}
	if len(rows) > 0 || t.lossDetector.due(now) && !t.denied {
		flush()
	}
	return err
}

// inOrder has rows that lie beside each other in a table's index written together.
func sortRows(pending map[pendingRow]struct{}) []pendingRow {
	return slices.SortedFunc(maps.Keys(pending), func(a, b pendingRow) int {
		return cmp.Or(strings.Compare(a.subject.kind, b.subject.kind), strings.Compare(a.cluster.id, b.cluster.id))
	})
}

// again has rows written later, when the table does not take them now.
func (t *Tracker) requeue(batch []pendingRow) {
	for _, w := range batch {
		if w.subject.kind == kindSeen {
			w.cluster.mu.Lock()
			w.cluster.storedSeen = 0
			w.cluster.mu.Unlock()
			continue
		}
		t.enqueue(w.cluster, w.subject.kind, w.subject.key)
	}
}

// recent is what the table took last. It does not wait for the disk, so it may lose that when it fails.
type recentWrites struct {
	batches []writtenBatch
	rows    int
}

// told is a batch of rows and when the table took them.
type writtenBatch struct {
	at   time.Time
	rows []pendingRow
}

func (r *recentWrites) add(at time.Time, rows []pendingRow) {
	r.batches = append(r.batches, writtenBatch{at, slices.Clone(rows)})
	for r.rows += len(rows); r.rows > maxResyncRows; {
		r.dropFirst()
	}
}

// drop forgets what is older than that.
func (r *recentWrites) drop(before time.Time) {
	for len(r.batches) > 0 && r.batches[0].at.Before(before) {
		r.dropFirst()
	}
}

func (r *recentWrites) dropFirst() {
	r.rows -= len(r.batches[0].rows)
	r.batches[0] = writtenBatch{}
	r.batches = r.batches[1:]
}

// tellAll has everything that is known here written again, in some exchanges. What is there already stays as it is.
func (t *Tracker) resyncAll() { t.backlog = t.allClusters() }

// retell is the next part of that.
func (t *Tracker) resync() {
	for rows := 0; rows < maxResyncRows && len(t.backlog) > 0; {
		c := t.backlog[len(t.backlog)-1]
		t.backlog = t.backlog[:len(t.backlog)-1]
		c.mu.Lock()
		subjects := c.subjects()
		c.mu.Unlock()
		for _, s := range subjects {
			t.enqueue(c, s.kind, s.key)
		}
		rows += len(subjects)
	}
}

// heardOf is a list of a cluster of which others said something.
type changedList struct {
	cluster *cluster
	list    string
}

// invalidate looks, when all was read, at receipts and lists that others recorded.
func (t *Tracker) invalidateReceipts(changed map[changedList]struct{}) {
	for list := range changed {
		list.cluster.mu.Lock()
		invalidated := list.cluster.invalidateReceipts(list.list, 0)
		list.cluster.mu.Unlock()
		for _, key := range invalidated {
			t.enqueue(list.cluster, kindInvalidation, key)
		}
	}
}

// read takes over what was written since the last time. Once in a while it looks further back, for what was written late.
func (t *Tracker) read(ctx context.Context, now time.Time) error {
	from := t.readFrom
	readLate := now.Sub(t.lastLateRead) >= lateReadInterval
	if readLate && !from.IsZero() {
		from = from.Add(-lateReadInterval - maxWriteDelay)
	}
	changed := map[changedList]struct{}{}
	var found [2]time.Time
	next, err := t.cfg.Store.Since(ctx, from, append(t.lossDetector.subjects[:], filtersSubject), func(r Row) {
		if r.Cluster == storeID && r.Subject == filtersSubject {
			t.filters.merge(r)
			return
		}
		if r.Cluster == storeID {
			t.lossDetector.observe(&found, r)
			return
		}
		s, ok := parseSubject(r.Subject)
		if !ok {
			return
		}
		c := t.cluster(r.Cluster)
		c.mu.Lock()
		outdated := c.merge(s, r, now)
		if s.kind == kindPoll {
			c.learnFloor(t, s.key.list.Value(), r.Body, min(r.ObservedAt.UnixMilli(), now.UnixMilli()), now)
		}
		c.mu.Unlock()
		if outdated {
			t.enqueue(c, kindReceipt, s.key)
		}
		if s.kind == kindPoll || s.kind == kindReceipt || s.kind == kindInvalidation {
			changed[changedList{c, s.key.list.Value()}] = struct{}{}
		}
	})
	if err != nil {
		return err
	}
	t.invalidateReceipts(changed)
	if readLate {
		t.lastLateRead = now
	}
	if next.Before(t.readFrom.Add(-lateReadInterval)) {
		next = time.Time{} // its clock went back, and what was written since then may have been missed
	}
	t.readFrom = next
	t.complete.Store(true)
	if t.lossDetector.detectLoss(found) {
		t.resyncAll()
		t.readFrom = time.Time{} // the table's clock may be another one, too
	}
	return nil
}
