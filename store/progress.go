package store

import (
	"context"
	"errors"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// A line that carries less than 4 Mbit/s is too slow for a large commit, and none takes longer than this.
const (
	bytesPerSecond = 1 << 19
	mostPatience   = 15 * time.Minute
)

// CommitPatience is how much more time than a small commit this one may take.
func CommitPatience(c fleet.Commit) time.Duration {
	var size int64
	for _, ch := range c.Changes {
		size += int64(len(ch.Before) + len(ch.After))
	}
	return time.Duration(min(size/bytesPerSecond, int64(mostPatience/time.Second))) * time.Second
}

// errNoProgress is why a context of WithPatience ended.
var errNoProgress = errors.New("the store's answer made no progress in time")

type progressKey struct{}

// WithPatience returns a context that ends when [Advance] was not called for as long as patience: an answer whose size
// nobody knows beforehand may take as long as a slow line needs, and one that hangs may not.
func WithPatience(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	outer := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(patience, func() { cancel(errNoProgress) })
	ctx = context.WithValue(ctx, progressKey{}, func(longer time.Duration) {
		if ctx.Err() == nil {
			timer.Reset(patience + longer)
		}
		Allow(outer, longer)
	})
	return ctx, func() {
		timer.Stop()
		cancel(context.Canceled)
	}
}

// Advance tells whoever waits that a part of the answer has come. Backends call it for every row of a large answer.
func Advance(ctx context.Context) { Allow(ctx, 0) }

// Allow is [Advance] for something that begins now and is known to take so much longer than the patience.
func Allow(ctx context.Context, longer time.Duration) {
	if allow, ok := ctx.Value(progressKey{}).(func(time.Duration)); ok {
		allow(longer)
	}
}
