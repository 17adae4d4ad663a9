package clusterstatus

import "time"

const (
	clocksSubject = "clocks" // the subject of the row of the last process whose clock was wrong
	// maxClockDifference is shorter than the time for which a receipt of a replaced input does not count. So within it, a wrong
	// order of observations cannot make an earlier receipt count.
	maxClockDifference = 10 * time.Second
	// wrongClockLifetime is the time for which the status is not trusted after a wrong clock: most clusters poll again within it.
	wrongClockLifetime   = 10 * time.Minute
	wrongClockWriteEvery = time.Minute
	clocksRowBody        = `""` // the row needs only its time
)

// clocks compares the clocks of the processes with the clock of the Store. The clocks order the observations of different
// processes: if they differ by an hour, a receipt of an input may seem to follow the poll that replaced the input.
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

// compare compares the clock of this process, which was now before a read, with the clock of the Store, which was next during
// the read. took is the duration of the read.
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
// new enough. If the Store has lost the row, each process that knows of the wrong clock writes it again.
func (c *clocks) encode() (row Row, ok bool) {
	at := c.reported
	if c.difference != 0 && c.now.Sub(c.reported) >= wrongClockWriteEvery {
		at = c.now
	}
	return Row{Cluster: storeID, Subject: clocksSubject, Body: clocksRowBody, ObservedAt: at}, c.differ() && at.After(c.stored)
}
