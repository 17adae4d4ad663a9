package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

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
	meta.Urgent = !slices.ContainsFunc(req.Operations, func(op api.Operation) bool { return op.Kind != string(fleet.KindFreeze) })
	return s.answerBatch(c, meta, req.Operations, req.PlanHash, value(p.Return) == "documents")
}

func (s *Server) answerBatch(c echo.Context, meta store.Meta, ops []api.Operation, planHash string, documents bool) error {
	res, results, batch, err := s.runBatch(c, meta, ops, guardOf(c, planHash))
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
	if documents {
		if err := s.addDocuments(c, batch, ops, res.State, results); err != nil {
			return err
		}
	}
	answer, err := response.Compress(api.BatchResult{
		Revision: int64(revision), Changes: res.Changes(), Results: results, PlanHash: planHash, Warnings: append([]string{}, res.Warnings...),
	}, c.Request().Context().Err) // the change is committed, so the answer is sent however long that took
	if err != nil {
		return err
	}
	return s.send(c, answer)
}

// addDocuments adds the documents of operations on one document to their results.
func (s *Server) addDocuments(c echo.Context, batch *fleet.Batch, ops []api.Operation, after *fleet.State, results []api.OperationResult) error {
	before := batch.Base()
	if limited := requestOf(c).limited; limited != nil {
		before = s.visible.get(limited.base, limited.rights)
	}
	for i := range results {
		doc := batch.Document(i)
		if doc == nil {
			continue
		}
		if now, err := after.Find(doc.Kind, doc.ID); err == nil {
			doc = now
		}
		var err error
		if results[i].Document, err = json.Marshal(s.viewOf(after, doc)); err != nil {
			return err
		}
		if strings.HasSuffix(ops[i].Op, "_values") && doc.Kind == fleet.KindCluster {
			if results[i].Patches, err = json.Marshal(doc.OwnedPatches(ops[i].ComponentID)); err != nil {
				return err
			}
		}
		if was, err := before.Find(doc.Kind, doc.ID); err == nil && doc.Kind == fleet.KindCluster {
			if results[i].Before, err = json.Marshal(was.View()); err != nil {
				return err
			}
		}
	}
	return nil
}

// runBatch runs operations in one transaction.
func (s *Server) runBatch(c echo.Context, meta store.Meta, ops []api.Operation, guard fleet.Guard) (fleet.Result, []api.OperationResult, *fleet.Batch, error) {
	if _, given := c.Request().Header["If-Match"]; given {
		return fleet.Result{}, nil, nil, fleet.Invalid([]fleet.Problem{{Detail: "header parameter If-Match: applies to one document, and a batch may change several; send the plan_hash of a plan"}})
	}
	bodies := operationBodies(requestOf(c).body, len(ops))
	if err := fleet.Invalid(s.misshapenDocuments(ops, bodies)); err != nil {
		return fleet.Result{}, nil, nil, err
	}
	past := s.pastOf(c)
	var batch *fleet.Batch
	var results []api.OperationResult
	res, err := s.transact(c, meta, func(tx *fleet.Tx) error {
		past.limitTo(tx)
		tx.Guard(guard)
		tx.UseContext(requestOf(c).job.Context())
		batch = fleet.NewBatch(tx, past)
		batch.CheckNew = func(op api.Operation, body map[string]any) []fleet.Problem {
			return s.misshapenDocument(op, http.MethodPost, body)
		}
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
	return res, results, batch, err
}

// operationBodies returns the parsed documents and patches in a body with n operations; nil where an operation has none.
func operationBodies(body openapi.Body, n int) []map[string]any {
	bodies := make([]map[string]any, n)
	request, _ := body.Value.(map[string]any)
	ops, _ := request["operations"].([]any)
	for i, op := range ops {
		fields, _ := op.(map[string]any)
		field := "document"
		if fields["op"] == "patch" || fields["op"] == "put" && fields["document"] == nil {
			field = "patch"
		}
		bodies[i], _ = fields[field].(map[string]any)
	}
	return bodies
}

// misshapenDocuments validates the documents and patches of operations, as the requests that create, update and patch one of
// them are validated. A put may be either, so it is validated as a change.
func (s *Server) misshapenDocuments(ops []api.Operation, bodies []map[string]any) []fleet.Problem {
	var problems []fleet.Problem
	for i, op := range ops {
		method, field, given := "", "document", op.Document
		switch {
		case op.Op == "create":
			method = http.MethodPost
		case op.Op == "patch", op.Op == "put" && op.Document == nil:
			method, field, given = http.MethodPatch, "patch", op.Patch
		case op.Op == "update", op.Op == "put":
			method = http.MethodPut
		}
		if method == "" || given == nil {
			continue // Run reports a missing document
		}
		at := fleet.Pointer("operations", strconv.Itoa(i), field)
		for _, p := range s.misshapenDocument(op, method, bodies[i]) {
			p.Pointer = at + p.Pointer
			problems = append(problems, p)
		}
		problems = append(problems, s.webhookProblems(op, bodies[i], at)...)
	}
	return problems
}

// misshapenDocument validates a document as the request of a method is validated.
func (s *Server) misshapenDocument(op api.Operation, method string, body map[string]any) []fleet.Problem {
	path := "/" + fleet.Kind(op.Kind).Collection()
	if op.Kind == "resource" {
		path = "/resources/:type"
	}
	if method != http.MethodPost {
		path += "/:id"
	}
	route := s.operations.Find(method, path)
	switch { // a kind that has only one of them takes the same fields in both operations
	case route == nil && method == http.MethodPut:
		route = s.operations.Find(http.MethodPatch, path)
	case route == nil && method == http.MethodPatch:
		route = s.operations.Find(http.MethodPut, path)
	}
	if route == nil {
		return nil
	}
	return route.CheckValue(echo.MIMEApplicationJSON, body)
}
