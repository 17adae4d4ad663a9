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
