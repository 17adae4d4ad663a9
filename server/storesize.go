package server

import (
	"context"
	"sync"
	"time"
)

// storeSize is how large the store is. It is asked now and then, and not by every scrape: a database that does not answer
// delays one of them, for a moment.
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

// read returns the size as it was a moment ago; false while it is not known.
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
		s.asked, s.bytes, s.known = time.Now(), bytes, err == nil // what is wrong with the store is logged by those who need it
	}
	return s.bytes, s.known
}
