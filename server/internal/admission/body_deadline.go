package admission

import (
	"io"
	"net/http"
	"time"
)

// unreadBodyGrace is the time for which a client may go on sending a body after its answer, which discards it.
const unreadBodyGrace = time.Second

// WithBodyDeadline limits the time for a body that no handler reads, because the request is refused before that or takes no
// body. net/http reads the rest of it before or after the answer, for up to the timeout of a whole request: a client without a
// token that announces a body and sends none would hold a connection for that long.
func WithBodyDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 { // polls, nearly all requests
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

// trackedBody is the body of a request. ended: it was read to its end.
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

// bodyDeadlineWriter sets the deadline when the answer to a request with a body begins.
type bodyDeadlineWriter struct {
	http.ResponseWriter
	body        *trackedBody
	http2       bool
	wroteHeader bool
}

// setDeadline limits the time for a body that was not read to its end. Handlers do not read it once the answer has begun.
// HTTP/2 would hold its received part until the client reads the answer, so the body is closed; in HTTP/1 Close would wait for
// the rest.
func (w *bodyDeadlineWriter) setDeadline() {
	if w.body.ended {
		return
	}
	_ = http.NewResponseController(w.ResponseWriter).SetReadDeadline(time.Now().Add(unreadBodyGrace)) // fails when the client is gone
	if w.http2 {
		_ = w.body.Close() // never fails in HTTP/2
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

// Unwrap is called by http.ResponseController.
func (w *bodyDeadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
