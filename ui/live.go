package ui

import (
	"errors"
	"net/http"
	"net/url"
)

// streamRevisions passes the API's stream of revisions to an open page, which then refreshes itself. The API ends the stream when the
// token expires or is revoked.
func (p *Page) streamRevisions(w http.ResponseWriter, r *http.Request) {
	s, ok := p.session(w, r)
	if !ok || p.sendsOtherToken(r, s) {
		http.Error(w, "sign in first", http.StatusUnauthorized)
		return
	}
	in := r.Clone(r.Context())
	in.URL, in.RequestURI, in.Body, in.ContentLength = &url.URL{Path: "/revisions"}, "/revisions", http.NoBody, 0
	in.Header = http.Header{"Accept": {"text/event-stream"}, "Authorization": {"Bearer " + s.Token}, "User-Agent": {"flux-resourceset-page"}}
	if last := r.Header.Values("Last-Event-ID"); len(last) > 0 {
		in.Header["Last-Event-Id"] = last
	}
	p.cfg.API.ServeHTTP(&sessionWriter{ResponseWriter: w, page: p, session: s}, in)
}

var errSessionEnded = errors.New("the session has ended")

// sessionWriter fails when its session has ended, so a stream ends with its next event or comment. It does not ask the store for
// sessions that other processes ended: the page reconnects every 15 minutes, which does.
type sessionWriter struct {
	http.ResponseWriter
	page    *Page
	session session
}

// Write implements io.Writer.
func (w *sessionWriter) Write(b []byte) (int, error) {
	if w.page.ended.has(w.session.ID) || w.page.cfg.Now().Sub(w.session.Started) > sessionMax {
		return 0, errSessionEnded
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is called by http.ResponseController.
func (w *sessionWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
