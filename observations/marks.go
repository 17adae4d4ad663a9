package observations

import (
	"crypto/rand"
	"time"
)

// tableID is the cluster of rows that are about no cluster.
const tableID = ""

// marks are two rows of a process that say when it last wrote to the table: with every batch it writes one of them. A table that
// does not have them as they were written has lost something: all of it, or what came after a backup. Each process compares its own,
// since those of another one say nothing about what this one wrote.
//
// They are two for a table that is brought back after a process has looked and before it writes: it writes the older one, and finds
// what it has lost by the newer one.
type marks struct {
	subjects [2]string    // of this process, in this life
	at       [2]time.Time // zero: not there
	turn     int          // which is to be written
}

func newMarks() marks {
	process := "written/" + rand.Text()
	return marks{subjects: [2]string{process + "/0", process + "/1"}}
}

// next is what a mark says when something is written now: always something later, whatever the clock does. Tables are exact to the
// microsecond.
func (m *marks) next(now time.Time) time.Time {
	now = now.Truncate(time.Microsecond)
	for _, at := range m.at {
		if !now.After(at) {
			now = at.Add(time.Microsecond)
		}
	}
	return now
}

func (m *marks) row(at time.Time) Row {
	return Row{Cluster: tableID, Subject: m.subjects[m.turn], Body: `""`, Said: at}
}

// due tells whether a mark is to be written although there is nothing else to write: it is not there yet, or so old that it would be
// taken for one of a process that is gone. Those are dropped with what else is too much in the table.
func (m *marks) due(now time.Time) bool {
	return now.Sub(m.at[m.turn]) >= keepEvery
}

// find notes what a row says, if it is a mark of this process.
func (m *marks) find(found *[2]time.Time, r Row) {
	for i := range found {
		if r.Subject == m.subjects[i] {
			found[i] = r.Said
		}
	}
}

// compare tells whether the table has lost something, by the marks that were found in it. From then on these count.
func (m *marks) compare(found [2]time.Time) (lost bool) {
	lost = found[0].Before(m.at[0]) || found[1].Before(m.at[1])
	m.at, m.turn = found, 0
	if found[1].Before(found[0]) {
		m.turn = 1
	}
	return lost
}
