package server

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Backup is a copy of the whole store, in a file that is gone once it is closed.
type Backup struct {
	File     io.ReadSeekCloser
	Name     string
	Revision fleet.Revision
}

// A backup is made before any of it is sent: a client that takes its time holds a file, and nothing of the store.
const (
	backupTime  = 15 * time.Minute // to make it
	backupChunk = 1 << 20          // bytes that a client has to take within backupPace
	backupPace  = 30 * time.Second
)

// GetBackup answers with a copy of the whole store. The queue sees to it that there is one at a time, until it has been sent.
func (s *Server) GetBackup(c echo.Context, _ api.GetBackupParams) (err error) {
	if _, err := s.state(c); err != nil {
		return err
	}
	r, h := requestOf(c), c.Response().Header()
	h.Del(headerAge) // it is not made from the copy in memory
	h.Del(headerRevision)
	wire := http.NewResponseController(c.Response())
	if err := errors.Join(wire.SetReadDeadline(time.Time{}), wire.SetWriteDeadline(time.Now().Add(backupTime+backupPace))); err != nil {
		return err
	}
	made, err := s.makeBackup(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, made.File.Close()) }()
	if err := s.authenticate(r); err != nil { // what was good when it was asked for may have been revoked meanwhile
		return err
	}
	r.state = nil
	sum := sha256.New()
	size, err := io.Copy(sum, made.File)
	if err != nil {
		return err
	}
	if _, err := made.File.Seek(0, io.SeekStart); err != nil {
		return err
	}
	h.Set(echo.HeaderContentType, "application/vnd.sqlite3")
	h.Set(echo.HeaderContentLength, strconv.FormatInt(size, 10))
	h.Set(echo.HeaderContentDisposition, fmt.Sprintf("attachment; filename=%q", made.Name))
	h.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum.Sum(nil))+":")
	h.Set(headerRevision, formatRevision(made.Revision))
	c.Response().WriteHeader(http.StatusOK)
	if r.Request().Method == http.MethodHead {
		return nil
	}
	for sent := int64(0); sent < size; sent += backupChunk {
		if err := wire.SetWriteDeadline(time.Now().Add(backupPace)); err != nil {
			return err
		}
		if _, err := io.CopyN(c.Response(), made.File, min(backupChunk, size-sent)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) makeBackup(r *request) (*Backup, error) {
	if s.cfg.Backup == nil {
		return nil, &publicError{status: http.StatusNotFound, code: "not_found", detail: "this server makes no backups"}
	}
	r.state = nil // it may be replaced many times before the backup is there, and would be kept
	ctx, cancel := context.WithTimeout(r.Request().Context(), backupTime)
	defer cancel()
	made, err := s.cfg.Backup(ctx)
	if errors.Is(err, store.ErrCompacted) {
		return nil, &publicError{
			status: http.StatusServiceUnavailable, code: "store_unavailable",
			detail: "the history was shortened while the backup was made: try again", headers: map[string]string{"Retry-After": workAgain},
		}
	}
	return made, err
}
