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
)

// operation is what the contract says about one method of one path.
type operation struct {
	spec     *openapi3.Operation
	route    *openapi3.PathItem
	needs    role   // the least role that may do this; none: no token is needed
	write    bool   // changes something
	crudOnly bool   // only in mode crud
	poll     bool   // a Flux poll: kept free of everything a poll does not need
	queue    string // where it waits for others like it; empty: it does not
}

// Names of queues.
const (
	queuePlans   = "plans"
	queueExplain = "explanations"
	queueBatches = "batches"
	queueHistory = "reads of the history"
	queueReads   = "reads"
	queueStatus  = "questions about the whole fleet"
	queueBackups = "backups"
)

// slow are the operations that may take long, by their ids in the contract.
var queuedOperations = map[string]string{
	"Plan": queuePlans, "ApplyBatch": queueBatches, "RestoreRevision": queueBatches, "RevertRevision": queueBatches,
	"ListRevisions": queueHistory, "GetRevision": queueHistory, "ExplainCluster": queueExplain, "ExplainInput": queueExplain,
	"GetStatus": queueStatus, "GetPlatformComponentStatus": queueStatus, "GetBackup": queueBackups,
}

// queueOf is where an operation waits.
func queueName(spec *openapi3.Operation, op *operation) string {
	switch queue, known := queuedOperations[spec.OperationID]; {
	case known:
		return queue
	case !op.crudOnly || op.write:
		return ""
	case strings.HasSuffix(spec.OperationID, "History"):
		return queueHistory
	}
	return queueReads
}

// contract is the contract: its operations by the router's path and method.
type operations map[string]map[string]*operation

var pathParameter = regexp.MustCompile(`\{([a-z_]+)\}`)

// description is the embedded contract, which nobody changes. Reading it takes 70 ms, and whoever starts on a seed needs it twice.
var spec = sync.OnceValues(apiserver.GetSpec)

// loadContract takes what requests are held against from the embedded contract. In mode read-only the schemas are let go of:
// only requests of the other mode are held against them.
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
			op := &operation{poll: slices.Contains(spec.Tags, "flux") && strings.Contains(path, ":cluster_dns")}
			if op.needs, err = minimumRole(security); err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			op.write = op.needs >= roleWrite && method != http.MethodGet
			op.crudOnly = !slices.Contains(spec.Tags, "service") && !slices.Contains(spec.Tags, "flux")
			op.queue = queueName(spec, op)
			if mode == ModeCRUD || !op.crudOnly && !op.public() && !op.poll {
				op.spec, op.route = spec, item
			}
			ops[path][method] = op
		}
	}
	return ops, nil
}

// schemeRoles are the roles behind the contract's security schemes.
var schemeRoles = map[string]role{"pollToken": rolePoll, "readToken": roleRead, "writeToken": roleWrite, "adminToken": roleAdmin}

// leastRole is the least role among alternatives; none when there are no alternatives.
func minimumRole(security openapi3.SecurityRequirements) (least role, err error) {
	for _, alternative := range security {
		for scheme := range alternative {
			r, ok := schemeRoles[scheme]
			if !ok {
				return 0, fmt.Errorf("the security scheme %q is none that this server knows", scheme)
			}
			if least == roleNone || r < least {
				least = r
			}
		}
	}
	return least, nil
}

// public tells whether no token is needed.
func (op *operation) public() bool { return op.needs == roleNone }

func (o operations) find(method, path string) *operation {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return o[path][method]
}

// other answers a request for which there is no operation. The router would too, but it names every method that a path
// has in the other mode.
func (o operations) handleUnknown(c echo.Context, mode string, next echo.HandlerFunc) error {
	switch _, described := o[c.Path()]; {
	case !described:
		return next(c) // the documentation, or a path that is not there
	case c.Request().Method == http.MethodOptions:
		c.Response().Header().Set(echo.HeaderAllow, o.allow(mode, c.Path()))
		return c.NoContent(http.StatusNoContent)
	}
	return echo.ErrMethodNotAllowed
}

// allow lists the methods of a path, for the Allow header.
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
