package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests start this binary again as a process of its own, to have several at once and something to kill.
const (
	childRole = "POSTGRES_TEST_CHILD"
	childURL  = "POSTGRES_TEST_URL"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		if err := child(context.Background(), role, os.Getenv(childURL)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child is the main function of a process started by a test. Each printed line is an acknowledgment.
func child(ctx context.Context, role, url string) error {
	switch role {
	case "migrate":
		return Migrate(ctx, url)
	case "migrate up and down":
		fmt.Println("started")
		for {
			if err := Migrate(ctx, url); err != nil {
				return err
			}
			if err := MigrateDown(ctx, url, newestVersion()-1); err != nil {
				return err
			}
		}
	}
	return errors.New("no such role: " + role)
}

func command(t *testing.T, role, url string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childRole+"="+role, childURL+"="+url)
	return cmd
}

// killAfter starts a process, kills it with SIGKILL when it has printed so many lines, and returns all of them.
func killAfter(t *testing.T, cmd *exec.Cmd, lines int) []string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var got []string
	for scanner := bufio.NewScanner(out); scanner.Scan(); {
		got = append(got, strings.TrimSpace(scanner.Text()))
		if len(got) == lines {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	require.Error(t, cmd.Wait(), "it was killed")
	require.GreaterOrEqual(t, len(got), lines, "it ended by itself: %v", got)
	return got
}
