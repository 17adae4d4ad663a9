package server

import (
	"context"
	"sync"
	"time"
)

// storeSize caches the size of the store. Not every scrape queries it, because a database that does not answer would delay
// them.
type storeSize struct {
	mu    sync.Mutex
	asked time.Time
	bytes int64
	known bool
}

const (
	sizeEvery   = 15 * time.Second
	sizeTimeout = time.Second
)

// read returns the last known size; false while it is not known.
func (s *storeSize) read(ask func(context.Context) (int64, error)) (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ask == nil {
		return 0, false
	}
	if time.Since(s.asked) > sizeEvery {
		ctx, cancel := context.WithTimeout(context.Background(), sizeTimeout)
		defer cancel()
		bytes, err := ask(ctx)
		s.asked, s.bytes, s.known = time.Now(), bytes, err == nil // failures of the store are logged elsewhere
	}
	return s.bytes, s.known
}
