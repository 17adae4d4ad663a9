package store

import "time"

// PoolStats describes the use of a store's database connections.
type PoolStats struct {
	InUse, Idle, Max int
	Waits            int64         // number of waits for a connection
	Waited           time.Duration // and for how long, all together
}

// Pooled is a Store that has a pool of connections.
type Pooled interface {
	Store
	// Pool does not query the database and does not wait; it returns false while there is no pool.
	Pool() (PoolStats, bool)
}

var _ Pooled = (*Lazy)(nil)

// Pool implements Pooled. It does not open the store.
func (l *Lazy) Pool() (PoolStats, bool) {
	l.mu.Lock()
	opened := l.store
	l.mu.Unlock()
	if pooled, ok := opened.(Pooled); ok {
		return pooled.Pool()
	}
	return PoolStats{}, false
}
