package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Error is an answer with a status other than 2xx and 304. Find it with errors.As:
//
//	var problem *client.Error
//	if errors.As(err, &problem) && problem.Problem.Error == "stale" { … }
type Error struct {
	// Method and Path of the call.
	Method, Path string
	// StatusCode of the answer, such as 409.
	StatusCode int
	// Problem is the server's description. Error is the stable code ("validation_error", "not_found", "conflict",
	// "in_use", "protected", "stale", …; empty if another server or a proxy answered), Detail is for people, and Errors
	// lists every problem with a JSON pointer into the request.
	Problem api.Problem
	// Header and Body of the answer. Useful headers: ETag on 412, WWW-Authenticate on 401, Allow on 405.
	Header http.Header
	Body   []byte
	// RetryAfter is the server's Retry-After; 0: not set.
	RetryAfter time.Duration
	// Lost is true if an earlier attempt of the same call was sent and its answer was lost. That attempt may have
	// succeeded, and this answer may be its consequence (404 to a repeated DELETE).
	Lost bool

	asked int64 // the request's X-Fleet-Min-Revision
}

// UnansweredError is the error of a change that was sent and not answered: it may have been made. If it was, the
// revision that it made has this request id. Look there before you send the change again.
type UnansweredError struct {
	RequestID string
	Err       error
}

// Error returns the cause, and states that the outcome is unknown.
func (e *UnansweredError) Error() string {
	return e.Err.Error() + ": no answer came; the change may have been made"
}

// Unwrap returns the error of the connection.
func (e *UnansweredError) Unwrap() error { return e.Err }

// requestID is the header that identifies a change in the server's log and in the revision it makes.
const requestID = "X-Request-Id"

// Behind reports whether the server refused the call because it does not have the required revision: have is the
// server's, asked the required one. Either the server lags, and a retry helps, or its history was replaced, for example
// by a restored backup; then call [RevisionToken.Forget]. A server that knows the latter answers [CodeUnknownRevision].
func (e *Error) Behind() (have, asked int64, behind bool) {
	have, err := strconv.ParseInt(e.Header.Get(fleetRevision), 10, 64)
	return have, e.asked, err == nil && e.StatusCode == http.StatusServiceUnavailable && have < e.asked
}

// Error describes the answer in one line, without the list of single problems.
func (e *Error) Error() string {
	text := e.Problem.Detail
	if text == "" {
		text = http.StatusText(e.StatusCode)
	}
	if have, asked, behind := e.Behind(); behind {
		text = fmt.Sprintf("the server has revision %d of the fleet, and %d was seen before: it is behind, or its history was replaced", have, asked)
	}
	return fmt.Sprintf("%s %s: %d: %s", e.Method, e.Path, e.StatusCode, text)
}

// ErrorCode returns the stable code of the [Error] in err ("not_found", "conflict", …), or "".
func ErrorCode(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Problem.Error
	}
	return ""
}

// newError decodes an answer with a status other than 2xx and 304.
func newError(req *http.Request, rsp *http.Response, body []byte) *Error {
	e := &Error{
		Method: req.Method, Path: req.URL.Path, StatusCode: rsp.StatusCode,
		Header: rsp.Header, Body: body, RetryAfter: retryAfter(rsp.Header),
	}
	if revision, err := strconv.ParseInt(req.Header.Get(minRevision), 10, 64); err == nil {
		e.asked = revision
	}
	if strings.Contains(rsp.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(body, &e.Problem); err != nil {
			e.Problem = api.Problem{}
		}
		if e.Problem.Detail == "" { // the only field of the Rust reference's errors
			e.Problem.Detail = e.Problem.Message
		}
	}
	if location := rsp.Header.Get("Location"); e.Problem.Detail == "" && rsp.StatusCode/100 == 3 {
		e.Problem.Detail = "the server redirects to " + location + "; use that address"
	}
	return e
}

// retryAfter returns the header's number of seconds. This service sends no dates, so dates are ignored.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(strings.TrimSpace(h.Get("Retry-After")))
	if err != nil || seconds < 0 || seconds > 24*60*60 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// warnings returns the texts of the `Warning: 299 - "text"` headers.
func warnings(h http.Header) []string {
	var texts []string
	for _, value := range h.Values("Warning") {
		rest, ok := strings.CutPrefix(value, "299 ")
		if !ok {
			continue
		}
		_, quoted, ok := strings.Cut(rest, " ") // after the agent
		quoted = strings.TrimSpace(quoted)
		if !ok || len(quoted) < 2 || quoted[0] != '"' {
			continue
		}
		texts = append(texts, unquote(quoted[1:]))
	}
	return texts
}

// unquote decodes an HTTP quoted-string from after its opening quote to the closing one.
func unquote(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case s[i] == '"':
			return b.String()
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
