package ui_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkPages makes pages of a fleet of 10,000 clusters, and a poll while ten people's pages are made,
// over the same poll alone.
func BenchmarkPages(b *testing.B) {
	w := setupWith(b, 10_000, "")
	page := w.page(sessionKey)
	req := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/ui/sign-in", strings.NewReader(url.Values{"token": {readToken}}.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	rec := httptest.NewRecorder()
	page.ServeHTTP(rec, req)
	cookie := rec.Result().Cookies()[0]
	show := func(path string) int {
		req := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil)
		req.AddCookie(cookie)
		rec := httptest.NewRecorder()
		page.ServeHTTP(rec, req)
		require.Equal(b, 200, rec.Code)
		return rec.Body.Len()
	}
	for _, path := range []string{"/ui/", "/ui/clusters?state=failed", "/ui/clusters/cluster-0003", "/ui/components", "/ui/changes"} {
		b.Run(path, func(b *testing.B) {
			size := 0
			for b.Loop() {
				size = show(path)
			}
			b.ReportMetric(float64(size)/1024, "KiB")
		})
	}
	b.Run("poll-beside-ten", func(b *testing.B) {
		poll := func() time.Duration {
			req := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/api/v2/flux/clusters/cluster-0001.k8s.example.com/platform-components", nil)
			req.Header.Set("Authorization", "Bearer "+readToken)
			start := time.Now()
			page.ServeHTTP(httptest.NewRecorder(), req)
			return time.Since(start)
		}
		var alone, beside time.Duration
		for b.Loop() {
			for range 100 {
				alone += poll()
			}
			stop := make(chan struct{})
			done := make(chan struct{}, 10)
			for range 10 {
				go func() {
					defer func() { done <- struct{}{} }()
					for {
						select {
						case <-stop:
							return
						case <-time.After(15 * time.Second / 10): // ten times as often as the page reads itself
							show("/ui/")
						}
					}
				}()
			}
			for range 100 {
				beside += poll()
			}
			close(stop)
			for range 10 {
				<-done
			}
		}
		b.ReportMetric(float64(beside)/float64(alone), "beside/alone")
	})
}
