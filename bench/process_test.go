package bench_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const token = "bench"

// binary builds the program once for all benchmarks.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "flux-resourceset-bench")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "flux-resourceset")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "../cmd/flux-resourceset")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// process is a running server.
type process struct {
	b      *testing.B
	cmd    *exec.Cmd
	base   string
	client *http.Client
	ready  time.Duration // from the start until /ready was 200
}

func start(b *testing.B, settings ...string) *process {
	b.Helper()
	path, err := binary()
	require.NoError(b, err)
	p := &process{b: b, cmd: exec.Command(path), client: &http.Client{
		Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
	}}
	p.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "LISTEN_ADDR=127.0.0.1:0", "LOG_FORMAT=json", "LOG_LEVEL=info",
		"AUTH_TOKEN=" + token, "CRUD_AUTH_TOKEN=" + token, "ALLOW_SHORT_TOKENS=true", "MAX_REMOVALS=1000000",
	}, settings...)
	stderr, err := p.cmd.StderrPipe()
	require.NoError(b, err)
	began := time.Now()
	require.NoError(b, p.cmd.Start())
	b.Cleanup(p.stop)
	listening := make(chan string, 1)
	var log bytes.Buffer
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			var line struct{ Msg, Addr string }
			if json.Unmarshal(lines.Bytes(), &line) != nil || line.Msg != "request" && line.Msg != "listening" {
				log.WriteString(lines.Text() + "\n")
			}
			if line.Msg == "listening" {
				listening <- line.Addr
			}
		}
	}()
	select {
	case addr := <-listening:
		p.base = "http://" + addr
	case <-ended:
		b.Fatalf("it ended: %s", log.String())
	}
	for p.send(http.MethodGet, "/ready", "", 0).status != http.StatusOK {
		time.Sleep(5 * time.Millisecond)
	}
	p.ready = time.Since(began)
	return p
}

func (p *process) stop() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
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

// must sends a change that has to succeed, again while the store is busy, and returns its revision and how long it took.
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

// rss is the resident memory in MiB.
func (p *process) rss() float64 {
	p.b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
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

// cpu is the processor time the process has used, which says more than the clock on a machine that is shared.
func (p *process) cpu() time.Duration {
	p.b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
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

// quantile of some durations, in milliseconds.
func quantile(q float64, all []time.Duration) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(q*float64(len(all))))].Seconds() * 1000
}
