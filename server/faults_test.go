package server_test

import (
	"context"
	"sync"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// faultyStore is the real store until a test breaks it.
type faultyStore struct {
	store.Store
	mu      sync.Mutex
	fail    error       // of every call
	commit  error       // of Commit alone
	panics  bool        // reading the history panics
	slow    *slowCommit // blocks Commit
	made    func()      // is called after Commit
	past    func()      // is called before Past answers
	changes func()      // is called before Changes answers
	summary func()      // is called before Summaries answers
	log     func()      // is called before DocumentLog answers
	confirm func()      // is called before Confirm answers
}

// slowCommit blocks a commit: it reports that the commit has begun, and waits for proceed.
type slowCommit struct{ begun, proceed chan struct{} }

func (f *faultyStore) set(change func(*faultyStore)) { f.mu.Lock(); defer f.mu.Unlock(); change(f) }

func (f *faultyStore) fault() error { f.mu.Lock(); defer f.mu.Unlock(); return f.fail }

// Head implements store.Store.
func (f *faultyStore) Head(ctx context.Context) (fleet.Head, error) {
	if err := f.fault(); err != nil {
		return fleet.Head{}, err
	}
	return f.Store.Head(ctx)
}

// Confirm implements store.Store.
func (f *faultyStore) Barrier(ctx context.Context) (fleet.Head, error) {
	if err := f.fault(); err != nil {
		return fleet.Head{}, err
	}
	f.mu.Lock()
	confirm := f.confirm
	f.mu.Unlock()
	if confirm != nil {
		confirm()
	}
	return f.Store.Barrier(ctx)
}

// Ping implements store.Store.
func (f *faultyStore) Ping(ctx context.Context) error {
	if err := f.fault(); err != nil {
		return err
	}
	return f.Store.Ping(ctx)
}

// Commit implements store.Store.
func (f *faultyStore) Commit(ctx context.Context, base fleet.Head, c fleet.Commit) error {
	f.mu.Lock()
	err, slow, made := f.commit, f.slow, f.made
	f.mu.Unlock()
	if slow != nil {
		close(slow.begun)
		<-slow.proceed
	}
	if err == nil {
		err = f.fault()
	}
	if err != nil {
		return err
	}
	if made != nil {
		defer made()
	}
	return f.Store.Commit(ctx, base, c)
}

// Probe implements store.Store.
func (f *faultyStore) Probe(ctx context.Context) error {
	f.mu.Lock()
	err := f.commit
	f.mu.Unlock()
	if err == nil {
		err = f.fault()
	}
	if err != nil {
		return err
	}
	return f.Store.Probe(ctx)
}

// Changes implements store.Store.
func (f *faultyStore) Changes(ctx context.Context, rev fleet.Revision, offset, limit int) ([]fleet.Change, error) {
	if err := f.reading(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	changes := f.changes
	f.mu.Unlock()
	if changes != nil {
		changes()
	}
	return f.Store.Changes(ctx, rev, offset, limit)
}

// DocumentLog implements store.Store.
func (f *faultyStore) DocumentLog(ctx context.Context, q fleet.DocumentLogQuery) (fleet.DocumentLog, error) {
	if err := f.reading(); err != nil {
		return fleet.DocumentLog{}, err
	}
	f.mu.Lock()
	log := f.log
	f.mu.Unlock()
	if log != nil {
		log()
	}
	return f.Store.DocumentLog(ctx, q)
}

// Past implements store.Store.
func (f *faultyStore) Past(ctx context.Context, q fleet.PastQuery) (fleet.Documents, error) {
	if err := f.reading(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	past := f.past
	f.mu.Unlock()
	if past != nil {
		past()
	}
	return f.Store.Past(ctx, q)
}

// Summaries implements store.Store.
func (f *faultyStore) Summaries(ctx context.Context, q store.HistoryQuery, names int) ([]store.Summary, error) {
	if err := f.reading(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	summary := f.summary
	f.mu.Unlock()
	if summary != nil {
		summary()
	}
	return f.Store.Summaries(ctx, q, names)
}

// At implements store.Store.
func (f *faultyStore) At(ctx context.Context, kind fleet.Kind, id string, rev fleet.Revision) (fleet.Record, bool, error) {
	if err := f.reading(); err != nil {
		return fleet.Record{}, false, err
	}
	return f.Store.At(ctx, kind, id, rev)
}

func (f *faultyStore) reading() error {
	f.mu.Lock()
	panics := f.panics
	f.mu.Unlock()
	if panics {
		panic("the secret of the store")
	}
	return f.fault()
}
