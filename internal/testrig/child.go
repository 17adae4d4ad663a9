package testrig

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Self returns a command that starts the test binary again, with further environment variables by which its TestMain knows
// what to do.
func Self(t testing.TB, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self) //nolint:gosec // the test itself
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// KillAfter starts a process, kills it with SIGKILL when it has printed so many lines, and returns all of them.
func KillAfter(t testing.TB, cmd *exec.Cmd, lines int) []string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for scanner := bufio.NewScanner(out); scanner.Scan(); {
		if got = append(got, strings.TrimSpace(scanner.Text())); len(got) == lines {
			_ = cmd.Process.Kill() // Wait returns nil if it had ended
		}
	}
	if err := cmd.Wait(); err == nil || len(got) < lines {
		t.Fatalf("it ended by itself: %v: %v", err, got)
	}
	return got
}
