package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/flux-resourceset/flux-resourceset/store"
)

// mainFileState is the observable state of the database file itself: its header
// (https://www.sqlite.org/fileformat.html#the_database_header) and its size. SQLite writes this file only during a checkpoint
// of the WAL, and records that in the index.
type mainFileState struct {
	log    [16]byte // which log it is, and how much of it was folded in
	all    bool     // the whole WAL was checkpointed
	header [100]byte
	size   int64
}

// verifyMainFile returns ErrUnavailable if the file is smaller than it was written, or was written by another program. While
// the WAL has frames that were not checkpointed, the file may be smaller than its header indicates: if a reader uses an older
// snapshot, SQLite checkpoints the header of that snapshot but omits pages that were written again since, including the last
// one.
func (f *files) verifyMainFile() error {
	now, settled, err := f.readMainFile()
	switch {
	case err != nil:
		return err
	case !settled && now.size >= f.last.size:
		return nil // the rest may still be in the log
	case now.size < now.pages() && (now.all || now.size < f.last.size):
		return truncated(f.path)
	case settled && f.known && f.last.log == now.log && (f.last.header != now.header || f.last.size != now.size):
		return fmt.Errorf("%w: %s was overwritten", store.ErrUnavailable, f.path)
	case settled:
		f.last, f.known = now, true
	}
	return nil
}

// readMainFile returns the state of the file, and whether no checkpoint ran meanwhile.
func (f *files) readMainFile() (now mainFileState, settled bool, err error) {
	if f.file == nil {
		return now, false, fmt.Errorf("%w: %s was given up", store.ErrUnavailable, f.path)
	}
	log, before, allBefore := f.readCheckpoint()
	if _, err := f.file.ReadAt(now.header[:], 0); errors.Is(err, io.EOF) {
		return now, false, truncated(f.path)
	} else if err != nil {
		return now, false, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	info, err := f.file.Stat()
	if err != nil {
		return now, false, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	now.size = info.Size()
	again, after, all := f.readCheckpoint()
	now.log, now.all = log, all && allBefore && log == again
	return now, before && after && log == again, nil
}

// readCheckpoint reads from the index (https://www.sqlite.org/walformat.html) the identity and the checkpoint progress of the
// WAL, whether the checkpoint that was begun is complete, and whether it covers the whole WAL. A WAL found at the start of a
// process counts as begun completely, because its history is unknown.
func (f *files) readCheckpoint() (log [16]byte, done, all bool) {
	const frames, salts, backfill, attempted = 16, 32, 96, 128
	if f.shm == nil {
		return log, false, false
	}
	var index [136]byte
	if _, err := f.shm.ReadAt(index[:], 0); err != nil {
		return log, false, false // SQLite creates it
	}
	copy(log[:], index[salts:salts+8])
	copy(log[8:], index[backfill:backfill+4])
	copy(log[12:], index[attempted:attempted+4])
	mainFileState, begun := binary.NativeEndian.Uint32(index[backfill:]), binary.NativeEndian.Uint32(index[attempted:])
	done = index[12] != 0 && mainFileState == begun
	return log, done, done && mainFileState == binary.NativeEndian.Uint32(index[frames:])
}

// pages is the size of the file in bytes according to its header, minFileSize if the header does not contain it.
func (n mainFileState) pages() int64 {
	if string(n.header[24:28]) != string(n.header[92:96]) {
		return minFileSize // written by an SQLite that does not count
	}
	page := int64(binary.BigEndian.Uint16(n.header[16:]))
	if page == 1 {
		page = 64 << 10
	}
	return max(minFileSize, page*int64(binary.BigEndian.Uint32(n.header[28:])))
}
