package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Loops around single calls: retry, list all pages, wait.

// maxStaleTries is how often [RetryOnStale] calls its function. staleWait is the wait after the first call; it doubles
// with each further one.
const (
	maxStaleTries = 6
	staleWait     = 20 * time.Millisecond
)

// RetryOnStale calls fn until it returns no error with [CodeStale], six times at most, and returns the last error.
// CodeStale means that another client changed the document first. fn must start with a read, decide by what it read, and
// send that ETag in IfMatch, or the hash of a plan that it made.
func RetryOnStale(ctx context.Context, fn func(ctx context.Context) error) error {
	wait := staleWait
	for try := 1; ; try++ {
		err := fn(ctx)
		if ErrorCode(err) != CodeStale || try == maxStaleTries {
			return err
		}
		if cause := sleep(ctx, wait); cause != nil {
			return errors.Join(cause, err)
		}
		wait *= 2
	}
}

// All iterates over all entries of a list and requests the next page when the previous one is used up. list is one of
// the client's list calls; it must pass on more:
//
//	clusters := client.All[api.Cluster](ctx, func(ctx context.Context, more ...client.RequestEditorFn) (*http.Response, error) {
//		return fleet.ListClusters(ctx, &api.ListClustersParams{Limit: &hundred}, more...)
//	})
//	for cluster, err := range clusters { … }
//
// An error ends the iteration; its entry is the zero value. An entry that changes between two pages may be missing or
// appear twice.
func All[T any](ctx context.Context, list func(ctx context.Context, more ...RequestEditorFn) (*http.Response, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		var next url.Values
		for {
			entries, following, err := fetchPage[T](ctx, list, next)
			if err != nil {
				yield(none, err)
				return
			}
			for _, entry := range entries {
				if !yield(entry, nil) {
					return
				}
			}
			if following == nil || len(entries) == 0 {
				return
			}
			next = following
		}
	}
}

func fetchPage[T any](ctx context.Context, list func(ctx context.Context, more ...RequestEditorFn) (*http.Response, error), page url.Values) (entries []T, next url.Values, err error) {
	rsp, err := list(ctx, func(_ context.Context, req *http.Request) error {
		q := req.URL.Query()
		maps.Copy(q, page)
		req.URL.RawQuery = q.Encode()
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	err = json.NewDecoder(rsp.Body).Decode(&entries)
	if err = errors.Join(err, rsp.Body.Close()); err != nil {
		return nil, nil, fmt.Errorf("the list: %w", err)
	}
	return entries, NextPage(rsp.Header), nil
}

var linkTarget = regexp.MustCompile(`<([^>]*)>([^<]*)`)

// NextPage returns the query of the next page of a list, from `Link: <…>; rel="next"` of an answer; nil after the last
// page.
func NextPage(h http.Header) url.Values {
	for _, link := range linkTarget.FindAllStringSubmatch(strings.Join(h.Values("Link"), ","), -1) {
		if u, err := url.Parse(link[1]); err == nil && strings.Contains(link[2], `rel="next"`) {
			return u.Query()
		}
	}
	return nil
}

// WaitForRevision waits until the server answers from a revision or a newer one, or the context ends. It shows that a
// change has reached a replica other than the one that made it, such as the one that clusters poll. A server with a
// replaced history never has the revision, so give the context a deadline.
func WaitForRevision(ctx context.Context, c *Client, revision int64) error {
	noCluster := "id=NONE" // matches no cluster, because ids are lower case: the answer is small
	for {
		rsp, err := c.PollClusters(ctx, nil, func(_ context.Context, req *http.Request) error {
			q := req.URL.Query()
			q.Set("selector", noCluster)
			req.URL.RawQuery = q.Encode()
			req.Header.Set(minRevision, strconv.FormatInt(revision, 10))
			return nil
		})
		if err == nil {
			return rsp.Body.Close()
		}
		problem, ok := errors.AsType[*Error](err)
		if !ok || problem.StatusCode != http.StatusServiceUnavailable {
			return err
		}
		if cause := sleep(ctx, max(problem.RetryAfter, staleWait)); cause != nil {
			return errors.Join(cause, err)
		}
	}
}
