// Package openapi validates requests against the embedded OpenAPI document.
//
//	method and path --> Operations.Find --> Operation: permission, mode, queue
//	                                           |
//	                                           v
//	parameters, headers, body -----------> Validate --> Body
//	                                           |
//	                                           v
//	                                       all problems, each with its place --> 400
//
// Bodies are validated by schema only; the rules of package fleet apply afterwards.
package openapi

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

// Operation is one method of one path of the OpenAPI document.
type Operation struct {
	auth.Access        // a poll skips every step that it does not need
	ID          string // in the document
	Write       bool   // it changes something
	CRUDOnly    bool   // only served in mode crud
	spec        *openapi3.Operation
	route       *openapi3.PathItem
}

// Operations are the operations of the API by the router's path and method.
type Operations map[string]map[string]*Operation

var pathParameter = regexp.MustCompile(`\{([a-z_]+)\}`)

// spec is the embedded OpenAPI document, which is not changed. Parsing takes 70 ms, and a start with a seed needs it twice.
var spec = sync.OnceValues(apiserver.GetSpec)

// Load returns the operations of the embedded OpenAPI document. Without crud it drops the schemas, because only the requests
// of mode crud are validated.
func Load(crud bool) (Operations, error) {
	read := spec
	if !crud {
		read = apiserver.GetSpec
	}
	doc, err := read()
	if err != nil {
		return nil, err
	}
	ops := Operations{}
	for path, item := range doc.Paths.Map() {
		path = pathParameter.ReplaceAllString(path, ":$1")
		ops[path] = map[string]*Operation{}
		for method, spec := range item.Operations() {
			security := doc.Security
			if spec.Security != nil {
				security = *spec.Security
			}
			op := &Operation{ID: spec.OperationID}
			op.Poll = slices.Contains(spec.Tags, "flux") && strings.Contains(path, ":cluster_dns")
			if op.Needs, err = minimumRole(security); err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			op.Rights, op.Self = rights[op.ID], op.ID == "WhoAmI" || op.ID == "CheckAccess" || op.Needs == auth.Scoped
			op.Write = op.Needs >= auth.Write && method != http.MethodGet
			op.CRUDOnly = !slices.Contains(spec.Tags, "service") && !slices.Contains(spec.Tags, "flux")
			if crud || !op.CRUDOnly && !op.Public() && !op.Poll {
				op.spec, op.route = spec, item
			}
			ops[path][method] = op
		}
	}
	return ops, nil
}

// schemeRoles are the roles of the document's security schemes.
var schemeRoles = map[string]auth.Role{"idToken": auth.Scoped, "pollToken": auth.Poll, "readToken": auth.Read, "writeToken": auth.Write, "adminToken": auth.Admin}

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

// Find returns the operation of a method and a path of the router; nil: there is none. HEAD is GET.
func (o Operations) Find(method, path string) *Operation {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return o[path][method]
}

// HandleUnknown answers a request without an operation. The router's own answer would list the methods of both modes.
func (o Operations) HandleUnknown(c echo.Context, crud bool, next echo.HandlerFunc) error {
	switch _, described := o[c.Path()]; {
	case !described:
		return next(c) // the documentation, or an unknown path
	case c.Request().Method == http.MethodOptions:
		c.Response().Header().Set(echo.HeaderAllow, o.Allow(crud, c.Path()))
		return c.NoContent(http.StatusNoContent)
	}
	return echo.ErrMethodNotAllowed
}

// Allow returns the methods of a path, for the Allow header.
func (o Operations) Allow(crud bool, path string) string {
	methods := []string{http.MethodOptions}
	for method, op := range o[path] {
		if crud || !op.CRUDOnly {
			methods = append(methods, method)
			if method == http.MethodGet {
				methods = append(methods, http.MethodHead)
			}
		}
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}
