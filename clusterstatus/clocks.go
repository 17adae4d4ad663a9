package clusterstatus

import "time"

const (
	clocksSubject = "clocks" // the subject of the row of the last process whose clock was wrong
	// maxClockDifference is shorter than the time for which a receipt of a replaced input does not count: within it, the order
	// of the observations of two processes cannot make an earlier receipt count.
	maxClockDifference = 10 * time.Second
	// wrongClockLifetime is the time for which observations by a wrong clock are distrusted: most clusters poll again within it.
	wrongClockLifetime   = 10 * time.Minute
	wrongClockWriteEvery = time.Minute
	clocksRowBody        = `""` // the time of the row suffices
)

// clocks compares the clocks of the processes with that of the Store. The order of observations of different processes is that
// of their clocks: with an hour between them, a receipt of an input may seem to follow a poll that replaced it.
type clocks struct {
	difference time.Duration // of this process, if it is too large; otherwise 0
	now        time.Time     // by the clock of the Store, at the last read
	reported   time.Time     // when some process last had a wrong clock, by the clock of the Store
	stored     time.Time     // the time of the row in the Store; zero: it has none
}

// observe reads the row of a process whose clock was wrong.
func (c *clocks) observe(r Row) {
	c.stored = r.ObservedAt
	if r.ObservedAt.After(c.reported) {
		c.reported = r.ObservedAt
	}
}

// compare compares the clock of this process, now before a read, with that of the Store, next during a read that took so long.
func (c *clocks) compare(now, next time.Time, took time.Duration) {
	c.now, c.difference = next, 0
	if d := next.Sub(now); d < -maxClockDifference || d > maxClockDifference+took {
		c.difference = d
	}
}

// differ reports whether some process has a wrong clock, or had one shortly before.
func (c *clocks) differ() bool {
	return c.difference != 0 || !c.reported.IsZero() && c.now.Sub(c.reported).Abs() < wrongClockLifetime
}

// encode returns the row that reports a wrong clock to the other processes; not ok: no clock is wrong, or the row in the Store is
// new enough. Each process that knows of the wrong clock replaces a row that the Store has lost.
func (c *clocks) encode() (row Row, ok bool) {
	at := c.reported
	if c.difference != 0 && c.now.Sub(c.reported) >= wrongClockWriteEvery {
		at = c.now
	}
	return Row{Cluster: storeID, Subject: clocksSubject, Body: clocksRowBody, ObservedAt: at}, c.differ() && at.After(c.stored)
}
