package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/versions"
)

// registry has the artifacts that sources follow.
type registry struct {
	mu        sync.Mutex
	tags      map[string]string // digests
	artifacts map[string][]fleet.FileDocument
	err       error
	readErr   error
	resolved  int
	read      int
	reading   func()      // runs once in the middle of a download
	hanging   chan string // receives the sources whose requests for a digest never end: those with the tag hanging
}

func (r *registry) Resolve(ctx context.Context, source *fleet.Source) (string, error) {
	if source.Tag == "hanging" {
		r.hanging <- source.ID
		<-ctx.Done()
		return "", ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resolved++
	return r.tags[source.Tag], r.err
}

func (r *registry) Read(_ context.Context, source *fleet.Source, digest string) (fleet.FollowedArtifact, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read++
	if reading := r.reading; reading != nil {
		r.reading = nil
		reading()
	}
	if r.readErr != nil {
		return fleet.FollowedArtifact{}, r.readErr
	}
	docs, ok := r.artifacts[digest]
	if !ok {
		return fleet.FollowedArtifact{}, errors.New("there is no such artifact")
	}
	return fleet.FollowedArtifact{SourceArtifact: fleet.SourceArtifact{Digest: digest, Tag: source.Tag, Revision: "main@sha1:" + digest[7:11], Origin: "https://git.example.com/fleet"}, Documents: docs}, nil
}

// push puts documents, each as KIND JSON, under a tag, and returns their digest.
func (r *registry) push(tag, name string, docs ...string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	digest := "sha256:" + strings.Repeat(name, 64)[:64]
	var found []fleet.FileDocument
	for _, text := range docs {
		kind, body, _ := strings.Cut(text, " ")
		var d struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal([]byte(body), &d); err != nil {
			panic(err)
		}
		found = append(found, fleet.FileDocument{Kind: fleet.Kind(kind), ID: d.ID, File: "fleet/" + d.ID + ".yaml", Fields: json.RawMessage(body)})
	}
	r.artifacts[digest], r.tags[tag] = found, digest
	return digest
}

// sourceProcess is one of several processes on a database.
type sourceProcess struct {
	t        *testing.T
	registry *registry
	replica  *store.Replica
	server   *server.Server
	http     *httptest.Server
	clock    *clock
	history  store.Store
	audit    *auditTrail
}

// eachStore runs a test with several processes on each kind of store, and a registry of its own.
func eachStore(t *testing.T, processes int, test func(t *testing.T, r *registry, all []*sourceProcess)) {
	t.Helper()
	eachStoreWith(t, processes, nil, func(t *testing.T, all []*sourceProcess) {
		t.Helper()
		test(t, all[0].registry, all)
	})
}

// eachStoreWith runs a test with several processes on each kind of store; without a reader, with a registry of its own.
func eachStoreWith(t *testing.T, processes int, reader server.ArtifactReader, test func(t *testing.T, all []*sourceProcess)) {
	t.Helper()
	eachDatabase(t, func(t *testing.T, start func() (store.Store, clusterstatus.Store)) {
		t.Helper()
		r, now := &registry{tags: map[string]string{}, artifacts: map[string][]fleet.FileDocument{}}, &clock{now: time.Now()}
		artifacts := reader
		if artifacts == nil {
			artifacts = r
		}
		var all []*sourceProcess
		for range processes {
			st, table := start()
			p := &sourceProcess{t: t, registry: r, clock: now, history: st}
			p.replica = store.NewReplica(store.Config{Store: st, Rules: rules, Now: now.Now})
			require.NoError(t, p.replica.Load(t.Context()))
			tracker := clusterstatus.NewTracker(clusterstatus.Config{Store: table})
			var err error
			p.audit = newAuditTrail(t)
			p.server, err = server.New(server.Config{
				AuditLog: p.audit.log,
				Mode:     server.ModeCRUD, Replica: p.replica, History: st, ClusterStatus: tracker, ArtifactReader: artifacts, Now: now.Now,
				Tokens: server.Tokens{Read: readToken, Write: writeToken},
			})
			require.NoError(t, err)
			tracker.Sync(t.Context(), now.Now())
			p.http = httptest.NewServer(p.server)
			t.Cleanup(func() { p.http.Close(); _ = table.Close(); _ = st.Close() })
			all = append(all, p)
		}
		test(t, all)
	})
}

// do sends a request with the write token, and returns the status and the body.
func (p *sourceProcess) do(method, path, body string, headers ...string) (status int, answer string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.http.URL+path, strings.NewReader(body))
	require.NoError(p.t, err)
	req.Header.Set("Authorization", "Bearer "+writeToken)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := p.http.Client().Do(req)
	require.NoError(p.t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(p.t, err)
	require.NoError(p.t, res.Body.Close())
	return res.StatusCode, string(text)
}

func (p *sourceProcess) must(method, path, body string, headers ...string) string {
	p.t.Helper()
	status, answer := p.do(method, path, body, headers...)
	require.Less(p.t, status, 300, answer)
	return answer
}

// source returns the source platform.
func (p *sourceProcess) source() (out api.Source) {
	p.t.Helper()
	require.NoError(p.t, json.Unmarshal([]byte(p.must(http.MethodGet, "/sources/platform", "")), &out))
	return out
}

// cycle lets the interval of all sources pass, and makes their cycles.
func (p *sourceProcess) cycle() api.Source {
	p.t.Helper()
	p.clock.advance(2 * time.Minute)
	p.server.FollowSources(p.t.Context())
	return p.source()
}

// createSource creates the source platform with all rights on the fleet.
func (p *sourceProcess) createSource(fields string) {
	p.t.Helper()
	p.must(http.MethodPost, "/access", `{"id":"platform","subjects":[{"source":"platform"}],"may":["write"]}`)
	p.must(http.MethodPost, "/sources", `{"id":"platform","url":"oci://registry.example.com/platform/fleet","tag":"prod"`+fields+`}`)
}

const (
	fileNamespace = `namespace {"id":"shop"}`
	fileComponent = `platform_component {"id":"podinfo","component_path":"podinfo","oci_url":"https://charts.example.com","component_version":"6.0.0"}`
	fileCluster   = `cluster {"id":"c1","cluster_name":"c1","cluster_dns":"c1.example.com","environment":"dev","namespaces":[{"id":"shop"}],"platform_components":[{"id":"podinfo"}]}`
)

// TestSourceApplies: an artifact becomes one commit, by one of two processes, and a digest that is applied costs one request.
func TestSourceApplies(t *testing.T) {
	t.Parallel()
	eachStore(t, 2, func(t *testing.T, r *registry, all []*sourceProcess) {
		t.Helper()
		digest := r.push("prod", "a", fileCluster, fileComponent, fileNamespace)
		p := all[0]
		p.createSource("")
		before := p.replica.State().Revision()
		require.NoError(t, all[1].replica.SyncTo(t.Context(), before))
		var running sync.WaitGroup
		for _, each := range all {
			running.Go(func() { each.server.FollowSources(t.Context()) })
		}
		running.Wait()
		for _, each := range all {
			require.NoError(t, each.replica.SyncTo(t.Context(), before+1))
			require.Equal(t, before+1, each.replica.State().Revision())
			source := each.source()
			require.Equal(t, "ready", source.Status.State, source.Status.Message)
			require.Equal(t, digest, source.Status.Digest)
			require.Equal(t, 3, source.Status.Documents)
		}
		found, err := p.history.Summaries(t.Context(), store.HistoryQuery{Limit: 1}, 10)
		require.NoError(t, err)
		require.Equal(t, "source:platform", found[0].Actor)
		var audited []map[string]any
		for _, each := range all {
			for _, e := range each.audit.events() {
				if at(e, "actor", "credential") == "internal" {
					audited = append(audited, e)
				}
			}
		}
		require.Len(t, audited, 1)
		require.Equal(t, []any{"fleet.audit.change", "source:platform", float64(before + 1), 3.0}, []any{audited[0]["type"], at(audited[0], "actor", "name"), audited[0]["revision"], audited[0]["objects"]})
		detail := p.must(http.MethodGet, "/revisions/"+strings.TrimSpace(jsonInt(before+1)), "")
		for _, fact := range []string{"digest=" + digest, "revision=main@sha1:aaaa", "source=https://git.example.com/fleet"} {
			require.Contains(t, detail, fact)
		}
		require.Contains(t, p.must(http.MethodGet, "/clusters/c1", ""), `"podinfo"`)

		reads, resolved := r.read, r.resolved
		p.cycle()
		require.Equal(t, []int{reads, resolved + 1}, []int{r.read, r.resolved})
		require.Equal(t, before+1, p.replica.State().Revision())
	})
}

func jsonInt(rev fleet.Revision) string { text, _ := json.Marshal(int64(rev)); return string(text) }

// hold makes a cycle of a source whose artifact is held, with a text in its message, and checks that the fleet stays as it is.
func (p *sourceProcess) hold(message string) api.Source {
	p.t.Helper()
	before := p.replica.State()
	source := p.cycle()
	require.Equal(p.t, "held", source.Status.State, source.Status.Message)
	require.Contains(p.t, source.Status.Message, message)
	require.NotNil(p.t, source.Status.Held)
	after := p.replica.State()
	for _, kind := range append(fleet.Kinds(), fleet.KindAccess, fleet.KindFreeze, fleet.KindSource, fleet.KindSourceDocuments) {
		require.Equal(p.t, bodies(before, kind), bodies(after, kind))
	}
	held := after.Revision()
	require.Equal(p.t, "held", p.cycle().Status.State)
	require.Equal(p.t, held, p.replica.State().Revision(), "the same refusal is recorded once")
	return source
}

func bodies(st *fleet.State, kind fleet.Kind) map[string]string {
	out := map[string]string{}
	for _, d := range st.All(kind) {
		out[d.ID] = string(d.Body)
	}
	return out
}

// approve approves what is held and makes the next cycle.
func (p *sourceProcess) approve() api.Source {
	p.t.Helper()
	held := p.source().Status.Held
	require.NotNil(p.t, held)
	require.NotEmpty(p.t, held.PlanHash, held.Message)
	require.Contains(p.t, p.must(http.MethodPost, "/sources/platform/approve", `{"plan_hash":"`+held.PlanHash+`"}`), `"approved":true`)
	return p.cycle()
}

func (p *sourceProcess) ready() api.Source {
	p.t.Helper()
	source := p.cycle()
	require.Equal(p.t, "ready", source.Status.State, source.Status.Message)
	return source
}

func (p *sourceProcess) refused(status int, code string, answer func() (int, string)) string {
	p.t.Helper()
	got, body := answer()
	require.Equal(p.t, status, got, body)
	require.Contains(p.t, body, `"error":"`+code+`"`)
	return body
}

// TestSourceOfHangingRegistry: sources whose registry does not answer delay no other source.
func TestSourceOfHangingRegistry(t *testing.T) {
	t.Parallel()
	eachStore(t, 1, func(t *testing.T, r *registry, all []*sourceProcess) {
		t.Helper()
		p := all[0]
		r.hanging = make(chan string)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		for _, id := range []string{"a", "b", "c"} {
			p.must(http.MethodPost, "/sources", `{"id":"`+id+`","url":"oci://registry.example.com/slow","tag":"hanging"}`)
			running.Go(func() { p.server.FollowSources(ctx) })
			<-r.hanging
		}
		r.push("prod", "a", fileNamespace)
		p.createSource("")
		p.server.FollowSources(t.Context()) // the others run still
		require.Equal(t, "ready", p.source().Status.State)
	})
}

// TestReconcileOfGoneClient: a request whose client is gone does not wait for a cycle that runs.
func TestReconcileOfGoneClient(t *testing.T) {
	t.Parallel()
	eachStore(t, 1, func(t *testing.T, r *registry, all []*sourceProcess) {
		t.Helper()
		p := all[0]
		r.hanging = make(chan string)
		ctx, stop := context.WithCancel(t.Context())
		var cycle, requests sync.WaitGroup
		defer cycle.Wait()
		defer stop()
		p.must(http.MethodPost, "/sources", `{"id":"slow","url":"oci://registry.example.com/slow","tag":"hanging"}`)
		cycle.Go(func() { p.server.FollowSources(ctx) })
		<-r.hanging
		client, gone := context.WithCancel(t.Context())
		for range 8 {
			requests.Go(func() {
				req := httptest.NewRequestWithContext(client, http.MethodPost, "/sources/slow/reconcile", http.NoBody)
				req.Header.Set("Authorization", "Bearer "+writeToken)
				p.server.ServeHTTP(httptest.NewRecorder(), req)
			})
		}
		p.must(http.MethodGet, "/sources/slow", "")
		gone()
		requests.Wait() // while the cycle runs
	})
}

// TestSourceFailures are the failure cases of a source.
func TestSourceFailures(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, r *registry, p *sourceProcess){
		"the tag moves back": func(t *testing.T, r *registry, p *sourceProcess) {
			old := r.push("prod", "a", fileNamespace)
			p.createSource("")
			p.ready()
			r.push("prod", "b", fileNamespace, fileComponent)
			p.ready()
			r.tags["prod"] = old
			p.hold("the artifact was applied before")
			require.Equal(t, old, p.approve().Status.Digest)
		},
		"a registry of which one of two processes fails": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileNamespace)
			p.createSource("")
			p.ready()
			at := p.replica.State().Revision()
			p.clock.advance(2 * time.Minute)
			for i := range 20 { // seconds
				if r.err = nil; i%2 == 0 {
					r.err = errors.New("registry.example.com: connection refused")
				}
				p.server.FollowSources(t.Context())
			}
			require.Equal(t, at+1, p.replica.State().Revision(), "a failure causes no check before the next interval")
		},
		"the registry is down for a day": func(t *testing.T, r *registry, p *sourceProcess) {
			digest := r.push("prod", "a", fileNamespace)
			p.createSource("")
			p.ready()
			r.err = errors.New("registry.example.com: connection refused")
			at := p.replica.State().Revision()
			for range 24 {
				p.clock.advance(time.Hour)
				source := p.cycle()
				require.Equal(t, "failed", source.Status.State)
				require.Contains(t, source.Status.Message, "connection refused")
				require.Equal(t, digest, source.Status.Digest)
			}
			require.Equal(t, at+1, p.replica.State().Revision(), "the failure is recorded once")
			require.Equal(t, "unreadable", p.replica.State().SourceState("platform").Failed.Reason)
			for _, class := range []versions.Class{versions.Unreachable, versions.Limited, versions.Unverified, versions.Unverified} {
				r.err = &versions.Error{Class: class, Message: "no"}
				p.cycle()
			}
			require.Equal(t, at+3, p.replica.State().Revision(), "a wait after a failure is no other reason")
			r.err = nil
			p.ready()
			require.Nil(t, p.replica.State().SourceState("platform").Failed)
		},
		"an artifact that is held is read once": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileNamespace, `platform_component {"id":"x","nonsense":1}`)
			p.createSource("")
			p.hold("/nonsense")
			for i := range 3 {
				p.must(http.MethodPost, "/namespaces", `{"id":"other-`+jsonInt(fleet.Revision(i))+`"}`)
				p.cycle()
			}
			require.Equal(t, 1, r.read)
			p.must(http.MethodPatch, "/sources/platform", `{"path":"other"}`)
			p.hold("/nonsense")
			require.Equal(t, 2, r.read, "other files")
			r.push("prod", "b", fileNamespace, `platform_component {"id":"x","component_path":"x","oci_url":"https://charts.example.com","values":{"a":"`+strings.Repeat("x", 5<<20)+`"}}`)
			p.hold("x")
			p.must(http.MethodPost, "/namespaces", `{"id":"last"}`)
			p.cycle()
			require.Equal(t, 4, r.read, "a large one does not stay in memory")
		},
		"a hold by the removals of the last hour": func(t *testing.T, r *registry, p *sourceProcess) {
			files := func(components string) []string {
				docs := []string{fileComponent, strings.Replace(fileComponent, `"id":"podinfo"`, `"id":"other"`, 1)}
				for i := range 40 {
					id := "c" + jsonInt(fleet.Revision(i))
					docs = append(docs, `cluster {"id":"`+id+`","cluster_dns":"`+id+`.example.com","environment":"dev","platform_components":[`+components+`]}`)
				}
				return docs
			}
			r.push("prod", "a", files(`{"id":"podinfo"},{"id":"other"}`)...)
			p.createSource("")
			p.ready()
			r.push("prod", "b", files(`{"id":"podinfo"}`)...)
			p.ready()
			r.push("prod", "c", files(``)...)
			p.hold("40 were within the last hour without a plan_hash")
			p.clock.advance(time.Hour)
			p.ready()
		},
		"a digest that is gone in the middle of a download": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileNamespace)
			p.createSource("")
			p.ready()
			delete(r.artifacts, r.push("prod", "b", fileNamespace))
			require.Equal(t, "failed", p.cycle().Status.State)
			r.push("prod", "c", fileNamespace)
			p.ready()
		},
		"the source is changed in the middle of a download": func(t *testing.T, r *registry, p *sourceProcess) {
			good := r.push("prod", "a", fileNamespace)
			p.createSource("")
			p.ready()
			r.push("prod", "b", fileNamespace, fileComponent)
			r.reading = func() { p.must(http.MethodPatch, "/sources/platform", `{"digest":"`+good+`"}`) }
			require.Equal(t, good, p.cycle().Status.Digest, "the artifact that was left is not applied")
			r.tags[""] = good
			p.ready()
			r.push("prod", "c", fileNamespace, `platform_component {"id":"x","nonsense":1}`)
			p.must(http.MethodPatch, "/sources/platform", `{"tag":"prod"}`)
			r.reading = func() { p.must(http.MethodPatch, "/sources/platform", `{"path":"other"}`) }
			require.Nil(t, p.cycle().Status.Held, "nor held")
			p.hold("/nonsense")
			r.push("prod", "d", fileNamespace)
			read := r.read
			r.reading = func() { p.must(http.MethodPatch, "/sources/platform", `{"path":"third"}`) }
			require.Equal(t, good, p.cycle().Status.Digest)
			p.ready()
			require.Equal(t, read+2, r.read, "the files of the new folder are read")
		},
		"a kind outside kinds": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileNamespace, `access {"id":"mine","subjects":[{"source":"platform"}],"may":["admin","read"]}`)
			p.createSource("")
			p.hold("the source may not have documents of kind access")
			for i, kind := range []string{"token", "rollout", "pin", "source", "source_state"} {
				r.push("prod", "b"+jsonInt(fleet.Revision(i)), fileNamespace, kind+` {"id":"mine"}`)
				p.hold("the source may not have documents of kind " + kind)
				status, body := p.do(http.MethodPatch, "/sources/platform", `{"kinds":["`+kind+`"]}`)
				require.Equal(t, http.StatusBadRequest, status, body)
			}
		},
		"a source that gives itself rights": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", `access {"id":"mine","subjects":[{"source":"platform"}],"may":["admin","read"]}`)
			p.createSource(`,"kinds":["access","namespace"]`)
			p.hold(`access "mine": changes of access documents, webhooks and sources need the role or the right admin`)
		},
		"a document in two files": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileNamespace, fileNamespace)
			p.createSource("")
			p.hold(`namespace "shop" is in fleet/shop.yaml already`)
		},
		"invalid documents": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileNamespace, `platform_component {"id":"x","nonsense":1}`, `cluster {"id":"c1","labels":7}`)
			p.createSource("")
			source := p.hold(`platform_component "x": /nonsense`)
			require.Contains(t, source.Status.Message, `cluster "c1"`)
			status, body := p.do(http.MethodPost, "/sources/platform/approve", `{"plan_hash":"x"}`)
			require.Equal(t, http.StatusConflict, status, body)
		},
		"no access document": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileNamespace)
			p.createSource("")
			p.must(http.MethodDelete, "/access/platform", "")
			p.hold("no access document of the source permits changes")
			p.must(http.MethodPost, "/access", `{"id":"platform","subjects":[{"source":"platform"}],"may":["write"],"on":{"kinds":["cluster"]}}`)
			p.hold("no access document of the source permits this change of namespace")
		},
		"rights that expire": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileNamespace)
			p.createSource("")
			p.ready()
			p.must(http.MethodPatch, "/access/platform", `{"expires_at":"`+p.clock.Now().Add(time.Minute).UTC().Format(time.RFC3339)+`"}`)
			r.push("prod", "b", fileNamespace, fileComponent)
			p.hold("no access document of the source permits changes")
		},
		"adoption, then an outdated hash, then the next digest": func(t *testing.T, r *registry, p *sourceProcess) {
			p.must(http.MethodPost, "/namespaces", `{"id":"shop"}`)
			r.push("prod", "a", fileNamespace)
			p.createSource("")
			held := p.hold(`it would adopt 1 document that exist and that it does not manage: namespace "shop"`).Status.Held
			p.refused(http.StatusPreconditionFailed, "stale", func() (int, string) {
				return p.do(http.MethodPost, "/sources/platform/approve", `{"plan_hash":"0123"}`)
			})
			p.must(http.MethodPost, "/sources/platform/approve", `{"plan_hash":"`+held.PlanHash+`"}`)
			p.must(http.MethodPatch, "/namespaces/shop", `{"labels":{"team":"web"}}`) // the effect is another then
			r.push("prod", "b", `namespace {"id":"shop","labels":{"a":"b"}}`)
			require.Equal(t, "held", p.cycle().Status.State)
			r.push("prod", "c", fileComponent)
			require.Equal(t, 1, p.ready().Status.Documents)
		},
		"an approval is for one effect": func(t *testing.T, r *registry, p *sourceProcess) {
			p.must(http.MethodPost, "/namespaces", `{"id":"shop"}`)
			r.push("prod", "a", `namespace {"id":"shop","labels":{"a":"b"}}`)
			p.createSource("")
			p.hold("adopt")
			p.must(http.MethodPost, "/sources/platform/approve", `{"plan_hash":"`+p.source().Status.Held.PlanHash+`"}`)
			p.must(http.MethodPatch, "/namespaces/shop", `{"labels":{"a":"c"}}`)
			source := p.cycle()
			require.Equal(t, "held", source.Status.State)
			require.Contains(t, source.Status.Message, "the approval is outdated")
			require.Equal(t, "ready", p.approve().Status.State)
		},
		"a removal": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileNamespace, fileComponent, fileCluster, `namespace {"id":"other"}`)
			p.createSource(`,"prune":true`)
			p.ready()
			r.push("prod", "b", fileNamespace, fileComponent, fileCluster)
			p.ready()
			require.NotContains(t, p.must(http.MethodGet, "/namespaces", ""), "other")
			r.push("prod", "c", fileComponent)
			p.hold("only 1 of the 3 documents that it manages are in the artifact")
			require.Equal(t, "ready", p.approve().Status.State)
			status, _ := p.do(http.MethodGet, "/namespaces/shop", "")
			require.Equal(t, http.StatusNotFound, status)
			r.push("prod", "d")
			p.hold("only 0 of the 1 document")
		},
		"documents that others made are not pruned, and freezes never": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileNamespace, fileComponent, `freeze {"id":"files","selector":"environment=none","reason":"x"}`)
			p.createSource(`,"prune":true,"kinds":["namespace","platform_component","freeze"]`)
			p.ready()
			p.must(http.MethodPost, "/freezes", `{"id":"all","all":true,"reason":"outage"}`)
			p.must(http.MethodPost, "/namespaces", `{"id":"by-hand"}`)
			r.push("prod", "b", fileNamespace, fileComponent)
			p.ready()
			require.Contains(t, p.must(http.MethodGet, "/freezes", ""), `"all"`)
			require.Contains(t, p.must(http.MethodGet, "/freezes", ""), `"files"`)
			require.Contains(t, p.must(http.MethodGet, "/namespaces", ""), `"by-hand"`)
		},
		"a freeze ends": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileNamespace, fileComponent, fileCluster)
			p.createSource("")
			p.ready()
			p.must(http.MethodPost, "/freezes", `{"id":"all","all":true,"reason":"outage"}`)
			r.push("prod", "b", fileNamespace, strings.Replace(fileComponent, "6.0.0", "6.1.0", 1), fileCluster)
			p.hold(`which freeze "all" (outage) forbids`)
			p.refused(http.StatusConflict, "conflict", func() (int, string) {
				return p.do(http.MethodPost, "/sources/platform/approve", `{"plan_hash":"x"}`)
			})
			p.must(http.MethodDelete, "/freezes/all", "")
			p.ready()
		},
		"a document of another source": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileNamespace)
			p.createSource("")
			p.ready()
			r.push("apps", "b", fileNamespace, fileComponent)
			p.must(http.MethodPost, "/access", `{"id":"apps","subjects":[{"source":"apps"}],"may":["write","override_source"]}`)
			p.must(http.MethodPost, "/sources", `{"id":"apps","url":"oci://registry.example.com/apps","tag":"apps"}`)
			p.cycle()
			require.Contains(t, p.must(http.MethodGet, "/sources/apps", ""), `the namespace \"shop\" is managed by source \"platform\", in its file fleet/shop.yaml`)
		},
		"a hotfix, and the next digest": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileNamespace, fileComponent, fileCluster)
			p.createSource("")
			p.ready()
			body := p.refused(http.StatusConflict, "managed_by_source", func() (int, string) {
				return p.do(http.MethodPatch, "/platform_components/podinfo", `{"component_version":"6.0.1"}`)
			})
			require.Contains(t, body, "fleet/podinfo.yaml")
			for _, change := range [][3]string{
				{http.MethodDelete, "/platform_components/podinfo?cascade=true", ""},
				{http.MethodDelete, "/clusters/c1", ""},
				{http.MethodPost, "/batch", `{"operations":[{"op":"set_labels","all":true,"labels":{"a":"b"}}]}`},
			} {
				p.refused(http.StatusConflict, "managed_by_source", func() (int, string) { return p.do(change[0], change[1], change[2]) })
			}
			p.must(http.MethodPost, "/batch", `{"operations":[{"op":"reconcile","all":true,"requested_at":"2026-01-02T03:04:05Z"}]}`)
			p.must(http.MethodPatch, "/clusters/c1", `{"pinned":{"reason":"x"}}`)
			p.must(http.MethodPatch, "/clusters/c1", `{"pinned":null}`)
			require.Empty(t, p.source().Status.Drifted)

			override := []string{"X-Fleet-Override-Source", "platform"}
			status, body := p.do(http.MethodPatch, "/platform_components/podinfo", `{"component_version":"6.0.1"}`, override...)
			require.Equal(t, http.StatusBadRequest, status, body)
			require.Contains(t, body, "a reason is required")
			p.must(http.MethodPatch, "/platform_components/podinfo", `{"component_version":"6.0.1"}`, append(override, "X-Change-Reason", "INC-1")...)
			require.Equal(t, []api.SourceDocument{{Kind: "platform_component", ID: "podinfo", File: "fleet/podinfo.yaml"}}, p.ready().Status.Drifted)
			require.Contains(t, p.must(http.MethodGet, "/platform_components/podinfo", ""), "6.0.1")
			r.push("prod", "b", fileNamespace, strings.Replace(fileComponent, "6.0.0", "6.2.0", 1), fileCluster)
			require.Empty(t, p.ready().Status.Drifted)
			require.Contains(t, p.must(http.MethodGet, "/platform_components/podinfo", ""), "6.2.0")
		},
		"reconcile writes a hotfix back": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileNamespace, fileComponent)
			p.createSource("")
			p.ready()
			p.must(http.MethodDelete, "/platform_components/podinfo", "", "X-Fleet-Override-Source", "platform", "X-Change-Reason", "INC-1")
			require.Len(t, p.ready().Status.Drifted, 1)
			p.must(http.MethodPost, "/sources/platform/reconcile", "")
			require.Empty(t, p.source().Status.Drifted)
			p.must(http.MethodGet, "/platform_components/podinfo", "")
		},
		"reconcile is refused": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileNamespace, fileComponent)
			p.createSource("")
			p.ready()
			p.must(http.MethodPatch, "/platform_components/podinfo", `{"component_version":"6.0.1"}`, "X-Fleet-Override-Source", "platform", "X-Change-Reason", "INC-1")
			p.must(http.MethodDelete, "/access/platform", "")
			body := p.refused(http.StatusConflict, "conflict", func() (int, string) { return p.do(http.MethodPost, "/sources/platform/reconcile", "") })
			require.Contains(t, body, "the artifact is not applied again: no access document of the source permits changes")
			require.Len(t, p.ready().Status.Drifted, 1)
			r.push("prod", "b", fileNamespace, fileComponent)
			require.Contains(t, p.must(http.MethodPost, "/sources/platform/reconcile", ""), `"state":"held"`)
			r.err = errors.New("connection refused")
			require.Contains(t, p.must(http.MethodPost, "/sources/platform/reconcile", ""), `"state":"failed"`)
		},
		"a long message": func(t *testing.T, r *registry, p *sourceProcess) {
			var docs []string
			for i := range 10 {
				docs = append(docs, `resource/`+strings.Repeat("å", 100_000)+jsonInt(fleet.Revision(i))+` {"id":"x"}`)
			}
			r.push("prod", "a", docs...)
			p.createSource("")
			require.Less(t, len(p.hold("there is no resource type").Status.Message), 100_000)
		},
		"a deep document": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileNamespace, `platform_component {"id":"x","values":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`}`)
			p.createSource("")
			p.hold(`platform_component "x": `)
		},
		"restore of a revision from before the source": func(t *testing.T, r *registry, p *sourceProcess) {
			p.must(http.MethodPost, "/namespaces", `{"id":"old"}`)
			r.push("prod", "a", fileNamespace, fileComponent)
			p.createSource("")
			p.ready()
			p.must(http.MethodPost, "/revisions/1/restore", "")
			require.Equal(t, "suspended", p.source().Status.State)
			require.NotContains(t, p.must(http.MethodGet, "/namespaces", ""), "shop")
			at := p.replica.State().Revision()
			p.cycle()
			require.Equal(t, at, p.replica.State().Revision())
		},
		"a restore of one document beside a restore of everything": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileComponent)
			p.createSource("")
			p.ready()
			then := jsonInt(p.replica.State().Revision())
			r.push("prod", "b", strings.Replace(fileComponent, "6.0.0", "6.1.0", 1))
			p.ready()
			now, one := jsonInt(p.replica.State().Revision()), `{"op":"restore","revision":`+then+`,"kind":"platform_component","id":"podinfo"}`
			all := `{"op":"restore","revision":` + now + `}` // changes nothing
			for _, batch := range []string{one, all + "," + one, one + "," + all} {
				p.refused(http.StatusConflict, "managed_by_source", func() (int, string) { return p.do(http.MethodPost, "/batch", `{"operations":[`+batch+`]}`) })
			}
			require.Equal(t, "ready", p.source().Status.State)
		},
		"keys that no signature is verified with": func(t *testing.T, _ *registry, p *sourceProcess) {
			p.createSource("")
			other, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
			require.NoError(t, err)
			small, err := x509.MarshalPKIXPublicKey(&other.PublicKey)
			require.NoError(t, err)
			key, err := json.Marshal(string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: small})))
			require.NoError(t, err)
			body := p.refused(http.StatusBadRequest, "validation_error", func() (int, string) {
				return p.do(http.MethodPatch, "/sources/platform", `{"verify":{"keys":[`+string(key)+`]}}`)
			})
			require.Contains(t, body, "P-256")
		},
		"an on-call revert at night": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileNamespace, fileComponent, fileCluster)
			p.createSource("")
			p.ready()
			r.push("prod", "b", fileNamespace, strings.Replace(fileComponent, "6.0.0", "6.1.0", 1), fileCluster)
			p.ready()
			applied := jsonInt(p.replica.State().Revision())
			noon := p.clock.Now().UTC().Add(12 * time.Hour) // changes are permitted in its hour only
			p.must(http.MethodPost, "/freezes", `{"id":"nights","all":true,"reason":"CHG-1","allow":[{"from":"`+noon.Format("15")+`:00","to":"`+noon.Format("15")+`:59"}]}`)
			r.push("prod", "c", fileNamespace, strings.Replace(fileComponent, "6.0.0", "6.2.0", 1), fileCluster)
			p.hold(`freeze "nights"`)
			var token struct {
				Token string `json:"token"`
			}
			require.NoError(t, json.Unmarshal([]byte(p.must(http.MethodPost, "/tokens", `{"name":"oncall","role":"scoped"}`)), &token))
			p.must(http.MethodPost, "/access", `{"id":"oncall","subjects":[{"token":"oncall"}],"may":["read","revert"]}`)
			status, body := p.do(http.MethodPost, "/revisions/"+applied+"/revert", "", "Authorization", "Bearer "+token.Token)
			require.Equal(t, http.StatusOK, status, body)
			require.Contains(t, p.must(http.MethodGet, "/platform_components/podinfo", ""), "6.0.0")
			source := p.source()
			require.Equal(t, "suspended", source.Status.State)
			require.Len(t, source.Status.Drifted, 1)
			p.must(http.MethodPatch, "/sources/platform", `{"suspended":false}`)
			p.hold(`freeze "nights"`)
			require.Contains(t, p.must(http.MethodGet, "/platform_components/podinfo", ""), "6.0.0", "the applied digest is not applied again")
		},
		"an emergency freeze by hand while a source that names freeze prunes": func(t *testing.T, r *registry, p *sourceProcess) {
			inFile := `freeze {"id":"year-end","selector":"environment=prod","reason":"CHG-1"}`
			r.push("prod", "a", fileNamespace, fileComponent, fileCluster, inFile)
			p.createSource(`,"prune":true,"kinds":["namespace","platform_component","cluster","freeze"]`)
			p.ready()
			p.must(http.MethodPost, "/freezes", `{"id":"emergency","all":true,"reason":"INC-1"}`)
			r.push("prod", "b", fileNamespace, strings.Replace(fileComponent, "6.0.0", "6.1.0", 1), fileCluster)
			p.hold(`freeze "emergency"`)
			p.refused(http.StatusConflict, "managed_by_source", func() (int, string) { return p.do(http.MethodDelete, "/freezes/year-end", "") })
			p.must(http.MethodDelete, "/freezes/emergency", "")
			p.ready()
			p.must(http.MethodPost, "/freezes", `{"id":"emergency","all":true,"reason":"INC-2"}`)
			r.push("prod", "c", fileNamespace, strings.Replace(fileComponent, "6.0.0", "6.1.0", 1), fileCluster, `namespace {"id":"new"}`)
			p.ready() // it changes no cluster
			for _, id := range []string{"emergency", "year-end"} {
				p.must(http.MethodDelete, "/freezes/"+id, "") // no source deletes a freeze, and this one is free
			}
		},
		"completion of a rollout of a managed document": func(t *testing.T, r *registry, p *sourceProcess) {
			files := []string{fileNamespace, fileComponent, fileCluster}
			r.push("prod", "a", files...)
			p.createSource("")
			p.ready()
			bump := `{"id":"hotfix","stages":[],"operations":[{"op":"patch","kind":"platform_component","id":"podinfo","patch":{"component_version":"6.0.9"}}]}`
			p.refused(http.StatusConflict, "managed_by_source", func() (int, string) { return p.do(http.MethodPost, "/rollouts", bump) })
			p.must(http.MethodPost, "/rollouts", bump, "X-Fleet-Override-Source", "platform", "X-Change-Reason", "INC-1")
			require.Empty(t, p.ready().Status.Drifted, "the stored document is as the source wrote it")
			p.must(http.MethodPost, "/rollouts/hotfix/start", "")
			p.must(http.MethodPost, "/rollouts/hotfix/complete", "")
			source := p.ready()
			require.Len(t, source.Status.Drifted, 1)
			require.Equal(t, "podinfo", source.Status.Drifted[0].ID)
			r.push("prod", "b", append(files, `namespace {"id":"new"}`)...)
			require.Empty(t, p.ready().Status.Drifted, "the next digest writes it again")
			require.Contains(t, p.must(http.MethodGet, "/platform_components/podinfo", ""), "6.0.0")
		},
		"another folder of the same artifact": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileNamespace)
			p.createSource("")
			p.ready()
			read := r.read
			p.must(http.MethodPatch, "/sources/platform", `{"path":"fleet"}`)
			p.ready()
			require.Equal(t, read+1, r.read)
			p.refused(http.StatusConflict, "managed_by_source", func() (int, string) {
				p.must(http.MethodDelete, "/namespaces/shop", "", "X-Fleet-Override-Source", "platform", "X-Change-Reason", "INC-1")
				return p.do(http.MethodPost, "/revisions/"+jsonInt(p.replica.State().Revision()-1)+"/restore", `{"kind":"namespace","id":"shop"}`)
			})
		},
		"a version policy on a managed component": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileComponent)
			p.createSource("")
			p.ready()
			status, body := p.do(http.MethodPatch, "/platform_components/podinfo", `{"version_policies":{"catalog":{"range":">=6"}}}`, "X-Fleet-Override-Source", "platform", "X-Change-Reason", "INC-1")
			require.Equal(t, http.StatusBadRequest, status, body)
			require.Contains(t, body, "managed by source")
		},
		"a source that is created again": func(t *testing.T, r *registry, p *sourceProcess) {
			r.err = errors.New("the registry is down")
			p.createSource("")
			require.Equal(t, "failed", p.cycle().Status.State)
			p.must(http.MethodDelete, "/sources/platform", "")
			p.server.FollowSources(t.Context())
			p.must(http.MethodPost, "/sources", `{"id":"platform","url":"oci://registry.example.com/platform/fleet","tag":"prod"}`)
			require.Equal(t, "pending", p.source().Status.State, "it has not been checked yet")
		},
		"deletion of the source frees its documents": func(t *testing.T, r *registry, p *sourceProcess) {
			r.push("prod", "a", fileNamespace)
			p.createSource("")
			p.ready()
			p.must(http.MethodDelete, "/sources/platform", "")
			p.must(http.MethodPatch, "/namespaces/shop", `{"labels":{"a":"b"}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, 1, func(t *testing.T, r *registry, all []*sourceProcess) { t.Helper(); test(t, r, all[0]) })
		})
	}
}
