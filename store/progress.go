package store

import (
	"context"
	"errors"
	"time"
)

// errNoProgress is why a context of WithPatience ended.
var errNoProgress = errors.New("the store's answer made no progress in time")

type progressKey struct{}

// WithPatience returns a context that ends when [Advance] was not called for as long as patience: an answer whose size
// nobody knows beforehand may take as long as a slow line needs, and one that hangs may not.
func WithPatience(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	outer := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(patience, func() { cancel(errNoProgress) })
	ctx = context.WithValue(ctx, progressKey{}, func() {
		if ctx.Err() == nil {
			timer.Reset(patience)
		}
		Advance(outer)
	})
	return ctx, func() {
		timer.Stop()
		cancel(context.Canceled)
	}
}

// Advance tells whoever waits that a part of the answer has come. Backends call it for every row of a large answer.
func Advance(ctx context.Context) {
	if advance, ok := ctx.Value(progressKey{}).(func()); ok {
		advance()
	}
}
