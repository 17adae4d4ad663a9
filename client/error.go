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

// Error is an answer that is neither a success nor 304. Every method of a client made by [New] returns one for such an
// answer; find it with errors.As:
//
//	var problem *client.Error
//	if errors.As(err, &problem) && problem.Problem.Error == "stale" { … }
type Error struct {
	// Method and Path of the call.
	Method, Path string
	// StatusCode of the answer, such as 409.
	StatusCode int
	// Problem is the server's description. Its Error is the stable code ("validation_error", "not_found", "conflict",
	// "in_use", "protected", "stale", …; empty when something other than this service answered), its Detail is for
	// people, and its Errors list every problem with a JSON pointer into the request.
	Problem api.Problem
	// Header and Body of the answer. Of note: ETag on 412, WWW-Authenticate on 401, Allow on 405.
	Header http.Header
	Body   []byte
	// RetryAfter is when the server expects to be able to answer; 0: it did not say.
	RetryAfter time.Duration
	// Lost is true when an earlier attempt of the same call was sent and its answer never came: it may have been
	// carried out, and this answer may be its consequence (404 to a DELETE that is repeated).
	Lost bool

	asked int64 // for this revision
}

// UnansweredError is the error of a change that was sent and whose answer never came: it may have been made. If it was, the
// revision that it made has this request id. Look there before you send it again.
type UnansweredError struct {
	RequestID string
	Err       error
}

// Error says what went wrong, and what nobody knows.
func (e *UnansweredError) Error() string {
	return e.Err.Error() + ": no answer came; the change may have been made"
}

// Unwrap is what went wrong with the connection.
func (e *UnansweredError) Unwrap() error { return e.Err }

// requestID names a change in the server's log and in the revision it makes.
const requestID = "X-Request-Id"

// Behind tells whether the call was refused because the server does not have the revision it asked for, and which the
// server has instead. The server is behind, and trying again helps; or it was given another history, such as a restored
// backup, and then [RevisionToken.Forget] does. A server that knows which it is says so: by [CodeUnknownRevision].
func (e *Error) Behind() (have, asked int64, behind bool) {
	have, err := strconv.ParseInt(e.Header.Get(fleetRevision), 10, 64)
	return have, e.asked, err == nil && e.StatusCode == http.StatusServiceUnavailable && have < e.asked
}

// Error describes the answer in one line, without the single problems.
func (e *Error) Error() string {
	text := e.Problem.Detail
	if text == "" {
		text = http.StatusText(e.StatusCode)
	}
	if have, asked, behind := e.Behind(); behind {
		text = fmt.Sprintf("the server has revision %d of the fleet, and %d was seen before: it is behind, or was given another history", have, asked)
	}
	return fmt.Sprintf("%s %s: %d: %s", e.Method, e.Path, e.StatusCode, text)
}

// ErrorCode is the stable code of an error's [Error] ("not_found", "conflict", …), or empty when it has none.
func ErrorCode(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Problem.Error
	}
	return ""
}

// newError reads an answer that is not a success.
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
		if e.Problem.Detail == "" { // the reference's errors have only this
			e.Problem.Detail = e.Problem.Message
		}
	}
	if location := rsp.Header.Get("Location"); e.Problem.Detail == "" && rsp.StatusCode/100 == 3 {
		e.Problem.Detail = "the server redirects to " + location + "; use that address"
	}
	return e
}

// retryAfter reads the header's number of seconds. Dates are not used by this service, and are ignored.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(strings.TrimSpace(h.Get("Retry-After")))
	if err != nil || seconds < 0 || seconds > 24*60*60 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// warnings are the texts of the answer's `Warning: 299 - "text"` headers.
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

// unquote reads an HTTP quoted-string after its opening quote, up to the closing one.
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
