package rig

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
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
	*testrig.Server
	Incarnation int

	killed atomic.Bool
	ended  chan struct{}
	crash  atomic.Bool // it printed a panic
}

// NewProcess returns a process that has not been started.
func NewProcess(cfg Config, rec *history.Recorder) *Process { return &Process{Config: cfg, rec: rec} }

// Running returns the current incarnation, nil unless one listens.
func (p *Process) Running() *Running { return p.current.Load() }

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
	env := slices.Concat([]string{
		"HOME=" + p.Logs, "ALLOW_SHORT_TOKENS=false", "API_MODE=" + p.Mode,
		"AUTH_TOKEN=" + ReadToken, "CRUD_AUTH_TOKEN=" + WriteToken, "DATABASE_URL=" + p.Database, "SEED_ACCEPT=true",
		"MAX_REMOVALS=1000000", // writers remove assignments all the time
	}, p.Settings)
	if p.Seed != "" {
		env = append(env, "SEED_FILE="+p.Seed)
	}
	p.rec.Start(history.Start{Process: p.Name, Incarnation: r.Incarnation, At: p.rec.Now(), Mode: p.Mode})
	var err error
	r.Server, err = testrig.StartServer(testrig.Program{
		Name: p.Name, Path: p.Binary, Env: env, Log: filepath.Join(p.Logs, p.Name+".log"),
		OnLine: func(line []byte) {
			if bytes.HasPrefix(line, []byte("panic: ")) || bytes.HasPrefix(line, []byte("fatal error: ")) || bytes.Contains(line, []byte(`"error":"panic:`)) {
				r.crash.Store(true)
			}
		},
	})
	if err != nil {
		return err
	}
	go p.recordEnd(r)
	if r.Base == "" {
		<-r.ended
		return fmt.Errorf("%s ended before it listened: see its log in %s", p.Name, p.Logs)
	}
	p.current.Store(r)
	go p.restartOnExit(ctx, r)
	return nil
}

// restartOnExit starts the server again after it has ended by itself.
func (p *Process) restartOnExit(ctx context.Context, r *Running) {
	<-r.ended
	p.current.CompareAndSwap(r, nil)
	if !r.killed.Load() {
		_ = p.Start(context.WithoutCancel(ctx)) // ends with the drill
	}
}

// recordEnd records the end of the server.
func (p *Process) recordEnd(r *Running) {
	err := r.Wait()
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
	if err := r.Wait(); err != nil {
		p.rec.Notef(true, "%s-%d ended with %v when it was told to stop", p.Name, r.Incarnation, err)
	}
}

// endTimeout is enough to end a server with a large fleet.
const endTimeout = 3 * time.Minute

func (p *Process) end(by syscall.Signal) bool {
	p.life.Lock()
	defer p.life.Unlock()
	r := p.current.Swap(nil)
	if r == nil {
		return false
	}
	r.killed.Store(true)
	_ = r.Signal(by) // it may have ended by itself
	timeout := time.NewTimer(endTimeout)
	defer timeout.Stop()
	select {
	case <-r.ended:
	case <-timeout.C:
		p.rec.Notef(true, "%s-%d did not end after %s", p.Name, r.Incarnation, by)
		r.Kill()
		<-r.ended
	}
	return true
}

// Pause stops the server's execution until the returned function is called; nil if it does not run.
func (p *Process) Pause() (resume func()) {
	r := p.current.Load()
	if r == nil || r.Signal(syscall.SIGSTOP) != nil {
		return nil
	}
	return func() { _ = r.Signal(syscall.SIGCONT) } // it may have been killed meanwhile
}
