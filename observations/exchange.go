package observations

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
func (b *Book) Run(ctx context.Context) {
	tick := time.NewTicker(exchangeEvery)
	defer tick.Stop()
	for {
		b.Exchange(ctx, time.Now())
		select {
		case <-ctx.Done():
			if b.cfg.Table == nil {
				return
			}
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), exchangeEvery)
			defer cancel()
			b.lastSeen = time.Time{}
			b.failed(last, errors.Join(b.write(last, time.Now(), 0), b.cfg.Table.Close()))
			return
		case <-tick.C:
		}
	}
}

// Exchange reads what is new elsewhere and writes what is new here: in this order, since what is written hides what the table has
// lost. Run does it again and again; it is not for several goroutines at once.
func (b *Book) Exchange(ctx context.Context, now time.Time) {
	if b.cfg.Table == nil {
		b.failed(ctx, b.tidy(ctx, now))
		return
	}
	err := b.read(ctx, now)
	b.retell()
	err = errors.Join(err, b.write(ctx, now, seenEvery), b.tidy(ctx, now))
	b.failed(ctx, err)
	if err == nil {
		b.recent.drop(now.Add(-overlap))
	}
}

// failed logs trouble with the table once, until it is over.
func (b *Book) failed(ctx context.Context, err error) {
	switch {
	case err == nil:
		if b.complains { // it may have lost the last that it was told; what it did not take is told again anyway
			for _, batch := range b.recent.batches {
				b.again(batch.rows)
			}
			b.recent = recent{}
		}
		b.complains = false
	case ctx.Err() != nil:
	case errors.Is(err, ErrDenied):
		b.failures.Add(1)
		if !b.denied {
			b.cfg.Logger.WarnContext(ctx, "what clusters say here is kept in memory and told to no other process: the role may not write to the table of observations", "error", err)
		}
		b.denied = true
	default:
		b.failures.Add(1)
		if !b.complains {
			b.cfg.Logger.WarnContext(ctx, "what clusters say cannot be exchanged with other processes at the moment; it is kept in memory", "error", err)
		}
		b.complains = true
	}
}

// write writes what waits for it, and where the table's word that a cluster was seen is as old as that, that it was.
func (b *Book) write(ctx context.Context, now time.Time, age time.Duration) error {
	b.queue.Lock()
	pending, overflowed := b.pending, b.overflowed
	b.overflowed = false
	b.pending = make(map[waiting]struct{}, min(len(pending), maxBatch))
	b.queue.Unlock()
	if overflowed {
		b.tellAll()
	}
	if now.Sub(b.lastSeen) >= seenCheck {
		b.lastSeen = now
		due := now.Add(-age).UnixMilli()
		for _, c := range b.all() {
			c.mu.Lock()
			if c.seen > c.kept && c.kept <= due {
				pending[waiting{c, subject{sort: sortSeen, on: aboutOf("", "")}}] = struct{}{}
			}
			for i := range c.polls {
				c.polls[i].withdrawn.forget(now.UnixMilli())
			}
			c.mu.Unlock()
		}
	}
	batch, rows := make([]waiting, 0, maxBatch), make([]Row, 0, maxBatch+1)
	var err error
	flush := func() {
		if err == nil {
			mark := b.marks.next(now)
			if err = b.cfg.Table.Put(ctx, append(rows, b.marks.row(mark))); err == nil {
				b.recent.add(now, batch)
				b.marks.at[b.marks.turn] = mark
			}
			if err == nil && b.denied {
				b.denied = false
				b.tellAll()
			}
		}
		if err != nil && !errors.Is(err, ErrDenied) {
			b.again(batch)
		}
		batch, rows = batch[:0], rows[:0]
	}
	for _, w := range inOrder(pending) {
		w.cluster.mu.Lock()
		row, ok := w.cluster.row(w.subject)
		if w.subject.sort == sortSeen {
			w.cluster.kept = w.cluster.seen
		}
		w.cluster.mu.Unlock()
		if !ok {
			continue
		}
		if batch, rows = append(batch, w), append(rows, row); len(rows) == maxBatch {
			flush()
		}
	}
	if row, ok := b.filters.row(now); ok && err == nil && !b.denied {
		if err = b.cfg.Table.Put(ctx, []Row{row}); err == nil {
			b.filters.written(row.Said)
		}
	}
	if len(rows) > 0 || b.marks.due(now) && !b.denied {
		flush()
	}
	return err
}

// inOrder has rows that lie beside each other in a table's index written together.
func inOrder(pending map[waiting]struct{}) []waiting {
	return slices.SortedFunc(maps.Keys(pending), func(a, b waiting) int {
		return cmp.Or(strings.Compare(a.subject.sort, b.subject.sort), strings.Compare(a.cluster.id, b.cluster.id))
	})
}

// again has rows written later, when the table does not take them now.
func (b *Book) again(batch []waiting) {
	for _, w := range batch {
		if w.subject.sort == sortSeen {
			w.cluster.mu.Lock()
			w.cluster.kept = 0
			w.cluster.mu.Unlock()
			continue
		}
		b.tell(w.cluster, w.subject.sort, w.subject.on)
	}
}

// recent is what the table took last. It does not wait for the disk, so it may lose that when it fails.
type recent struct {
	batches []told
	rows    int
}

// told is a batch of rows and when the table took them.
type told struct {
	at   time.Time
	rows []waiting
}

func (r *recent) add(at time.Time, rows []waiting) {
	r.batches = append(r.batches, told{at, slices.Clone(rows)})
	for r.rows += len(rows); r.rows > maxUntold; {
		r.dropFirst()
	}
}

// drop forgets what is older than that.
func (r *recent) drop(before time.Time) {
	for len(r.batches) > 0 && r.batches[0].at.Before(before) {
		r.dropFirst()
	}
}

func (r *recent) dropFirst() {
	r.rows -= len(r.batches[0].rows)
	r.batches[0] = told{}
	r.batches = r.batches[1:]
}

// tellAll has everything that is known here written again, in some exchanges. What is there already stays as it is.
func (b *Book) tellAll() { b.untold = b.all() }

// retell is the next part of that.
func (b *Book) retell() {
	for rows := 0; rows < maxUntold && len(b.untold) > 0; {
		c := b.untold[len(b.untold)-1]
		b.untold = b.untold[:len(b.untold)-1]
		c.mu.Lock()
		subjects := c.subjects()
		c.mu.Unlock()
		for _, s := range subjects {
			b.tell(c, s.sort, s.on)
		}
		rows += len(subjects)
	}
}

// heardOf is a list of a cluster of which others said something.
type heardOf struct {
	cluster *cluster
	list    string
}

// invalidate looks, when all was read, at receipts and lists that others recorded.
func (b *Book) invalidate(heard map[heardOf]struct{}) {
	for h := range heard {
		h.cluster.mu.Lock()
		voids := h.cluster.invalidate(h.list, 0)
		h.cluster.mu.Unlock()
		for _, on := range voids {
			b.tell(h.cluster, sortVoid, on)
		}
	}
}

// read takes over what was written since the last time. Once in a while it looks further back, for what was written late.
func (b *Book) read(ctx context.Context, now time.Time) error {
	from := b.from
	back := now.Sub(b.lastLook) >= lookBack
	if back && !from.IsZero() {
		from = from.Add(-lookBack - overlap)
	}
	heard := map[heardOf]struct{}{}
	var found [2]time.Time
	next, err := b.cfg.Table.Since(ctx, from, append(b.marks.subjects[:], filtersSubject), func(r Row) {
		if r.Cluster == tableID && r.Subject == filtersSubject {
			b.filters.read(r)
			return
		}
		if r.Cluster == tableID {
			b.marks.find(&found, r)
			return
		}
		s, ok := parseSubject(r.Subject)
		if !ok {
			return
		}
		c := b.of(r.Cluster)
		c.mu.Lock()
		outdated := c.merge(s, r, now)
		if s.sort == sortPoll {
			c.learnFloor(b, s.on.list.Value(), r.Body, min(r.Said.UnixMilli(), now.UnixMilli()), now)
		}
		c.mu.Unlock()
		if outdated {
			b.tell(c, sortReceipt, s.on)
		}
		if s.sort == sortPoll || s.sort == sortReceipt || s.sort == sortVoid {
			heard[heardOf{c, s.on.list.Value()}] = struct{}{}
		}
	})
	if err != nil {
		return err
	}
	b.invalidate(heard)
	if back {
		b.lastLook = now
	}
	if next.Before(b.from.Add(-lookBack)) {
		next = time.Time{} // its clock went back, and what was written since then may have been missed
	}
	b.from = next
	b.complete.Store(true)
	if b.marks.compare(found) {
		b.tellAll()
		b.from = time.Time{} // the table's clock may be another one, too
	}
	return nil
}
