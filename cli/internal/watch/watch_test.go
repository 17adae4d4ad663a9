package watch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/watch"
)

// source is a list that changes with each poll: its contents, and "" for an error.
type source struct {
	steps   []string // "a1 b1": ids, each with a digit for the content
	at      int
	lists   int
	said    []string
	started time.Time
}

var errAway = errors.New("away")

func (s *source) version(context.Context) (string, error) {
	step := s.steps[min(s.at, len(s.steps)-1)]
	s.at++
	if step == "!" {
		return "", errAway
	}
	return step, nil
}

func (s *source) list(context.Context) ([]watch.Document, error) {
	s.lists++
	var docs []watch.Document
	for word := range strings.FieldsSeq(s.steps[min(s.at, len(s.steps))-1]) {
		docs = append(docs, watch.Document{ID: word[:1], Body: []byte(word)})
	}
	return docs, nil
}

func (s *source) watch() watch.Watch {
	return watch.Watch{
		Interval: 2 * time.Second, Version: s.version, List: s.list,
		Changed: func(docs []watch.Document) error {
			var words []string
			for _, d := range docs {
				words = append(words, string(d.Body))
			}
			s.say(strings.Join(words, "+"))
			return nil
		},
		Deleted: func(id string) { s.say("-" + id) },
		Failed:  func(err error) bool { s.say(err.Error()); return errors.Is(err, errAway) },
	}
}

func (s *source) say(what string) {
	s.said = append(s.said, fmt.Sprintf("%.0fs %s", time.Since(s.started).Seconds(), what))
}

func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{steps: []string{"a1 b1", "a1 b1", "a2 b1 c1", "!", "!", "c1", "c1 a3"}, started: time.Now()}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := s.watch().Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		want := []string{"0s a1+b1", "4s a2+c1", "6s away", "8s away", "10s -a", "10s -b", "12s a3"}
		if !slices.Equal(s.said, want) {
			t.Errorf("said %q, want %q", s.said, want)
		}
		if s.lists != 4 {
			t.Errorf("listed %d times, want 4: only when something had changed", s.lists)
		}
	})
}

func TestWatchEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := &source{steps: []string{"!"}, started: time.Now()}
		if err := first.watch().Run(t.Context()); !errors.Is(err, errAway) {
			t.Errorf("the first look: %v", err)
		}
		gone := &source{steps: []string{"a1", ""}, started: time.Now()}
		w := gone.watch()
		w.Empty = true
		if err := w.Run(t.Context()); err != nil || !slices.Equal(gone.said, []string{"0s a1", "2s -a"}) {
			t.Errorf("%v, said %q", err, gone.said)
		}
		failing := &source{steps: []string{"a1", "a2"}, started: time.Now()}
		w = failing.watch()
		broken, tell := errors.New("broken"), w.Changed
		w.Failed = func(error) bool { return true }
		w.Changed = func(docs []watch.Document) error {
			if string(docs[0].Body) == "a2" {
				return broken
			}
			return tell(docs)
		}
		if err := w.Run(t.Context()); !errors.Is(err, broken) {
			t.Errorf("nobody can be told: %v", err)
		}
	})
}
