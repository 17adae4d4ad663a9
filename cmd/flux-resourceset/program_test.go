package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

// runAsProgram makes the test binary act as the program, for tests that kill a process.
const runAsProgram = "FLUX_RESOURCESET_TEST_RUN_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(runAsProgram) != "" {
		main()
		return
	}
	os.Exit(testrig.RunIOBound(m))
}

const (
	readToken  = "test-read"
	writeToken = "test-write"
	demoSeed   = "../../examples/demo/seed.json"
	demoPolls  = "/api/v2/flux/clusters/demo-cluster-01.k8s.example.com/"
)

// program is a running server process.
type program struct {
	t *testing.T
	*testrig.Server
}

// start runs the real program with settings as environment variables and waits until it listens, or has ended.
func start(t *testing.T, settings ...string) *program {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	server, err := testrig.StartServer(testrig.Program{Path: self, Env: append([]string{
		runAsProgram + "=1", "HOME=" + t.TempDir(), "AUTH_TOKEN=" + readToken, "CRUD_AUTH_TOKEN=" + writeToken, "SEED_ACCEPT=true",
		"MAX_STALENESS=10m", // the default is short for a database that is busy with other tests
	}, settings...)})
	require.NoError(t, err)
	t.Cleanup(server.Kill)
	return &program{t, server}
}

// exit waits for the end of the program and returns its exit code.
func (p *program) exit() int {
	p.t.Helper()
	select {
	case <-p.Ended:
	case <-time.After(time.Minute):
		p.t.Fatalf("still running:\n%s", p.Log())
	}
	return p.ExitCode()
}

type answer struct {
	status int
	header http.Header
	body   string
}

// send makes a request; a failed connection is the zero answer.
func (p *program) send(method, path, body string, headers ...string) answer {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, p.Base+path, strings.NewReader(body))
	require.NoError(p.t, err)
	req.Header.Set("Authorization", "Bearer "+writeToken)
	if strings.HasPrefix(path, "/api/v2/flux/") { // reports of a token that may write count for nothing
		req.Header.Set("Authorization", "Bearer "+readToken)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return answer{}
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}
	}
	return answer{resp.StatusCode, resp.Header, string(got)}
}

// get must succeed.
func (p *program) get(path string, headers ...string) string {
	p.t.Helper()
	a := p.send(http.MethodGet, path, "", headers...)
	require.Equal(p.t, http.StatusOK, a.status, "%s: %s\n%s", path, a.body, p.Log())
	return a.body
}

func (p *program) eventually(path string, status int) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return p.send(http.MethodGet, path, "").status == status }, waitFor, tick, "%s: %d", path, status)
}

// Timeout and interval for asynchronous effects.
const (
	waitFor = time.Minute
	tick    = 50 * time.Millisecond
)
