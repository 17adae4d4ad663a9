package server_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// plan returns the plan of the held artifact of the source platform.
func (p *sourceProcess) plan() (out api.Plan) {
	p.t.Helper()
	require.NoError(p.t, json.Unmarshal([]byte(p.must(http.MethodGet, "/sources/platform/plan", "")), &out))
	return out
}

func (p *sourceProcess) refusedPlan(reason string) {
	p.t.Helper()
	body := p.refused(http.StatusConflict, "conflict", func() (int, string) { return p.do(http.MethodGet, "/sources/platform/plan", "") })
	require.Contains(p.t, body, reason)
}

// TestSourcePlan: the plan of a held artifact is what its approval makes.
func TestSourcePlan(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, r *registry, p *sourceProcess){
		"adoption": func(t *testing.T, r *registry, p *sourceProcess) {
			p.must(http.MethodPost, "/namespaces", `{"id":"shop"}`)
			p.must(http.MethodPost, "/namespaces", `{"id":"other"}`)
			r.push("prod", "a", fileNamespace, fileComponent, fileCluster)
			p.createSource("")
			held := p.hold("adopt").Status.Held
			plan := p.plan()
			require.Equal(t, held.PlanHash, plan.PlanHash)
			require.Equal(t, []api.SourceDocument{{Kind: "namespace", ID: "shop", File: "fleet/shop.yaml"}}, plan.Adopted)
			require.Equal(t, int64(p.replica.State().Revision()), plan.BaseRevision)
			require.Equal(t, 1, plan.Totals.Clusters)
			require.Equal(t, "c1", plan.Groups[0].Clusters[0])
			require.ElementsMatch(t, []api.ChangeRef{{Kind: "platform_component", ID: "podinfo", Action: "create"}, {Kind: "cluster", ID: "c1", Action: "create"}}, plan.Changes)
			require.Empty(t, plan.Warnings)
			require.Equal(t, "ready", p.approve().Status.State)
			p.refusedPlan(`no artifact of source \"platform\" is held`)
		},
		"removals": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileNamespace, fileComponent, fileCluster)
			p.createSource(`,"prune":true`)
			p.ready()
			r.push("prod", "b", fileComponent)
			held := p.hold("only 1 of the 3 documents").Status.Held
			plan := p.plan()
			require.Equal(t, held.PlanHash, plan.PlanHash)
			require.Positive(t, plan.Totals.Removals)
			require.Contains(t, plan.Changes, api.ChangeRef{Kind: "cluster", ID: "c1", Action: "delete"})
			require.Empty(t, plan.Adopted)
		},
		"a freeze": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileNamespace, fileComponent, fileCluster)
			p.createSource("")
			p.ready()
			p.must(http.MethodPost, "/freezes", `{"id":"all","all":true,"reason":"outage"}`)
			r.push("prod", "b", fileNamespace, strings.Replace(fileComponent, "6.0.0", "6.1.0", 1), fileCluster)
			p.hold("outage")
			plan := p.plan()
			require.Equal(t, []api.ChangeRef{{Kind: "platform_component", ID: "podinfo", Action: "update"}}, plan.Changes)
			require.NotEmpty(t, plan.Frozen)
		},
		"another effect since then": func(t *testing.T, r *registry, p *sourceProcess) {
			p.must(http.MethodPost, "/namespaces", `{"id":"shop"}`)
			r.push("prod", "a", `namespace {"id":"shop","labels":{"a":"b"}}`)
			p.createSource("")
			held := p.hold("adopt").Status.Held
			p.must(http.MethodPatch, "/namespaces/shop", `{"labels":{"a":"c"}}`)
			plan := p.plan()
			require.NotEqual(t, held.PlanHash, plan.PlanHash)
			require.Contains(t, strings.Join(plan.Warnings, "\n"), "the fleet has changed since the artifact was held")
			require.Equal(t, "held", p.cycle().Status.State)
			again := p.plan()
			require.Empty(t, again.Warnings)
			require.Equal(t, plan.PlanHash, again.PlanHash)
		},
		"no approval admits it": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", strings.Replace(fileCluster, "podinfo", "unknown", 1))
			p.createSource("")
			p.hold("unknown")
			p.refusedPlan("no approval admits the held artifact")
			p.must(http.MethodPost, "/platform_components", `{"id":"unknown","component_path":"podinfo","oci_url":"https://charts.example.com"}`)
			p.must(http.MethodPost, "/namespaces", `{"id":"shop"}`)
			require.NotEmpty(t, p.plan().Changes, "the reason is gone, before the next check")
		},
		"a registry that does not answer, and one without the artifact": func(t *testing.T, r *registry, p *sourceProcess) {
			p.must(http.MethodPost, "/namespaces", `{"id":"shop"}`)
			digest := r.push("prod", "a", fileNamespace)
			p.createSource("")
			p.hold("adopt")
			p.must(http.MethodPatch, "/sources/platform", `{"interval":"24h"}`) // what was kept may be of other keys
			r.readErr = errors.New("registry.example.com: connection refused")
			p.refusedPlan("the held artifact cannot be read: registry.example.com: connection refused")
			r.readErr = nil
			delete(r.artifacts, digest)
			p.refusedPlan("there is no such artifact")
			require.Equal(t, "held", p.source().Status.State, "it is not the result of a check")
		},
		"an artifact that the last check kept": func(t *testing.T, r *registry, p *sourceProcess) {
			p.must(http.MethodPost, "/namespaces", `{"id":"shop"}`)
			r.push("prod", "a", fileNamespace)
			p.createSource("")
			p.hold("adopt")
			r.readErr = errors.New("registry.example.com: connection refused")
			read := r.read
			for range 3 {
				require.NotEmpty(t, p.plan().Adopted)
			}
			require.Equal(t, read, r.read, "it is not downloaded again")
		},
		"who may see it": func(t *testing.T, r *registry, p *sourceProcess) {
			p.must(http.MethodPost, "/namespaces", `{"id":"shop"}`)
			r.push("prod", "a", fileNamespace)
			p.createSource("")
			p.hold("adopt")
			status, _ := p.do(http.MethodGet, "/sources/other/plan", "")
			require.Equal(t, http.StatusNotFound, status)
			p.must(http.MethodPost, "/access", `{"id":"planner","subjects":[{"token":"planner"}],"may":["read","plan","write"]}`)
			for name, role := range map[string]string{"planner": "scoped", "writer": "write", "reader": "read"} {
				var token struct {
					Token string `json:"token"`
				}
				require.NoError(t, json.Unmarshal([]byte(p.must(http.MethodPost, "/tokens", `{"name":"`+name+`","role":"`+role+`"}`)), &token))
				status, body := p.do(http.MethodGet, "/sources/platform/plan", "", "Authorization", "Bearer "+token.Token)
				require.Equal(t, http.StatusForbidden, status, body)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, 1, func(t *testing.T, r *registry, all []*sourceProcess) { t.Helper(); test(t, r, all[0]) })
		})
	}
}
