package clusterstatus

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Run calls Sync until ctx ends. Then it writes the remaining rows and closes the Store.
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
			t.reportFailure(last, errors.Join(t.write(last, time.Now(), 0), t.writeServiceRows(last, time.Now()), t.cfg.Store.Close()))
			return
		case <-tick.C:
		}
	}
}

// Sync reads the new rows of other processes, then writes the new rows of this one. The order matters: a write hides that the
// Store has lost rows. Run calls it repeatedly; it must not run concurrently.
func (t *Tracker) Sync(ctx context.Context, now time.Time) {
	if t.cfg.Store == nil {
		t.reportFailure(ctx, t.prune(ctx, now))
		return
	}
	err := t.read(ctx, now)
	t.resync()
	err = errors.Join(err, t.write(ctx, now, seenInterval), t.writeServiceRows(ctx, now), t.prune(ctx, now))
	t.reportFailure(ctx, err)
	if err == nil {
		t.recent.drop(now.Add(-maxWriteDelay))
	}
}

// reportFailure logs a failure of the Store once, until it is over.
func (t *Tracker) reportFailure(ctx context.Context, err error) {
	switch {
	case err == nil:
		if t.failing { // it may have lost rows that it accepted just before; rows that it refused are queued anyway
			for _, batch := range t.recent.batches {
				t.requeue(batch.rows)
			}
			t.recent = recentWrites{}
			t.resyncServiceRows()
		}
		t.failing = false
	case ctx.Err() != nil:
	case errors.Is(err, ErrDenied):
		t.failures.Add(1)
		if !t.denied {
			t.cfg.Logger.WarnContext(ctx, "cluster status is kept in memory and not shared with other processes: the database role may not write to the table observations", "error", err)
		}
		t.denied = true
	default:
		t.failures.Add(1)
		if !t.failing {
			t.cfg.Logger.WarnContext(ctx, "cluster status cannot be exchanged with other processes; it is kept in memory until the table of observations can be used", "error", err)
		}
		t.failing = true
	}
}

// write writes the pending rows, and the last poll of each cluster whose stored one is older than age.
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
		due, sharedDue := now.Add(-age).UnixMilli(), now.Add(-sharedSeenFactor*age).UnixMilli()
		for _, c := range t.allClusters() {
			c.mu.Lock()
			if c.seen > c.storedSeen && c.storedSeen <= due {
				pending[pendingRow{c, subject{kind: kindSeen, key: newInputKey("", "")}}] = struct{}{}
			}
			if c.sharedSeen > c.storedShared && c.storedShared <= sharedDue {
				pending[pendingRow{c, subject{kind: kindShared, key: newInputKey("", "")}}] = struct{}{}
			}
			for i := range c.polls {
				if c.polls[i].removed.expire(now.UnixMilli()) {
					c.classified = nil
				}
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
	// Other processes read it before the observations by this clock.
	if row, wrong := t.clocks.encode(); wrong && !t.denied {
		if err = t.cfg.Store.Put(ctx, []Row{row}); err == nil {
			t.clocks.observe(row)
		}
	}
	for _, w := range sortRows(pending) {
		w.cluster.mu.Lock()
		row, ok := w.cluster.encodeRow(w.subject)
		switch w.subject.kind {
		case kindSeen:
			w.cluster.storedSeen = w.cluster.seen
		case kindShared:
			w.cluster.storedShared = w.cluster.sharedSeen
		}
		w.cluster.mu.Unlock()
		if !ok {
			continue
		}
		if batch, rows = append(batch, w), append(rows, row); len(rows) == maxBatch {
			flush()
		}
	}
	write := func(row Row, ok bool, markWritten func(Row)) {
		if !ok || err != nil || t.denied {
			return
		}
		if err = t.cfg.Store.Put(ctx, []Row{row}); err == nil {
			markWritten(row)
		}
	}
	row, ok := t.filters.encode(now)
	write(row, ok, t.filters.markWritten)
	row, ok = t.counts.encode(now)
	write(row, ok, t.counts.markWritten)
	row, ok = t.countDetails.encode(now)
	write(row, ok, t.countDetails.markWritten)
	row, ok = t.tokenUses.encode(now, tokenUseWriteFactor*age)
	write(row, ok, t.tokenUses.markWritten)
	row, ok = t.fleetChanges.encode()
	write(row, ok, t.fleetChanges.markWritten)
	if len(rows) > 0 || t.lossDetector.due(now) && !t.denied {
		flush()
	}
	return err
}

// sharedRow is a row of the Store of which each process has a part: it adds its own to the row that it read.
type sharedRow struct {
	mu        sync.RWMutex
	dirty     bool      // the stored row lacks something
	writtenAt time.Time // time of the stored row
}

// row returns the row to be stored. Its time is later than that of the stored one, since the Store keeps the row of the later time. The
// caller holds the lock.
func (s *sharedRow) row(subject, body string, now time.Time) Row {
	if now = now.Truncate(time.Microsecond); !now.After(s.writtenAt) {
		now = s.writtenAt.Add(time.Microsecond)
	}
	return Row{Cluster: storeID, Subject: subject, Body: body, ObservedAt: now}
}

func (s *sharedRow) markWritten(r Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty, s.writtenAt = false, r.ObservedAt
}

// sortRows orders rows by kind and cluster, so that rows that are adjacent in the index of a table are written together.
func sortRows(pending map[pendingRow]struct{}) []pendingRow {
	return slices.SortedFunc(maps.Keys(pending), func(a, b pendingRow) int {
		return cmp.Or(strings.Compare(a.subject.kind, b.subject.kind), strings.Compare(a.cluster.id, b.cluster.id))
	})
}

// requeue marks the rows of a batch to be written again, after the Store refused or lost it.
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

// recentWrites are the batches that the Store accepted last. It does not wait for the disk, so it may lose them when it fails.
type recentWrites struct {
	batches []writtenBatch
	rows    int
}

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

// drop removes the batches that were written before a time.
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

// resyncAll marks all observations of this process to be written again, in steps. The Store keeps rows that it already has.
func (t *Tracker) resyncAll() { t.backlog = t.allClusters() }

// resync enqueues the next maxResyncRows rows of the backlog.
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

// changedList is a list of a cluster of which rows of other processes were read.
type changedList struct {
	cluster *cluster
	list    string
}

// invalidateReceipts applies receiptCounts again to the receipts of lists of which rows were read.
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

// compareClocks compares the clocks of the processes after a read.
func (t *Tracker) compareClocks(ctx context.Context, now, next time.Time, took time.Duration) {
	was := t.clocks.difference != 0
	t.clocks.compare(now, next, took)
	t.clocksDiffer.Store(t.clocks.differ())
	if is := t.clocks.difference != 0; is && !was {
		t.cfg.Logger.WarnContext(ctx, "the clock of this process differs from the clock of the database: automatic rollouts wait, and the status of clusters may be wrong", "difference", t.clocks.difference.String())
	}
}

// read merges the rows that were written since the last call. Every lateReadInterval it reads further back, for late rows.
func (t *Tracker) read(ctx context.Context, now time.Time) error {
	from := t.readFrom
	readLate := now.Sub(t.lastLateRead) >= lateReadInterval
	if readLate && !from.IsZero() {
		from = from.Add(-lateReadInterval - maxWriteDelay)
	}
	changed := map[changedList]struct{}{}
	var found [2]time.Time
	t.clocks.stored = time.Time{} // unless the row is read
	t.fleetChanges.forgetStored()
	began := time.Now()
	next, err := t.cfg.Store.Since(ctx, from, append(t.lossDetector.subjects[:], filtersSubject, clocksSubject, failingSubject, countsSubject), func(r Row) {
		switch {
		case r.Cluster == storeID && r.Subject == filtersSubject:
			t.filters.merge(r)
			return
		case r.Cluster == storeID && r.Subject == countsSubject:
			t.counts.merge(r, now)
			return
		case r.Cluster == storeID && r.Subject == detailsSubject:
			t.countDetails.merge(r, now)
			return
		case r.Cluster == storeID && r.Subject == tokenUsesSubject:
			t.tokenUses.merge(r, now)
			return
		case r.Cluster == storeID && r.Subject == clocksSubject:
			t.clocks.observe(r)
			return
		case r.Cluster == storeID && r.Subject == failingSubject:
			t.fleetChanges.merge(r, now)
			return
		case isServiceRow(r):
			if t.cfg.ServiceRows != nil {
				t.cfg.ServiceRows.MergeRow(r)
			}
			return
		case r.Cluster == storeID:
			t.lossDetector.observe(&found, r)
			return
		}
		text, name := r.Subject, r.Cluster
		if rest, shared := strings.CutPrefix(text, sharedPrefix); shared {
			text, name = rest, WithSharedToken(name)
		}
		s, ok := parseSubject(text)
		if !ok {
			return
		}
		c := t.cluster(name)
		c.mu.Lock()
		outdated := c.merge(s, r, now)
		if s.kind == kindPoll || s.kind == kindUncounted {
			c.learnFloor(t, s, r.Body, min(r.ObservedAt.UnixMilli(), now.UnixMilli()), now)
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
	t.compareClocks(ctx, now, next, time.Since(began))
	t.invalidateReceipts(changed)
	if readLate {
		t.lastLateRead = now
	}
	if next.Before(t.readFrom.Add(-lateReadInterval)) {
		next = time.Time{} // the Store's clock went back, so rows written since then may have been missed
	}
	t.readFrom = next
	t.complete.Store(true)
	if t.lossDetector.detectLoss(found) {
		t.resyncAll()
		t.resyncServiceRows()
		t.readFrom = time.Time{} // the restored Store may have another clock
	}
	return nil
}
