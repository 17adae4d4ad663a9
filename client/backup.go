package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// DefaultBackupWait bounds the time until the server sends the first byte of a backup. After that, [Config.Timeout]
// bounds each pause between two reads.
const DefaultBackupWait = 20 * time.Minute

// SavedBackup describes a backup that was received completely.
type SavedBackup struct {
	Name     string // as the server suggests: fleet-20260102T030405Z-r42.db
	Revision int64  // of the fleet, the newest in it
	Size     int64  // in bytes
	SHA256   [sha256.Size]byte
}

var errDigest = errors.New("the backup was altered in transit: its digest differs from the server's")

// Backup writes the server's whole store to w, in the format that `flux-resourceset restore` reads. [Config.WriteToken]
// must be an admin's token. After an error, also one because the digest differs from the server's, discard the bytes
// written to w.
//
// progress, if not nil, is called with the number of bytes received and the total.
func Backup(ctx context.Context, c interface {
	GetBackup(ctx context.Context, params *api.GetBackupParams, more ...RequestEditorFn) (*http.Response, error)
}, w io.Writer, progress func(bytes, of int64),
) (saved SavedBackup, err error) {
	rsp, err := c.GetBackup(context.WithValue(ctx, streamedKey{}, true), nil)
	if err != nil {
		return saved, err
	}
	defer func() { err = errors.Join(err, rsp.Body.Close()) }()
	value, found := bytes.CutPrefix([]byte(rsp.Header.Get("Content-Digest")), []byte("sha-256=:"))
	value, ended := bytes.CutSuffix(value, []byte(":"))
	want, err := base64.StdEncoding.DecodeString(string(value))
	if err != nil || !found || !ended || len(want) != sha256.Size {
		return saved, errors.New("not an answer of flux-resourceset, or of an older version: it has no Content-Digest")
	}
	sum := sha256.New()
	saved.Size, err = io.Copy(io.MultiWriter(w, sum, progressWriter{rsp.ContentLength, new(int64), progress}), rsp.Body)
	if err != nil {
		return saved, fmt.Errorf("the backup is incomplete: %w", err)
	}
	if !bytes.Equal(sum.Sum(nil), want) {
		return saved, errDigest
	}
	copy(saved.SHA256[:], want)
	if _, params, err := mime.ParseMediaType(rsp.Header.Get("Content-Disposition")); err == nil {
		saved.Name = params["filename"]
	}
	saved.Revision, err = strconv.ParseInt(rsp.Header.Get(fleetRevision), 10, 64)
	if err != nil {
		return saved, fmt.Errorf("the backup's revision: %w", err)
	}
	return saved, nil
}

// progressWriter counts the bytes written and reports them.
type progressWriter struct {
	of     int64
	n      *int64
	report func(bytes, of int64)
}

// Write implements io.Writer.
func (c progressWriter) Write(p []byte) (int, error) {
	if *c.n += int64(len(p)); c.report != nil {
		c.report(*c.n, c.of)
	}
	return len(p), nil
}

// streamedKey marks a request context whose answer is passed on unread, without a size limit.
type streamedKey struct{}

func isStreamed(ctx context.Context) bool { return ctx.Value(streamedKey{}) != nil }

// idleTimeout cancels a call whose answer makes no progress: first bounds the time until the first read, each the time
// between two reads.
type idleTimeout struct {
	context.Context //nolint:containedctx // the context of one call
	timer           *time.Timer
	each            time.Duration
	cancel          context.CancelCauseFunc
}

func withIdleTimeout(ctx context.Context, first, each time.Duration) *idleTimeout {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &idleTimeout{Context: ctx, each: each, cancel: cancel}
	p.timer = time.AfterFunc(first, func() { cancel(context.DeadlineExceeded) })
	return p
}

func (p *idleTimeout) end() { p.timer.Stop(); p.cancel(context.Canceled) }

// streamedBody is an unread answer. Closing it ends the call.
type streamedBody struct {
	io.ReadCloser
	call *idleTimeout
}

// Read implements io.Reader.
func (b streamedBody) Read(p []byte) (int, error) {
	b.call.timer.Reset(b.call.each)
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && b.call.Err() != nil { //nolint:errorlint // io.Reader returns io.EOF itself
		err = context.Cause(b.call)
	}
	return n, err
}

// Close implements io.Closer.
func (b streamedBody) Close() error {
	defer b.call.end()
	return b.ReadCloser.Close()
}
