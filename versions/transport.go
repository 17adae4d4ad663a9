package versions

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/internal/egress"
)

// requestOptions are the limits of a request that differ from the defaults. They are a value of its context, because libraries make some
// of the requests.
type requestOptions struct {
	bytes         int64 // of the body; 0: Limits.Page
	gzip          bool  // the body may be compressed
	ignoreBackoff bool
}

type optionsKey struct{}

func withOptions(ctx context.Context, o requestOptions) context.Context {
	return context.WithValue(ctx, optionsKey{}, o)
}

// limitedTransport limits every request of a scan, also those for tokens and those that follow redirects: the address, the requests to
// a host at a time, the time and the bytes of the answer.
type limitedTransport struct {
	egress egress.Config
	limits Limits
	hosts  *hosts
	now    func() time.Time
	inner  http.RoundTripper
}

// RoundTrip returns errors of type *Error.
func (t *limitedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	name := hostName(req.URL)
	resp, err := t.roundTrip(req, name)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, scanError(name, err)
	}
	return resp, nil
}

func (t *limitedTransport) roundTrip(req *http.Request, name string) (*http.Response, error) {
	if err := t.egress.CheckRequest(req); err != nil {
		return nil, err
	}
	options, _ := req.Context().Value(optionsKey{}).(requestOptions)
	one := t.hosts.get(name)
	if err := one.acquire(req.Context()); err != nil {
		return nil, err
	}
	release := sync.OnceFunc(one.release)
	if until := one.wait(t.now(), options.ignoreBackoff); !until.IsZero() {
		release()
		e := newError(Limited, name, "no request before %s, after failures or because the host limits requests", until.UTC().Format(time.RFC3339))
		e.RetryAt = until
		return nil, e
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	deadline := time.AfterFunc(t.limits.Request, func() { cancel(errSlow) })
	context.AfterFunc(ctx, func() { deadline.Stop(); release() }) // also if no one closes the body

	resp, err := t.inner.RoundTrip(req.WithContext(ctx))
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		one.limit(t.now(), egress.RetryAfter(resp.Header.Get("Retry-After"), t.now(), maxBackoff))
	}
	limit := options.bytes
	if limit == 0 {
		limit = t.limits.Page
	}
	encoding := resp.Header.Get("Content-Encoding")
	switch {
	case encoding != "" && encoding != "identity" && (encoding != "gzip" || !options.gzip):
		err = errEncoding
	case resp.ContentLength > limit && req.Method != http.MethodHead:
		err = errTooLarge
	}
	if err != nil {
		cancel(nil)
		_ = resp.Body.Close()
		return nil, err
	}
	resp.Body = &limitedBody{ReadCloser: resp.Body, ctx: ctx, cancel: cancel, left: limit, idle: t.limits.Idle, host: name}
	return resp, nil
}

// limitedBody is the body of an answer. Its errors are of type *Error.
type limitedBody struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // the one of the request, which ends with the body
	cancel context.CancelCauseFunc
	left   int64
	idle   time.Duration
	host   string
	failed error // the first one, which later reads return again
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.failed != nil {
		return 0, b.failed
	}
	n, err := b.read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = scanError(b.host, err)
	}
	b.failed = err
	return n, err
}

func (b *limitedBody) read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1] // one byte more than the limit shows that there is more
	}
	timer := time.AfterFunc(b.idle, func() { b.cancel(errSlow) })
	n, err := b.ReadCloser.Read(p)
	timer.Stop()
	if b.left -= int64(n); b.left < 0 {
		return n - 1, errTooLarge
	}
	if cause := context.Cause(b.ctx); cause != nil && err != nil { // also io.EOF: the server may end the body because the connection closes
		err = cause
	}
	return n, err
}

func (b *limitedBody) Close() error {
	b.cancel(nil)
	return b.ReadCloser.Close()
}
