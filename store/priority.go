package store

import "context"

type priorityKey struct{}

// WithPriority marks the process's own requests, such as the follower's. A store limits the connections for calls of
// [Store.Summaries], [Store.Changes] and [Store.At] without this mark, because the number of such callers is unlimited.
func WithPriority(ctx context.Context) context.Context {
	return context.WithValue(ctx, priorityKey{}, true)
}

// HasPriority reports whether a request must not wait for requests of users.
func HasPriority(ctx context.Context) bool { return ctx.Value(priorityKey{}) != nil }
