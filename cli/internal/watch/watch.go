// Package watch follows a list of documents: what is there, and then whatever becomes different.
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

// Document is one of those that are followed.
type Document struct {
	ID   string
	Body json.RawMessage
}

// Watch says what to follow. All its functions are called one after the other.
type Watch struct {
	// Interval is how long nothing is asked between two looks.
	Interval time.Duration
	// Version is cheap to ask, and changes whenever List would answer something else. Nil, or empty: List is asked each time.
	Version func(ctx context.Context) (string, error)
	// List answers all documents, in their order.
	List func(ctx context.Context) ([]Document, error)
	// Changed is told what is there at first, and then what is new or different. Its error ends the watch.
	Changed func([]Document) error
	// Deleted is told of those that are gone.
	Deleted func(id string)
	// Failed is told of another error and decides whether to go on asking; the first look is not tried again.
	Failed func(error) bool
	// Empty ends the watch when nothing is left.
	Empty bool
}

// Run follows until the context ends, which is no error.
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
			return nil //nolint:nilerr // whatever is interrupted fails
		case err != nil && (first || !w.Failed(err)):
			return err
		case err == nil && w.Empty && len(known) == 0:
			return nil
		}
		timer := time.NewTimer(w.Interval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// untold is why nobody could be told, which asking again does not change.
type unreportedError struct{ error }

// look compares what there is with what is known.
func (w Watch) poll(ctx context.Context, known map[string]json.RawMessage, version *string) error {
	newest := ""
	if w.Version != nil { // asked first: what changes while the list is read is seen the next time
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
