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
	"github.com/flux-resourceset/flux-resourceset/server/internal/admission"
	"github.com/flux-resourceset/flux-resourceset/server/internal/httperror"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Backup is a copy of the whole store, in a file that is deleted when it is closed.
type Backup struct {
	File     io.ReadSeekCloser
	Name     string
	Revision fleet.Revision
}

// BackupTime is the limit of making a backup.
const BackupTime = 15 * time.Minute

// A backup is complete before the first byte is sent: a slow client holds a file open, and nothing of the store.
const (
	backupChunk = 1 << 20 // bytes that a client has to receive within backupPace
	backupPace  = 30 * time.Second
)

// GetBackup answers with a copy of the whole store. The queue for backups (admission/queue.go) admits one at a time and refuses
// a second with 429. A client that has received the end of one may request the next.
func (s *Server) GetBackup(c echo.Context, _ api.GetBackupParams) error {
	if _, err := s.state(c); err != nil {
		return err
	}
	r, h := requestOf(c), c.Response().Header()
	h.Del(response.HeaderAge) // the copy is not made from the State in memory
	h.Del(response.HeaderRevision)
	wire := http.NewResponseController(c.Response())
	if err := errors.Join(wire.SetReadDeadline(time.Time{}), wire.SetWriteDeadline(time.Now().Add(BackupTime+backupPace))); err != nil {
		return err
	}
	made, err := s.makeBackup(r)
	if err != nil {
		return err
	}
	last, err := s.sendBackup(r, made)
	if err := errors.Join(err, made.File.Close()); err != nil {
		return err
	}
	r.job.Leave() // before the client can have received the end; only the last piece is left in memory
	if len(last) == 0 {
		return nil
	}
	if err := wire.SetWriteDeadline(time.Now().Add(backupPace)); err != nil {
		return err
	}
	_, err = c.Response().Write(last)
	return err
}

// sendBackup sends all of a backup but its last piece, which it returns.
func (s *Server) sendBackup(r *request, made *Backup) (last []byte, err error) {
	if err := s.authenticate(r); err != nil { // the token may have been revoked since the request
		return nil, err
	}
	r.state = nil
	sum := sha256.New()
	size, err := io.Copy(sum, made.File)
	if err != nil {
		return nil, err
	}
	if _, err := made.File.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	h := r.Response().Header()
	h.Set(echo.HeaderContentType, "application/vnd.sqlite3")
	h.Set(echo.HeaderContentLength, strconv.FormatInt(size, 10))
	h.Set(echo.HeaderContentDisposition, fmt.Sprintf("attachment; filename=%q", made.Name))
	h.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum.Sum(nil))+":")
	h.Set(response.HeaderRevision, response.FormatRevision(made.Revision))
	r.Response().WriteHeader(http.StatusOK)
	if r.Request().Method == http.MethodHead {
		return nil, nil
	}
	wire := http.NewResponseController(r.Response())
	for ; size > backupChunk; size -= backupChunk {
		if err := wire.SetWriteDeadline(time.Now().Add(backupPace)); err != nil {
			return nil, err
		}
		if _, err := io.CopyN(r.Response(), made.File, backupChunk); err != nil {
			return nil, err
		}
	}
	last = make([]byte, size)
	_, err = io.ReadFull(made.File, last)
	return last, err
}

func (s *Server) makeBackup(r *request) (*Backup, error) {
	if s.cfg.Backup == nil {
		return nil, &httperror.Error{Status: http.StatusNotFound, Code: "not_found", Detail: "this server makes no backups"}
	}
	r.state = nil // it may be replaced many times before the backup is complete, and would stay in memory
	ctx, cancel := context.WithTimeout(r.Request().Context(), BackupTime)
	defer cancel()
	made, err := s.cfg.Backup(ctx)
	if errors.Is(err, store.ErrCompacted) {
		return nil, &httperror.Error{
			Status: http.StatusServiceUnavailable, Code: "store_unavailable",
			Detail: "the history was shortened while the backup was made: try again", Headers: map[string]string{"Retry-After": admission.BusyRetryAfter},
		}
	}
	return made, err
}
