package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Plan implements the operation of that name.
func (s *Server) Plan(c echo.Context, p api.PlanParams) error {
	if _, err := s.state(c); err != nil {
		return err
	}
	req, err := decodeBody[api.BatchRequest](c)
	if err != nil {
		return err
	}
	res, results, err := s.runBatch(c, store.Meta{DryRun: true}, req.Operations, fleet.Guard{Off: true})
	if err != nil {
		return err
	}
	plan, err := res.Plan()
	if err != nil {
		return err
	}
	plan.Results = results
	warn(c, plan.Warnings)
	if req.PlanHash != "" && req.PlanHash != plan.PlanHash {
		return &fleet.Error{Code: fleet.CodeStale, Detail: "the effect is no longer the one that plan_hash names"}
	}
	job := requestOf(c).job
	answer, err := pack(plan, job.stopped)
	if err != nil {
		return err
	}
	leave := s.room.take(actor(c), answer.Len())
	if leave == nil {
		return job.queue.busy("too many answers to plans are under way: take those that you asked for, or try again later")
	}
	defer leave()
	c.Response().Header().Set(headerRevision, formatRevision(fleet.Revision(plan.BaseRevision)))
	return job.deliver(c, answer)
}

// ApplyBatch implements the operation of that name.
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

// RestoreRevision implements the operation of that name.
func (s *Server) RestoreRevision(c echo.Context, revision int64, p api.RestoreRevisionParams) error {
	op := api.Operation{Op: "restore", Revision: revision}
	if len(requestBody(c)) > 0 {
		req, err := decodeBody[api.RestoreRequest](c)
		if err != nil {
			return err
		}
		op.Kind, op.ID = req.Kind, req.ID
	}
	reason := value(p.XChangeReason)
	if reason == "" {
		reason = fmt.Sprintf("restored to revision %d", revision)
	}
	meta := changeMeta(c, reason, p.DryRun)
	return s.answerBatch(c, meta, []api.Operation{op}, value(p.PlanHash))
}

func (s *Server) answerBatch(c echo.Context, meta store.Meta, ops []api.Operation, planHash string) error {
	res, results, err := s.runBatch(c, meta, ops, fleet.Guard{PlanHash: planHash})
	if err != nil {
		return err
	}
	revision := res.State.Revision()
	if meta.DryRun && len(res.Commit.Changes) > 0 {
		revision--
	}
	c.Response().Header().Set(headerRevision, formatRevision(revision))
	s.metrics.stored.Add(float64(res.Stored))
	warn(c, res.Warnings)
	answer, err := pack(api.BatchResult{
		Revision: int64(revision), Changes: res.Changes(), Results: results, PlanHash: planHash, Warnings: append([]string{}, res.Warnings...),
	}, c.Request().Context().Err) // the change is made, however long that took
	if err != nil {
		return err
	}
	return requestOf(c).job.deliver(c, answer)
}

// runBatch runs operations in one transaction.
func (s *Server) runBatch(c echo.Context, meta store.Meta, ops []api.Operation, guard fleet.Guard) (fleet.Result, []api.OperationResult, error) {
	if err := fleet.Invalid(misshapen(c)); err != nil {
		return fleet.Result{}, nil, err
	}
	if _, given := c.Request().Header["If-Match"]; given {
		return fleet.Result{}, nil, fleet.Invalid([]fleet.Problem{{Detail: "header parameter If-Match: names the version of one document, and this changes any number of them; send the plan_hash of a plan"}})
	}
	shape := s.misshapenDocuments(ops)
	meta.DryRun = meta.DryRun || len(shape) > 0
	var batch *fleet.Batch
	var results []api.OperationResult
	res, err := s.transact(c, meta, func(tx *fleet.Tx) error {
		tx.Guard(guard)
		tx.StopWhen(requestOf(c).job.stopped)
		batch = fleet.NewBatch(tx, func(q fleet.PastQuery) (fleet.Documents, error) {
			return s.cfg.History.Past(c.Request().Context(), q)
		})
		var err error
		results, err = batch.Run(ops)
		if err != nil {
			results = nil // its problems are where they belong
		}
		return err
	})
	if err != nil && batch != nil && results != nil {
		err = batch.Locate(ops, err)
	}
	if len(shape) > 0 {
		err = both(shape, err)
	}
	return res, results, err
}

// misshapenDocuments holds the documents and patches of operations against the contract, as the requests that create,
// update and patch one of them would be. Of those that are misshapen it leaves what the rules can judge.
func (s *Server) misshapenDocuments(ops []api.Operation) []fleet.Problem {
	var problems []fleet.Problem
	for i, op := range ops {
		path, method, field, body := "/"+fleet.Kind(op.Kind).Collection(), "", "document", op.Document
		switch op.Op {
		case "create":
			method = http.MethodPost
		case "update":
			method, path = http.MethodPut, path+"/:id"
		case "patch":
			method, path, field, body = http.MethodPatch, path+"/:id", "patch", op.Patch
		}
		route := s.operations.find(method, path)
		if route == nil || body == nil {
			continue // Run says what is missing
		}
		at := fleet.Pointer("operations", strconv.Itoa(i), field)
		schema := route.bodySchema(echo.MIMEApplicationJSON)
		shape := checkSchema(schema, body)
		if len(shape) == 0 {
			continue
		}
		newID := ""
		if op.Op == "create" {
			newID = cmp.Or(op.ID, uuid.NewString())
		}
		body = wellShaped(schema, body, shape, newID)
		if op.Op == "patch" {
			ops[i].Patch = body
		} else {
			ops[i].Document = body
		}
		for _, p := range shape {
			p.Pointer = at + p.Pointer
			problems = append(problems, p)
		}
	}
	return problems
}

// decodeBody reads a body that validate has held against the contract.
func decodeBody[T any](c echo.Context) (T, error) {
	var v T
	if err := fleet.Invalid(misshapen(c)); err != nil {
		return v, err
	}
	if err := json.Unmarshal(requestBody(c), &v); err != nil {
		return v, fleet.Invalid([]fleet.Problem{{Detail: "the body is not what the contract describes"}})
	}
	return v, nil
}

// asOf answers with a document as it was.
func (s *Server) asOf(c echo.Context, kind fleet.Kind, id string, revision int64) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	rev := fleet.Revision(revision)
	if rev > st.Revision() {
		return &fleet.Error{Code: fleet.CodeNotFound, Detail: fmt.Sprintf("there is no revision %d yet", revision)}
	}
	rec, found, err := s.cfg.History.At(c.Request().Context(), kind, id, rev)
	if err != nil {
		return err
	}
	if !found {
		return &fleet.Error{Code: fleet.CodeNotFound, Detail: fmt.Sprintf("there was no %s %q at revision %d", kind, id, revision)}
	}
	doc, err := fleet.NewDocument(rec)
	if err != nil {
		return err
	}
	c.Response().Header().Set(headerETag, doc.ETag())
	return writeJSON(c, http.StatusOK, doc.View())
}

// history lists the revisions that changed one document.
func (s *Server) history(c echo.Context, kind fleet.Kind, id string, limit *int, cursor *string) error {
	k := string(kind)
	return s.ListRevisions(c, api.ListRevisionsParams{Kind: &k, ID: &id, Limit: limit, Cursor: cursor})
}
