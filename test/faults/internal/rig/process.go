package rig

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
)

// Tokens of the servers.
const (
	ReadToken  = "faults-read-0123456789abcdef"
	WriteToken = "faults-write-0123456789abcdef"
)

// Modes of a server.
const (
	CRUD     = "crud"
	ReadOnly = "read-only"
)

// Config configures a server.
type Config struct {
	Name     string
	Mode     string
	Binary   string
	Database string // URL
	Seed     string // file
	Logs     string // directory
	// Settings are further environment variables.
	Settings []string
	// TLS: the Settings enable HTTPS.
	TLS bool
}

// Process is a server that is restarted whenever it ends, as a supervisor in production does.
type Process struct {
	Config
	rec *history.Recorder

	life    sync.Mutex // held to start or end it
	ending  bool
	current atomic.Pointer[Running]
	count   int
}

// Running is one incarnation of a Process. Requests are sent to one and recorded with it.
type Running struct {
	Incarnation int
	Base        string // URL

	cmd    *exec.Cmd
	killed atomic.Bool
	ended  chan struct{}
	crash  atomic.Bool // it printed a panic
}

// NewProcess returns a process that has not been started.
func NewProcess(cfg Config, rec *history.Recorder) *Process { return &Process{Config: cfg, rec: rec} }

// Running returns the current incarnation, nil unless one listens.
func (p *Process) Running() *Running { return p.current.Load() }

// startPatience is enough to fill a store with a large fleet.
const startPatience = 3 * time.Minute

// Start starts the server and returns when it listens. It retries until ctx ends if the server ends by itself, as with a
// full disk.
func (p *Process) Start(ctx context.Context) error {
	for {
		done, err := p.startOnce(ctx)
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (p *Process) startOnce(ctx context.Context) (done bool, err error) {
	p.life.Lock()
	defer p.life.Unlock()
	if p.ending || p.current.Load() != nil {
		return true, nil
	}
	err = p.tryStart(ctx)
	return err == nil, err
}

func (p *Process) tryStart(ctx context.Context) error {
	p.count++
	r := &Running{Incarnation: p.count, ended: make(chan struct{})}
	r.cmd = exec.Command(p.Binary) //nolint:gosec,noctx // the harness ends it by a signal
	r.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.Logs, "LISTEN_ADDR=127.0.0.1:0", "LOG_FORMAT=json", "API_MODE=" + p.Mode,
		"AUTH_TOKEN=" + ReadToken, "CRUD_AUTH_TOKEN=" + WriteToken, "DATABASE_URL=" + p.Database, "SEED_ACCEPT=true",
		"MAX_REMOVALS=1000000", // writers remove assignments all the time
	}, p.Settings...)
	if p.Seed != "" {
		r.cmd.Env = append(r.cmd.Env, "SEED_FILE="+p.Seed)
	}
	stderr, err := r.cmd.StderrPipe()
	if err != nil {
		return err
	}
	// In its own process group: an interrupt from the terminal goes to the harness, which ends the servers.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.rec.Start(history.Start{Process: p.Name, Incarnation: r.Incarnation, At: p.rec.Now(), Mode: p.Mode})
	if err := r.cmd.Start(); err != nil {
		return err
	}
	listening := make(chan string, 1)
	go p.follow(r, stderr, listening)
	timeout := time.NewTimer(startPatience)
	defer timeout.Stop()
	select {
	case addr := <-listening:
		r.Base = "http://" + addr
		if p.TLS {
			r.Base = "https://" + addr
		}
		p.current.Store(r)
		go p.restartOnExit(ctx, r)
		return nil
	case <-r.ended:
		return fmt.Errorf("%s ended before it listened: see its log in %s", p.Name, p.Logs)
	case <-timeout.C:
		_ = r.cmd.Process.Kill()
		return fmt.Errorf("%s neither listened nor ended", p.Name)
	}
}

// restartOnExit starts the server again after it has ended by itself.
func (p *Process) restartOnExit(ctx context.Context, r *Running) {
	<-r.ended
	p.current.CompareAndSwap(r, nil)
	if !r.killed.Load() {
		_ = p.Start(context.WithoutCancel(ctx)) // ends with the drill
	}
}

// follow copies the server's standard error to its log file until the server ends.
func (p *Process) follow(r *Running, stderr io.Reader, listening chan<- string) {
	log, err := os.OpenFile(filepath.Join(p.Logs, p.Name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		p.rec.Notef(true, "no log for %s: %v", p.Name, err)
		_ = r.cmd.Process.Kill()
	}
	lines := bufio.NewReader(stderr)
	for {
		line, err := lines.ReadBytes('\n')
		_, _ = log.Write(line) // the log is only for analysis
		var said struct{ Msg, Addr string }
		if json.Unmarshal(line, &said) == nil && said.Msg == "listening" {
			listening <- said.Addr
		}
		if bytes.HasPrefix(line, []byte("panic: ")) || bytes.HasPrefix(line, []byte("fatal error: ")) || bytes.Contains(line, []byte(`"error":"panic:`)) {
			r.crash.Store(true)
		}
		if err != nil {
			break
		}
	}
	_ = log.Close()
	err = r.cmd.Wait()
	if r.crash.Load() {
		p.rec.Notef(true, "%s-%d panicked: see its log", p.Name, r.Incarnation)
	}
	how := "exit 0"
	if err != nil {
		how = err.Error()
	}
	p.rec.Exit(history.Exit{Process: p.Name, Incarnation: r.Incarnation, At: p.rec.Now(), Killed: r.killed.Load(), How: how})
	close(r.ended)
}

// PID is the server's process id.
func (r *Running) PID() int { return r.cmd.Process.Pid }

// Kill ends the server by SIGKILL; it stays down until Start. It returns false if the server did not run.
func (p *Process) Kill() bool { return p.end(syscall.SIGKILL) }

// Retire ends the server by SIGKILL permanently.
func (p *Process) Retire() {
	p.life.Lock()
	p.ending = true
	p.life.Unlock()
	p.end(syscall.SIGKILL)
}

// End stops the server gracefully and permanently.
func (p *Process) End() {
	p.life.Lock()
	p.ending = true
	p.life.Unlock()
	r := p.current.Load()
	if !p.end(syscall.SIGTERM) {
		return
	}
	if state := r.cmd.ProcessState; !state.Success() {
		p.rec.Notef(true, "%s-%d ended with %s when it was told to stop", p.Name, r.Incarnation, state)
	}
}

func (p *Process) end(by syscall.Signal) bool {
	p.life.Lock()
	defer p.life.Unlock()
	r := p.current.Swap(nil)
	if r == nil {
		return false
	}
	r.killed.Store(true)
	_ = r.cmd.Process.Signal(by) // it may have ended by itself
	timeout := time.NewTimer(startPatience)
	defer timeout.Stop()
	select {
	case <-r.ended:
	case <-timeout.C:
		p.rec.Notef(true, "%s-%d did not end after %s", p.Name, r.Incarnation, by)
		_ = r.cmd.Process.Kill()
		<-r.ended
	}
	return true
}

// Pause stops the server's execution until the returned function is called; nil if it does not run.
func (p *Process) Pause() (resume func()) {
	r := p.current.Load()
	if r == nil || r.cmd.Process.Signal(syscall.SIGSTOP) != nil {
		return nil
	}
	return func() { _ = r.cmd.Process.Signal(syscall.SIGCONT) } // it may have been killed meanwhile
}
