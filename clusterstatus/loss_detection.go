package clusterstatus

import (
	"crypto/rand"
	"time"
)

// storeID is the cluster of rows that are about the whole service.
const storeID = ""

// lossDetector notices that the Store has lost rows: all of them, or those written after a backup that was restored. Each
// process has two rows in the Store, its marks, and writes one of them with every batch. If the marks that it reads are older
// than the ones that it wrote, the Store lost its later batches too. The marks of other processes prove nothing about its own
// batches.
//
// There are two marks for the case that the Store is restored after a process has read and before it writes. It writes the
// older mark, and the next read detects the loss by the newer one.
type lossDetector struct {
	subjects [2]string    // different in every process and after every restart
	at       [2]time.Time // zero: not in the Store
	slot     int          // the mark that the next batch writes
}

func newLossDetector() lossDetector {
	process := "written/" + rand.Text()
	return lossDetector{subjects: [2]string{process + "/0", process + "/1"}}
}

// nextTime returns the time of the next mark, which is later than both marks even if the clock goes back. A Store keeps
// microseconds.
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

// due reports whether a mark has to be written although no row is pending: it is missing, or so old that Prune would take it
// for a mark of a process that has ended.
func (d *lossDetector) due(now time.Time) bool {
	return now.Sub(d.at[d.slot]) >= pruneInterval
}

// observe stores the time of a row in found if the row is a mark of this process.
func (d *lossDetector) observe(found *[2]time.Time, r Row) {
	for i := range found {
		if r.Subject == d.subjects[i] {
			found[i] = r.ObservedAt
		}
	}
}

// detectLoss reports whether the Store has lost rows, by the marks that were found in it, and continues from these.
func (d *lossDetector) detectLoss(found [2]time.Time) (lost bool) {
	lost = found[0].Before(d.at[0]) || found[1].Before(d.at[1])
	d.at, d.slot = found, 0
	if found[1].Before(found[0]) {
		d.slot = 1
	}
	return lost
}
