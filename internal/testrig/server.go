// Package testrig runs the programs of this repository in tests as their users do: built as they are shipped, configured
// by the environment, reached over the network, and stopped by signals.
//
// Reading order: process.go (any program), server.go (our server), postgres.go (a PostgreSQL server), proxy.go (a network
// between the two, with faults), s3.go (an S3 server for backups).
package testrig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// Build builds the server and the CLI into dir as they are shipped, but without -trimpath: it changes only the paths of files in traces, and
// every package would be compiled again, since tests are built without it. root is the repository.
func Build(ctx context.Context, root, dir, version string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w -X main.version="+version, "-o", dir+string(filepath.Separator), //nolint:gosec // the caller's version
		"./cmd/flux-resourceset", "./cmd/flux-resourceset-cli")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the programs: %w\n%s", err, out)
	}
	return nil
}

// Server is a started server process.
type Server struct {
	*Process
	// Base is its URL. Empty: it ended before it listened.
	Base string
}

// StartServer starts a server with the settings in p.Env, in addition to a free port and a JSON log. It returns when the
// server listens or has ended. The caller must end it.
func StartServer(p Program) (*Server, error) {
	p.Env = slices.Concat([]string{
		"PATH=" + os.Getenv("PATH"), "LISTEN_ADDR=127.0.0.1:0", "LOG_FORMAT=json", "ALLOW_SHORT_TOKENS=true",
	}, p.Env)
	listening, onLine := make(chan string, 1), p.OnLine
	p.OnLine = func(text []byte) {
		var line struct {
			Msg, Addr string
			TLS       bool
		}
		if json.Unmarshal(text, &line) == nil && line.Msg == "listening" {
			scheme := "http://"
			if line.TLS {
				scheme = "https://"
			}
			listening <- scheme + line.Addr
		}
		if onLine != nil {
			onLine(text)
		}
	}
	process, err := Run(p)
	if err != nil {
		return nil, err
	}
	s := &Server{Process: process}
	late := time.NewTimer(startTimeout)
	defer late.Stop()
	select {
	case s.Base = <-listening:
	case <-s.Ended:
	case <-late.C:
		s.Kill()
		return nil, fmt.Errorf("the server neither listened nor ended:\n%s", s.Log())
	}
	return s, nil
}

// Ready waits until GET /ready answers 200. client may be nil.
func (s *Server) Ready(ctx context.Context, client *http.Client) error {
	if s.Base == "" {
		return errors.New("the server ended before it listened:\n" + s.Log())
	}
	if client == nil {
		client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	}
	return s.Until(ctx, func(ctx context.Context) error { return GetOK(ctx, client, s.Base+"/ready") })
}

// GetOK returns an error unless GET of a URL answers 200.
func GetOK(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}
