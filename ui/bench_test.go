package ui_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// BenchmarkPages measures pages of a fleet of 10,000 clusters with 30 components each, and the latency of a poll while ten sessions load pages, relative to the
// same poll alone.
func BenchmarkPages(b *testing.B) {
	env := setupFleet(b, "", []step{
		{"the catalog", createCatalog},
		{"28 components more", func(tx *fleet.Tx) error {
			layer := `{"id":"base","priority":1,"all":true,"platform_components":[`
			for n := range 28 {
				id := fmt.Sprintf("component-%02d", n)
				if _, err := tx.Create(fleet.KindComponent, fmt.Appendf(nil, `{"id":%q,"component_path":"charts/%s","oci_url":"https://charts.example.com","component_version":"1.0.0"}`, id, id)); err != nil {
					return err
				}
				layer += fmt.Sprintf(`{"id":%q},`, id)
			}
			_, err := tx.Create(fleet.KindLayer, []byte(strings.TrimSuffix(layer, ",")+`]}`))
			return err
		}},
		{"the clusters", func(tx *fleet.Tx) error { return createClusters(tx, 10_000) }},
	})
	page := env.page(sessionKey)
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
		if rec.Code != http.StatusOK {
			panic(rec.Body.String()) // on whichever goroutine
		}
		return rec.Body.Len()
	}
	measure := func(name, path string, alongside ...string) {
		b.Run(name, func(b *testing.B) {
			size, before, n := 0, cpuTime(), 0
			for b.Loop() {
				size = show(path)
				n++
			}
			b.ReportMetric(float64((cpuTime()-before).Microseconds())/1000/float64(n), "cpu-ms/op") // on a busy machine, what counts
			for _, file := range alongside {
				size += show(file)
			}
			b.ReportMetric(float64(size)/1024, "KiB")
		})
	}
	for _, path := range []string{"/ui/", "/ui/clusters?state=failed", "/ui/clusters/cluster-0003", "/ui/compare?left=cluster-0001&right=cluster-0003", "/ui/compare?left=cluster-0001&left_revision=3", "/ui/layers", "/ui/layers/base", "/ui/components", "/ui/components/podinfo", "/ui/changes", "/ui/changes/2"} {
		measure(path, path)
	}
	measure("/ui/matrix", "/ui/matrix")
	for _, typed := range []string{"c", "cluster-99", "timed out", "1.0.0", "first clusters", "nothing like it"} {
		measure("search/"+typed, "/ui/search/suggest?"+url.Values{"q": {typed}}.Encode())
	}
	measure("first-view", "/ui/", "/ui/static/style.css", "/ui/static/scripts.js", "/ui/static/icon.svg")
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
			stop, shown := make(chan struct{}), make(chan struct{}, 10)
			done := make(chan struct{}, 10)
			for range 10 {
				go func() {
					defer func() { done <- struct{}{} }()
					for first := true; ; first = false {
						show("/ui/")
						if first {
							shown <- struct{}{}
						}
						select {
						case <-stop:
							return
						case <-time.After(15 * time.Second / 10): // ten times as often as the page reads itself
						}
					}
				}()
			}
			for n, seen := 0, 0; n < 100 || seen < 10; n++ { // until each has seen a page
				took := poll()
				if n < 100 {
					beside += took
				}
				for len(shown) > 0 {
					<-shown
					seen++
				}
			}
			close(stop)
			for range 10 {
				<-done
			}
		}
		b.ReportMetric(float64(beside)/float64(alone), "beside/alone")
	})
	env.advance(time.Minute)
	for i, doc := range env.replica.State().All(fleet.KindCluster) {
		env.report(i*40+3, doc, env.now()) // as those that fail
	}
	measure("all-failing", "/ui/")
	measure("all-failing-search", "/ui/search/suggest?q=timed+out")
	measure("all-failing-clusters", "/ui/clusters?state=failed&offset=9000")
	n := 0
	for _, path := range []string{"/ui/", "/ui/matrix"} {
		b.Run("after-catalog-change"+path, func(b *testing.B) {
			var used time.Duration
			for b.Loop() {
				n++
				_, err := env.replica.Update(b.Context(), store.Meta{Actor: "bench"}, func(tx *fleet.Tx) error {
					_, err := tx.Patch(fleet.KindComponent, "podinfo", fmt.Appendf(nil, `{"component_version":"7.0.%d"}`, n))
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
				before := cpuTime()
				show(path)
				used += cpuTime() - before
			}
			b.ReportMetric(float64(used.Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// cpuTime returns the processor time of this process.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
