package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/flux-resourceset/flux-resourceset/store"
)

// files are the files of one open database, as they were when it was opened: the main file, its WAL and the WAL's index. SQLite
// opens them by name and then uses only its descriptors: after the names were replaced it would acknowledge commits into files
// that are never read again. The WAL and the index are kept open so that their inode numbers are not reused.
//
// The main file stays open from before SQLite opens it until SQLite has closed it, and no other code here opens it: a process
// that closes any descriptor of a file loses all its locks on that file, including SQLite's
// (https://www.sqlite.org/howtocorrupt.html, "Posix advisory locks canceled by a separate thread doing close()").
type files struct {
	path  string
	file  *os.File // nil once SQLite has closed it
	main  os.FileInfo
	wal   *os.File // nil when there was none
	shm   *os.File // likewise
	index int64    // how large the index was
	cut   bool     // the file itself is no longer whole

	mu    sync.Mutex
	last  mainFileState // what was seen of the file when it was last looked at: its size from the beginning, the rest when
	known bool
}

// openMain opens the database file before SQLite does.
func openMain(path string) (*files, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &files{path: path, file: file, main: info, last: mainFileState{size: info.Size()}}, nil
}

// openRest opens the other files of a database that is open: they exist from the first read on, for as long as it is.
func (f *files) openRest() (err error) {
	if f.wal, err = openIfThere(f.path+"-wal", os.O_RDONLY); err != nil {
		return err
	}
	if f.shm, err = openIfThere(f.path+"-shm", os.O_RDWR); err != nil || f.shm == nil {
		return err
	}
	info, err := f.shm.Stat()
	if err == nil {
		f.index = info.Size()
	}
	return err
}

func openIfThere(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag, 0)
	if errors.Is(err, fs.ErrPermission) && flag != os.O_RDONLY {
		f, err = os.Open(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}

// closeMain is for when SQLite has closed the file.
func (f *files) closeMain() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}

// closeIndex closes the index when it describes an empty WAL, as the next index does.
func (f *files) closeIndex() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shm == nil {
		return nil
	}
	err := f.shm.Close()
	f.shm = nil
	return err
}

func (f *files) close() error {
	errs := []error{f.closeMain()}
	for _, file := range []*os.File{f.wal, f.shm} {
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	return errors.Join(errs...)
}

// smallestFile is less than any database with our schema has: a page for each table.
const minFileSize = 4 << 10

// damage describes outside changes of the files: an ErrUnavailable that names the file.
type damage struct {
	index bool // only to the index, which can be made again of the log
	data  bool // bytes of the database or of its log are gone
	cut   bool // of the database
	cause error
}

func (d *damage) Error() string { return d.cause.Error() }
func (d *damage) Unwrap() error { return d.cause }

// intact returns a *damage if a name no longer refers to the open file, or a file has become shorter than the data written to
// it.
func (f *files) intact() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, err := same(f.path, f.main)
	if err != nil {
		return &damage{data: true, cause: err}
	}
	if now.Size() < minFileSize {
		return &damage{data: true, cut: true, cause: truncated(f.path)}
	}
	if err := f.verifyMainFile(); err != nil {
		return &damage{data: true, cut: true, cause: err}
	}
	if f.shm != nil {
		index, err := statOpenFile(f.shm)
		if err == nil && index.Size() < f.index {
			err = truncated(f.shm.Name())
		}
		if err != nil {
			return &damage{index: true, cause: err}
		}
	}
	if f.wal == nil {
		return nil
	}
	if _, err := statOpenFile(f.wal); err != nil {
		return &damage{cause: err}
	}
	if !f.walIsWhole() {
		return &damage{data: true, cause: truncated(f.wal.Name())}
	}
	return nil
}

// walIsWhole reports whether the WAL is the one that its index describes, and holds all its frames
// (https://www.sqlite.org/walformat.html). Both may change during the check, so a contradiction counts only if the index did
// not change.
func (f *files) walIsWhole() bool {
	if f.shm == nil {
		return true
	}
	const header = 48
	for range 10 {
		var index, again [2 * header]byte
		if _, err := f.shm.ReadAt(index[:], 0); err != nil {
			return true // SQLite creates it
		}
		frames, page := binary.NativeEndian.Uint32(index[16:]), int64(binary.NativeEndian.Uint16(index[14:]))
		if page == 1 {
			page = 64 << 10
		}
		if index[12] == 0 || frames == 0 {
			return true // the WAL is empty
		}
		var salts [8]byte
		_, err := f.wal.ReadAt(salts[:], 16)
		info, errStat := f.wal.Stat()
		if err == nil && errStat == nil && bytes.Equal(salts[:], index[32:40]) && info.Size() >= 32+int64(frames)*(page+24) {
			return true
		}
		if _, err := f.shm.ReadAt(again[:], 0); err == nil && index == again && bytes.Equal(index[:header], index[header:]) {
			return false
		}
	}
	return true
}

// same returns an error if the path no longer refers to the file was.
func same(path string, was os.FileInfo) (os.FileInfo, error) {
	now, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: the database file is gone: %w", store.ErrUnavailable, err)
	case !os.SameFile(now, was):
		return nil, fmt.Errorf("%w: %s was replaced by another file", store.ErrUnavailable, path)
	}
	return now, nil
}

func statOpenFile(f *os.File) (os.FileInfo, error) {
	was, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return same(f.Name(), was)
}

func truncated(path string) error {
	return fmt.Errorf("%w: %s was truncated", store.ErrUnavailable, path)
}

// leftBehind returns the name of a file that would be in the way of the next database: a file that SQLite removes when the last
// process closes it, or the truncated database itself.
func (f *files) leftBehind() string {
	if f.cut {
		if _, err := same(f.path, f.main); err == nil {
			return f.path
		}
	}
	for _, file := range []*os.File{f.wal, f.shm} {
		if file != nil {
			if _, err := statOpenFile(file); err == nil {
				return file.Name()
			}
		}
	}
	return ""
}
