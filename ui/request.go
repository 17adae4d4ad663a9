package ui

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// visit is a request for a page by somebody who is signed in.
type pageRequest struct {
	page      *Page
	w         http.ResponseWriter
	r         *http.Request
	fleet     *client.Client
	transport *inProcess
	identity  api.Identity
}

// pageTimeout bounds everything that one page asks for.
const pageTimeout = 20 * time.Second

func (p *Page) newPageRequest(w http.ResponseWriter, r *http.Request, s session) (*pageRequest, error) {
	transport := &inProcess{api: p.cfg.API, from: r, apiSlots: p.apiSlots}
	fleet, err := client.New(client.Config{
		URL: "http://fleet.invalid", Token: s.Token, UserAgent: "flux-resourceset-page", Timeout: pageTimeout, Retries: -1, Transport: transport,
	})
	if err != nil {
		return nil, err
	}
	return &pageRequest{page: p, w: w, r: r, fleet: fleet, transport: transport}, nil
}

// identify finds out who the visitor is to the API. It fails when they may not read.
func (req *pageRequest) identify() error {
	who, err := req.fleet.WhoAmIWithResponse(req.r.Context(), nil)
	if err != nil {
		return err
	}
	req.identity = *who.JSON200
	if !req.may("read") {
		return errMayNotRead
	}
	return nil
}

// may tells whether the API takes something from the visitor's token.
func (req *pageRequest) may(what string) bool { return slices.Contains(req.identity.May, what) }

// errMayNotRead: the token is good, for something else.
var errMayNotRead = errors.New("this token may not read the fleet: it is one for the polls of a cluster")

// signInProblem is what somebody is told whose token is not good; not known when that is not why.
func signInProblem(h http.Header, err error) (status int, problem string, known bool) {
	answer, answered := errors.AsType[*client.Error](err)
	switch {
	case errors.Is(err, errMayNotRead):
		return http.StatusForbidden, "This token may not read the fleet: it is one for the polls of a cluster.", true
	case answered && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusServiceUnavailable):
		if wait := answer.Header.Get("Retry-After"); wait != "" {
			h.Set("Retry-After", wait)
		}
		return answer.StatusCode, "The API says: " + answer.Problem.Detail + ".", true
	}
	return 0, "", false
}

// inProcess carries requests to an API in the same process, in the name of whoever asks for the page.
type inProcess struct {
	api      http.Handler
	from     *http.Request
	apiSlots chan struct{}
	revision string // of the last answer
	age      string
}

// RoundTrip implements http.RoundTripper.
func (t *inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	in := req.Clone(req.Context())
	in.RemoteAddr, in.TLS, in.RequestURI = t.from.RemoteAddr, t.from.TLS, req.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	select { // however many pages are asked for, so many of their requests are under way
	case t.apiSlots <- struct{}{}:
		defer func() { <-t.apiSlots }()
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	rec := &recorder{header: http.Header{}, status: http.StatusOK}
	t.api.ServeHTTP(rec, in)
	if err := req.Context().Err(); err != nil && !rec.began { // what was answered counts, however late: it may be that a change was made
		return nil, err
	}
	if revision := rec.header.Get("X-Fleet-Revision"); revision != "" {
		t.revision, t.age = revision, rec.header.Get("Age")
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", rec.status, http.StatusText(rec.status)), StatusCode: rec.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: rec.header, Body: io.NopCloser(&rec.body), ContentLength: int64(rec.body.Len()), Request: req,
	}, nil
}

// recorder is an answer in memory.
type recorder struct {
	header http.Header
	status int
	began  bool
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if !r.began && status >= http.StatusOK {
		r.began, r.status = true, status
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.began = true
	return r.body.Write(b)
}

// query is a parameter of the page's address.
func (req *pageRequest) query(name string) string {
	return strings.TrimSpace(req.r.URL.Query().Get(name))
}

// optional is a parameter of the API that is left out when it is empty.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// offset is where a page of a list begins.
func (req *pageRequest) offset() int {
	n, err := strconv.Atoi(req.query("offset"))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// reveal tells whether the visitor asked for what is masked.
func (req *pageRequest) reveal() bool { return req.query("reveal") == "true" }
