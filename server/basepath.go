package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/gen/apiserver"
)

// basePath is one or more segments of unreserved characters; none begins with a dot.
var basePath = regexp.MustCompile(`^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+$`)

const maxBasePath = 200 // bytes

// CheckBasePath returns an error when the service cannot be served below a path. A path of the API itself is refused, because
// a request for it would be ambiguous.
func CheckBasePath(base string) error {
	if base == "" {
		return nil
	}
	if !basePath.MatchString(base) || len(base) > maxBasePath {
		return fmt.Errorf("it must begin with / and not end with it, such as /fleet: segments of letters, digits, -, _, ~ and dots, none beginning with a dot, %d characters at most", maxBasePath)
	}
	first, _, _ := strings.Cut(base[1:], "/")
	routes := echo.New()
	apiserver.RegisterHandlers(routes, nil)
	used := []string{"/ui", "/docs"}
	for _, route := range routes.Routes() {
		used = append(used, route.Path)
	}
	for _, path := range used {
		if segment, _, _ := strings.Cut(path[1:], "/"); segment == first {
			return errors.New("it must not begin with /" + first + ", which is a path of the API")
		}
	}
	return nil
}

// WithBasePath serves a handler below a path as well as at the root, so a proxy may keep the path or remove it, and probes need
// none. The handler never sees the path; its redirects and links in headers get it. An empty path returns the handler itself.
func WithBasePath(base string, next http.Handler) http.Handler {
	if base == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, below := cutBasePath(base, r.URL.Path)
		raw, same := cutBasePath(base, r.URL.RawPath)
		if below && (r.URL.RawPath == "" || same) {
			inner := *r
			inner.URL = &url.URL{}
			*inner.URL = *r.URL
			inner.URL.Path, inner.URL.RawPath = path, raw
			r = &inner
		}
		next.ServeHTTP(&basePathWriter{ResponseWriter: w, base: base}, r)
	})
}

// cutBasePath removes a base path; the path itself becomes the root.
func cutBasePath(base, path string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, base)
	switch {
	case ok && rest == "":
		return "/", true
	case ok && rest[0] == '/':
		return rest, true
	}
	return "", false
}

// basePathWriter adds the base path to the addresses in the headers of an answer.
type basePathWriter struct {
	http.ResponseWriter
	base   string
	header bool
}

// WriteHeader implements http.ResponseWriter.
func (w *basePathWriter) WriteHeader(status int) {
	if !w.header && status >= http.StatusOK {
		w.header = true
		h := w.Header()
		if to := h.Get("Location"); strings.HasPrefix(to, "/") {
			h.Set("Location", w.base+to)
		}
		if link := h.Get("Link"); strings.HasPrefix(link, "</") {
			h.Set("Link", "<"+w.base+link[1:])
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *basePathWriter) Write(p []byte) (int, error) {
	if !w.header {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap is called by http.ResponseController.
func (w *basePathWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
