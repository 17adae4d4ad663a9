package cli

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

// calls are the requests of a kind, which differ only in their paths. Edits add parameters and headers.
type calls struct {
	path      string // of the list, such as /clusters
	revisions string // the kind by which /revisions has the history; empty: the document has a path for it
}

func (k calls) list(ctx context.Context, c client, edits ...edit) (*http.Response, error) {
	return send(ctx, c, http.MethodGet, k.path, nil, edits)
}

func (k calls) get(ctx context.Context, c client, id string, edits ...edit) (*http.Response, error) {
	return send(ctx, c, http.MethodGet, k.document(id), nil, edits)
}

func (k calls) history(ctx context.Context, c client, id string, edits ...edit) (*http.Response, error) {
	if k.revisions != "" {
		those := query(url.Values{"kind": {k.revisions}, "id": {id}})
		return send(ctx, c, http.MethodGet, revisionCalls.path, nil, append([]edit{those}, edits...))
	}
	return send(ctx, c, http.MethodGet, k.document(id)+"/history", nil, edits)
}

func (k calls) create(ctx context.Context, c client, body any, edits ...edit) (*http.Response, error) {
	return send(ctx, c, http.MethodPost, k.path, body, edits)
}

func (k calls) document(id string) string { return k.path + "/" + url.PathEscape(id) }

// send sends a request to a path of the API. The body is nil, or a value that [render.JSON] encodes. A PATCH is a merge patch.
func send(ctx context.Context, c client, method, path string, body any, edits []edit) (*http.Response, error) {
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
	for _, change := range slices.Concat(c.RequestEditors, edits) {
		if err := change(ctx, req); err != nil {
			return nil, err
		}
	}
	return c.Client.Do(req)
}
