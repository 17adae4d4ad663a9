// Package testrig runs the programs of this repository in tests as their users do: built as they are shipped, configured
// by the environment, reached over the network, and stopped by signals. program.go runs servers, s3.go an S3 server for
// backups.
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

// Build builds the server and the CLI as they are shipped into dir. The caller's package must be one level below the
// root.
func Build(dir, version string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version="+version, "-o", dir, //nolint:gosec,noctx // the caller's version; the test's own deadline ends it
		"../cmd/flux-resourceset", "../cmd/flux-resourceset-cli")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the programs: %w\n%s", err, out)
	}
	return nil
}

// Server is a started server process.
type Server struct {
	// Base is its URL, http://127.0.0.1:PORT. Empty: it ended before it listened.
	Base string
	// Ended is closed when the process has ended and its log has been read completely.
	Ended chan struct{}

	cmd *exec.Cmd
	err error
	mu  sync.Mutex
	log bytes.Buffer
}

const (
	startTimeout = 3 * time.Minute // enough to fill a store with a large fleet
	keptLog      = 16 << 20        // bytes kept of the end of a log
)

// Start starts a server with the given settings in addition to a free port and a JSON log. It returns when the server
// listens or has ended. The caller must end it.
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
	late := time.NewTimer(startTimeout)
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

// Log returns the server's standard error so far.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// Process returns the process, for inspection and signals.
func (s *Server) Process() *os.Process { return s.cmd.Process }

// Kill ends the server by SIGKILL and waits for its end.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // it may have ended by itself
	<-s.Ended
}

// Stop ends the server by SIGTERM and waits for its end. It returns nil if the exit code is 0.
func (s *Server) Stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	return s.Wait()
}

// Wait waits for the server's end. It returns nil if the exit code is 0.
func (s *Server) Wait() error {
	<-s.Ended
	return s.err
}

// ExitCode returns the exit code of an ended server.
func (s *Server) ExitCode() int { return s.cmd.ProcessState.ExitCode() }

// Ready waits until GET /ready answers 200.
func (s *Server) Ready(ctx context.Context) error {
	if s.Base == "" {
		return errors.New("the server ended before it listened:\n" + s.Log())
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		ready, err := isReady(ctx, client, s.Base+"/ready")
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

// isReady reports whether a URL answers 200.
func isReady(ctx context.Context, client *http.Client, url string) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return false, nil //nolint:nilerr // the caller tries again
	}
	return resp.StatusCode == http.StatusOK, resp.Body.Close()
}
