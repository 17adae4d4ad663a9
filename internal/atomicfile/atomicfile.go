// Package atomicfile gives a file that was written beside its place a name, so that it is there whole or not at all.
package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Publish gives the file at path the name target, in the same file system, once it is on disk. What has that name keeps it: the error
// is then os.ErrExist. The name path may be left, and is the caller's to remove.
func Publish(path, target string) error {
	if err := syncFile(path); err != nil {
		return err
	}
	if err := linkOrRename(path, target); err != nil {
		return err
	}
	if dir, err := os.Open(filepath.Dir(target)); err == nil {
		_ = dir.Sync() // where the system can do that
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

// linkOrRename is a link where there are some: that takes nobody's place, whoever comes between.
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
