package bench_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

const token = "bench"

// binary builds the program once for all benchmarks.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "flux-resourceset-bench")
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "flux-resourceset"), testrig.Build(context.Background(), "../..", dir, "bench")
})

// process is a running server.
type process struct {
	b      *testing.B
	server *testrig.Server // nil: it is not one of ours
	base   string
	client *http.Client
	ready  time.Duration // from the start until /ready was 200
}

func start(b *testing.B, settings ...string) *process {
	b.Helper()
	path, err := binary()
	require.NoError(b, err)
	return startProgram(b, path, settings...)
}

// startProgram starts a given build of the server.
func startProgram(b *testing.B, path string, settings ...string) *process {
	b.Helper()
	began := time.Now()
	server, err := testrig.StartServer(testrig.Program{Path: path, Env: append([]string{
		"LOG_LEVEL=info", "AUTH_TOKEN=" + token, "CRUD_AUTH_TOKEN=" + token, "MAX_REMOVALS=1000000",
	}, settings...)})
	require.NoError(b, err)
	b.Cleanup(server.Kill)
	require.NoError(b, server.Ready(b.Context(), nil))
	return &process{b, server, server.Base, newClient(), time.Since(began)}
}

func newClient() *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
}

type answer struct {
	status int
	etag   string
	rev    int64
	body   []byte
}

func (p *process) send(method, path, body string, minRevision int64) answer {
	p.b.Helper()
	req, err := http.NewRequestWithContext(p.b.Context(), method, p.base+path, strings.NewReader(body))
	require.NoError(p.b, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept-Encoding", "gzip")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if minRevision > 0 {
		req.Header.Set("X-Fleet-Min-Revision", strconv.FormatInt(minRevision, 10))
	}
	resp, err := p.client.Do(req)
	if err != nil {
		p.b.Errorf("%s %s: %v", method, path, err)
		return answer{}
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		p.b.Errorf("%s %s: %v", method, path, err)
	}
	rev, _ := strconv.ParseInt(resp.Header.Get("X-Fleet-Revision"), 10, 64) // polls have none while nothing is loaded
	return answer{resp.StatusCode, resp.Header.Get("ETag"), rev, got}
}

// must sends a change that has to succeed, retries while the store is busy, and returns the revision and the duration.
func (p *process) must(method, path, body string) (int64, time.Duration) {
	p.b.Helper()
	began := time.Now()
	for {
		a := p.send(method, path, body, 0)
		switch {
		case a.status/100 == 2:
			return a.rev, time.Since(began)
		case a.status != http.StatusServiceUnavailable:
			p.b.Errorf("%s %s: %d %s", method, path, a.status, a.body)
			return 0, time.Since(began)
		}
	}
}

// rss returns the resident memory in MiB.
func (p *process) rss() float64 {
	p.b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.server.PID()))
	require.NoError(p.b, err)
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			require.NoError(p.b, err)
			return kib / 1024
		}
	}
	p.b.Fatal("no VmRSS")
	return 0
}

// cpu returns the process's processor time, which is more reliable than elapsed time on a shared machine.
func (p *process) cpu() time.Duration {
	p.b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.server.PID()))
	require.NoError(p.b, err)
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest) // from the state on, which is the third of proc(5)
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.ParseInt(field, 10, 64)
		require.NoError(p.b, err)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}

// quantile returns a quantile of durations in milliseconds.
func quantile(q float64, all []time.Duration) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(q*float64(len(all))))].Seconds() * 1000
}
