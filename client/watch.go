package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// RevisionWatch configures [Revisions]. The zero value watches all revisions from now on.
type RevisionWatch struct {
	// After is the position to continue after: [Position] of the last processed revision, or only its number, which does not
	// detect a replaced history; "0": from the first one. Empty: from now on.
	After string
	// Kind, ID and Actor select revisions, as for a list.
	Kind, ID, Actor string
	// Retrying is called before the wait after an error that [Revisions] recovers from; nil: it is not reported.
	Retrying func(err error, wait time.Duration)
}

// Position returns the position of a revision, for [RevisionWatch.After] and the parameter after of the API.
func Position(r api.RevisionSummary) string {
	return fmt.Sprintf("%d:%s", r.Revision, r.CommitID)
}

// GoneError means that the history no longer has the revisions after the position of a watch. Read the fleet again, and continue with
// After set to the revision before Oldest.
type GoneError struct {
	// Oldest is the oldest revision that the history still has.
	Oldest int64
	Err    error
}

// Error describes the answer.
func (e *GoneError) Error() string { return e.Err.Error() }

// Unwrap returns the [*Error].
func (e *GoneError) Unwrap() error { return e.Err }

// DivergedError means that the history does not contain the position of a watch: it was replaced, for example by a restored backup.
// Read the fleet again, and continue with an empty After.
type DivergedError struct{ Err error }

// Error describes the answer.
func (e *DivergedError) Error() string { return e.Err.Error() }

// Unwrap returns the [*Error].
func (e *DivergedError) Unwrap() error { return e.Err }

const (
	watchWait       = 30 * time.Second
	firstWatchRetry = 500 * time.Millisecond
	maxWatchRetry   = 30 * time.Second
)

// Revisions iterates over revisions, oldest first, and waits for new ones. Each revision comes exactly once: after a connection
// error, a restart of the server or a 503 it resumes after the last one. It ends with an error that a retry does not resolve: a
// [*GoneError], a [*DivergedError], another [*Error] such as a revoked token, or the error of ctx.
//
// To resume after a restart of the program, store [Position] of each processed revision.
func Revisions(ctx context.Context, c *Client, w RevisionWatch) iter.Seq2[api.RevisionSummary, error] {
	return func(yield func(api.RevisionSummary, error) bool) {
		backoff := firstWatchRetry
		for {
			found, next, err := w.request(ctx, c)
			switch {
			case ctx.Err() != nil:
				yield(api.RevisionSummary{}, ctx.Err())
				return
			case err == nil:
				backoff = firstWatchRetry
			default:
				if final := finalWatchError(err); final != nil {
					yield(api.RevisionSummary{}, final)
					return
				}
				wait := watchRetry(err, backoff)
				backoff = min(2*backoff, maxWatchRetry)
				if w.Retrying != nil {
					w.Retrying(err, wait)
				}
				if cause := sleep(ctx, wait); cause != nil {
					yield(api.RevisionSummary{}, errors.Join(cause, err))
					return
				}
				continue
			}
			for _, revision := range found {
				if !yield(revision, nil) {
					return
				}
			}
			w.After = next
		}
	}
}

// request waits for the revisions after the position, and returns the next position.
func (w *RevisionWatch) request(ctx context.Context, c *Client) (found []api.RevisionSummary, next string, err error) {
	if w.After == "" {
		one := 1
		newest, err := c.ListRevisionsWithResponse(ctx, &api.ListRevisionsParams{Limit: &one})
		if err != nil {
			return nil, "", err
		}
		if list := *newest.JSON200; len(list) > 0 {
			return nil, Position(list[0]), nil
		}
		return nil, "0", nil
	}
	wait := strconv.Itoa(int(watchWait.Seconds())) + "s"
	rsp, err := c.ListRevisionsWithResponse(ctx, &api.ListRevisionsParams{
		After: &w.After, Wait: &wait, Kind: optional(w.Kind), ID: optional(w.ID), Actor: optional(w.Actor),
	})
	if err != nil {
		return nil, "", err
	}
	if next = NextPage(rsp.HTTPResponse.Header).Get("after"); next == "" {
		return nil, "", errors.New("the answer to a watch has no Link to the next one: a proxy removes headers, or the server is not of this version")
	}
	return *rsp.JSON200, next, nil
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// finalWatchError returns the error that ends a watch; nil: it is retried.
func finalWatchError(err error) error {
	problem, ok := errors.AsType[*Error](err)
	if !ok {
		return nil
	}
	switch {
	case problem.Problem.Error == CodeGone:
		return &GoneError{Oldest: problem.Problem.OldestRevision, Err: err}
	case problem.Problem.Error == CodeDiverged, problem.Problem.Error == CodeUnknownRevision:
		return &DivergedError{err}
	case problem.StatusCode >= http.StatusInternalServerError, problem.StatusCode == http.StatusTooManyRequests:
		return nil
	}
	return err
}

// watchRetry returns the wait before a retry: half of backoff to all of it, so that the clients of a restarted server do not come
// at the same time, and at least the server's Retry-After.
func watchRetry(err error, backoff time.Duration) time.Duration {
	wait := backoff/2 + rand.N(backoff/2)
	if problem, ok := errors.AsType[*Error](err); ok {
		wait = max(wait, problem.RetryAfter)
	}
	return wait
}

// waitOf returns the time for which a request asks the server to wait.
func waitOf(req *http.Request) time.Duration {
	wait, err := time.ParseDuration(req.URL.Query().Get("wait"))
	if err != nil {
		return 0
	}
	return min(max(0, wait), time.Minute)
}
