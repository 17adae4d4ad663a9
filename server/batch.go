package server

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/openapi"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
)

func (s *Server) ApplyBatch(c echo.Context, p api.ApplyBatchParams) error {
	req, err := decodeBody[api.BatchRequest](c)
	if err != nil {
		return err
	}
	reason := req.Reason
	if reason == "" {
		reason = value(p.XChangeReason)
	}
	meta := changeMeta(c, reason, p.DryRun)
	return s.answerBatch(c, meta, req.Operations, req.PlanHash)
}

func (s *Server) answerBatch(c echo.Context, meta store.Meta, ops []api.Operation, planHash string) error {
	res, results, err := s.runBatch(c, meta, ops, guardOf(c, planHash))
	if err != nil {
		return err
	}
	revision := res.State.Revision()
	if meta.DryRun && len(res.Commit.Changes) > 0 {
		revision--
	}
	c.Response().Header().Set(response.HeaderRevision, response.FormatRevision(revision))
	s.metrics.stored.Add(float64(res.Stored))
	response.AddWarnings(c, res.Warnings)
	answer, err := response.Compress(api.BatchResult{
		Revision: int64(revision), Changes: res.Changes(), Results: results, PlanHash: planHash, Warnings: append([]string{}, res.Warnings...),
	}, c.Request().Context().Err) // the change is committed, so the answer is sent however long that took
	if err != nil {
		return err
	}
	return s.send(c, answer)
}

// runBatch runs operations in one transaction.
func (s *Server) runBatch(c echo.Context, meta store.Meta, ops []api.Operation, guard fleet.Guard) (fleet.Result, []api.OperationResult, error) {
	if _, given := c.Request().Header["If-Match"]; given {
		return fleet.Result{}, nil, fleet.Invalid([]fleet.Problem{{Detail: "header parameter If-Match: applies to one document, and a batch may change several; send the plan_hash of a plan"}})
	}
	bodies := operationBodies(requestOf(c).body, len(ops))
	if err := fleet.Invalid(s.misshapenDocuments(ops, bodies)); err != nil {
		return fleet.Result{}, nil, err
	}
	past := s.pastOf(c)
	var batch *fleet.Batch
	var results []api.OperationResult
	res, err := s.transact(c, meta, func(tx *fleet.Tx) error {
		past.limitTo(tx)
		tx.Guard(guard)
		tx.UseContext(requestOf(c).job.Context())
		batch = fleet.NewBatch(tx, past)
		var err error
		results, err = batch.RunParsed(ops, bodies)
		if err != nil {
			results = nil // the problems name their operations
		}
		return err
	})
	if err != nil && batch != nil && results != nil {
		err = batch.Locate(ops, err)
	}
	return res, results, err
}

// operationBodies returns the parsed documents and patches in a body with n operations; nil where an operation has none.
func operationBodies(body openapi.Body, n int) []map[string]any {
	bodies := make([]map[string]any, n)
	request, _ := body.Value.(map[string]any)
	ops, _ := request["operations"].([]any)
	for i, op := range ops {
		fields, _ := op.(map[string]any)
		field := "document"
		if fields["op"] == "patch" {
			field = "patch"
		}
		bodies[i], _ = fields[field].(map[string]any)
	}
	return bodies
}

// misshapenDocuments validates the documents and patches of operations, as the requests that create, update and patch one of
// them are validated.
func (s *Server) misshapenDocuments(ops []api.Operation, bodies []map[string]any) []fleet.Problem {
	var problems []fleet.Problem
	for i, op := range ops {
		path, method, field, given := "/"+fleet.Kind(op.Kind).Collection(), "", "document", op.Document
		if op.Kind == "resource" {
			path = "/resources/:type"
		}
		switch op.Op {
		case "create":
			method = http.MethodPost
		case "update":
			method, path = http.MethodPut, path+"/:id"
		case "patch":
			method, path, field, given = http.MethodPatch, path+"/:id", "patch", op.Patch
		}
		route := s.operations.Find(method, path)
		switch { // a kind that has only one of them takes the same fields in both operations
		case route == nil && method == http.MethodPut:
			route = s.operations.Find(http.MethodPatch, path)
		case route == nil && method == http.MethodPatch:
			route = s.operations.Find(http.MethodPut, path)
		}
		if route == nil || given == nil {
			continue // Run reports a missing document
		}
		at := fleet.Pointer("operations", strconv.Itoa(i), field)
		for _, p := range route.CheckValue(echo.MIMEApplicationJSON, bodies[i]) {
			p.Pointer = at + p.Pointer
			problems = append(problems, p)
		}
		problems = append(problems, s.webhookProblems(op, bodies[i], at)...)
	}
	return problems
}
