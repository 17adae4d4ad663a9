package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// GitServer is a Git repository that is served over HTTP, to those who know its password.
type GitServer struct {
	URL                string
	Username, Password string
	dir                string // of its work tree
}

// StartGitServer serves an empty repository, whose branch is main, until ctx ends.
func StartGitServer(ctx context.Context, dir string) (*GitServer, error) {
	r := &GitServer{Username: "flux", Password: "git password", dir: filepath.Join(dir, "app")}
	if _, err := r.git(ctx, dir, "init", "--quiet", "--initial-branch=main", r.dir); err != nil {
		return nil, err
	}
	programs, err := r.git(ctx, dir, "--exec-path")
	if err != nil {
		return nil, err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	backend := &cgi.Handler{Path: filepath.Join(programs, "git-http-backend"), Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"}}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if username, password, _ := req.BasicAuth(); username != r.Username || password != r.Password {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, req)
	})}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(ln) }()
	r.URL = "http://" + ln.Addr().String() + "/app/.git"
	return r, nil
}

// Commit commits files to the branch main and tags the commit, unless tag is empty. It returns the hash.
func (r *GitServer) Commit(ctx context.Context, files map[string]string, tag string) (string, error) {
	for name, content := range files {
		path := filepath.Join(r.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			return "", err
		}
	}
	steps := [][]string{{"add", "--all"}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--message", "a change"}}
	if tag != "" {
		steps = append(steps, []string{"tag", tag})
	}
	for _, args := range steps {
		if _, err := r.git(ctx, r.dir, args...); err != nil {
			return "", err
		}
	}
	return r.git(ctx, r.dir, "rev-parse", "HEAD")
}

func (r *GitServer) git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// ChartAndTree are the files of a chart in charts/NAME, whose version never changes, and of manifests in apps/NAME: both contain text.
func ChartAndTree(name, text string) map[string]string {
	files := chartFiles("charts/"+name, "1.0.0")
	files["charts/"+name+"/Chart.yaml"] = "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n"
	files["charts/"+name+"/values.yaml"] = "replicaCount: 1\ntext: " + text + "\n"
	files["apps/"+name+"/kustomization.yaml"] = "namespace: default\nresources: [config.yaml]\n"
	files["apps/"+name+"/config.yaml"] = configMap(name, "text: "+text)
	return files
}
