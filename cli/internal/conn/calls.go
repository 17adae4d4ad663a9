package conn

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
)

// Content types of bodies.
const (
	contentJSON       = "application/json"
	contentMergePatch = "application/merge-patch+json"
)

// Calls are the requests of a kind, which differ only in their paths. Edits add parameters and headers.
type Calls struct {
	Path      string // of the list, such as /clusters
	Revisions string // the kind by which /revisions has the history; empty: the document has a path for it
}

// List requests a page of the list.
func (k Calls) List(ctx context.Context, c Client, edits ...Edit) (*http.Response, error) {
	return Send(ctx, c, http.MethodGet, k.Path, nil, edits)
}

// Get requests one document.
func (k Calls) Get(ctx context.Context, c Client, id string, edits ...Edit) (*http.Response, error) {
	return Send(ctx, c, http.MethodGet, k.Document(id), nil, edits)
}

// History requests the revisions of one document.
func (k Calls) History(ctx context.Context, c Client, id string, edits ...Edit) (*http.Response, error) {
	if k.Revisions != "" {
		those := Query(url.Values{"kind": {k.Revisions}, "id": {id}})
		return Send(ctx, c, http.MethodGet, RevisionCalls.Path, nil, append([]Edit{those}, edits...))
	}
	return Send(ctx, c, http.MethodGet, k.Document(id)+"/history", nil, edits)
}

// Create requests a new document.
func (k Calls) Create(ctx context.Context, c Client, body any, edits ...Edit) (*http.Response, error) {
	return Send(ctx, c, http.MethodPost, k.Path, body, edits)
}

// Document returns the path of a document.
func (k Calls) Document(id string) string { return k.Path + "/" + url.PathEscape(id) }

// Send sends a request to a path of the API. The body is nil, or a value that [render.JSON] encodes. A PATCH is a merge patch.
func Send(ctx context.Context, c Client, method, path string, body any, edits []Edit) (*http.Response, error) {
	var data json.RawMessage
	if body != nil {
		var err error
		if data, err = render.JSON(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.Server, "/")+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	switch {
	case method == http.MethodPatch:
		req.Header.Set("Content-Type", contentMergePatch)
	case body != nil:
		req.Header.Set("Content-Type", contentJSON)
	}
	for _, changed := range slices.Concat(c.RequestEditors, edits) {
		if err := changed(ctx, req); err != nil {
			return nil, err
		}
	}
	return c.Client.Do(req)
}

// RevisionCalls lists revisions, the only request that they share with kinds.
var RevisionCalls = Calls{Path: "/revisions"}
