package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/gen/rawclient"
)

var _ rawclient.HttpRequestDoer = (*transport)(nil)

// transport sends the requests of a client made by New, and adds the token, timeout, size limit, retries and error
// decoding.
type transport struct {
	cfg    Config
	base   string // path of the server
	client *http.Client
}

// Do sends a request and reads the whole answer, except for a backup, which it streams. [New] describes the errors.
func (c *transport) Do(req *http.Request) (*http.Response, error) {
	if isStreamed(req.Context()) {
		call := withIdleTimeout(req.Context(), DefaultBackupWait, c.cfg.Timeout)
		rsp, err := c.do(call, req)
		if err != nil {
			call.end()
			return nil, err
		}
		rsp.Body = streamedBody{rsp.Body, call}
		return rsp, nil
	}
	ctx, cancel := context.WithTimeout(req.Context(), c.cfg.Timeout+waitOf(req))
	defer cancel()
	return c.do(ctx, req)
}

// do sends a request, with retries, until ctx ends.
func (c *transport) do(ctx context.Context, req *http.Request) (*http.Response, error) {
	var conns connectionTrace
	req = req.WithContext(httptrace.WithClientTrace(ctx, conns.trace()))
	c.setHeaders(req)

	lost := false
	for attempt := 0; ; attempt++ {
		if attempt > 0 && req.GetBody != nil {
			body, err := req.GetBody()
			if err != nil {
				return nil, err
			}
			req.Body = body
		}
		rsp, err := c.attempt(req)
		if err == nil {
			return rsp, nil
		}
		if c.retryReplaced(req, err) {
			continue
		}
		wait, again := c.retry(req, err, attempt)
		if again {
			lost = lost || maybeReceived(err)
			again = sleep(ctx, wait) == nil
		}
		if again {
			continue
		}
		if problem, ok := errors.AsType[*Error](err); ok {
			problem.Lost = lost
			return nil, err
		}
		if ctx.Err() != nil && req.Context().Err() == context.DeadlineExceeded {
			err = fmt.Errorf("no answer within %s: %w", c.cfg.Timeout, err)
		}
		err = fmt.Errorf("%s %s: %w", req.Method, req.URL.Redacted(), err)
		if c.isChange(req) && !conns.noneMade() {
			err = &UnansweredError{RequestID: req.Header.Get(requestID), Err: err}
		}
		return nil, err
	}
}

// retryReplaced reports whether to repeat a request without the revisions seen before. The server refused it because its
// store has another history; it did nothing, so a repeat is safe.
func (c *transport) retryReplaced(req *http.Request, err error) bool {
	problem, ok := errors.AsType[*Error](err)
	if !ok || problem.Problem.Error != CodeUnknownRevision || c.cfg.Replaced == nil || req.Body != nil && req.GetBody == nil {
		return false
	}
	have, asked, _ := problem.Behind()
	if asked != c.cfg.Seen.Revision() || !c.cfg.Replaced(c.isChange(req), have, asked) { // the caller set the revision, or another call reset it first
		return false
	}
	c.cfg.Seen.Forget()
	req.Header.Del(minRevision)
	return true
}

// isChange reports whether a request may change the fleet. Reads, plans, renderings and dry runs do not.
func (c *transport) isChange(req *http.Request) bool {
	return !isRead(req.Method) && req.URL.Query().Get("dry_run") != "true" && req.URL.Path != c.base+"/plan" && req.URL.Path != c.base+"/render"
}

// connectionTrace records whether a call obtained a connection.
type connectionTrace struct{ wanted, had atomic.Bool }

func (n *connectionTrace) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { n.wanted.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { n.had.Store(true) },
	}
}

// noneMade reports that no connection was made, so nothing was sent. It is false for a custom transport that does not
// support httptrace, because that may have connected.
func (n *connectionTrace) noneMade() bool { return n.wanted.Load() && !n.had.Load() }

func (c *transport) setHeaders(req *http.Request) {
	token := c.cfg.WriteToken
	if !isRead(req.Method) && c.cfg.Author != "" && req.Header.Get("X-Change-Author") == "" {
		req.Header.Set("X-Change-Author", c.cfg.Author)
	}
	if !isRead(req.Method) && req.Header.Get(requestID) == "" {
		req.Header.Set(requestID, uuid.NewString()) // finds the change if its answer is lost
	}
	if isRead(req.Method) && !isStreamed(req.Context()) {
		token = c.cfg.Token
	}
	if revision := c.cfg.Seen.Revision(); revision > 0 && req.Header.Get(minRevision) == "" {
		req.Header.Set(minRevision, strconv.FormatInt(revision, 10))
	}
	if token != "" && req.Header.Get("Authorization") == "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", c.cfg.UserAgent)
	}
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json, application/problem+json, */*;q=0.5")
	}
}

// attempt sends the request once. It returns an *Error for a status other than 2xx and 304.
func (c *transport) attempt(req *http.Request) (*http.Response, error) {
	start := time.Now()
	rsp, err := c.client.Do(req)
	if c.cfg.Trace != nil {
		c.cfg.Trace(req, rsp, time.Since(start), err)
	}
	if err != nil {
		return nil, rootCause(err)
	}
	if c.cfg.Changed != nil && rsp.StatusCode/100 == 2 && c.isChange(req) {
		c.cfg.Changed(rsp.Header)
	}
	if isStreamed(req.Context()) && rsp.StatusCode == http.StatusOK {
		return rsp, nil
	}
	body, err := io.ReadAll(io.LimitReader(rsp.Body, c.cfg.MaxResponse+1))
	_ = rsp.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	if int64(len(body)) > c.cfg.MaxResponse {
		return nil, fmt.Errorf("%w: more than %d bytes", errTooLarge, c.cfg.MaxResponse)
	}
	if c.cfg.Warn != nil {
		for _, text := range warnings(rsp.Header) {
			c.cfg.Warn(text)
		}
	}
	if rsp.StatusCode/100 != 2 && rsp.StatusCode != http.StatusNotModified {
		return nil, newError(req, rsp, body)
	}
	if revision, err := strconv.ParseInt(rsp.Header.Get(fleetRevision), 10, 64); err == nil {
		c.cfg.Seen.Note(revision)
	}
	rsp.Body = io.NopCloser(bytes.NewReader(body))
	return rsp, nil
}

var errTooLarge = errors.New("the answer is too large")

// retry reports whether to repeat the call after err, and after which wait. A repeated call must be safe: reads always
// are; PUT and DELETE are, unless the request was conditional and may have been received, because then it has changed
// the ETag in its own condition; POST and PATCH are only if they were never sent.
func (c *transport) retry(req *http.Request, err error, attempt int) (wait time.Duration, again bool) {
	if attempt >= c.cfg.Retries || req.Context().Err() != nil || errors.Is(err, errTooLarge) ||
		(req.Body != nil && req.GetBody == nil) {
		return 0, false
	}
	wait = c.cfg.RetryWait << attempt
	idempotent := isRead(req.Method) || req.Method == http.MethodPut || req.Method == http.MethodDelete
	if problem, ok := errors.AsType[*Error](err); ok {
		// outcome_unknown: the change may have been made, and a person must decide. unknown_revision: the server will never
		// have it.
		final := problem.Problem.Error == CodeOutcomeUnknown || problem.Problem.Error == CodeUnknownRevision
		again = idempotent && problem.StatusCode == http.StatusServiceUnavailable && !final
		return max(wait, problem.RetryAfter), again
	}
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return 0, false
	case !maybeReceived(err):
		return wait, true
	}
	return wait, idempotent && (isRead(req.Method) || req.Header.Get("If-Match") == "")
}

// maybeReceived reports whether the server may have processed the request. It is false if no connection was made, or if
// the server answered that it did nothing.
func maybeReceived(err error) bool {
	if _, ok := errors.AsType[*Error](err); ok {
		return false
	}
	op, ok := errors.AsType[*net.OpError](err)
	return !ok || op.Op != "dial"
}

// rootCause removes the *url.Error, which repeats the method and the URL.
func rootCause(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

func isRead(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// sleep waits for d. It returns at once if the context would end before that.
func sleep(ctx context.Context, d time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return context.DeadlineExceeded
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
