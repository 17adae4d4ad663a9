package store

import (
	"context"
	"fmt"
	"sync"
)

// FirstUse is how a backend connects when it is first needed, and again until that succeeds: for a process that starts before its
// store has been initialised, or while it cannot be reached. Until then every operation returns the error of the attempt.
type FirstUse struct {
	connect func(context.Context) error
	life    context.Context //nolint:containedctx // it is the store's life, and ends an attempt
	end     context.CancelFunc

	mu      sync.Mutex
	done    bool
	closed  bool
	attempt *attempt // under way
}

// attempt is an attempt to connect. Its result may be read when done is closed.
type attempt struct {
	done chan struct{}
	err  error
}

// OnFirstUse returns a FirstUse of functions that prepare the store and connect to it, both called by one goroutine at a time.
// prepare may be nil.
func OnFirstUse(prepare, connect func(context.Context) error) *FirstUse {
	f := &FirstUse{connect: connect}
	if prepare != nil {
		f.connect = func(ctx context.Context) error {
			if err := prepare(ctx); err != nil {
				return err
			}
			return connect(ctx)
		}
	}
	f.life, f.end = context.WithCancel(context.Background())
	return f
}

// Wait returns nil when the store is connected. An attempt continues after the caller's context has ended: it may include a
// migration, which takes longer than the timeout of a head query.
func (f *FirstUse) Wait(ctx context.Context) error {
	f.mu.Lock()
	switch {
	case f.closed:
		f.mu.Unlock()
		return fmt.Errorf("%w: it was closed", ErrUnavailable)
	case f.done:
		f.mu.Unlock()
		return nil
	}
	a := f.attempt
	if a == nil {
		a = &attempt{done: make(chan struct{})}
		f.attempt = a
		go f.try(a)
	}
	f.mu.Unlock()
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return fmt.Errorf("waiting for the store to be opened: %w", ctx.Err())
	}
}

func (f *FirstUse) try(a *attempt) {
	defer close(a.done)
	a.err = f.connect(f.life)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attempt, f.done = nil, a.err == nil
}

// Close ends an attempt, and waits for its end.
func (f *FirstUse) Close() {
	f.mu.Lock()
	f.closed = true
	a := f.attempt
	f.mu.Unlock()
	f.end()
	if a != nil {
		<-a.done
	}
}
