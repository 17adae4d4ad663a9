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
	"github.com/flux-resourceset/flux-resourceset/gen/rawclient"
)

// pageRequest is the request of a signed-in user for a page, with an API client for the token of the session.
type pageRequest struct {
	page      *Page
	w         http.ResponseWriter
	r         *http.Request
	fleet     *client.Client
	transport *inProcess
	identity  api.Identity
	freezes   []api.Freeze   // all that the visitor may read
	rollouts  *[]api.Rollout // see visibleRollouts; nil: not read yet
	stop      *freezeRow     // the emergency stop in the header; nil: none
}

// pageTimeout limits the time for all API requests of one page.
const pageTimeout = 20 * time.Second

// newPageRequest returns a page request whose API client uses the token of the session, without retries.
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

// get requests a path of the API, for documents of any kind.
func (req *pageRequest) get(path, query string) (*http.Response, error) {
	fleet := req.fleet.ClientInterface.(*rawclient.Client)
	r, err := http.NewRequestWithContext(req.r.Context(), http.MethodGet, strings.TrimSuffix(fleet.Server, "/")+path+"?"+query, http.NoBody)
	if err != nil {
		return nil, err
	}
	return fleet.Client.Do(r)
}

// identify reads the identity of the token from the API. It fails with errMayNotRead for tokens that may not read.
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

// visibleRollouts returns all rollouts, which are read once for a page; none for a token of some clusters.
func (req *pageRequest) visibleRollouts() ([]api.Rollout, error) {
	if req.rollouts != nil {
		return *req.rollouts, nil
	}
	list, err := req.fleet.ListRolloutsWithResponse(req.r.Context(), nil)
	if refused, answered := errors.AsType[*client.Error](err); answered && refused.StatusCode == http.StatusForbidden {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	req.rollouts = list.JSON200
	return *req.rollouts, nil
}

// may reports whether the token has a permission, such as read or write.
func (req *pageRequest) may(permission string) bool {
	return slices.Contains(req.identity.May, permission)
}

var errMayNotRead = errors.New("this token may not read the fleet")

// signInProblem returns the message for a sign-in that failed because of the token, and the HTTP status. It copies Retry-After to the
// header. known is false for other errors.
func signInProblem(h http.Header, err error) (status int, problem string, known bool) {
	answer, answered := errors.AsType[*client.Error](err)
	switch {
	case errors.Is(err, errMayNotRead):
		return http.StatusForbidden, "You may not read the fleet: no access document permits it to you, or the token is a poll token of a cluster.", true
	case answered && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden || answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusServiceUnavailable):
		if wait := answer.Header.Get("Retry-After"); wait != "" {
			h.Set("Retry-After", wait)
		}
		return answer.StatusCode, "Sign-in failed: " + answer.Problem.Detail + ".", true
	}
	return 0, "", false
}

// inProcess is a transport to the API in the same process. Requests keep the remote address and TLS state of the page request, for
// limits and logs of the API.
type inProcess struct {
	api      http.Handler
	from     *http.Request
	apiSlots chan struct{}
	revision string // of the last response
	age      string // seconds since the store confirmed it
}

// RoundTrip implements http.RoundTripper.
func (t *inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	in := req.Clone(req.Context())
	in.RemoteAddr, in.TLS, in.RequestURI = t.from.RemoteAddr, t.from.TLS, req.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	select {
	case t.apiSlots <- struct{}{}:
		defer func() { <-t.apiSlots }()
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	rec := &recorder{header: http.Header{}, status: http.StatusOK}
	t.api.ServeHTTP(rec, in)
	if err := req.Context().Err(); err != nil && !rec.began { // a late response still counts: it may acknowledge a change
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

// recorder is a http.ResponseWriter that keeps the response in memory.
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

// query returns a parameter of the page's address, without surrounding spaces.
func (req *pageRequest) query(name string) string {
	return strings.TrimSpace(req.r.URL.Query().Get(name))
}

// reason returns the reason of a submitted form; empty for a plan that is only looked at.
func (req *pageRequest) reason() string { return strings.TrimSpace(req.r.PostFormValue("reason")) }

// optional returns a parameter of the API, nil if the text is empty.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// offset returns the index of the first row of a paged list; 0 if it is absent or invalid.
func (req *pageRequest) offset() int {
	n, err := strconv.Atoi(req.query("offset"))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// reveal reports whether the user requested masked values.
func (req *pageRequest) reveal() bool { return req.query("reveal") == "true" }

var errBadQuery = errors.New("the query of the address cannot be read: escape % and ; after the question mark")

var errBadForm = errors.New("the form cannot be read, or is larger than 16 KiB")

var errNotApprovable = errors.New("this change cannot be approved for another person: stages of a rollout and artifacts of a source are approved on their own pages")

var errNotFound = errors.New("page not found")

var errMayNotWrite = errors.New("your token may read the fleet but not change it")

var errNotAdmin = errors.New("only administrators may read access documents, webhooks and sources")

// isRefresh reports whether the script of an open page requests the page again.
func isRefresh(r *http.Request) bool { return r.Header.Get("X-Refresh") != "" }

// freezeRow is a freeze that is active now.
type freezeRow struct {
	api.Freeze

	Selection string     // all clusters, or the selector
	By        string     // the author of its last change
	Since     *time.Time // of that change
	End       string     // the address of the form that ends it; empty: the token may not
}
