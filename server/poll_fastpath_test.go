package server_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPollFastpath holds polls that are answered without the router against the same requests that went through
// it, which they all do while debug lines are logged.
func TestPollFastpath(t *testing.T) {
	t.Parallel()
	a, b := setup(t), setupWith(t, options{level: slog.LevelDebug})
	poller := map[*world]string{}
	for _, w := range []*world{a, b} {
		w.create("/clusters", `{"id":"leaving","cluster_dns":"leaving.k8s.example.com","environment":"dev"}`)
		w.delete("/clusters/leaving").want(200)
		poller[w] = w.issue(pollBody).secret
	}
	ask := func(w *world, method, path string, headers ...string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(method, path, nil)
		req.Header.Set("Authorization", "Bearer "+readToken)
		req.Header.Set("Accept-Encoding", "gzip")
		for i := 0; i < len(headers); i += 2 {
			name, value := headers[i], strings.ReplaceAll(headers[i+1], "POLLER", poller[w])
			if i == 0 {
				req.Header.Del(name)
			}
			if value != "" {
				req.Header.Add(name, value)
			}
		}
		rec := httptest.NewRecorder()
		w.http.Config.Handler.ServeHTTP(rec, req)
		rec.Header().Del("X-Request-Id") // of refusals; it is random
		return rec
	}
	const clusters = "/api/v2/flux/clusters/"
	for _, list := range []string{"platform-components", "namespaces", "rolebindings", "rolebinding", "", "namespaces/", "receipts/namespaces/podinfo", "receipts/namespaces", "receipts/nothing/x"} {
		for _, path := range []string{
			demoPolls + "/" + list, demoPolls + "./" + list, demoPolls + "/" + list + "?x=1", demoPolls + "/" + list + "?input=0123456789abcdef",
			demoPolls + "/" + list + "?input=0123456789abcdeg", demoPolls + "/" + list + "?input=0123456789abcdef&x=1", "/" + demoPolls + "/" + list,
			clusters + "DEMO-cluster-01.k8s.example.com/" + list, clusters + "demo%2Dcluster-01.k8s.example.com/" + list,
			clusters + "leaving.k8s.example.com/" + list, clusters + "leaving.k8s.example.com/" + list + "?mode=orphan",
			clusters + "nobody.k8s.example.com/" + list, clusters + "/" + list, clusters + "../" + list, clusters + "a b/" + list, clusters + "%00/" + list,
		} {
			for _, w := range []*world{a, b} {
				w.clock.advance(time.Minute) // so that wrong tokens cause no lock
			}
			for _, headers := range [][]string{
				nil,
				{"Authorization", ""},
				{"Authorization", "Bearer wrong"},
				{"Authorization", "Bearer " + writeToken},
				{"Accept-Encoding", ""},
				{"Accept-Encoding", "br"},
				{"If-None-Match", "*"},
				{"If-None-Match", `"x"`},
				{"If-None-Match", `"x"`, "If-None-Match", `"y"`},
				{"X-Fleet-Min-Revision", "1"},
				{"X-Fleet-Min-Revision", "-1"},
				{"X-Fleet-Min-Revision", "soon"},
				{"X-Request-ID", "mine"},
				{"User-Agent", "flux-operator/v0.58.0"},
				{"Range", "bytes=0-3"},
			} {
				for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS"} {
					req, err := http.NewRequest(method, path, nil)
					if err != nil || req.URL.Path == "" {
						continue
					}
					got, want := ask(a, method, req.URL.String(), headers...), ask(b, method, req.URL.String(), headers...)
					require.Equal(t, want.Code, got.Code, "%s %s %q", method, path, headers)
					require.Equal(t, want.Header(), got.Header(), "%s %s %q", method, path, headers)
					if want.Code < 400 {
						require.Equal(t, want.Body.Bytes(), got.Body.Bytes(), "%s %s %q", method, path, headers)
					}
				}
			}
		}
	}
	for _, metric := range []string{
		`flux_resourceset_http_requests_total{method="GET",route="` + clusters + `:cluster_dns/namespaces",status="200"}`,
		`flux_resourceset_http_requests_total{method="GET",route="` + clusters + `:cluster_dns/receipts/:list/:input_id",status="200"}`,
		`flux_resourceset_authenticated_requests_total{credential="static-read"}`,
		`flux_resourceset_cluster_last_poll_timestamp_seconds{cluster="demo-cluster-01"}`,
	} {
		got, want := a.metric(metric), b.metric(metric) // which is a request itself
		require.Positive(t, got, metric)
		require.Equal(t, want, got, metric)
	}
}

// TestPollAllocations: a poll allocates its header values only, for any fleet and list, and the body if it must be decompressed.
func TestPollAllocations(t *testing.T) { //nolint:paralleltest // what others allocate would count
	w := setup(t)
	h := w.http.Config.Handler
	for encoding, allowed := range map[string]float64{"gzip": 4, "identity": 6} {
		req := httptest.NewRequest("GET", demoPolls+"/platform-components", nil)
		req.Header.Set("Authorization", "Bearer "+readToken)
		req.Header.Set("Accept-Encoding", encoding)
		res := &discard{header: http.Header{}}
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
			clear(res.header)
			h.ServeHTTP(res, req)
		}), allowed, encoding)
		require.Equal(t, "1", res.header.Get("X-Fleet-Revision"))
	}
}
