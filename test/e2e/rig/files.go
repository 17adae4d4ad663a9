package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// root is the repository, found upwards from the working directory.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "scripts", "e2e-tools")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("not inside a checkout of flux-resourceset")
		}
		dir = filepath.Dir(dir)
	}
}

// runDir creates the folder for the logs and data of this run, and removes those of runs that have ended.
func runDir(root string) (string, error) {
	base := filepath.Join(root, ".cache", "e2e")
	removeEnded(filepath.Join(base, "run-"))
	dir := filepath.Join(base, fmt.Sprintf("run-%d", os.Getpid()))
	return dir, os.MkdirAll(dir, 0o700)
}

// removeEnded removes the folders of processes that have ended; their names are prefix and the process's id.
func removeEnded(prefix string) {
	old, err := filepath.Glob(prefix + "*")
	if err != nil {
		return // the folders are in nobody's way
	}
	for _, dir := range old {
		pid, err := strconv.Atoi(strings.TrimPrefix(dir, prefix))
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir)
		}
	}
}

// fluxTools are the programs of a cluster with Flux.
var fluxTools = []string{"etcd", "kubernetes", "flux-operator", "helm-controller", "kustomize-controller", "source-controller"}

// tools builds programs, or finds them built, and answers their folders by name.
func tools(ctx context.Context, root string, progress io.Writer, names ...string) (map[string]string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(root, "scripts", "e2e-tools"), names...)
	cmd.Stderr = progress
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("scripts/e2e-tools: %w", err)
	}
	dirs := strings.Fields(string(out))
	if len(dirs) != len(names) {
		return nil, fmt.Errorf("scripts/e2e-tools named %d folders, not %d", len(dirs), len(names))
	}
	found := map[string]string{}
	for i, name := range names {
		found[name] = dirs[i]
	}
	return found, nil
}

// freePorts returns n free ports of 127.0.0.1.
func freePorts(ctx context.Context, n int) ([]int, error) {
	var ports []int
	for range n {
		// All are held until the last is found, so that they differ.
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer ln.Close()
		ports = append(ports, ln.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
