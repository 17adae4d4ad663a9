package store

import "context"

type priorityKey struct{}

// WithPriority marks the questions of a process's own, such as those by which it follows the log. Those who read the
// history by [Store.Summaries], [Store.Changes] and [Store.At] without it are as many as there are people and programs, and
// a store lets them have a part of its connections only.
func WithPriority(ctx context.Context) context.Context {
	return context.WithValue(ctx, priorityKey{}, true)
}

// HasPriority tells whether a question is not to wait for those of people.
func HasPriority(ctx context.Context) bool { return ctx.Value(priorityKey{}) != nil }
