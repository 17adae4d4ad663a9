package testrig

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Program is a program to run. It has its own process group, so that an interrupt from the terminal reaches only the tests,
// which end it. On Linux it also ends with this process, however this process ends.
type Program struct {
	Path string
	Args []string
	Name string              // in errors; empty: the base of Path
	Env  []string            // nil: the caller's
	Dir  string              // empty: the caller's
	As   *syscall.Credential // nil: the caller's
	// Log is a file that the output is appended to. Empty: the end of the output is kept in memory.
	Log string
	// OnLine receives each line of the output. May be nil.
	OnLine func(line []byte)
}

// Process is a program that was started.
type Process struct {
	// Ended is closed when the process has ended and its output has been read completely.
	Ended chan struct{}

	name, log string
	cmd       *exec.Cmd
	err       error // once Ended is closed
	mu        sync.Mutex
	kept      bytes.Buffer
}

const (
	startTimeout = 3 * time.Minute       // enough to fill a store with a large fleet
	keptLog      = 16 << 20              // bytes kept of the end of a log
	untilEvery   = 20 * time.Millisecond // the interval of checks
)

// Run starts a program. The caller must end it.
func Run(p Program) (*Process, error) {
	s := &Process{Ended: make(chan struct{}), name: cmp.Or(p.Name, filepath.Base(p.Path)), log: p.Log}
	s.cmd = exec.Command(p.Path, p.Args...) //nolint:gosec,noctx // programs of tests, which end them by signals
	s.cmd.Env, s.cmd.Dir, s.cmd.SysProcAttr = p.Env, p.Dir, attributes(p.As)
	var log io.WriteCloser = (*keptWriter)(s)
	if p.Log != "" {
		var err error
		if log, err = os.OpenFile(p.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
			return nil, err
		}
	}
	if p.Log != "" && p.OnLine == nil {
		// The file itself, because descendants of the process may keep a pipe open.
		s.cmd.Stdout, s.cmd.Stderr = log, log
		err := startOnThread(s.cmd)
		_ = log.Close() // the process has its own
		if err != nil {
			return nil, fmt.Errorf("starting %s: %w", s.name, err)
		}
		go s.wait()
		return s, nil
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.cmd.Stdout, s.cmd.Stderr = in, in
	err = startOnThread(s.cmd)
	_ = in.Close() // the process has its own
	if err != nil {
		_, _ = out.Close(), log.Close()
		return nil, fmt.Errorf("starting %s: %w", s.name, err)
	}
	go func() {
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadBytes('\n')
			_, _ = log.Write(line) // the log is only for analysis
			if p.OnLine != nil {
				p.OnLine(line)
			}
			if err != nil {
				break
			}
		}
		_, _ = out.Close(), log.Close()
		s.wait()
	}()
	return s, nil
}

func (s *Process) wait() {
	s.err = s.cmd.Wait()
	close(s.Ended)
}

// keptWriter keeps the end of the output in memory.
type keptWriter Process

func (w *keptWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept.Write(text)
	w.kept.Next(max(0, w.kept.Len()-keptLog))
	return len(text), nil
}

func (*keptWriter) Close() error { return nil }

// Log returns the output so far, with that of earlier processes if they had the same file.
func (s *Process) Log() string {
	if s.log != "" {
		text, err := os.ReadFile(s.log)
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.String()
}

// PID returns the process id.
func (s *Process) PID() int { return s.cmd.Process.Pid }

// Signal sends a signal. An error means that the process has ended.
func (s *Process) Signal(sig os.Signal) error { return s.cmd.Process.Signal(sig) }

// Kill ends the process and its group by SIGKILL and waits for its end.
func (s *Process) Kill() {
	_ = syscall.Kill(-s.PID(), syscall.SIGKILL) // it may have ended by itself
	<-s.Ended
}

// Stop ends the process by SIGTERM and waits for its end. It returns nil if the exit code is 0.
func (s *Process) Stop() error { return s.StopWithin(startTimeout) }

// StopWithin is Stop, and kills a process that has not ended after a time.
func (s *Process) StopWithin(limit time.Duration) error {
	_ = s.Signal(syscall.SIGTERM) // it may have ended by itself
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-s.Ended:
		return s.err
	case <-late.C:
		s.Kill()
		return fmt.Errorf("%s did not end within %s", s.name, limit)
	}
}

// Wait waits for the end of the process. It returns nil if the exit code is 0.
func (s *Process) Wait() error {
	<-s.Ended
	return s.err
}

// ExitCode returns the exit code of an ended process.
func (s *Process) ExitCode() int { return s.cmd.ProcessState.ExitCode() }

// Until waits until check returns nil. It fails with the end of the log if the process or ctx ends first.
func (s *Process) Until(ctx context.Context, check func(context.Context) error) error {
	tick := time.NewTicker(untilEvery)
	defer tick.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := check(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-s.Ended:
			return fmt.Errorf("%s ended before it was ready: %w\n%s", s.name, err, Tail(s.Log(), 20))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %w\n%s", s.name, ctx.Err(), err, Tail(s.Log(), 20))
		case <-tick.C:
		}
	}
}

// Tail returns the last lines of a text.
func Tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
