package ui_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/ui"
)

// TestSessionLimit: a session with many concurrent pages of an unresponsive API does not delay other sessions, even of the same token. Pages
// over the limit are refused at once.
func TestSessionLimit(t *testing.T) {
	t.Parallel()
	env := setup(t, 20)
	synctest.Test(t, func(t *testing.T) {
		var stuck, most atomic.Int32
		release := make(chan struct{})
		page, err := ui.New(ui.Config{API: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/status" && r.URL.Query().Get("environment") == "dev" { // the request of the greedy session
				if n := stuck.Add(1); n > most.Load() {
					most.Store(n)
				}
				<-release
				stuck.Add(-1)
			}
			env.api.ServeHTTP(rw, r)
		})})
		require.NoError(t, err)
		session := func() *http.Cookie {
			rec := httptest.NewRecorder()
			page.ServeHTTP(rec, local(http.MethodPost, "http://127.0.0.1/ui/sign-in", url.Values{"token": {readToken}}.Encode()))
			return rec.Result().Cookies()[0]
		}
		ask := func(path string, session *http.Cookie) *httptest.ResponseRecorder {
			req := local(http.MethodGet, "http://127.0.0.1"+path, "")
			req.AddCookie(session)
			rec := httptest.NewRecorder()
			page.ServeHTTP(rec, req)
			return rec
		}
		greedy, other := session(), session()
		answers := make(chan *httptest.ResponseRecorder, 100)
		for range 100 {
			go func() { answers <- ask("/ui/clusters?environment=dev", greedy) }()
		}
		synctest.Wait()
		require.LessOrEqual(t, most.Load(), int32(4))
		require.Len(t, answers, 80, "four are being made, sixteen wait")
		for range 80 {
			refused := <-answers
			require.Equal(t, http.StatusTooManyRequests, refused.Code)
			require.Equal(t, "2", refused.Header().Get("Retry-After"))
			require.True(t, strings.HasSuffix(strings.TrimSpace(refused.Body.String()), "</html>"), "a complete error page")
		}
		require.Equal(t, 200, ask("/ui/", other).Code, "while the others are stuck")

		close(release)
		synctest.Wait()
		for range 20 {
			require.Equal(t, 200, (<-answers).Code, "waiting pages are served")
		}
		require.Equal(t, 200, ask("/ui/", greedy).Code, "after its pages are done")
	})
}
