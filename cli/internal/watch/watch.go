// Package watch follows a list of documents: it reports all documents, and then their changes.
package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"
)

// Document is one entry of the list.
type Document struct {
	ID   string
	Body json.RawMessage
}

// Watch configures a watch. All its functions are called one after the other.
type Watch struct {
	// Interval is the time between two polls.
	Interval time.Duration
	// Version is cheap, and its result changes whenever that of List does. Nil, or an empty result: List is called each time.
	Version func(ctx context.Context) (string, error)
	// List returns all documents in their order.
	List func(ctx context.Context) ([]Document, error)
	// Changed receives all documents first, and then the new and changed ones. Its error ends the watch.
	Changed func([]Document) error
	// Deleted receives the ids of deleted documents.
	Deleted func(id string)
	// Failed receives all other errors and decides whether to continue; an error of the first poll ends the watch.
	Failed func(error) bool
	// Empty ends the watch when no document is left.
	Empty bool
}

// Run polls until the context ends, and returns its error.
func (w Watch) Run(ctx context.Context) error {
	known := map[string]json.RawMessage{}
	version := ""
	for first := true; ; first = false {
		err := w.poll(ctx, known, &version)
		if lost, ok := errors.AsType[unreportedError](err); ok {
			return lost.error
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && (first || !w.Failed(err)):
			return err
		case err == nil && w.Empty && len(known) == 0:
			return nil
		}
		timer := time.NewTimer(w.Interval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// unreportedError is an error of Changed, which another poll cannot correct.
type unreportedError struct{ error }

// poll compares the list with the known documents.
func (w Watch) poll(ctx context.Context, known map[string]json.RawMessage, version *string) error {
	newest := ""
	if w.Version != nil { // before the list, so that a change during its read is found by the next poll
		var err error
		if newest, err = w.Version(ctx); err != nil || newest != "" && newest == *version {
			return err
		}
	}
	documents, err := w.List(ctx)
	if err != nil {
		return err
	}
	var changed []Document
	there := map[string]bool{}
	for _, d := range documents {
		there[d.ID] = true
		if before, ok := known[d.ID]; !ok || !bytes.Equal(before, d.Body) {
			known[d.ID] = d.Body
			changed = append(changed, d)
		}
	}
	*version = newest
	if len(changed) > 0 {
		if err := w.Changed(changed); err != nil {
			return unreportedError{err}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		if !there[id] {
			delete(known, id)
			w.Deleted(id)
		}
	}
	return nil
}
