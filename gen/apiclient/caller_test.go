package apiclient

import (
	"net/http"
	"testing"
	"time"
)

// A restored backup has forgotten the newest revisions. A client that lives on asks for them for a while only.
func TestOwnWritesAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	c := &caller{now: func() time.Time { return now }}
	write := func(revision string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://x/", nil)
		if err != nil {
			t.Fatal(err)
		}
		c.remember(req, &http.Response{Header: http.Header{"X-Fleet-Revision": {revision}}})
	}
	asks := func(want string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/", nil)
		if err != nil {
			t.Fatal(err)
		}
		c.setHeaders(req)
		if got := req.Header.Get("X-Fleet-Min-Revision"); got != want {
			t.Errorf("asks for %q, not %q", got, want)
		}
	}
	asks("")
	write("100")
	asks("100")
	write("90")
	asks("100")
	now = now.Add(ownWrites - 1)
	asks("100")
	now = now.Add(1)
	asks("")
	write("90")
	asks("90")
	write("91")
	asks("91")
}
