// Package atomicfile publishes a file that was written under a temporary name: it appears under its final name complete
// or not at all, and never replaces an existing file.
package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Publish syncs the file at path to disk and gives it the name target, in the same file system. If target exists, it
// stays and the error wraps os.ErrExist. The name path may remain; the caller removes it.
func Publish(path, target string) error {
	if err := syncFile(path); err != nil {
		return err
	}
	if err := linkOrRename(path, target); err != nil {
		return err
	}
	if dir, err := os.Open(filepath.Dir(target)); err == nil {
		_ = dir.Sync() // not all systems can sync a directory
		_ = dir.Close()
	}
	return nil
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0) // some systems sync only what can be written
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// linkOrRename makes a hard link, which fails if target exists, even if another process creates it at the same time. On
// a file system without hard links it checks and renames.
func linkOrRename(path, target string) error {
	err := os.Link(path, target)
	if err == nil {
		return nil
	}
	if errors.Is(err, os.ErrExist) {
		return existsError(target)
	}
	if _, err := os.Lstat(target); err == nil {
		return existsError(target)
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Rename(path, target)
}

func existsError(target string) error { return fmt.Errorf("%s: %w", target, os.ErrExist) }
