// Package newfile gives a file that was written beside its place a name, so that it is there whole or not at all.
package newfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Name gives the file at path the name target, in the same file system, once it is on disk. What has that name keeps it: the error
// is then os.ErrExist. The name path may be left, and is the caller's to remove.
func Name(path, target string) error {
	if err := flush(path); err != nil {
		return err
	}
	if err := link(path, target); err != nil {
		return err
	}
	if dir, err := os.Open(filepath.Dir(target)); err == nil {
		_ = dir.Sync() // where the system can do that
		_ = dir.Close()
	}
	return nil
}

func flush(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0) // some systems sync only what can be written
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// link is a link where there are some: that takes nobody's place, whoever comes between.
func link(path, target string) error {
	err := os.Link(path, target)
	if err == nil {
		return nil
	}
	if errors.Is(err, os.ErrExist) {
		return taken(target)
	}
	if _, err := os.Lstat(target); err == nil {
		return taken(target)
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Rename(path, target)
}

func taken(target string) error { return fmt.Errorf("%s: %w", target, os.ErrExist) }
