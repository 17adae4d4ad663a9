package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
)

// Size implements [store.Store]: the file and its log, or the pages in memory.
func (s *Store) Size(ctx context.Context) (int64, error) {
	h, err := s.handles(ctx)
	if err != nil {
		return 0, err
	}
	if h.files == nil {
		var size int64
		err := h.reader.QueryRowContext(ctx, `SELECT page_count * page_size FROM pragma_page_count, pragma_page_size`).Scan(&size)
		return size, translate(ctx, "measuring the database", err)
	}
	var size int64
	for _, suffix := range []string{"", "-wal"} {
		info, err := os.Stat(s.cfg.Path + suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, translate(ctx, "measuring the database", err)
		}
		if err == nil {
			size += info.Size()
		}
	}
	return size, nil
}
