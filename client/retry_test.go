package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func TestRetryOnStaleGivesUp(t *testing.T) {
	t.Parallel()
	stale := &client.Error{StatusCode: http.StatusPreconditionFailed, Problem: api.Problem{Error: client.CodeStale}}
	other := errors.New("other")
	for name, test := range map[string]struct {
		fail  func(try int) error
		tries int
		is    error
	}{
		"always stale": {func(int) error { return fmt.Errorf("update: %w", stale) }, 6, stale},
		"another":      {func(int) error { return other }, 1, other},
		"stale, other": {func(try int) error { return map[bool]error{true: stale, false: other}[try < 3] }, 3, other},
		"stale, done":  {func(try int) error { return map[bool]error{true: stale}[try < 3] }, 3, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			err := client.RetryOnStale(t.Context(), func(context.Context) error { tries++; return test.fail(tries) })
			if tries != test.tries || !errors.Is(err, test.is) {
				t.Errorf("%s: %d tries, %v", name, tries, err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	err := client.RetryOnStale(ctx, func(context.Context) error { tries++; cancel(); return stale })
	if tries != 1 || !errors.Is(err, context.Canceled) || client.ErrorCode(err) != client.CodeStale {
		t.Errorf("the context has ended: %d tries, %v", tries, err)
	}
}

// pagesOf is a server with a list of three pages, of which the one given fails. It stands for the network only.
func pagesOf(t *testing.T, failing string, asked *[]string) *client.Client {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := r.URL.Query().Get("offset")
		*asked = append(*asked, page)
		if page == failing {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if next := map[string]string{"": "2", "2": "4"}[page]; next != "" {
			w.Header().Set("Link", `</namespaces?limit=2&offset=`+next+`>; rel="next"`)
		}
		_, _ = fmt.Fprintf(w, `[{"id":"a%s"},{"id":"b%s"}]`, page, page)
	}))
	t.Cleanup(srv.Close)
	c, err := client.New(client.Config{URL: srv.URL, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAllStopsWhereItIsTold(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		failing, until string
		ids, asked     string
		fails          bool
	}{
		"all":           {"none", "", "[a b a2 b2 a4 b4]", "[ 2 4]", false},
		"enough":        {"none", "a2", "[a b a2]", "[ 2]", false},
		"a page fails":  {"4", "", "[a b a2 b2]", "[ 2 4]", true},
		"the first one": {"", "", "[]", "[]", true},
	} {
		var ids, asked []string
		var failed error
		c := pagesOf(t, test.failing, &asked)
		list := func(ctx context.Context, more ...client.RequestEditorFn) (*http.Response, error) {
			return c.ListNamespaces(ctx, nil, more...)
		}
		for ns, err := range client.All[api.Namespace](t.Context(), list) {
			if failed = err; err != nil {
				continue // it must end by itself
			}
			if ids = append(ids, ns.ID); ns.ID == test.until {
				break
			}
		}
		if fmt.Sprint(ids) != test.ids || fmt.Sprint(asked) != test.asked || (failed != nil) != test.fails {
			t.Errorf("%s: %v, asked for %q, %v", name, ids, asked, failed)
		}
	}
}

func TestWaitForRevision(t *testing.T) {
	t.Parallel()
	requests := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		w.Header().Set("X-Fleet-Revision", "6")
		switch {
		case r.Header.Get("Authorization") != "Bearer good":
			w.WriteHeader(http.StatusUnauthorized)
		case r.Header.Get("X-Fleet-Min-Revision") != "7":
			t.Errorf("asked for revision %q", r.Header.Get("X-Fleet-Min-Revision"))
		case requests < 4:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer srv.Close()
	wait := func(ctx context.Context, token string) error {
		c, err := client.New(client.Config{URL: srv.URL, Token: token, Retries: -1})
		if err != nil {
			t.Fatal(err)
		}
		return client.WaitForRevision(ctx, c, 7)
	}
	if err := wait(t.Context(), "good"); err != nil || requests != 4 {
		t.Errorf("%d requests, %v", requests, err)
	}
	requests = 0
	if err := wait(t.Context(), "bad"); err == nil || requests != 1 {
		t.Errorf("a refusal is waited for: %d requests, %v", requests, err)
	}
	requests = -1 << 30
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := wait(ctx, "good"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the context has ended: %v", err)
	}
}
