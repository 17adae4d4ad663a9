//go:build !windows

package localstate

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile locks a file for this process; errLocked if another process has locked it.
func lockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errLocked
	}
	return err
}

// unlockFile unlocks a file. Closing it does that too, but later, if a program is being started: it has the file until it is executed.
func unlockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }
