package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// rollout creates a rollout of ci with two stages of one cluster each, and a policy that requires approvals of every effect.
func (a *approvals) rollout(settings string) {
	a.t.Helper()
	a.p.must(http.MethodPatch, "/policies/second", `{"rule":"effect.count == 0","message":"'changes ' + string(effect.count)"}`)
	a.p.must(http.MethodPost, "/rollouts", `{"id":"r"`+settings+`,"operations":[{"op":"patch","kind":"platform_component","id":"podinfo","patch":{"component_version":"6.1.0"}}],
		"stages":[{"name":"one","cluster_ids":["c1"],"approval":true},{"name":"two","cluster_ids":["c2"],"approval":true}]}`, a.ci...)
}

func (a *approvals) approveStage(as []string, stage string) {
	a.t.Helper()
	a.p.must(http.MethodPost, "/rollouts/r/approve?stage="+stage, "", as...)
}

const startR = "/rollouts/r/start"

// TestApprovedStageSatisfiesPolicies: the approval of a stage is one for policies, once for each stage, also in advance. The plan shows it, and
// the history has who gave it.
func TestApprovedStageSatisfiesPolicies(t *testing.T) {
	t.Parallel()
	eachApprovals(t, func(t *testing.T, a *approvals) {
		t.Helper()
		a.rollout("")
		a.approveStage(a.ann, "two")
		a.approveStage(a.ann, "one")
		for i, stage := range []string{"one", "two"} {
			require.Contains(t, a.p.must(http.MethodGet, "/approvals", "", a.ann...), `"subject":"rollout:r:`+stage+`"`)
			var plan api.Plan
			require.NoError(t, json.Unmarshal([]byte(a.p.must(http.MethodPost, "/plan", `{"rollout":"r"}`, a.ci...)), &plan))
			require.True(t, strings.HasPrefix(plan.Policies[0].ApprovedBy, "token:ann ("), plan.Policies)
			a.p.must(http.MethodPost, startR+"?plan_hash="+plan.PlanHash, "", a.ci...)
			require.Contains(t, a.p.must(http.MethodGet, "/revisions/"+jsonInt(a.p.replica.State().Revision()), ""), `{"op":"approved","kind":"policy","id":"second","fields":["by=token:ann (`)
			require.Equal(t, 1-i, strings.Count(a.p.must(http.MethodGet, "/approvals", ""), "rollout:r:"))
		}
		a.p.must(http.MethodPost, "/rollouts/r/back", "", a.ci...)
		a.p.must(http.MethodPost, "/rollouts/r/resume", "", a.ci...)
		a.problem(http.StatusConflict, "conflict", a.ci, http.MethodPost, startR, "")
		a.approveStage(a.ann, "two")
		a.p.must(http.MethodPost, startR, "", a.ci...)
	})
}

// TestApprovedStageOfAutomaticRollout: the server starts approved stages, for the principal of the rollout. A refused start pauses the rollout.
func TestApprovedStageOfAutomaticRollout(t *testing.T) {
	t.Parallel()
	eachApprovals(t, func(t *testing.T, a *approvals) {
		t.Helper()
		a.rollout(`,"advance":"automatic","gate":{"confirmed":"0%","soak":"1m"},"start_at":"` + a.p.clock.Now().Add(time.Minute).Format(time.RFC3339) + `"`)
		rollout := func() (out api.Rollout) {
			require.NoError(t, json.Unmarshal([]byte(a.p.must(http.MethodGet, "/rollouts/r", "")), &out))
			return out
		}
		step := func() api.Rollout {
			a.p.clock.advance(10 * time.Minute)
			a.p.server.AdvanceRollouts(t.Context())
			return rollout()
		}
		require.Equal(t, "approval", step().Waiting.Reason)
		a.approveStage(a.ann, "one")
		require.Equal(t, 1, step().Started)
		a.approveStage(a.ann, "two")
		a.p.must(http.MethodPatch, "/policies/second", `{"description":"x"}`)
		paused := step()
		require.Equal(t, "paused", paused.State)
		require.Contains(t, paused.PausedBecause, `the approval does not count, since a policy was changed since; another person can approve the plan`)
		require.Contains(t, paused.PausedBecause, "for rollout-runner")
		a.approveStage(a.ann, "two")
		a.p.must(http.MethodPost, "/rollouts/r/resume", "", a.ci...)
		require.Equal(t, 2, step().Started)
	})
}

// TestApprovedStageAttacks: what does not admit the start of an approved stage, and what the refusal says.
func TestApprovedStageAttacks(t *testing.T) {
	t.Parallel()
	const byAuthor = "the approver makes the change, or is its author"
	for name, attack := range map[string]struct {
		do      func(a *approvals)
		as      func(a *approvals) []string // who starts the stage; nil: ci
		refusal string
	}{
		"by the author":       {func(a *approvals) { a.approveStage(a.ci, "one") }, func(*approvals) []string { return nil }, byAuthor},
		"by whoever starts":   {func(a *approvals) { a.approveStage(nil, "one") }, func(*approvals) []string { return nil }, byAuthor},
		"by the named author": {func(a *approvals) { a.approveStage(a.ann, "one") }, func(a *approvals) []string { return append(a.ci, "X-Change-Author", "ann") }, byAuthor},
		"policy edited": {func(a *approvals) {
			a.approveStage(a.ann, "one")
			a.p.must(http.MethodPatch, "/policies/second", `{"description":"x"}`)
		}, nil, "since a policy was changed since;"},
		"policy added": {func(a *approvals) {
			a.p.must(http.MethodPatch, "/policies/second", `{"suspended":true}`)
			a.approveStage(a.ann, "one")
			a.p.must(http.MethodPatch, "/policies/second", `{"suspended":false}`)
		}, nil, `a policy was changed since stage "one" was approved`},
		"of yesterday": {func(a *approvals) {
			a.approveStage(a.ann, "one")
			a.p.clock.advance(24 * time.Hour)
		}, nil, "it is older than 24 hours"},
		"taken back": {func(a *approvals) {
			a.approveStage(a.ann, "one")
			var given []api.Approval
			require.NoError(a.t, json.Unmarshal([]byte(a.p.must(http.MethodGet, "/approvals", "")), &given))
			a.p.must(http.MethodDelete, "/approvals/"+given[0].ID, "", a.ann...)
		}, nil, "it was taken back"},
		"by a revoked token": {func(a *approvals) {
			a.approveStage(a.ann, "one")
			a.p.must(http.MethodDelete, "/tokens/"+a.annToken, "")
		}, nil, "the approver may no longer read the fleet"},
		"another plan": {func(a *approvals) {
			a.approveStage(a.ann, "two")
			a.approveStage(a.ann, "one")
			a.p.must(http.MethodPost, "/rollouts/r/skip", "", a.ci...)
		}, nil, `the effect of stage "two" differs from the approved one`},
		"beside a policy that denies": {func(a *approvals) {
			a.p.must(http.MethodPost, "/policies", `{"id":"never","rule":"effect.count == 0","action":"deny"}`)
			a.approveStage(a.ann, "one")
		}, nil, `policy "never"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachApprovals(t, func(t *testing.T, a *approvals) {
				t.Helper()
				a.rollout("")
				attack.do(a)
				as := a.ci
				if attack.as != nil {
					as = attack.as(a)
				}
				require.Contains(t, a.needs(as, http.MethodPost, startR, "").Detail, attack.refusal)
				if name == "beside a policy that denies" {
					return
				}
				_, bob := a.token(`{"name":"bob","role":"write"}`) // another person approves it again
				a.approveStage(bob, map[bool]string{true: "two", false: "one"}[name == "another plan"])
				a.p.must(http.MethodPost, startR, "", as...)
			})
		})
	}
}

// TestApprovedStageOfOtherEffect: a stage whose clusters or inputs differ at its start waits for another approval.
func TestApprovedStageOfOtherEffect(t *testing.T) {
	t.Parallel()
	eachApprovals(t, func(t *testing.T, a *approvals) {
		t.Helper()
		a.rollout("")
		a.approveStage(a.ann, "one")
		a.p.must(http.MethodPatch, "/clusters/c1", `{"patches":{"podinfo":{"replicaCount":"2"}}}`, "X-Change-Reason", "x", "X-Fleet-Override-Policy", "second")
		require.Contains(t, a.problem(http.StatusConflict, "conflict", a.ci, http.MethodPost, startR, ""), "has ended")
		require.Contains(t, a.p.must(http.MethodGet, "/rollouts/r", ""), `"reason":"approval"`)
		a.approveStage(a.ann, "one")
		a.p.must(http.MethodPost, startR, "", a.ci...)
	})
}

// TestStageWithoutApprovalNamesPlan: the refusal of a stage without approval names the plan and the subject, and an approval of these admits it.
func TestStageWithoutApprovalNamesPlan(t *testing.T) {
	t.Parallel()
	eachApprovals(t, func(t *testing.T, a *approvals) {
		t.Helper()
		a.rollout("")
		a.p.must(http.MethodPost, "/rollouts/r/abort", "", a.ci...)
		a.p.must(http.MethodPost, "/rollouts", `{"id":"s","operations":[{"op":"patch","kind":"platform_component","id":"podinfo","patch":{"component_version":"6.1.0"}}],"stages":[{"name":"one","cluster_ids":["c1"]}]}`, a.ci...)
		needed := a.needs(a.ci, http.MethodPost, "/rollouts/s/start", "")
		require.Equal(t, "token:ci", needed.Subject)
		require.Contains(t, needed.Detail, fmt.Sprintf("another person can approve the plan %s for token:ci", needed.PlanHash))
		a.problem(http.StatusConflict, "conflict", a.ann, http.MethodPost, "/rollouts/s/approve", "")
		a.approve(a.ann, needed)
		a.p.must(http.MethodPost, "/rollouts/s/start", "", a.ci...)
	})
}

// TestApprovalOfStageIsLimited: who may approve only parts of the stage's effect cannot approve it for policies.
func TestApprovalOfStageIsLimited(t *testing.T) {
	t.Parallel()
	eachApprovals(t, func(t *testing.T, a *approvals) {
		t.Helper()
		a.rollout("")
		a.approveStage(a.ann, "one")
		a.p.must(http.MethodPatch, "/access/reviewers", `{"may":["read","approve"],"on":{"selector":"team=db"}}`)
		require.Contains(t, a.needs(a.ci, http.MethodPost, startR, "").Detail, "the rights of the approver do not cover the whole change")
		a.problem(http.StatusNotFound, "not_found", a.ann, http.MethodPost, "/rollouts/r/approve", "")
	})
}

// TestApprovedStageOfVersions: the server starts the approved stage of a rollout of versions.
func TestApprovedStageOfVersions(t *testing.T) {
	t.Parallel()
	eachApprovals(t, func(t *testing.T, a *approvals) {
		t.Helper()
		a.p.must(http.MethodPatch, "/policies/second", `{"rule":"effect.count == 0","message":"'changes ' + string(effect.count)"}`)
		a.p.must(http.MethodPost, "/strategies", `{"id":"approved","stages":[{"name":"one","cluster_ids":["c1"],"approval":true}]}`)
		a.p.must(http.MethodPatch, "/platform_components/podinfo", `{"version_policies":{"catalog":{"range":"~6","action":"rollout","strategy":"approved"}}}`)
		a.p.must(http.MethodPost, versionsPath, `{"version":"6.1.0"}`)
		move := func() (out api.Rollout) {
			a.p.clock.advance(10 * time.Minute)
			a.p.server.MoveVersions(t.Context())
			require.NoError(t, json.Unmarshal([]byte(a.p.must(http.MethodGet, "/rollouts/auto-podinfo", "")), &out))
			return out
		}
		require.Equal(t, "proposed", move().State)
		require.Equal(t, "proposed", move().State, "it waits for the approval")
		a.p.must(http.MethodPost, "/rollouts/auto-podinfo/approve", "", a.ann...)
		require.Equal(t, "running", move().State)
		require.Contains(t, a.p.must(http.MethodGet, "/revisions/"+jsonInt(a.p.replica.State().Revision()), ""), `{"op":"approved","kind":"policy","id":"second"`)
	})
}

// TestUnusedStageApprovals: an approval of a stage that no policy needed is removed with the next approval after the start of the stage.
func TestUnusedStageApprovals(t *testing.T) {
	t.Parallel()
	eachApprovals(t, func(t *testing.T, a *approvals) {
		t.Helper()
		a.rollout("")
		a.p.must(http.MethodPatch, "/policies/second", `{"rule":"effect.count < 9"}`)
		a.approveStage(a.ann, "one")
		a.approveStage(a.ann, "two")
		a.p.must(http.MethodPost, startR, "", a.ci...)
		stages := func() (of []string) {
			var list []api.Approval
			require.NoError(t, json.Unmarshal([]byte(a.p.must(http.MethodGet, "/approvals", "")), &list))
			for _, approval := range list {
				of = append(of, approval.Subject)
			}
			return of
		}
		require.ElementsMatch(t, []string{"rollout:r:one", "rollout:r:two"}, stages())
		other := `{"plan_hash":"` + strings.Repeat("0", 32) + `","subject":"token:ci"}`
		a.p.must(http.MethodPost, "/approvals", other, a.ann...)
		require.ElementsMatch(t, []string{"token:ci", "rollout:r:two"}, stages())
		a.p.must(http.MethodPost, "/rollouts/r/abort", "", a.ci...)
		a.p.must(http.MethodPost, "/approvals", other, a.ann...)
		require.Equal(t, []string{"token:ci"}, stages())
	})
}
