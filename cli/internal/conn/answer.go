package conn

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/rawclient"
)

// Client is the API with raw responses, which are printed unchanged, with fields this program does not know.
type Client = *rawclient.Client

// Edit modifies a request.
type Edit = apiclient.RequestEditorFn

// Answer is a successful response of the API.
type Answer struct {
	Body     json.RawMessage
	Etag     string
	Revision string
	Total    int        // X-Total-Count; -1 when absent
	Next     url.Values // the query of the next page; nil: it was the last
	Created  bool       // the status is 201
}

// Decode reads the body into v.
func (a Answer) Decode(v any) error {
	if err := json.Unmarshal(a.Body, v); err != nil {
		return fmt.Errorf("unexpected response of the server: %w", err)
	}
	return nil
}

// Receive reads a response. Its arguments are the results of a client's method.
func Receive(rsp *http.Response, err error) (Answer, error) {
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = rsp.Body.Close() }()
	body, err := io.ReadAll(rsp.Body)
	if err != nil {
		return Answer{}, err
	}
	body = bytes.TrimSpace(body)
	if !json.Valid(body) {
		return Answer{}, fmt.Errorf("%s is not this service: its response is not JSON", rsp.Request.URL.Redacted())
	}
	a := Answer{Body: body, Etag: rsp.Header.Get("ETag"), Revision: rsp.Header.Get("X-Fleet-Revision"), Total: -1, Created: rsp.StatusCode == http.StatusCreated}
	if n, err := strconv.Atoi(rsp.Header.Get("X-Total-Count")); err == nil {
		a.Total = n
	}
	a.Next = apiclient.NextPage(rsp.Header)
	return a, nil
}

// ReceiveAs reads a response whose body is a T. Its arguments are the results of a client's method.
func ReceiveAs[T any](rsp *http.Response, err error) (T, error) {
	var doc T
	a, err := Receive(rsp, err)
	if err == nil {
		err = a.Decode(&doc)
	}
	return doc, err
}

// Query sets parameters of a request's query.
func Query(values url.Values) Edit {
	return func(_ context.Context, req *http.Request) error {
		q := req.URL.Query()
		maps.Copy(q, values)
		req.URL.RawQuery = q.Encode()
		return nil
	}
}

// Header sets a header of a request, unless the value is empty.
func Header(name, value string) Edit {
	return func(_ context.Context, req *http.Request) error {
		if value != "" {
			req.Header.Set(name, value)
		}
		return nil
	}
}

// ReadList reads all pages of a list, up to limit documents (0: all), and notes when there are more. size is the page size; 0: the
// server's.
func (s *Session) ReadList(limit, size int, page func(e ...Edit) (*http.Response, error)) ([]json.RawMessage, error) {
	docs, more, err := ReadPages(limit, size, page)
	if more != "" {
		s.Note("%s", more)
	}
	return docs, err
}

// ReadPages reads a list; more is the note about documents beyond the limit.
func ReadPages(limit, size int, page func(e ...Edit) (*http.Response, error)) (docs []json.RawMessage, more string, err error) {
	docs = []json.RawMessage{}
	var edits []Edit
	if limit > 0 && (size == 0 || limit < size) {
		size = limit
	}
	if size > 0 {
		edits = []Edit{Query(url.Values{"limit": {strconv.Itoa(min(size, MaxPage))}})}
	}
	for {
		a, err := Receive(page(edits...))
		if err != nil {
			return nil, "", err
		}
		var next []json.RawMessage
		if err := a.Decode(&next); err != nil {
			return nil, "", err
		}
		docs = append(docs, next...)
		switch {
		case limit > 0 && len(docs) >= limit:
			if a.Total > limit {
				more = fmt.Sprintf("Showing %d of %d.", limit, a.Total)
			} else if a.Next != nil || len(docs) > limit {
				more = fmt.Sprintf("Showing the first %d; there are more.", limit)
			}
			return docs[:limit], more, nil
		case a.Next == nil: // an empty page may have a next one
			return docs, "", nil
		}
		edits = []Edit{Query(a.Next)}
	}
}

// MaxPage is the largest page that the server allows.
const MaxPage = 10000
