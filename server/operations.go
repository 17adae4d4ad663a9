package server

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/flux-resourceset/flux-resourceset/gen/apiserver"
)

// operation is what the contract says about one method of one path.
type operation struct {
	spec     *openapi3.Operation
	route    *openapi3.PathItem
	public   bool // no token
	write    bool // the write token
	crudOnly bool // only in mode crud
	poll     bool // a Flux poll: kept free of everything a poll does not need
}

// operations are the contract's operations by the router's path and method.
type operations map[string]map[string]*operation

var pathParameter = regexp.MustCompile(`\{([a-z_]+)\}`)

// loadOperations reads the embedded contract. In mode read-only the schemas are let go of: only requests of the
// other mode are held against them.
func loadOperations(mode string) (operations, error) {
	doc, err := apiserver.GetSpec()
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
			op := &operation{public: len(security) == 0, poll: slices.Contains(spec.Tags, "flux") && strings.Contains(path, ":cluster_dns")}
			op.crudOnly = !op.public && !slices.Contains(spec.Tags, "flux")
			op.write = slices.ContainsFunc(security, func(r openapi3.SecurityRequirement) bool { _, ok := r["writeToken"]; return ok })
			if mode == ModeCRUD || !op.crudOnly && !op.public && !op.poll {
				op.spec, op.route = spec, item
			}
			ops[path][method] = op
		}
	}
	return ops, nil
}

func (o operations) find(method, path string) *operation {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return o[path][method]
}

// allow lists the methods of a path, for the Allow header.
func (o operations) allow(mode, path string) string {
	var methods []string
	for method, op := range o[path] {
		if mode == ModeCRUD || !op.crudOnly {
			methods = append(methods, method)
		}
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}
