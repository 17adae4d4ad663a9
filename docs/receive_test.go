package docs_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestReceiveChanges runs the programs of the page: each prints every revision once, also after a restart.
func TestReceiveChanges(t *testing.T) {
	t.Parallel()
	base, dir := startServer(t), t.TempDir()
	commands := map[string][]string{}
	for _, m := range fence.FindAllStringSubmatch(read(t, "receive.md"), -1) {
		switch m[1] {
		case "go":
			file := filepath.Join(dir, "main.go")
			require.NoError(t, os.WriteFile(file, []byte(m[2]), 0o600))
			out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "receive"), file).CombinedOutput()
			require.NoError(t, err, "%s", out)
			commands["go"] = []string{filepath.Join(dir, "receive")}
		case "python":
			_, err := exec.LookPath("python3")
			require.NoError(t, err, "the page's programs need python3: apt-get install -y python3")
			commands["python"] = []string{"python3", "-c", m[2]}
		}
	}
	require.Len(t, commands, 2)
	revision := 1
	for name, command := range commands {
		own := t.TempDir()
		create := func(id string) {
			revision++
			variables := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(variables, "variables"), nil, 0o600))
			runBlock(t, block{dir: variables, server: base, body: "flux-resourceset-cli namespace create " + id})
		}
		lines, stop := receive(t, own, base, command)
		require.Equal(t, "1 seeded the fleet", <-lines, name)
		create(name + "-one")
		for line := range lines {
			if strings.Contains(line, name+"-one") {
				break
			}
		}
		require.Eventually(t, func() bool {
			position, err := os.ReadFile(filepath.Join(own, "position"))
			return err == nil && strings.HasPrefix(string(position), fmt.Sprintf("%d:", revision))
		}, time.Minute, time.Millisecond)
		stop()
		create(name + "-two")
		lines, _ = receive(t, own, base, command)
		require.Contains(t, <-lines, name+"-two", "it does not begin again")
	}
}

// receive runs a program in a directory. It returns the lines that it prints, and a function that ends it.
func receive(t *testing.T, dir, base string, command []string) (lines chan string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "FLUX_API_URL="+base, "FLUX_API_TOKEN=demo-read")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines = make(chan string, 100)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		for range lines { // so that its output ends before Wait
		}
		_ = cmd.Wait() // it was killed
	})
	t.Cleanup(stop)
	return lines, stop
}
