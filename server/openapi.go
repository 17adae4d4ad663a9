package server

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/gen/apiserver"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
)

// operation is one method of one path of the OpenAPI document.
type operation struct {
	id          string
	auth.Access // a Flux poll skips every step that a poll does not need
	spec        *openapi3.Operation
	route       *openapi3.PathItem
	write       bool   // it changes something
	crudOnly    bool   // only in mode crud
	queue       string // name of its queue; empty: none
}

// operations are the operations of the API by the router's path and method.
type operations map[string]map[string]*operation

var pathParameter = regexp.MustCompile(`\{([a-z_]+)\}`)

// spec is the embedded OpenAPI document, which is not changed. Parsing takes 70 ms, and a start with a seed needs it twice.
var spec = sync.OnceValues(apiserver.GetSpec)

// loadOperations returns the operations of the embedded OpenAPI document. In mode read-only it drops the schemas, because only
// the requests of mode crud are validated.
func loadOperations(mode string) (operations, error) {
	read := spec
	if mode != ModeCRUD {
		read = apiserver.GetSpec
	}
	doc, err := read()
	if err != nil {
		return nil, err
	}
	ops := operations{}
	for path, item := range doc.Paths.Map() {
		path = pathParameter.ReplaceAllString(path, ":$1")
		ops[path] = map[string]*operation{}
		for method, spec := range item.Operations() {
			security := doc.Security
			if spec.Security != nil {
				security = *spec.Security
			}
			op := &operation{id: spec.OperationID}
			op.Poll = slices.Contains(spec.Tags, "flux") && strings.Contains(path, ":cluster_dns")
			if op.Needs, err = minimumRole(security); err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			op.write = op.Needs >= auth.Write && method != http.MethodGet
			op.crudOnly = !slices.Contains(spec.Tags, "service") && !slices.Contains(spec.Tags, "flux")
			if mode == ModeCRUD || !op.crudOnly && !op.Public() && !op.Poll {
				op.spec, op.route = spec, item
			}
			ops[path][method] = op
		}
	}
	return ops, nil
}

// schemeRoles are the roles of the document's security schemes.
var schemeRoles = map[string]auth.Role{"pollToken": auth.Poll, "readToken": auth.Read, "writeToken": auth.Write, "adminToken": auth.Admin}

// minimumRole returns the lowest role among alternatives; none when there are no alternatives.
func minimumRole(security openapi3.SecurityRequirements) (least auth.Role, err error) {
	for _, alternative := range security {
		for scheme := range alternative {
			r, ok := schemeRoles[scheme]
			if !ok {
				return 0, fmt.Errorf("unknown security scheme %q", scheme)
			}
			if least == auth.None || r < least {
				least = r
			}
		}
	}
	return least, nil
}

func (o operations) find(method, path string) *operation {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return o[path][method]
}

// handleUnknown answers a request without an operation. The router's own answer would list the methods of both modes.
func (o operations) handleUnknown(c echo.Context, mode string, next echo.HandlerFunc) error {
	switch _, described := o[c.Path()]; {
	case !described:
		return next(c) // the documentation, or an unknown path
	case c.Request().Method == http.MethodOptions:
		c.Response().Header().Set(echo.HeaderAllow, o.allow(mode, c.Path()))
		return c.NoContent(http.StatusNoContent)
	}
	return echo.ErrMethodNotAllowed
}

// allow returns the methods of a path, for the Allow header.
func (o operations) allow(mode, path string) string {
	methods := []string{http.MethodOptions}
	for method, op := range o[path] {
		if mode == ModeCRUD || !op.crudOnly {
			methods = append(methods, method)
			if method == http.MethodGet {
				methods = append(methods, http.MethodHead)
			}
		}
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}
