package clusterstatus

import (
	"context"
	"strings"
	"time"
)

// VersionPrefix begins the subjects of the rows with the known versions of components. They belong to no cluster.
const VersionPrefix = "version/"

// serviceRowBatch limits the rows of one write, which may be large.
const serviceRowBatch = 50

// ServiceRows are rows of no cluster that a Tracker exchanges for another package, with subjects that begin with VersionPrefix. Only
// Sync calls the methods, one at a time.
type ServiceRows interface {
	// MergeRow adds what another process stored. If the row then lacks something, PendingRows returns it again.
	MergeRow(r Row)
	// PendingRows returns the rows that are to be written.
	PendingRows(now time.Time) []Row
	// MarkWritten is called after rows of PendingRows were written.
	MarkWritten(rows []Row)
	// Resync is called when the Store may have lost rows: PendingRows then returns all.
	Resync()
}

// isServiceRow reports whether a row is one of Config.ServiceRows.
func isServiceRow(r Row) bool {
	return r.Cluster == storeID && strings.HasPrefix(r.Subject, VersionPrefix)
}

// writeServiceRows writes the pending rows of Config.ServiceRows.
func (t *Tracker) writeServiceRows(ctx context.Context, now time.Time) error {
	if t.cfg.ServiceRows == nil || t.denied {
		return nil
	}
	rows := t.cfg.ServiceRows.PendingRows(now)
	for len(rows) > 0 {
		batch := rows[:min(len(rows), serviceRowBatch)]
		if err := t.cfg.Store.Put(ctx, batch); err != nil {
			return err
		}
		t.cfg.ServiceRows.MarkWritten(batch)
		rows = rows[len(batch):]
	}
	return nil
}

// resyncServiceRows marks all rows of Config.ServiceRows, the details of the counts and the uses of tokens to be written again.
func (t *Tracker) resyncServiceRows() {
	t.countDetails.resync()
	t.tokenUses.resync()
	if t.cfg.ServiceRows != nil {
		t.cfg.ServiceRows.Resync()
	}
}
