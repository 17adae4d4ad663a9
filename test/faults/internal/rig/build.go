// Package rig provides the fault harness with real servers as processes that can be killed and stopped, real databases
// that can be killed, filled and damaged, and proxies that disturb the network between them.
package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Replace is a replacement in the server's source for one build. The tree itself stays unchanged.
type Replace struct {
	File     string // in the source tree
	Old, New string
}

// Build builds the server from the source tree into dir and returns the program's path.
func Build(ctx context.Context, source, dir string, replace ...Replace) (string, error) {
	return build(ctx, source, dir, "flux-resourceset", replace...)
}

// BuildCLI builds the command line client.
func BuildCLI(ctx context.Context, source, dir string) (string, error) {
	return build(ctx, source, dir, "flux-resourceset-cli")
}

func build(ctx context.Context, source, dir, program string, replace ...Replace) (string, error) {
	out, err := filepath.Abs(filepath.Join(dir, program))
	if err != nil {
		return "", err
	}
	args := []string{"build", "-o", out}
	if len(replace) > 0 {
		overlay, err := writeOverlay(source, dir, replace)
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/"+program)...) //nolint:gosec // our own arguments
	cmd.Dir = source
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w: %s", program, err, said)
	}
	return out, nil
}

// Apply returns the changed files of the source tree by absolute path. It fails unless Old occurs exactly once:
// otherwise the source has moved on, and the replacement would not have the intended effect.
func Apply(source string, replace []Replace) (map[string]string, error) {
	files := map[string]string{}
	for _, r := range replace {
		path, err := filepath.Abs(filepath.Join(source, r.File))
		if err != nil {
			return nil, err
		}
		text, ok := files[path]
		if !ok {
			body, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			text = string(body)
		}
		if n := strings.Count(text, r.Old); n != 1 {
			return nil, fmt.Errorf("%s has this %d times, and one is needed:\n%s", r.File, n, r.Old)
		}
		files[path] = strings.Replace(text, r.Old, r.New, 1)
	}
	return files, nil
}

// writeOverlay writes the file for -overlay of go build.
func writeOverlay(source, dir string, replace []Replace) (string, error) {
	files, err := Apply(source, replace)
	if err != nil {
		return "", err
	}
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	for path, text := range files {
		to := filepath.Join(dir, fmt.Sprintf("%d-%s", len(overlay.Replace), filepath.Base(path)))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[path] = to
	}
	body, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, body, 0o600)
}

// Revision returns the commit of the source tree, for reports.
func Revision(ctx context.Context, source string) string {
	cmd := exec.CommandContext(ctx, "git", "describe", "--tags", "--always", "--dirty")
	cmd.Dir = source
	said, err := cmd.Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(said))
}
