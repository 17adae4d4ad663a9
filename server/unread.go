package server

import (
	"io"
	"net/http"
	"time"
)

// unreadGrace is how long a client may go on sending a body that nobody will read, after it has been answered.
const unreadGrace = time.Second

// withoutUnread lets go of clients whose request has a body that is not read, because it is refused before that or takes
// none. net/http waits for the rest of it, before the answer or after, up to the time-out of a whole request: whoever
// announces a body and sends nothing would hold a connection for that long, without a token.
func withoutUnread(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 { // polls, nearly all requests there are
			next.ServeHTTP(w, r)
			return
		}
		body := &announced{ReadCloser: r.Body}
		hasty := &hasty{ResponseWriter: w, body: body, multiplexed: r.ProtoMajor > 1}
		r.Body = body
		next.ServeHTTP(hasty, r)
		hasty.hurry()
	})
}

// announced is a request's body, and whether it has come as a whole.
type announced struct {
	io.ReadCloser
	ended bool
}

// Read implements io.Reader.
func (b *announced) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err != nil
	return n, err
}

// hasty is the answer to a request with a body.
type hasty struct {
	http.ResponseWriter
	body        *announced
	multiplexed bool // the request is a stream of HTTP/2
	header      bool // was written
}

// hurry ends the patience with a body that has not come yet. Nobody reads a body once the answer has begun, and HTTP/2 would keep what
// has come of it until the client takes the answer. With HTTP/1 to close it is to wait for the rest.
func (h *hasty) hurry() {
	if h.body.ended {
		return
	}
	_ = http.NewResponseController(h.ResponseWriter).SetReadDeadline(time.Now().Add(unreadGrace)) // fails when the client is gone
	if h.multiplexed {
		_ = h.body.Close() // never fails there
	}
}

// WriteHeader implements http.ResponseWriter.
func (h *hasty) WriteHeader(status int) {
	if !h.header {
		h.header = true
		h.hurry()
	}
	h.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (h *hasty) Write(p []byte) (int, error) {
	if !h.header {
		h.WriteHeader(http.StatusOK)
	}
	return h.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (h *hasty) Unwrap() http.ResponseWriter { return h.ResponseWriter }
