package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/knownversions"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/versions"
)

// fakeScanner answers scans with a result for each source.
type fakeScanner struct {
	mu      sync.Mutex
	results map[string]versions.Result // by URL
	scanned []versions.Source
	err     error
}

func (f *fakeScanner) Scan(_ context.Context, sources []versions.Source, each func(int, versions.Result)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.scanned = append(f.scanned, sources...)
	for i, src := range sources {
		if f.err == nil {
			each(i, f.results[src.URL])
		}
	}
	return f.err
}

func (f *fakeScanner) set(url string, r versions.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.results[url] = r
}

// take returns the number of sources that were scanned since the last call.
func (f *fakeScanner) take() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.scanned)
	f.scanned = nil
	return n
}

func scanWorld(t *testing.T, scanner server.VersionScanner) (*world, []*server.Server) {
	t.Helper()
	var cfg server.Config
	w := setupWith(t, options{configure: func(c *server.Config) {
		c.ClusterStatus, c.Versions, c.VersionScanner = clusterstatus.NewTracker(clusterstatus.Config{}), knownversions.New(), scanner
		cfg = *c
	}})
	servers := make([]*server.Server, 2)
	for i := range servers {
		var err error
		servers[i], err = server.New(cfg)
		require.NoError(t, err)
	}
	return w, servers
}

// TestScans: a source is scanned at its interval by one process, a failure changes nothing but its status, and a person can scan at once.
func TestScans(t *testing.T) {
	t.Parallel()
	const url = "https://charts.example.com"
	f := &fakeScanner{results: map[string]versions.Result{}}
	w, servers := scanWorld(t, f)
	scan := func() int {
		for _, s := range servers {
			s.ScanVersions(t.Context())
		}
		return f.take()
	}
	require.Zero(t, scan(), "there is no policy")
	w.policy(`{"range":">=6","interval":"1h"}`)
	f.set(url, versions.Result{Versions: []versions.Version{{Version: "6.9.0", Digest: digestA}, {Version: "6.8.0"}}, Present: []string{"6.9.0", "6.8.0"}})
	w.unchanged(func() {
		require.Equal(t, 1, scan(), "the second process knows the scan of the first")
		require.Zero(t, scan())
		got := w.get(versionsPath).want(200)
		require.Equal(t, []string{"6.9.0", "6.8.0"}, knownOf(got, 0))
		require.Equal(t, "6.9.0", at(got.json(), "sources", 0, "candidate"))
		require.NotContains(t, at(got.json(), "sources", 0, "versions", 0), "digest", "that of an archive is of no use")
		w.clock.advance(56 * time.Minute)
		require.Zero(t, scan(), "the jitter of ten percent")
		w.clock.advance(8 * time.Minute)
		f.set(url, versions.Result{Err: &versions.Error{Class: versions.Unreachable, Host: "charts.example.com", Message: "status 503"}})
		require.Equal(t, 1, scan())
		failed := w.get(versionsPath).want(200)
		require.Equal(t, "charts.example.com: status 503", at(failed.json(), "sources", 0, "scan", "error"))
		require.EqualValues(t, 1, at(failed.json(), "sources", 0, "scan", "failures"))
		require.Equal(t, "6.9.0", at(failed.json(), "sources", 0, "candidate"), "a failure changes nothing")
		metrics := ""
		for _, s := range servers {
			answer := httptest.NewRecorder()
			s.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
			metrics += answer.Body.String()
		}
		require.True(t, strings.Contains(metrics, `flux_resourceset_version_scan_errors_total{host="charts.example.com"} 1`))
		require.True(t, strings.Contains(metrics, `flux_resourceset_component_versions_behind{component=""} 1`))
		w.clock.advance(64 * time.Minute)
		require.Equal(t, 1, scan())
		w.clock.advance(64 * time.Minute)
		require.Zero(t, scan(), "it backs off")

		f.set(url, versions.Result{Versions: []versions.Version{{Version: "6.8.0"}}, Present: []string{"6.8.0"}})
		got = w.post(versionsPath+"/refresh", "").want(202)
		require.Equal(t, 1, f.take())
		require.NotContains(t, at(got.json(), "sources", 0, "scan"), "error")
		require.Equal(t, true, at(got.json(), "sources", 0, "versions", 0, "withdrawn"))
		require.NotContains(t, at(got.json(), "sources", 0), "candidate", "it was withdrawn")
		w.post(versionsPath+"/refresh", "").want(202)
		require.Zero(t, f.take(), "it was scanned just now")
	})
	w.policy(`{"range":">=6","interval":"0s"}`)
	w.clock.advance(1000 * time.Hour)
	require.Zero(t, scan(), "only pushed versions")
	w.policy(`{"interval":null,"suspended":true}`)
	require.Zero(t, scan())
	w.policy(`{"suspended":null}`)
	f.err = context.DeadlineExceeded
	require.Equal(t, 1, scan())
	require.Equal(t, "REGISTRY_AUTH_FILE cannot be read", at(w.get(versionsPath).want(200).json(), "sources", 0, "scan", "error"))
}

// TestScanOfManyVersions: a long list neither evicts pushed versions nor makes known ones new at each scan.
func TestScanOfManyVersions(t *testing.T) {
	t.Parallel()
	f := &fakeScanner{results: map[string]versions.Result{}}
	w, servers := scanWorld(t, f)
	w.policy(`{"range":">=1"}`)
	var list []versions.Version
	present := []string{}
	for i := range 100 {
		list = append(list, versions.Version{Version: fmt.Sprintf("7.%d.0", 200-i)})
		present = append(present, list[i].Version)
	}
	f.set("https://charts.example.com", versions.Result{Versions: list, Present: present, Listed: 500})
	w.post(versionsPath, `{"version":"6.8.5"}`).want(202)
	servers[0].ScanVersions(t.Context())
	before := w.get(versionsPath).want(200)
	require.Len(t, knownOf(before, 0), 51)
	require.Contains(t, knownOf(before, 0), "6.8.5")
	for range 3 {
		w.clock.advance(2 * time.Hour)
		servers[0].ScanVersions(t.Context())
		got := w.get(versionsPath).want(200)
		require.Equal(t, at(before.json(), "sources", 0, "versions"), at(got.json(), "sources", 0, "versions"))
	}
}

// TestScanOfHelmRepository: the real scanner reads an index.
func TestScanOfHelmRepository(t *testing.T) {
	t.Parallel()
	repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/index.yaml" {
			http.NotFound(w, r)
			return
		}
		_, _ = fmt.Fprint(w, "apiVersion: v1\nentries:\n  podinfo:\n  - version: 6.9.0\n    created: 2026-01-01T00:00:00Z\n  - version: 6.8.0\n  other:\n  - version: 9.9.9\n")
	}))
	t.Cleanup(repository.Close)
	w, servers := scanWorld(t, versions.New(versions.Config{AllowHTTP: true, AllowPrivate: true}))
	w.policy(`{"range":">=6"}`)
	w.patch("/platform_components/podinfo", `{"oci_url":"`+repository.URL+`"}`).want(200)
	servers[0].ScanVersions(t.Context())
	got := w.get(versionsPath).want(200)
	require.Equal(t, []string{"6.9.0", "6.8.0"}, knownOf(got, 0), "%s", got.body)
	require.Equal(t, "2026-01-01T00:00:00Z", at(got.json(), "sources", 0, "versions", 0, "created_at"))
	w.runVersions(servers[0])
	require.Equal(t, "proposed", w.get("/rollouts/auto-podinfo").want(200).json()["state"])
}

// TestGitRepositoriesAreNotScanned: the versions of a component from a Git repository are only those that are pushed.
func TestGitRepositoriesAreNotScanned(t *testing.T) {
	t.Parallel()
	f := &fakeScanner{results: map[string]versions.Result{}}
	w, servers := scanWorld(t, f)
	w.policy(`{"range":">=6","interval":"1h"}`)
	w.patch("/platform_components/podinfo", `{"oci_url":"git+https://git.example.com/acme/podinfo"}`).want(200)
	servers[0].ScanVersions(t.Context())
	require.Zero(t, f.take())
	w.post(versionsPath, `{"version":"6.9.0"}`).want(202)
	require.Equal(t, []string{"6.9.0"}, knownOf(w.get(versionsPath).want(200), 0))
}
