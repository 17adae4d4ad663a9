package postgres

import "github.com/flux-resourceset/flux-resourceset/store"

// Pool implements [store.Store].
func (s *Store) Pool() (store.PoolStats, bool) {
	p := s.pool.Stat()
	return store.PoolStats{
		InUse: int(p.AcquiredConns()), Idle: int(p.IdleConns()), Max: int(p.MaxConns()),
		Waits: p.EmptyAcquireCount(), Waited: p.EmptyAcquireWaitTime(),
	}, true
}
