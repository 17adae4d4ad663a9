package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// program is a program to start.
type program struct {
	name string // of its log
	path string
	args []string
	env  []string            // in place of the caller's
	as   *syscall.Credential // nil for the caller
}

// process is a program that runs, or has ended.
type process struct {
	name  string
	log   string // file
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // once ended is closed
}

// spawner runs functions on a thread that lives as long as this process does. Children are told to die with the
// thread that started them, and Go's other threads come and go.
var spawner = sync.OnceValue(func() chan<- func() {
	tasks := make(chan func())
	go func() {
		runtime.LockOSThread()
		for task := range tasks {
			task()
		}
	}()
	return tasks
})

// start runs a program with its output in a log of its own. It ends with this process, however this process ends.
func start(logs string, p program) (*process, error) {
	log, err := os.OpenFile(filepath.Join(logs, p.name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	// Not CommandContext: the caller stops processes in order.
	cmd := exec.Command(p.path, p.args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, log, log
	// A group of its own: Ctrl-C in a terminal is for us alone.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: p.as}
	started := make(chan error)
	spawner() <- func() { started <- cmd.Start() }
	err = <-started
	_ = log.Close()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	proc := &process{name: p.name, log: log.Name(), cmd: cmd, ended: make(chan struct{})}
	go func() {
		proc.err = cmd.Wait()
		close(proc.ended)
	}()
	return proc, nil
}

// stop asks a process to end, and makes it.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(5 * time.Second):
		p.kill()
	}
}

// kill ends a process at once.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.ended
}

// until waits until check succeeds; a process that ends is not waited for.
func (p *process) until(ctx context.Context, check func(context.Context) error) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := check(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended: %w\n%s", p.name, p.err, tail(p.log, 20))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", p.name, err, tail(p.log, 20))
		case <-ticker.C:
		}
	}
}

// tail is the end of a file.
func tail(file string, lines int) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
