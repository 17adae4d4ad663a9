// Package testrig runs the programs of this repository in tests, as somebody who installs them does: built as they are
// shipped, with settings from the environment, spoken to over the network, and ended by signals.
package testrig

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Build builds the server and the CLI as they are shipped into a directory, for a package one level below the root.
func Build(dir, version string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version="+version, "-o", dir, //nolint:gosec,noctx // the caller's version; the test's own deadline ends it
		"../cmd/flux-resourceset", "../cmd/flux-resourceset-cli")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the programs: %w\n%s", err, out)
	}
	return nil
}

// Server is a server process that was started.
type Server struct {
	// Base is where it listens: http://127.0.0.1:PORT. Empty: it ended before it did.
	Base string
	// Ended is closed when the process has ended, and its log has been read to the end.
	Ended chan struct{}

	cmd *exec.Cmd
	err error
	mu  sync.Mutex
	log bytes.Buffer
}

const (
	patience = 3 * time.Minute // enough to fill a store with a large fleet
	keptLog  = 16 << 20        // of the end of a log, bytes
)

// Start starts a server, given its settings on top of those that make it listen on a free port and log what is read here.
// It returns when the server listens, or has ended. Whoever starts it ends it.
func Start(cmd *exec.Cmd, settings ...string) (*Server, error) {
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "LISTEN_ADDR=127.0.0.1:0", "LOG_FORMAT=json", "ALLOW_SHORT_TOKENS=true",
	}, settings...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	s := &Server{cmd: cmd, Ended: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	listening := make(chan string, 1)
	go s.follow(stderr, listening)
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case addr := <-listening:
		s.Base = "http://" + addr
	case <-s.Ended:
	case <-late.C:
		s.Kill()
		return nil, fmt.Errorf("the server neither listened nor ended:\n%s", s.Log())
	}
	return s, nil
}

func (s *Server) follow(stderr io.Reader, listening chan<- string) {
	defer close(s.Ended)
	for lines := bufio.NewReader(stderr); ; {
		text, err := lines.ReadBytes('\n')
		s.keep(text)
		var line struct{ Msg, Addr string }
		if json.Unmarshal(text, &line) == nil && line.Msg == "listening" {
			listening <- line.Addr
		}
		if err != nil {
			break
		}
	}
	s.err = s.cmd.Wait()
}

func (s *Server) keep(text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.Write(text)
	s.log.Next(max(0, s.log.Len()-keptLog))
}

// Log is what the server has said on standard error.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// Process is the process, to be looked at or signalled.
func (s *Server) Process() *os.Process { return s.cmd.Process }

// Kill ends the server where it stands, and returns when it has.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // it may have ended by itself
	<-s.Ended
}

// Stop tells the server to end and returns when it has: nil when that was in order.
func (s *Server) Stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	return s.Wait()
}

// Wait returns when the server has ended: nil when that was in order.
func (s *Server) Wait() error {
	<-s.Ended
	return s.err
}

// ExitCode is that of a server that has ended.
func (s *Server) ExitCode() int { return s.cmd.ProcessState.ExitCode() }

// Ready returns when the server says that it is ready.
func (s *Server) Ready(ctx context.Context) error {
	if s.Base == "" {
		return errors.New("the server ended before it listened:\n" + s.Log())
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		ready, err := ask(ctx, client, s.Base+"/ready")
		if ready || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-s.Ended:
			return errors.New("the server ended before it was ready:\n" + s.Log())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ask tells whether a server answers 200.
func ask(ctx context.Context, client *http.Client, url string) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return false, nil //nolint:nilerr // it is asked again
	}
	return resp.StatusCode == http.StatusOK, resp.Body.Close()
}
