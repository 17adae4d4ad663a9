package server

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
)

const (
	policyTrialTime    = 20 * time.Second // of a trial on revisions
	policyTrialChanges = 100_000          // documents that these revisions changed
)

// TestPolicy evaluates a policy that is not stored on a change or on revisions. It commits nothing.
func (s *Server) TestPolicy(c echo.Context, _ api.TestPolicyParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	if st.Limited() {
		return errNeedsUnlimitedRead
	}
	req, err := decodeBody[api.PolicyTestRequest](c)
	if err != nil {
		return err
	}
	if (len(req.Operations) > 0) == (req.Last > 0) {
		return fleet.Invalid([]fleet.Problem{{Detail: "exactly one of operations and last is required"}})
	}
	body, _ := requestOf(c).body.Value.(map[string]any)
	policy, _ := body["policy"].(map[string]any)
	trial, err := st.TryPolicy(policy, s.tracker.Filters())
	if err != nil {
		return policyProblems(err)
	}
	out := api.PolicyTest{Failures: []api.PolicyTestFailure{}}
	if req.Last > 0 {
		err = s.tryPolicyOnRevisions(requestOf(c).job.Context(), st, trial, req.Last, &out)
	} else {
		err = s.tryPolicyOnChange(c, trial, req.Operations, &out)
	}
	if err != nil {
		return err
	}
	return s.sendBuffered(c, out)
}

// policyProblems returns the error of a policy with pointers to it in the request.
func policyProblems(err error) error {
	refused, ok := errors.AsType[*fleet.Error](err)
	if !ok {
		return err
	}
	for i := range refused.Problems {
		refused.Problems[i].Pointer = "/policy" + refused.Problems[i].Pointer
	}
	return refused
}

// tryPolicyOnChange evaluates a policy on the change that operations would make.
func (s *Server) tryPolicyOnChange(c echo.Context, trial *fleet.PolicyTrial, ops []api.Operation, out *api.PolicyTest) error {
	res, _, _, err := s.runBatch(c, store.Meta{DryRun: true}, ops, fleet.Guard{Off: true})
	if err != nil {
		return err
	}
	if requestOf(c).limited != nil { // the rights have changed
		return errNeedsUnlimitedRead
	}
	response.AddWarnings(c, res.Warnings)
	result, err := trial.Change(res)
	if err == nil {
		addPolicyResult(out, result, fleet.Commit{})
	}
	return err
}

// tryPolicyOnRevisions evaluates a policy on the newest revisions of the log.
func (s *Server) tryPolicyOnRevisions(ctx context.Context, st *fleet.State, trial *fleet.PolicyTrial, last int, out *api.PolicyTest) error {
	found, err := s.cfg.History.Summaries(ctx, store.HistoryQuery{Before: st.Revision() + 1, Limit: last}, 0)
	if err != nil {
		return err
	}
	if wanted := min(last, int(st.Revision())); len(found) < wanted {
		out.Skipped, out.SkippedReason = wanted-len(found), fmt.Sprintf("the log begins at revision %d", st.Revision()+1-fleet.Revision(len(found)))
	}
	timed, cancel := context.WithTimeout(ctx, policyTrialTime)
	defer cancel()
	changed := 0
	for i, revision := range found {
		runtime.Gosched() // polls go first
		changed += revision.Count
		var result fleet.PolicyResult
		if changed <= policyTrialChanges {
			result, err = tryPolicyOn(timed, s.cfg.History, trial, revision.Commit)
		}
		_, onlyThis := errors.AsType[*fleet.Error](err)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case changed > policyTrialChanges || timed.Err() != nil:
			out.Skipped += len(found) - i
			out.SkippedReason = fmt.Sprintf("a test ends after %d changed documents or %s", policyTrialChanges, policyTrialTime)
			return nil
		case errors.Is(err, fleet.ErrNotRebuilt):
			out.Skipped, out.SkippedReason = out.Skipped+len(found)-i, err.Error()
			return nil
		case onlyThis:
			out.Skipped, out.SkippedReason, err = out.Skipped+1, fmt.Sprintf("revision %d: %s", revision.Revision, err), nil
		case err != nil:
			return err
		default:
			addPolicyResult(out, result, revision.Commit)
		}
	}
	return nil
}

// tryPolicyOn evaluates a policy on one revision.
func tryPolicyOn(ctx context.Context, log History, trial *fleet.PolicyTrial, commit fleet.Commit) (fleet.PolicyResult, error) {
	var err error
	if commit.Changes, err = (&logReader{ctx: ctx, log: log}).Changes(commit.Revision); err != nil {
		return fleet.PolicyResult{}, err
	}
	return trial.Revision(ctx, commit)
}

// addPolicyResult adds the result on a change. commit: the revision, if the change was made.
func addPolicyResult(out *api.PolicyTest, result fleet.PolicyResult, commit fleet.Commit) {
	out.Tested++
	if result.Exempt {
		out.Exempt++
	}
	if !result.Failed {
		return
	}
	failure := api.PolicyTestFailure{Message: result.Message, Clusters: result.Clusters, ClusterIds: result.ClusterIds}
	if commit.Revision > 0 {
		failure.Revision, failure.At, failure.Actor, failure.Author = int64(commit.Revision), &commit.At, commit.Actor, commit.Author
	}
	out.Failures = append(out.Failures, failure)
}
