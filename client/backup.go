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

// DefaultBackupWait is for how long the server may make a backup before it sends any of it. While it comes, [Config.Timeout] is for
// how long nothing of it may come.
const DefaultBackupWait = 20 * time.Minute

// SavedBackup is a backup that has come whole.
type SavedBackup struct {
	Name     string // as the server suggests: fleet-20260102T030405Z-r42.db
	Revision int64  // of the fleet, the newest in it
	Size     int64  // in bytes
	SHA256   [sha256.Size]byte
}

var errDigest = errors.New("the backup did not come as it was sent: its digest is another one")

// Backup writes the server's whole store into w, for `flux-resourceset restore`. It takes the token of an admin, which
// [Config.WriteToken] has to be. With an error, which is also returned when the digest is not the server's, what was written is no backup.
//
// got, when not nil, is called with how many bytes have come, and how many there will be.
func Backup(ctx context.Context, c interface {
	GetBackup(ctx context.Context, params *api.GetBackupParams, more ...RequestEditorFn) (*http.Response, error)
}, w io.Writer, got func(bytes, of int64),
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
		return saved, errors.New("what answered is not this service, or an older one: its answer has no Content-Digest")
	}
	sum := sha256.New()
	saved.Size, err = io.Copy(io.MultiWriter(w, sum, progressWriter{rsp.ContentLength, new(int64), got}), rsp.Body)
	if err != nil {
		return saved, fmt.Errorf("the backup did not come whole: %w", err)
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

// progressWriter tells how much has come.
type progressWriter struct {
	of  int64
	n   *int64
	got func(bytes, of int64)
}

// Write implements io.Writer.
func (c progressWriter) Write(p []byte) (int, error) {
	if *c.n += int64(len(p)); c.got != nil {
		c.got(*c.n, c.of)
	}
	return len(p), nil
}

// streamedKey, in a request's context, says that the answer is read while it comes, and may be of any size.
type streamedKey struct{}

func isStreamed(ctx context.Context) bool { return ctx.Value(streamedKey{}) != nil }

// idleTimeout ends a call whose answer makes no progress.
type idleTimeout struct {
	context.Context //nolint:containedctx // it is the call's
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

// streamedBody is an answer that is read while it comes. The call ends when it is closed.
type streamedBody struct {
	io.ReadCloser
	call *idleTimeout
}

// Read implements io.Reader.
func (b streamedBody) Read(p []byte) (int, error) {
	b.call.timer.Reset(b.call.each)
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && b.call.Err() != nil { //nolint:errorlint // io.Reader's own
		err = context.Cause(b.call)
	}
	return n, err
}

// Close implements io.Closer.
func (b streamedBody) Close() error {
	defer b.call.end()
	return b.ReadCloser.Close()
}
