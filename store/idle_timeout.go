package store

import (
	"context"
	"errors"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// A line that carries less than 4 Mbit/s is too slow for a large commit, and none takes longer than this.
const (
	minBytesPerSecond  = 1 << 19
	maxExtraCommitTime = 15 * time.Minute
)

// ExtraCommitTime is how much more time than a small commit this one may take.
func ExtraCommitTime(c fleet.Commit) time.Duration {
	var size int64
	for _, ch := range c.Changes {
		size += int64(len(ch.Before) + len(ch.After))
	}
	return time.Duration(min(size/minBytesPerSecond, int64(maxExtraCommitTime/time.Second))) * time.Second
}

// errIdle is why a context of WithIdleTimeout ended.
var errIdle = errors.New("the store's answer made no progress in time")

type idleTimeoutKey struct{}

// WithIdleTimeout returns a context that ends when [Touch] was not called for the duration idle. An answer of unknown size may
// take as long as a slow connection needs; one that hangs may not.
func WithIdleTimeout(ctx context.Context, idle time.Duration) (context.Context, context.CancelFunc) {
	outer := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(idle, func() { cancel(errIdle) })
	ctx = context.WithValue(ctx, idleTimeoutKey{}, func(longer time.Duration) {
		if ctx.Err() == nil {
			timer.Reset(idle + longer)
		}
		Extend(outer, longer)
	})
	return ctx, func() {
		timer.Stop()
		cancel(context.Canceled)
	}
}

// Touch restarts the idle timeout because a part of the answer has arrived. Backends call it for every row of a large answer.
func Touch(ctx context.Context) { Extend(ctx, 0) }

// Extend is [Touch] before a step that may take longer than the idle timeout by the given duration.
func Extend(ctx context.Context, longer time.Duration) {
	if allow, ok := ctx.Value(idleTimeoutKey{}).(func(time.Duration)); ok {
		allow(longer)
	}
}
