package server_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
)

const (
	canary    = `{"id":"canary","stages":[{"name":"one","cluster_ids":["c1"]}],"gate":{"confirmed":"0%","soak":"0s"}}`
	cluster2  = `cluster {"id":"c2","cluster_name":"c2","cluster_dns":"c2.example.com","environment":"dev","namespaces":[{"id":"shop"}],"platform_components":[{"id":"podinfo"}]}`
	fileLayer = `layer {"id":"base","priority":1,"all":true,"overrides":{"podinfo":{"component_version":"6.0.5"}}}`
)

func version(v string) string { return strings.Replace(fileComponent, "6.0.0", v, 1) }

// stagedSource creates the source platform with a strategy, whose first artifact is applied.
func (p *sourceProcess) stagedSource() {
	p.t.Helper()
	p.must(http.MethodPost, "/strategies", canary)
	p.registry.push("prod", "a", fileCluster, cluster2, fileComponent, fileNamespace)
	p.createSource("")
	p.ready()
	p.must(http.MethodPatch, "/sources/platform", `{"strategy":"canary","prune":true}`)
}

// served returns the versions of podinfo that the clusters c1 and c2 are served.
func (p *sourceProcess) served() string {
	p.t.Helper()
	var out []string
	for _, id := range []string{"c1", "c2"} {
		body := p.must(http.MethodGet, "/api/v2/flux/clusters/"+id+".example.com/platform-components", "")
		out = append(out, regexp.MustCompile(`6\.\d\.\d`).FindString(body))
	}
	return strings.Join(out, " ")
}

func (p *sourceProcess) step() string {
	p.t.Helper()
	p.server.AdvanceRollouts(p.t.Context())
	return p.served()
}

func (p *sourceProcess) rollout(id string) (out api.Rollout) {
	p.t.Helper()
	require.NoError(p.t, json.Unmarshal([]byte(p.must(http.MethodGet, "/rollouts/"+id, "")), &out))
	return out
}

// progressing makes a cycle of a source that begins a rollout.
func (p *sourceProcess) progressing() *api.SourceRollout {
	p.t.Helper()
	source := p.cycle()
	require.Equal(p.t, "progressing", source.Status.State, source.Status.Message)
	require.NotNil(p.t, source.Status.Rollout)
	require.Nil(p.t, source.Status.Held)
	return source.Status.Rollout
}

// TestSourceRollouts are the cases of sources with a strategy.
func TestSourceRollouts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, r *registry, p *sourceProcess){
		"a digest in stages, while a newer one waits": func(t *testing.T, r *registry, p *sourceProcess) {
			p.stagedSource()
			first := p.source().Status.Digest
			digest := r.push("prod", "b", fileCluster, cluster2, version("6.1.0"), fileNamespace, `namespace {"id":"new"}`)
			rollout := p.progressing()
			require.Equal(t, "platform-bbbbbbbbbbbb", rollout.ID)
			require.Equal(t, digest, rollout.Digest)
			require.Equal(t, first, p.source().Status.Digest)
			p.must(http.MethodGet, "/namespaces/new", "")
			p.refused(http.StatusConflict, "managed_by_source", func() (int, string) { return p.do(http.MethodDelete, "/namespaces/new", "") })
			view := p.rollout(rollout.ID)
			require.Equal(t, "source:platform", view.Principal)
			require.Equal(t, &api.RolloutSource{
				ID: "platform", Digest: digest, ArtifactRevision: "main@sha1:bbbb", ArtifactSource: "https://git.example.com/fleet",
				Files: []api.SourceDocument{{Kind: "platform_component", ID: "podinfo", File: "fleet/podinfo.yaml"}},
			}, view.Source)
			require.Equal(t, []string{"one", "rest"}, []string{view.Stages[0].Name, view.Stages[1].Name})

			newer := r.push("prod", "c", fileCluster, cluster2, version("6.2.0"), fileNamespace)
			require.Equal(t, newer, p.progressing().Waiting)
			require.Contains(t, p.source().Status.Message, newer)
			p.refused(http.StatusConflict, "conflict", func() (int, string) { return p.do(http.MethodPost, "/sources/platform/reconcile", "") })
			require.Equal(t, "6.1.0 6.0.0", p.step())
			require.Equal(t, "6.1.0 6.1.0", p.step())
			require.Equal(t, "progressing", p.source().Status.State)
			p.step()
			require.Equal(t, "completed", p.rollout(rollout.ID).State)
			source := p.source()
			require.Equal(t, "ready", source.Status.State, source.Status.Message)
			require.Equal(t, digest, source.Status.Digest)
			require.Equal(t, 5, source.Status.Documents)
			require.Empty(t, source.Status.Drifted, "a completion is no override")

			require.Equal(t, newer, p.progressing().Digest)
			require.NotContains(t, p.must(http.MethodGet, "/namespaces", ""), `"new"`, "deleted with the commit that begins the rollout")
		},
		"an aborted rollout": func(t *testing.T, r *registry, p *sourceProcess) {
			p.stagedSource()
			digest := r.push("prod", "b", fileCluster, cluster2, version("6.1.0"), fileNamespace)
			id := p.progressing().ID
			require.Equal(t, "6.1.0 6.0.0", p.step())
			p.must(http.MethodPost, "/rollouts/"+id+"/abort", "")
			require.Equal(t, "6.0.0 6.0.0", p.served())
			p.hold(`its rollout "` + id + `" was aborted`)
			approved := p.approve()
			require.Equal(t, "progressing", approved.Status.State, approved.Status.Message)
			p.step()
			p.step()
			require.Equal(t, "6.1.0 6.1.0", p.step())
			require.Equal(t, digest, p.ready().Status.Digest)
		},
		"the next digest after an aborted rollout": func(t *testing.T, r *registry, p *sourceProcess) {
			p.stagedSource()
			r.push("prod", "b", fileCluster, cluster2, version("6.1.0"), fileNamespace)
			p.must(http.MethodPost, "/rollouts/"+p.progressing().ID+"/abort", "")
			p.hold("was aborted")
			r.push("prod", "c", fileCluster, cluster2, version("6.2.0"), fileNamespace)
			require.Equal(t, "platform-cccccccccccc", p.progressing().ID)
		},
		"the tag moves back to an artifact whose rollout was aborted": func(t *testing.T, r *registry, p *sourceProcess) {
			p.stagedSource()
			bad := r.push("prod", "b", fileCluster, cluster2, version("6.1.0"), fileNamespace)
			p.must(http.MethodPost, "/rollouts/"+p.progressing().ID+"/abort", "")
			r.push("prod", "c", fileCluster, cluster2, version("6.2.0"), fileNamespace)
			p.progressing()
			for range 3 {
				p.step()
			}
			p.ready()
			r.tags["prod"] = bad
			p.hold("its rollout was begun")
			require.Equal(t, "6.2.0 6.2.0", p.step())
			require.Equal(t, "progressing", p.approve().Status.State)
		},
		"the tag moves back after two aborted rollouts": func(t *testing.T, r *registry, p *sourceProcess) {
			p.stagedSource()
			bad := r.push("prod", "b", fileCluster, cluster2, version("6.1.0"), fileNamespace)
			p.must(http.MethodPost, "/rollouts/"+p.progressing().ID+"/abort", "")
			r.push("prod", "c", fileCluster, cluster2, version("6.2.0"), fileNamespace)
			p.must(http.MethodPost, "/rollouts/"+p.progressing().ID+"/abort", "")
			r.tags["prod"] = bad
			p.hold("its rollout was begun")
		},
		"a reconcile after an aborted one": func(t *testing.T, r *registry, p *sourceProcess) {
			p.stagedSource()
			p.must(http.MethodPatch, "/platform_components/podinfo", `{"component_version":"6.0.9"}`, "X-Fleet-Override-Source", "platform", "X-Change-Reason", "INC-1")
			p.must(http.MethodPost, "/sources/platform/reconcile", "")
			p.must(http.MethodPost, "/rollouts/"+p.source().Status.Rollout.ID+"/abort", "")
			require.Equal(t, "6.0.9 6.0.9", p.step())
			require.Len(t, p.ready().Status.Drifted, 1, "only a person begins it again")
			p.must(http.MethodPost, "/sources/platform/reconcile", "")
			for range 3 {
				p.step()
			}
			require.Equal(t, "6.0.0 6.0.0", p.served())
			require.Empty(t, p.ready().Status.Drifted)
		},
		"a reconcile of what no rollout can change": func(t *testing.T, r *registry, p *sourceProcess) {
			p.stagedSource()
			p.must(http.MethodPatch, "/clusters/c1", `{"environment":"prod"}`, "X-Fleet-Override-Source", "platform", "X-Change-Reason", "INC-1")
			body := p.refused(http.StatusConflict, "conflict", func() (int, string) { return p.do(http.MethodPost, "/sources/platform/reconcile", "") })
			require.Contains(t, body, "without a strategy, the source makes the change at once")
			require.NotContains(t, body, "approval", "nothing is held")
		},
		"two sources adopt one document": func(t *testing.T, r *registry, p *sourceProcess) {
			p.stagedSource()
			p.must(http.MethodPost, "/layers", strings.TrimPrefix(fileLayer, "layer "))
			r.push("prod", "b", fileCluster, cluster2, fileComponent, fileNamespace, strings.Replace(fileLayer, "6.0.5", "6.0.6", 1))
			p.hold(`layer "base"`)
			require.Equal(t, "progressing", p.approve().Status.State)
			p.must(http.MethodPost, "/access", `{"id":"other","subjects":[{"source":"other"}],"may":["write"]}`)
			p.must(http.MethodPost, "/sources", `{"id":"other","url":"oci://registry.example.com/platform/other","tag":"other"}`)
			r.push("other", "d", fileLayer)
			p.cycle()
			require.Contains(t, p.must(http.MethodGet, "/sources/other", ""), `"code":"managed_by_source"`)
			for range 3 {
				p.step()
			}
			require.Equal(t, 5, p.ready().Status.Documents)
		},
		"a strategy that was deleted": func(t *testing.T, r *registry, p *sourceProcess) {
			p.stagedSource()
			p.must(http.MethodDelete, "/strategies/canary", "")
			r.push("prod", "b", fileCluster, cluster2, version("6.1.0"), fileNamespace)
			p.hold(`there is no strategy "canary"`)
			require.Equal(t, "6.0.0 6.0.0", p.served(), "nothing is made at once instead")
			p.must(http.MethodPatch, "/sources/platform", `{"suspended":true}`)
			p.must(http.MethodPatch, "/sources/platform", `{"suspended":false,"strategy":null}`)
			p.ready()
		},
		"a restore while the rollout is open": func(t *testing.T, r *registry, p *sourceProcess) {
			p.stagedSource()
			at := p.replica.State().Revision()
			r.push("prod", "b", fileCluster, cluster2, version("6.1.0"), fileNamespace, `namespace {"id":"new"}`)
			p.progressing()
			require.Equal(t, "6.1.0 6.0.0", p.step())
			p.must(http.MethodPost, "/revisions/"+jsonInt(at)+"/restore", "")
			require.Equal(t, "6.0.0 6.0.0", p.step())
			require.Equal(t, "suspended", p.cycle().Status.State)
			p.must(http.MethodPatch, "/sources/platform", `{"suspended":false}`)
			require.Equal(t, "held", p.cycle().Status.State)
			require.Equal(t, "6.0.0 6.0.0", p.step())
		},
		"a refusal that another process found before": func(t *testing.T, r *registry, p *sourceProcess) {
			p.stagedSource()
			digest := r.push("prod", "b", fileCluster, cluster2, version("6.1.0"), fileNamespace)
			p.progressing()
			_, err := p.replica.Update(t.Context(), store.Meta{Actor: fleet.SourceActor("platform")}, func(tx *fleet.Tx) error {
				changed, err := tx.HoldArtifact("platform", fleet.HeldArtifact{SourceArtifact: fleet.SourceArtifact{Digest: digest}, Code: fleet.CodeConfirm, PlanHash: "old"})
				require.False(t, changed)
				return err
			})
			require.NoError(t, err)
			p.progressing()
		},
		"a paused rollout": func(t *testing.T, r *registry, p *sourceProcess) {
			p.stagedSource()
			r.push("prod", "b", fileCluster, cluster2, version("6.1.0"), fileNamespace)
			id := p.progressing().ID
			p.step()
			p.must(http.MethodDelete, "/access/platform", "")
			require.Equal(t, "6.1.0 6.0.0", p.step(), "the source may not continue without its rights")
			source := p.cycle()
			require.Equal(t, "held", source.Status.State)
			require.Contains(t, source.Status.Message, `its rollout "`+id+`" is paused: no authorized principal`)
		},
		"rights of the source": func(t *testing.T, r *registry, p *sourceProcess) {
			p.stagedSource()
			p.must(http.MethodDelete, "/access/platform", "")
			p.must(http.MethodPost, "/access", `{"id":"platform","subjects":[{"source":"platform"}],"may":["write"],"on":{"components":["other"]}}`)
			r.push("prod", "b", fileCluster, cluster2, version("6.1.0"), fileNamespace)
			p.hold("podinfo")
			require.NotContains(t, p.must(http.MethodGet, "/rollouts", ""), "platform-")
		},
		"what no rollout can change": func(t *testing.T, r *registry, p *sourceProcess) {
			p.stagedSource()
			changed := strings.Replace(cluster2, `"environment":"dev"`, `"environment":"dev","labels":{"tier":"x"}`, 1)
			r.push("prod", "b", fileCluster, strings.Replace(changed, `"namespaces":[{"id":"shop"}],`, `"namespaces":[],`, 1), version("6.1.0"), fileNamespace, fileLayer)
			source := p.hold("strategy \"canary\" cannot deliver it in stages")
			require.Contains(t, source.Status.Message, "a rollout cannot change clusters")
			require.Contains(t, source.Status.Message, `layer "base": a rollout cannot create documents`)
			require.Equal(t, "confirmation_required", source.Status.Held.Code)
			require.Equal(t, "6.0.0 6.0.0", p.served())
			require.Equal(t, "ready", p.approve().Status.State, "an approval makes the change at once")
			require.Equal(t, "6.0.5 6.0.5", p.served())
		},
		"more documents than a rollout changes": func(t *testing.T, r *registry, p *sourceProcess) {
			p.must(http.MethodPost, "/strategies", canary)
			files := func(v string) (docs []string) {
				cluster := `cluster {"id":"c1","cluster_name":"c1","cluster_dns":"c1.example.com","environment":"dev","platform_components":[`
				for i := range 21 {
					id := "app" + jsonInt(fleet.Revision(i))
					docs = append(docs, strings.Replace(version(v), `"id":"podinfo"`, `"id":"`+id+`"`, 1))
					cluster += `{"id":"` + id + `"},`
				}
				return append(docs, strings.TrimSuffix(cluster, ",")+"]}")
			}
			r.push("prod", "a", files("6.0.0")...)
			p.createSource("")
			p.ready()
			p.must(http.MethodPatch, "/sources/platform", `{"strategy":"canary"}`)
			r.push("prod", "b", files("6.1.0")...)
			p.hold("the rollout changes 21 documents; at most 20 are possible")
			p.must(http.MethodPatch, "/sources/platform", `{"strategy":null}`)
			p.ready()
		},
		"adoption in stages": func(t *testing.T, r *registry, p *sourceProcess) {
			p.stagedSource()
			p.must(http.MethodPost, "/layers", strings.TrimPrefix(fileLayer, "layer "))
			digest := r.push("prod", "b", fileCluster, cluster2, fileComponent, fileNamespace, strings.Replace(fileLayer, "6.0.5", "6.0.6", 1))
			p.hold(`layer "base"`)
			approved := p.approve()
			require.Equal(t, "progressing", approved.Status.State, approved.Status.Message)
			require.Equal(t, "6.0.6 6.0.5", p.step())
			require.NotContains(t, p.must(http.MethodGet, "/sources/platform", ""), `"documents":5`)
			p.step()
			p.step()
			source := p.ready()
			require.Equal(t, digest, source.Status.Digest)
			require.Equal(t, 5, source.Status.Documents, "it manages the layer when the rollout is completed")
			p.refused(http.StatusConflict, "managed_by_source", func() (int, string) { return p.do(http.MethodDelete, "/layers/base", "") })
		},
		"a hotfix while the rollout is open": func(t *testing.T, r *registry, p *sourceProcess) {
			p.stagedSource()
			r.push("prod", "b", fileCluster, cluster2, version("6.1.0"), fileNamespace)
			p.progressing()
			p.must(http.MethodPatch, "/namespaces/shop", `{"labels":{"a":"b"}}`, "X-Fleet-Override-Source", "platform", "X-Change-Reason", "INC-1")
			for range 3 {
				p.step()
			}
			source := p.ready()
			require.Len(t, source.Status.Drifted, 1)
			require.Equal(t, "shop", source.Status.Drifted[0].ID)
			p.must(http.MethodPost, "/sources/platform/reconcile", "")
			for range 3 {
				p.step()
			}
			require.Empty(t, p.ready().Status.Drifted)
		},
		"a revert of the completed rollout": func(t *testing.T, r *registry, p *sourceProcess) {
			p.stagedSource()
			r.push("prod", "b", fileCluster, cluster2, version("6.1.0"), fileNamespace)
			p.progressing()
			for range 3 {
				p.step()
			}
			p.must(http.MethodPost, "/revisions/"+jsonInt(p.replica.State().Revision())+"/revert", "")
			require.Equal(t, "6.0.0 6.0.0", p.served())
			require.Equal(t, "suspended", p.source().Status.State)
		},
		"a strategy that does not exist": func(t *testing.T, r *registry, p *sourceProcess) {
			p.createSource("")
			status, body := p.do(http.MethodPatch, "/sources/platform", `{"strategy":"none"}`)
			require.Equal(t, http.StatusBadRequest, status)
			require.Contains(t, body, `there is no strategy \"none\"`)
		},
		"a deleted source": func(t *testing.T, r *registry, p *sourceProcess) {
			p.stagedSource()
			r.push("prod", "b", fileCluster, cluster2, version("6.1.0"), fileNamespace)
			id := p.progressing().ID
			p.must(http.MethodDelete, "/sources/platform", "")
			p.step()
			require.Equal(t, "paused", p.rollout(id).State)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, 1, func(t *testing.T, r *registry, all []*sourceProcess) { t.Helper(); test(t, r, all[0]) })
		})
	}
}

// TestSourceRolloutOfTwoProcesses: two processes that find an artifact at once begin one rollout, and either one may end it.
func TestSourceRolloutOfTwoProcesses(t *testing.T) {
	t.Parallel()
	eachStore(t, 2, func(t *testing.T, r *registry, all []*sourceProcess) {
		t.Helper()
		p, other := all[0], all[1]
		p.stagedSource()
		digest := r.push("prod", "b", fileCluster, cluster2, version("6.1.0"), fileNamespace)
		both := func(run func(*server.Server)) {
			t.Helper()
			for _, each := range all {
				require.NoError(t, each.replica.SyncTo(t.Context(), max(p.replica.State().Revision(), other.replica.State().Revision())))
			}
			var running sync.WaitGroup
			for _, each := range all {
				running.Go(func() { run(each.server) })
			}
			running.Wait()
		}
		before := p.replica.State().Revision()
		p.clock.advance(2 * time.Minute)
		both(func(s *server.Server) { s.FollowSources(t.Context()) })
		both(func(*server.Server) {})
		require.Equal(t, before+1, p.replica.State().Revision(), "one commit")
		for range 3 { // each process may start a stage
			both(func(s *server.Server) { s.AdvanceRollouts(t.Context()) })
			both(func(*server.Server) {})
		}
		require.Equal(t, []string{"6.1.0 6.1.0", "6.1.0 6.1.0"}, []string{p.served(), other.served()})
		require.Equal(t, "completed", p.rollout("platform-bbbbbbbbbbbb").State)
		require.Equal(t, before+4, p.replica.State().Revision(), "it begins, two stages start, and it completes")
		for _, each := range all {
			source := each.source()
			require.Equal(t, "ready", source.Status.State, source.Status.Message)
			require.Equal(t, digest, source.Status.Digest)
		}
	})
}

// TestSourceUnderPolicies: a policy that permits only small changes holds an artifact, and permits the same one in stages. A policy that another
// process has stored counts at once.
func TestSourceUnderPolicies(t *testing.T) {
	t.Parallel()
	eachStore(t, 2, func(t *testing.T, r *registry, all []*sourceProcess) {
		t.Helper()
		p, other := all[0], all[1]
		p.stagedSource()
		require.NoError(t, other.replica.SyncTo(t.Context(), p.replica.State().Revision()))
		p.must(http.MethodPost, "/policies", `{"id":"one-by-one","rule":"effect.clusters.size() <= 1","message":"'changes ' + string(effect.clusters.size())","action":"deny"}`)
		other.refused(http.StatusUnprocessableEntity, "policy", func() (int, string) {
			return other.do(http.MethodPatch, "/platform_components/podinfo", `{"component_version":"6.9.0"}`, "X-Fleet-Override-Source", "platform", "X-Change-Reason", "INC-1")
		})

		p.must(http.MethodPatch, "/sources/platform", `{"strategy":null}`)
		r.push("prod", "b", fileCluster, cluster2, version("6.1.0"), fileNamespace)
		require.Contains(t, p.hold(`policy "one-by-one": changes 2`).Status.Held.Code, "policy")
		require.Equal(t, "6.0.0 6.0.0", p.served())

		p.must(http.MethodPatch, "/sources/platform", `{"strategy":"canary"}`)
		id := p.progressing().ID
		require.Equal(t, "6.1.0 6.0.0", p.step())
		require.Equal(t, "6.1.0 6.1.0", p.step())
		p.step()
		require.Equal(t, "completed", p.rollout(id).State)
		require.Equal(t, "ready", p.source().Status.State)
	})
}
