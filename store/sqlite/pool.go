package sqlite

import (
	"database/sql"

	"github.com/flux-resourceset/flux-resourceset/store"
)

// Pool implements [store.Store]: the connections of readers, and the one of the writer.
func (s *Store) Pool() (stats store.PoolStats, ok bool) {
	s.mu.Lock()
	h := s.open
	s.mu.Unlock()
	if h == nil {
		return stats, false
	}
	pools := []*sql.DB{h.reader}
	if h.writer != nil && h.writer != h.reader { // in memory it is one for both
		pools = append(pools, h.writer)
	}
	for _, db := range pools {
		p := db.Stats()
		stats.InUse += p.InUse
		stats.Idle += p.Idle
		stats.Max += p.MaxOpenConnections
		stats.Waits += p.WaitCount
		stats.Waited += p.WaitDuration
	}
	return stats, true
}
