package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// approvals is a fleet whose changes of components need the approval of a second person. ci makes them, ann approves.
type approvals struct {
	t        *testing.T
	p, other *sourceProcess
	ci, ann  []string // headers
	annToken string   // id
}

const (
	secondPerson = `{"id":"second","rule":"!change.documents.exists(d, d.kind == 'platform_component')","message":"'changes a component'","action":"approve"}`
	reviewers    = `{"id":"reviewers","subjects":[{"token":"ann"}],"may":["read","approve"]}`
)

func eachApprovals(t *testing.T, test func(t *testing.T, a *approvals)) {
	t.Helper()
	eachStore(t, 2, func(t *testing.T, _ *registry, all []*sourceProcess) {
		t.Helper()
		a := &approvals{t: t, p: all[0], other: all[1]}
		a.p.must(http.MethodPost, "/platform_components", `{"id":"podinfo","component_path":"podinfo","oci_url":"https://charts.example.com","component_version":"6.0.0"}`)
		for id, labels := range map[string]string{"c1": `{"team":"web"}`, "c2": `{"team":"db"}`} {
			a.p.must(http.MethodPost, "/clusters", fmt.Sprintf(`{"id":%q,"cluster_dns":"%s.example.com","environment":"prod","labels":%s,"platform_components":[{"id":"podinfo"}]}`, id, id, labels))
		}
		_, a.ci = a.token(`{"name":"ci","role":"write"}`)
		a.annToken, a.ann = a.token(`{"name":"ann","role":"scoped"}`)
		a.p.must(http.MethodPost, "/access", reviewers)
		a.p.must(http.MethodPost, "/policies", secondPerson)
		test(t, a)
	})
}

func (a *approvals) token(body string) (id string, headers []string) {
	a.t.Helper()
	var made struct{ ID, Token string }
	require.NoError(a.t, json.Unmarshal([]byte(a.p.must(http.MethodPost, "/tokens", body)), &made))
	return made.ID, bearer(made.Token)
}

// bump returns a change of podinfo to a version.
func bumpTo(version string) (method, path, body string) {
	return http.MethodPatch, "/platform_components/podinfo", `{"component_version":"` + version + `"}`
}

// needs makes a change that is refused, and returns the needed approval.
func (a *approvals) needs(as []string, method, path, body string) api.Problem {
	a.t.Helper()
	status, answer := a.p.do(method, path, body, as...)
	require.Equal(a.t, http.StatusUnprocessableEntity, status, answer)
	var problem api.Problem
	require.NoError(a.t, json.Unmarshal([]byte(answer), &problem))
	require.Equal(a.t, "policy", problem.Error)
	return problem
}

// approve approves a refused change.
func (a *approvals) approve(as []string, of api.Problem) api.Approval {
	a.t.Helper()
	require.NotEmpty(a.t, of.PlanHash, of.Detail)
	var out api.Approval
	require.NoError(a.t, json.Unmarshal([]byte(a.p.must(http.MethodPost, "/approvals", fmt.Sprintf(`{"plan_hash":%q,"subject":%q,"reason":"CHG-1"}`, of.PlanHash, of.Subject), as...)), &out))
	return out
}

func (a *approvals) problem(status int, code string, as []string, method, path, body string) string {
	a.t.Helper()
	return a.p.refused(status, code, func() (int, string) { return a.p.do(method, path, body, as...) })
}

// TestApproval: a refused change names the approval that it needs, the approval admits it once, and the history has who gave it.
func TestApproval(t *testing.T) {
	t.Parallel()
	eachApprovals(t, func(t *testing.T, a *approvals) {
		t.Helper()
		method, path, body := bumpTo("6.1.0")
		needed := a.needs(a.ci, method, path, body)
		require.Equal(t, "token:ci", needed.Subject)
		require.Contains(t, needed.Detail, `policy "second": changes a component; another person can approve the plan `+needed.PlanHash+" for token:ci")
		plan := `{"operations":[{"op":"patch","kind":"platform_component","id":"podinfo","patch":{"component_version":"6.1.0"}}]}`
		var planned api.Plan
		a.p.must(http.MethodPost, "/access", `{"id":"planners","subjects":[{"token":"ann"}],"may":["plan"]}`)
		for _, as := range [][]string{a.ci, a.ann} {
			a.p.clock.advance(time.Minute)
			require.NoError(t, json.Unmarshal([]byte(a.p.must(http.MethodPost, "/plan", plan, as...)), &planned))
			require.Equal(t, needed.PlanHash, planned.PlanHash, "a plan of everybody has the hash, at any time")
		}
		given := a.approve(a.ann, needed)
		require.Equal(t, []string{"token:ci", "CHG-1"}, []string{given.Subject, given.Reason})
		require.True(t, strings.HasPrefix(given.By, "token:ann ("), given.By)
		require.Equal(t, 24*time.Hour, given.ExpiresAt.Sub(given.At))
		require.NoError(t, json.Unmarshal([]byte(a.p.must(http.MethodPost, "/plan", plan, a.ci...)), &planned))
		require.Equal(t, given.By, planned.Policies[0].ApprovedBy)
		require.Equal(t, given.ExpiresAt, *planned.Policies[0].ApprovedUntil)
		require.Contains(t, planned.Warnings, "approved by "+given.By+`: policy "second": changes a component`)
		require.Contains(t, a.p.must(http.MethodGet, "/approvals", ""), given.ID)

		a.p.must(method, path, body+" ", append(a.ci, "X-Change-Reason", "CHG-1")...)
		require.Equal(t, "[]", strings.TrimSpace(a.p.must(http.MethodGet, "/approvals", "")))
		detail := a.p.must(http.MethodGet, "/revisions/"+jsonInt(a.p.replica.State().Revision()), "")
		require.Contains(t, detail, `{"op":"approved","kind":"policy","id":"second","fields":["by=`+given.By+`"]}`)
		require.NotContains(t, detail, `"identity"`)

		a.p.must(bumpTo("6.1.0")) // nothing changes
		method, path, body = bumpTo("6.0.0")
		back := a.needs(a.ci, method, path, body)
		a.approve(a.ann, back)
		a.p.must(method, path, body, a.ci...)
		again := a.needs(a.ci, http.MethodPatch, path, `{"component_version":"6.1.0"}`)
		require.Equal(t, needed.PlanHash, again.PlanHash, "the same effect")
	})
}

// TestApprovalAttacks: what does not admit a change.
func TestApprovalAttacks(t *testing.T) {
	t.Parallel()
	for name, attack := range map[string]func(a *approvals, needed api.Problem){
		"by nobody": func(*approvals, api.Problem) {},
		"of another effect": func(a *approvals, _ api.Problem) {
			a.approve(a.ann, a.needs(a.ci, http.MethodPatch, "/platform_components/podinfo", `{"component_version":"6.1.1"}`))
		},
		"for another person": func(a *approvals, needed api.Problem) {
			needed.Subject = "token:eve"
			a.approve(a.ann, needed)
		},
		"by the person itself, with another token of the name": func(a *approvals, needed api.Problem) {
			a.problem(http.StatusConflict, "second_person", a.ci, http.MethodPost, "/approvals", fmt.Sprintf(`{"plan_hash":%q,"subject":"token:ci"}`, needed.PlanHash))
			require.Contains(a.t, a.p.must(http.MethodGet, "/tokens", ""), `"ci"`)
		},
		"by the person of another subject": func(a *approvals, needed api.Problem) {
			needed.Subject = "token:ci (1)"
			a.approve(a.ann, needed)
		},
		"by a revoked token": func(a *approvals, needed api.Problem) {
			a.approve(a.ann, needed)
			a.p.must(http.MethodDelete, "/tokens/"+a.annToken, "")
		},
		"by a revoked token, and another one of its name": func(a *approvals, needed api.Problem) {
			a.approve(a.ann, needed)
			a.p.must(http.MethodDelete, "/tokens/"+a.annToken, "")
			a.token(`{"name":"ann","role":"scoped"}`)
		},
		"without the access document": func(a *approvals, needed api.Problem) {
			a.approve(a.ann, needed)
			a.p.must(http.MethodDelete, "/access/reviewers", "")
		},
		"with another access document": func(a *approvals, needed api.Problem) {
			a.approve(a.ann, needed)
			a.p.must(http.MethodPost, "/access", strings.Replace(reviewers, `"id":"reviewers"`, `"id":"others"`, 1))
			a.p.must(http.MethodDelete, "/access/reviewers", "")
		},
		"with a narrower access document": func(a *approvals, needed api.Problem) {
			a.approve(a.ann, needed)
			a.p.must(http.MethodPatch, "/access/reviewers", `{"on":{"selector":"team=web","kinds":["cluster","platform_component"]}}`)
		},
		"by a reader of one cluster": func(a *approvals, needed api.Problem) {
			a.p.must(http.MethodPatch, "/access/reviewers", `{"may":["approve"]}`)
			a.p.must(http.MethodPost, "/access", `{"id":"web","subjects":[{"token":"ann"}],"may":["read"],"on":{"selector":"team=web","kinds":["cluster"]}}`)
			a.approve(a.ann, needed)
		},
		"by an approver of one cluster": func(a *approvals, needed api.Problem) {
			a.p.must(http.MethodPatch, "/access/reviewers", `{"may":["approve"],"on":{"selector":"team=web","kinds":["cluster","platform_component"]}}`)
			a.p.must(http.MethodPost, "/access", `{"id":"all","subjects":[{"token":"ann"}],"may":["read"]}`)
			a.approve(a.ann, needed)
		},
		"by an approver of other documents": func(a *approvals, needed api.Problem) {
			a.p.must(http.MethodPatch, "/access/reviewers", `{"may":["approve"],"on":{"kinds":["namespace"]}}`)
			a.p.must(http.MethodPost, "/access", `{"id":"all","subjects":[{"token":"ann"}],"may":["read"]}`)
			a.approve(a.ann, needed)
		},
		"of yesterday": func(a *approvals, needed api.Problem) {
			a.approve(a.ann, needed)
			a.p.clock.advance(24 * time.Hour)
		},
		"before a change of the policy": func(a *approvals, needed api.Problem) {
			a.approve(a.ann, needed)
			a.p.must(http.MethodPatch, "/policies/second", `{"description":"x"}`)
		},
		"before another policy": func(a *approvals, needed api.Problem) {
			a.approve(a.ann, needed)
			a.p.must(http.MethodPost, "/policies", `{"id":"new","rule":"true","action":"warn"}`)
		},
		"beside a policy that denies": func(a *approvals, needed api.Problem) {
			a.p.must(http.MethodPost, "/policies", `{"id":"never","rule":"false","action":"deny"}`)
			a.p.must(http.MethodPost, "/approvals", fmt.Sprintf(`{"plan_hash":%q,"subject":"token:ci"}`, needed.PlanHash), append(a.ann, "X-Fleet-Override-Policy", "never")...)
		},
		"deleted": func(a *approvals, needed api.Problem) {
			a.p.must(http.MethodDelete, "/approvals/"+a.approve(a.ann, needed).ID, "", a.ci...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachApprovals(t, func(_ *testing.T, a *approvals) {
				method, path, body := bumpTo("6.1.0")
				attack(a, a.needs(a.ci, method, path, body))
				a.needs(a.ci, method, path, body)
			})
		})
	}
}

// TestApprovalByAuthor: the author, on whose behalf a change is made, cannot approve it.
func TestApprovalByAuthor(t *testing.T) {
	t.Parallel()
	eachApprovals(t, func(t *testing.T, a *approvals) {
		t.Helper()
		method, path, body := bumpTo("6.1.0")
		needed := a.needs(a.ci, method, path, body)
		given := a.approve(a.ann, needed)
		for _, author := range []string{"ann", "Ann", "token:ann", given.By, "Ann <ann>", " ann "} {
			refused := a.needs(append(a.ci, "X-Change-Author", author), method, path, body)
			require.Contains(t, refused.Detail, "the approval does not count, since the approver makes the change, or is its author", author)
		}
		a.p.must(method, path, body, append(a.ci, "X-Change-Author", "joanna")...)
	})
}

// TestApprovalOfOtherCommitter: only the subject uses the approval; and one of a batch that takes clusters out of a match is another.
func TestApprovalOfOtherCommitter(t *testing.T) {
	t.Parallel()
	eachApprovals(t, func(t *testing.T, a *approvals) {
		t.Helper()
		_, eve := a.token(`{"name":"eve","role":"write"}`)
		method, path, body := bumpTo("6.1.0")
		a.approve(a.ann, a.needs(a.ci, method, path, body))
		require.Equal(t, "token:eve", a.needs(eve, method, path, body).Subject)
		require.Equal(t, "static-write", a.needs(nil, method, path, body).Subject)
		a.needs(a.ci, http.MethodPost, "/batch", `{"operations":[{"op":"patch","kind":"platform_component","id":"podinfo","patch":{"component_version":"6.1.0"}},{"op":"set_labels","cluster_ids":["c1"],"labels":{"team":"db"}}]}`)
		a.p.must(http.MethodPost, "/batch", `{"operations":[{"op":"patch","kind":"platform_component","id":"podinfo","patch":{"component_version":"6.1.0"}}]}`, a.ci...)
	})
}

// TestApprovalIsUsedOnce: of two processes that make the approved change at once, one does.
func TestApprovalIsUsedOnce(t *testing.T) {
	t.Parallel()
	eachApprovals(t, func(t *testing.T, a *approvals) {
		t.Helper()
		method, path, body := bumpTo("6.1.0")
		for round, version := range []string{"6.1.0", "6.2.0", "6.3.0"} {
			method, path, body = bumpTo(version)
			a.approve(a.ann, a.needs(a.ci, method, path, body))
			require.NoError(t, a.other.replica.SyncTo(t.Context(), a.p.replica.State().Revision()))
			before := a.p.replica.State().Revision()
			var running sync.WaitGroup
			// A change that another process has made already has no effect; a copy under another id has one.
			for i, p := range []*sourceProcess{a.p, a.other, a.p, a.other} {
				running.Go(func() { _, _ = p.do(method, path, body, append(a.ci, "X-Request-ID", fmt.Sprint(round, i))...) })
			}
			running.Wait()
			require.NoError(t, a.p.replica.SyncTo(t.Context(), before+1))
			require.NoError(t, a.other.replica.SyncTo(t.Context(), before+1))
			require.Equal(t, before+1, a.other.replica.State().Revision())
			require.Contains(t, a.other.must(http.MethodGet, path, ""), version)
		}
		// The same effect after an undo needs another approval.
		a.p.must(http.MethodPatch, path, `{"component_version":"6.0.0"}`, "X-Change-Reason", "INC-1", "X-Fleet-Override-Policy", "second")
		a.needs(a.ci, method, path, body)
	})
}

// TestApprovalIsNoOtherPermission: rights and freezes refuse as without it.
func TestApprovalIsNoOtherPermission(t *testing.T) {
	t.Parallel()
	eachApprovals(t, func(t *testing.T, a *approvals) {
		t.Helper()
		method, path, body := bumpTo("6.1.0")
		a.approve(a.ann, a.needs(a.ci, method, path, body))
		a.p.must(http.MethodPost, "/freezes", `{"id":"f","all":true,"reason":"x"}`)
		a.problem(http.StatusConflict, "frozen", a.ci, method, path, body)
		a.p.must(http.MethodDelete, "/freezes/f", "")
		a.problem(http.StatusForbidden, "forbidden", a.ann, method, path, body)
		a.p.must(method, path, body, a.ci...)
	})
}

// TestApprovalRoutes: who may approve, list and delete.
func TestApprovalRoutes(t *testing.T) {
	t.Parallel()
	eachApprovals(t, func(t *testing.T, a *approvals) {
		t.Helper()
		method, path, body := bumpTo("6.1.0")
		needed := a.needs(a.ci, method, path, body)
		_, reader := a.token(`{"name":"reader","role":"read"}`)
		_, eve := a.token(`{"name":"eve","role":"scoped"}`)
		a.p.must(http.MethodPost, "/access", `{"id":"eve","subjects":[{"token":"eve"}],"may":["read","write"],"on":{"selector":"team=web","kinds":["cluster"]}}`)
		create := fmt.Sprintf(`{"plan_hash":%q,"subject":"token:ci"}`, needed.PlanHash)
		for _, as := range [][]string{reader, eve} {
			a.problem(http.StatusForbidden, "forbidden", as, http.MethodPost, "/approvals", create)
		}
		for _, wrong := range []string{`{}`, `{"plan_hash":"x","subject":"token:ci"}`, fmt.Sprintf(`{"plan_hash":%q,"subject":""}`, needed.PlanHash), strings.Replace(create, "{", `{"at":"2030-01-01T00:00:00Z",`, 1), strings.Replace(create, "token:ci", "ci", 1), strings.Replace(create, "token:ci", "oidc:corp", 1)} {
			a.problem(http.StatusBadRequest, "validation_error", a.ann, http.MethodPost, "/approvals", wrong)
		}
		for _, op := range []string{`{"op":"create","kind":"approval","document":{"id":"x"}}`, `{"op":"put","kind":"approval","id":"x","document":{}}`} {
			a.problem(http.StatusBadRequest, "validation_error", nil, http.MethodPost, "/batch", `{"operations":[`+op+`]}`)
		}
		before := a.p.replica.State().Revision()
		a.p.must(http.MethodPost, "/approvals?dry_run=true", create, a.ann...)
		require.Equal(t, before, a.p.replica.State().Revision())
		given := a.approve(a.ann, needed)
		for _, as := range [][]string{reader, a.ann, a.ci} {
			require.Contains(t, a.p.must(http.MethodGet, "/approvals", "", as...), given.ID)
		}
		require.Equal(t, "[]", strings.TrimSpace(a.p.must(http.MethodGet, "/approvals", "", eve...)))
		for _, secret := range []string{given.PlanHash, "token:ann", "CHG-1"} {
			require.NotContains(t, a.p.must(http.MethodGet, "/revisions", "", eve...), secret)
		}
		a.problem(http.StatusNotFound, "not_found", eve, http.MethodDelete, "/approvals/"+given.ID, "")
		a.problem(http.StatusForbidden, "forbidden", reader, http.MethodDelete, "/approvals/"+given.ID, "")
		_, other := a.token(`{"name":"other","role":"write"}`)
		a.problem(http.StatusNotFound, "not_found", other, http.MethodDelete, "/approvals/"+given.ID, "")
		a.p.must(http.MethodDelete, "/approvals/"+given.ID, "", a.ann...)
		a.problem(http.StatusNotFound, "not_found", a.ann, http.MethodDelete, "/approvals/"+given.ID, "")
		a.problem(http.StatusBadRequest, "validation_error", nil, http.MethodPost, "/revisions/"+jsonInt(a.p.replica.State().Revision())+"/revert", "")

		a.p.must(http.MethodPost, "/approvals", strings.Replace(create, "token:ci", "token:eve", 1))
		require.Contains(t, a.p.must(http.MethodGet, "/approvals", "", eve...), "token:eve")
		a.p.must(http.MethodDelete, "/approvals/"+a.approve(nil, needed).ID, "")
	})
}

// TestSourceApproval: the approval of a held artifact is one of a second person for its policies, with the same rules. A policy that denies
// still refuses.
func TestSourceApproval(t *testing.T) {
	t.Parallel()
	eachStore(t, 2, func(t *testing.T, r *registry, all []*sourceProcess) {
		t.Helper()
		p := all[0]
		r.push("prod", "a", fileCluster, fileComponent, fileNamespace)
		p.createSource("")
		p.ready()
		p.must(http.MethodPost, "/policies", secondPerson)
		r.push("prod", "b", fileCluster, version("6.1.0"), fileNamespace)
		held := p.hold(`policy "second": changes a component`).Status.Held
		require.Equal(t, "policy", held.Code)
		require.Contains(t, held.Message, "answers to 1 clusters change")
		p.refused(http.StatusPreconditionFailed, "stale", func() (int, string) {
			return p.do(http.MethodPost, "/sources/platform/approve", `{"plan_hash":"0"}`)
		})
		p.must(http.MethodPost, "/sources/platform/approve", `{"plan_hash":"`+held.PlanHash+`"}`)
		p.must(http.MethodPatch, "/policies/second", `{"description":"changed since"}`)
		require.Contains(t, p.hold("changed since").Status.Held.Message, `the approval does not count, since a policy was changed since`)
		require.Equal(t, "ready", p.approve().Status.State)
		require.Equal(t, "[]", strings.TrimSpace(p.must(http.MethodGet, "/approvals", "")))
		require.Contains(t, p.must(http.MethodGet, "/revisions/"+jsonInt(p.replica.State().Revision()), ""), `{"op":"approved","kind":"policy","id":"second","fields":["by=static-write"]}`)

		p.must(http.MethodPost, "/namespaces", `{"id":"foreign"}`)
		r.push("prod", "c", fileCluster, version("6.2.0"), fileNamespace, `namespace {"id":"foreign","labels":{"a":"b"}}`)
		require.Equal(t, "policy", p.hold(`and policy "second" needs an approval: changes a component`).Status.Held.Code)
		require.Equal(t, "ready", p.approve().Status.State, "one approval for both reasons")

		p.must(http.MethodPost, "/policies", `{"id":"never","rule":"change.source == ''","action":"deny"}`)
		r.push("prod", "d", fileCluster, version("6.3.0"), fileNamespace)
		held = p.hold(`policy "never"`).Status.Held
		require.Empty(t, held.PlanHash)
		p.refused(http.StatusConflict, "conflict", func() (int, string) {
			return p.do(http.MethodPost, "/sources/platform/approve", `{"plan_hash":"0"}`)
		})
	})
}

// TestEnforcedRules: the check of rights lists the rules that may refuse a change, as far as the subject may read them.
func TestEnforcedRules(t *testing.T) {
	t.Parallel()
	eachApprovals(t, func(t *testing.T, a *approvals) {
		t.Helper()
		a.p.must(http.MethodPost, "/freezes", `{"id":"f","selector":"team=db","reason":"CHG-9"}`)
		a.p.must(http.MethodPatch, "/policies/second", `{"description":"Components."}`)
		_, web := a.token(`{"name":"web","role":"scoped"}`)
		a.p.must(http.MethodPost, "/access", `{"id":"web","subjects":[{"token":"web"}],"may":["read"],"on":{"selector":"team=web"}}`)
		rules := func(as ...string) (ids []string) {
			var out api.AccessCheck
			require.NoError(t, json.Unmarshal([]byte(a.p.must(http.MethodPost, "/access/check", `{"right":"read"}`, as...)), &out))
			for _, r := range out.Rules {
				ids = append(ids, r.Kind+"/"+r.ID+" "+r.Action+": "+r.Description)
			}
			return ids
		}
		builtIn := []string{"built-in/removal-budget confirm: Removals of more than 50 installed things within an hour.", "built-in/protected-environments confirm: Removals from protected environments (prod) that a request with X-Fleet-Removes-From does not name."}
		all := append(slices.Clone(builtIn), "freeze/f deny: CHG-9", "policy/second approve: Components.")
		require.Equal(t, all, rules())
		require.Equal(t, all, rules(a.ann...))
		require.Equal(t, builtIn, rules(web...), "neither the freeze of another team nor policies")
		a.p.must(http.MethodPatch, "/policies/second", `{"suspended":true}`)
		a.p.must(http.MethodDelete, "/freezes/f", "")
		require.Equal(t, builtIn, rules())
	})
}

// TestRevocationUnderPolicy: a token is revoked although a policy refuses everything, in every process.
func TestRevocationUnderPolicy(t *testing.T) {
	t.Parallel()
	eachApprovals(t, func(t *testing.T, a *approvals) {
		t.Helper()
		a.p.must(http.MethodPost, "/policies", `{"id":"never","rule":"false","action":"deny"}`)
		a.problem(http.StatusUnprocessableEntity, "policy", nil, http.MethodPost, "/tokens", `{"name":"new","role":"read"}`)
		a.p.must(http.MethodGet, "/whoami", "", a.ann...)
		a.p.must(http.MethodDelete, "/tokens/"+a.annToken, "")
		require.NoError(t, a.other.replica.SyncTo(t.Context(), a.p.replica.State().Revision()))
		for _, p := range []*sourceProcess{a.p, a.other} {
			status, _ := p.do(http.MethodGet, "/whoami", "", a.ann...)
			require.Equal(t, http.StatusUnauthorized, status)
		}
	})
}
