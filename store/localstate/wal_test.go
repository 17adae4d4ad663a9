package localstate

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReleaseWhileProcessesStart: a program that this process starts has copies of its file descriptors until it is executed. Another
// owner of the directory need not wait for that.
func TestReleaseWhileProcessesStart(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	require.NoError(t, err)
	dir, stop, stopped := t.TempDir(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				if err := exec.Command(program, "-test.run=^$").Run(); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	for range 5000 {
		j := New(dir)
		_, err := j.Lock()
		require.NoError(t, err)
		require.NoError(t, j.Release())
	}
}
