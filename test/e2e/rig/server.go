package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

// Server is a process of ours.
type Server struct {
	URL  string
	proc *testrig.Server
}

// ServerConfig holds the settings that differ between servers.
type ServerConfig struct {
	// Name of the log; unique in a run.
	Name string
	// Settings of the server, as its environment.
	Settings map[string]string
	// Client reaches it; nil for plain HTTP.
	Client *http.Client
}

// StartServer starts the server on a port of its own and waits until it is ready.
func (w *Env) StartServer(ctx context.Context, config ServerConfig) (*Server, error) {
	env := []string{"ALLOW_SHORT_TOKENS=false"}
	for name, value := range config.Settings {
		env = append(env, name+"="+value)
	}
	proc, err := testrig.StartServer(testrig.Program{
		Name: config.Name, Path: filepath.Join(w.bin, "flux-resourceset"), Env: env, Log: filepath.Join(w.dir, config.Name+".log"),
	})
	if err != nil {
		return nil, err
	}
	w.keep(proc.Process)
	return &Server{URL: proc.Base, proc: proc}, proc.Ready(ctx, config.Client)
}

// Stop ends the server as a rollout would.
func (s *Server) Stop() { stop(s.proc.Process) }

// Log returns the log of the server and of earlier servers of the same name.
func (s *Server) Log() string { return s.proc.Log() }

// API changes the fleet over HTTP.
type API struct {
	// Token is sent with each request.
	Token string

	url string
}

// Do sends a request with a JSON body, or none, and reads the answer into out, if there is one. Statuses other than
// 2xx are errors.
func (a API) Do(ctx context.Context, method, path string, body, out any) error {
	var content io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, content)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+a.Token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	if out != nil {
		return json.Unmarshal(answer, out)
	}
	return nil
}

// Metrics are what a server tells Prometheus.
func (w *Env) Metrics(ctx context.Context, server string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/metrics", http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// CLI runs the command line on the fleet and returns its output.
func (w *Env) CLI(ctx context.Context, args ...string) (string, error) {
	return w.cli(ctx, nil, args...)
}

func (w *Env) cli(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	return w.run(ctx, stdin, w.cliPath(), args...)
}

// DemoScript runs the command line demo.
func (w *Env) DemoScript(ctx context.Context) (string, error) {
	return w.run(ctx, nil, filepath.Join(w.root, "scripts", "demo-cli"))
}

func (w *Env) cliPath() string { return filepath.Join(w.bin, "flux-resourceset-cli") }

// run runs a program with the command line's settings.
func (w *Env) run(ctx context.Context, stdin io.Reader, path string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{
		"PATH=/usr/bin:/bin", "HOME=" + w.dir, "FLUX_RESOURCESET_CLI=" + w.cliPath(),
		"FLUX_API_URL=" + w.URL, "FLUX_API_TOKEN=" + ReadToken, "FLUX_API_WRITE_TOKEN=" + WriteToken,
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(path), strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}
