package server

import (
	"io"
	"net/http"
	"time"
)

// unreadGrace is how long a client may go on sending a body that nobody will read, after it has been answered.
const unreadBodyGrace = time.Second

// withoutUnread lets go of clients whose request has a body that is not read, because it is refused before that or takes
// none. net/http waits for the rest of it, before the answer or after, up to the time-out of a whole request: whoever
// announces a body and sends nothing would hold a connection for that long, without a token.
func withBodyDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 { // polls, nearly all requests there are
			next.ServeHTTP(w, r)
			return
		}
		body := &trackedBody{ReadCloser: r.Body}
		writer := &bodyDeadlineWriter{ResponseWriter: w, body: body, http2: r.ProtoMajor > 1}
		r.Body = body
		next.ServeHTTP(writer, r)
		writer.setDeadline()
	})
}

// announced is a request's body, and whether it has come as a whole.
type trackedBody struct {
	io.ReadCloser
	ended bool
}

// Read implements io.Reader.
func (b *trackedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err != nil
	return n, err
}

// hasty is the answer to a request with a body.
type bodyDeadlineWriter struct {
	http.ResponseWriter
	body        *trackedBody
	http2       bool // the request is a stream of HTTP/2
	wroteHeader bool // was written
}

// hurry ends the patience with a body that has not come yet. Nobody reads a body once the answer has begun, and HTTP/2 would keep what
// has come of it until the client takes the answer. With HTTP/1 to close it is to wait for the rest.
func (w *bodyDeadlineWriter) setDeadline() {
	if w.body.ended {
		return
	}
	_ = http.NewResponseController(w.ResponseWriter).SetReadDeadline(time.Now().Add(unreadBodyGrace)) // fails when the client is gone
	if w.http2 {
		_ = w.body.Close() // never fails there
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *bodyDeadlineWriter) WriteHeader(status int) {
	if !w.wroteHeader {
		w.wroteHeader = true
		w.setDeadline()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *bodyDeadlineWriter) Write(p []byte) (int, error) {
	if !w.wroteHeader {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *bodyDeadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
