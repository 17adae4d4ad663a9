package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// breaking is a proxy that breaks some connections, and answers 503 to some requests.
func breaking(t *testing.T, target string) string {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	var requests atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n := requests.Add(1); {
		case n%3 == 1:
			panic(http.ErrAbortHandler)
		case n%5 == 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case n%7 == 3: // the answer is lost
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// Revisions has every revision exactly once, however often the connection breaks.
func TestRevisionsResumes(t *testing.T) {
	t.Parallel()
	target, stop := demoServer()
	t.Cleanup(stop)
	writer, err := client.New(client.Config{URL: target, Token: "write"})
	if err != nil {
		t.Fatal(err)
	}
	reader, err := client.New(client.Config{URL: breaking(t, target), Token: "read", Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	retries, want := 0, int64(0)
	watch := client.RevisionWatch{After: "0", Retrying: func(error, time.Duration) { retries++ }}
	for revision, err := range client.Revisions(t.Context(), reader, watch) {
		if want++; err != nil || revision.Revision != want {
			t.Fatalf("revision %d, want %d: %v", revision.Revision, want, err)
		}
		if want == 6 {
			break
		}
		if _, err := writer.CreateNamespace(t.Context(), nil, api.NamespaceCreate{ID: fmt.Sprintf("team-%d", want)}); err != nil {
			t.Fatal(err)
		}
	}
	if retries == 0 {
		t.Error("no connection broke")
	}
}

func TestRevisionsErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		body   string
		is     func(error) bool
	}{
		"gone": {410, `{"error":"gone","oldest_revision":7}`, func(err error) bool {
			gone, ok := errors.AsType[*client.GoneError](err)
			return ok && gone.Oldest == 7
		}},
		"diverged": {409, `{"error":"diverged"}`, func(err error) bool {
			_, ok := errors.AsType[*client.DivergedError](err)
			return ok && client.ErrorCode(err) == client.CodeDiverged
		}},
		"a replaced history": {503, `{"error":"unknown_revision"}`, func(err error) bool {
			_, ok := errors.AsType[*client.DivergedError](err)
			return ok
		}},
		"revoked":            {401, `{"error":"unauthorized"}`, func(err error) bool { return client.ErrorCode(err) == client.CodeUnauthorized }},
		"not yet":            {404, `{"error":"not_found"}`, func(err error) bool { return client.ErrorCode(err) == client.CodeNotFound }},
		"the caller ends it": {503, `{"error":"store_unavailable"}`, func(err error) bool { return errors.Is(err, context.Canceled) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			}))
			t.Cleanup(srv.Close)
			c, err := client.New(client.Config{URL: srv.URL, Retries: -1})
			if err != nil {
				t.Fatal(err)
			}
			results := 0
			for _, err := range client.Revisions(ctx, c, client.RevisionWatch{After: "5", Retrying: func(error, time.Duration) { cancel() }}) {
				if results++; !test.is(err) {
					t.Errorf("%v", err)
				}
			}
			if results != 1 {
				t.Errorf("%d results", results)
			}
		})
	}
}

// Without a position, a watch begins with the next revision, and follows only those that it selects.
func TestRevisionsFromNow(t *testing.T) {
	t.Parallel()
	target, stop := demoServer()
	t.Cleanup(stop)
	c, err := client.New(client.Config{URL: target, Token: "write"})
	if err != nil {
		t.Fatal(err)
	}
	began := make(chan struct{}, 100)
	reader, err := client.New(client.Config{URL: target, Token: "read", Trace: func(req *http.Request, _ *http.Response, _ time.Duration, _ error) {
		if strings.Contains(req.URL.RawQuery, "limit=1") {
			began <- struct{}{}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-began
		for _, id := range []string{"one", "two"} {
			if _, err := c.CreateNamespace(t.Context(), nil, api.NamespaceCreate{ID: id}); err != nil {
				t.Error(err)
			}
		}
	}()
	for revision, err := range client.Revisions(t.Context(), reader, client.RevisionWatch{Kind: client.KindNamespace, ID: "two"}) {
		if err != nil || revision.Revision != 3 {
			t.Errorf("%d, %v", revision.Revision, err)
		}
		break
	}
	<-ended
}
