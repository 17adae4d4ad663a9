package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/flux-resourceset/flux-resourceset/store"
)

// LostFileError means that a database file is missing or empty, but files that belong to it remain. They may contain acknowledged
// commits, which SQLite destroys when it opens another or an empty database beside them
// (https://www.sqlite.org/howtocorrupt.html, "Unlinking or renaming a database file while in use"). It wraps store.ErrUnavailable.
type LostFileError struct {
	Path  string
	Left  []string
	empty bool
}

func (e *LostFileError) Error() string {
	return fmt.Sprintf("%v: %s %s, but its file %s remains and may contain commits: if the database was moved away, move it back; "+
		"to start an empty store in its place, run `flux-resourceset accept`", store.ErrUnavailable, e.Path, e.state(), e.Left[0])
}

// Unwrap returns store.ErrUnavailable.
func (e *LostFileError) Unwrap() error { return store.ErrUnavailable }

func (e *LostFileError) state() string {
	if e.empty {
		return "is empty"
	}
	return "does not exist"
}

// checkLost returns a *LostFileError if the file is lost. info is nil for a missing file. An empty file may have a rollback journal
// and an index: another process is creating the database.
func checkLost(path string, info os.FileInfo) error {
	suffixes := []string{"-wal", "-journal", "-shm"}
	switch {
	case info != nil && info.Size() > 0:
		return nil
	case info != nil:
		suffixes = suffixes[:1]
	}
	if target, err := os.Readlink(path); err == nil { // SQLite puts its files beside the target
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	lost := &LostFileError{Path: path, empty: info != nil}
	for _, suffix := range suffixes {
		left, err := os.Lstat(path + suffix)
		switch {
		case err == nil && (info == nil || left.Size() > 0):
			lost.Left = append(lost.Left, path+suffix)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	if len(lost.Left) == 0 {
		return nil
	}
	return lost
}

// SetAside renames the remaining files of a lost database, so that another one can be created at its path. It returns the new names.
func (e *LostFileError) SetAside(at time.Time) (names []string, err error) {
	for _, left := range e.Left {
		name := left + ".lost-" + at.UTC().Format("20060102T150405Z")
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return names, errors.Join(err, fmt.Errorf("%s exists", name))
		}
		if err := os.Rename(left, name); err != nil {
			return names, err
		}
		names = append(names, name)
	}
	return names, nil
}
