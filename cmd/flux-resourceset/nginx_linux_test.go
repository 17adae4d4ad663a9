package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

// While two processes behind nginx restart one after the other, no poll fails, with the settings of docs/upgrading.md and with
// connections that nginx uses again.
func TestRestartsBehindNginx(t *testing.T) {
	t.Parallel()
	for name, keepAlive := range map[string]bool{"documented": false, "keep-alive": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, addresses := "DATABASE_URL=sqlite://"+filepath.Join(t.TempDir(), "fleet.db"), loopback()
			processes := []*restarting{
				{settings: []string{url, "API_MODE=crud", "SEED_FILE=" + demoSeed}},
				{settings: []string{url, "API_MODE=read-only"}},
			}
			for i, p := range processes {
				p.settings = append(p.settings, "SHUTDOWN_DELAY=1h", "LISTEN_ADDR="+addresses[i]+":0")
				p.start(t)
				p.settings = append(p.settings, "LISTEN_ADDR="+p.address()) // of two, the last counts
			}
			nginx := startNginx(t, keepAlive, processes[0].address(), processes[1].address())
			polls := startPolls(t, nginx)
			for range 3 {
				for _, p := range processes {
					require.NoError(t, p.Signal(syscall.SIGTERM))
					p.eventually("/ready", http.StatusServiceUnavailable)
					polls.complete() // the rest of the delay
					require.NoError(t, p.Stop(), p.Log())
					p.start(t)
				}
			}
			polls.stop()
			require.Empty(t, polls.failed, "of %d polls; the log of nginx:\n%s", polls.count.Load(), testrig.Tail(nginx.Log(), 50))
		})
	}
}

// restarting is a process that is started again and again, at the same address.
type restarting struct {
	*program
	settings []string
}

func (p *restarting) start(t *testing.T) {
	t.Helper()
	p.program = start(t, p.settings...)
	require.NoError(t, p.Ready(t.Context(), nil), p.Log())
}

func (p *restarting) address() string { return strings.TrimPrefix(p.Base, "http://") }

var loopbacks atomic.Int64

// loopback returns two addresses that nothing else uses, so that no other test takes a port there during a restart.
func loopback() (two [2]string) {
	for i := range two {
		two[i] = fmt.Sprintf("127.%d.%d.%d", 16*loopbacks.Add(1)+int64(os.Getpid()>>16&15), os.Getpid()>>8&255, os.Getpid()&255)
	}
	return two
}

// polls are the polls that some clients make without a pause.
type polls struct {
	count  atomic.Int64
	mu     sync.Mutex
	turns  []int64 // completed polls of each client
	turn   *sync.Cond
	failed []string
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func startPolls(t *testing.T, nginx *proxy) *polls {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &polls{turns: make([]int64, 8), cancel: cancel}
	p.turn = sync.NewCond(&p.mu)
	t.Cleanup(p.stop)
	for i := range p.turns {
		p.wg.Go(func() {
			for ctx.Err() == nil {
				err := nginx.poll(t.Context())
				p.count.Add(1)
				p.mu.Lock()
				if p.turns[i]++; err != nil {
					p.failed = append(p.failed, err.Error())
				}
				p.turn.Broadcast()
				p.mu.Unlock()
			}
		})
	}
	return p
}

// complete returns when each client has completed a poll that began after the call.
func (p *polls) complete() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, before := range append([]int64(nil), p.turns...) {
		for p.turns[i] < before+2 {
			p.turn.Wait()
		}
	}
}

func (p *polls) stop() {
	p.cancel()
	p.wg.Wait()
}

// proxy is an nginx in front of two servers.
type proxy struct {
	*testrig.Process
	client *http.Client
}

// startNginx runs nginx with the settings of docs/upgrading.md before two servers.
func startNginx(t *testing.T, keepAlive bool, first, second string) *proxy {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx" // on Debian, outside the path of users
	}
	page, err := os.ReadFile("../../docs/upgrading.md")
	require.NoError(t, err)
	_, documented, _ := strings.Cut(string(page), "```nginx\n")
	documented, _, found := strings.Cut(documented, "```")
	require.True(t, found)
	dir, err := os.MkdirTemp("", "nginx") //nolint:usetesting // short: the path of a socket has 107 bytes at most
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var settings strings.Builder
	settings.WriteString("daemon off;\nmaster_process off;\npid pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n")
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&settings, "%s_temp_path %s;\n", kind, kind)
	}
	socket, upstream := filepath.Join(dir, "socket"), ""
	if keepAlive {
		upstream = "keepalive 16;\n"
		settings.WriteString("proxy_http_version 1.1;\nproxy_set_header Connection '';\n")
	}
	fromDocs := strings.NewReplacer("10.0.0.1:8080", first, "10.0.0.2:8080", second, "}\nserver {\n", upstream+"}\nserver {\nlisten unix:"+socket+";\n")
	_, err = fromDocs.WriteString(&settings, documented)
	require.NoError(t, err)
	settings.WriteString("}\n")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(settings.String()), 0o600))
	process, err := testrig.Run(testrig.Program{Path: program, Args: []string{"-e", "stderr", "-p", dir, "-c", "nginx.conf"}})
	require.NoError(t, err, "scripts/need nginx installs it")
	t.Cleanup(process.Kill)
	transport := &http.Transport{MaxIdleConnsPerHost: 8, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	nginx := &proxy{process, &http.Client{Transport: transport}}
	require.NoError(t, process.Until(t.Context(), nginx.poll))
	return nginx
}

// poll polls once, through nginx.
func (x *proxy) poll(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://fleet"+demoPolls+"namespaces", http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+readToken)
	resp, err := x.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("a poll was answered with %s", resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body) // a cut answer is an error too
	return err
}
