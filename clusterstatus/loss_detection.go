package clusterstatus

import (
	"crypto/rand"
	"time"
)

// tableID is the cluster of rows that are about no cluster.
const storeID = ""

// marks are two rows of a process that say when it last wrote to the table: with every batch it writes one of them. A table that
// does not have them as they were written has lost something: all of it, or what came after a backup. Each process compares its own,
// since those of another one say nothing about what this one wrote.
//
// They are two for a table that is brought back after a process has looked and before it writes: it writes the older one, and finds
// what it has lost by the newer one.
type lossDetector struct {
	subjects [2]string    // of this process, in this life
	at       [2]time.Time // zero: not there
	slot     int          // which is to be written
}

func newLossDetector() lossDetector {
	process := "written/" + rand.Text()
	return lossDetector{subjects: [2]string{process + "/0", process + "/1"}}
}

// next is what a mark says when something is written now: always something later, whatever the clock does. Tables are exact to the
// microsecond.
func (d *lossDetector) nextTime(now time.Time) time.Time {
	now = now.Truncate(time.Microsecond)
	for _, at := range d.at {
		if !now.After(at) {
			now = at.Add(time.Microsecond)
		}
	}
	return now
}

func (d *lossDetector) row(at time.Time) Row {
	return Row{Cluster: storeID, Subject: d.subjects[d.slot], Body: `""`, ObservedAt: at}
}

// due tells whether a mark is to be written although there is nothing else to write: it is not there yet, or so old that it would be
// taken for one of a process that is gone. Those are dropped with what else is too much in the table.
func (d *lossDetector) due(now time.Time) bool {
	return now.Sub(d.at[d.slot]) >= pruneInterval
}

// find notes what a row says, if it is a mark of this process.
func (d *lossDetector) observe(found *[2]time.Time, r Row) {
	for i := range found {
		if r.Subject == d.subjects[i] {
			found[i] = r.ObservedAt
		}
	}
}

// compare tells whether the table has lost something, by the marks that were found in it. From then on these count.
func (d *lossDetector) detectLoss(found [2]time.Time) (lost bool) {
	lost = found[0].Before(d.at[0]) || found[1].Before(d.at[1])
	d.at, d.slot = found, 0
	if found[1].Before(found[0]) {
		d.slot = 1
	}
	return lost
}
