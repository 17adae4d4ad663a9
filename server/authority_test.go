package server_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// another is a second process on the same store. It does not follow the log: it reads changes of the first one on request.
func (w *world) another() *world {
	w.t.Helper()
	b := &world{t: w.t, store: w.store, faults: &faultyStore{Store: w.store}, clock: w.clock, logs: &buffer{}}
	logger := slog.New(slog.NewJSONHandler(b.logs, nil))
	b.replica = store.NewReplica(store.Config{
		Store: b.faults, Rules: rules, Logger: logger, Now: w.clock.Now,
	})
	require.NoError(w.t, b.replica.Load(w.t.Context()))
	srv, err := server.New(server.Config{
		Mode: server.ModeCRUD, Replica: b.replica, History: b.faults, Tokens: server.Tokens{Read: readToken, Write: writeToken},
		Version: "v2.0.0-test", StoreName: "memory", Logger: logger, Now: w.clock.Now,
	})
	require.NoError(w.t, err)
	b.http = httptest.NewServer(srv)
	w.t.Cleanup(b.http.Close)
	b.client = &http.Client{Transport: &contractTransport{t: w.t, next: b.http.Client().Transport}}
	return b
}

// issued is a managed token and how it is sent.
func (w *world) issued(body string) (id string, bearer []string) {
	w.t.Helper()
	got := w.create("/tokens", body).json()
	return got["id"].(string), []string{"Authorization", "Bearer " + got["token"].(string)}
}

// slowly sends a request whose body ends only after meanwhile, which runs once the server waits for the body.
func (w *world) slowly(meanwhile func(), method, path, body string, headers ...string) *answer {
	w.t.Helper()
	rest, send := io.Pipe()
	req := w.request(method, path, body, headers...)
	req.Body, req.ContentLength, req.GetBody = io.NopCloser(rest), int64(len(body)), nil
	req.Header.Set("Expect", "100-continue")
	let := make(chan struct{})
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(let) }}))
	transport := w.http.Client().Transport.(*http.Transport).Clone()
	transport.ExpectContinueTimeout = time.Minute
	defer transport.CloseIdleConnections()
	answered := make(chan *http.Response, 1)
	go func() {
		res, err := transport.RoundTrip(req)
		if err != nil {
			w.t.Error(err)
		}
		answered <- res
	}()
	<-let
	meanwhile()
	_, err := io.WriteString(send, body)
	require.NoError(w.t, err)
	require.NoError(w.t, send.Close())
	res := <-answered
	require.NotNil(w.t, res)
	got, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	require.NoError(w.t, res.Body.Close())
	return &answer{t: w.t, status: res.StatusCode, header: res.Header, body: got}
}

const writerBody = `{"name":"deployer","role":"write"}`

// A change is refused if its token was revoked before the commit, even if it was valid when the request began.
func TestTokenRevokedDuringBody(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, id string){
		"revoked": func(w *world, id string) { w.delete("/tokens/" + id).want(200) },
		"rotated": func(w *world, id string) {
			w.do(http.MethodPost, "/tokens/"+id+"/rotate", `{"overlap":"0s"}`).want(200)
			w.clock.advance(time.Microsecond)
		},
		"expired":                  func(w *world, _ string) { w.clock.advance(2 * time.Hour) },
		"revoked by another":       func(w *world, id string) { w.another().delete("/tokens/" + id).want(200) },
		"revoked, and there again": func(w *world, id string) { w.delete("/tokens/" + id).want(200); w.issued(writerBody) },
	} {
		for _, request := range [][3]string{
			{"PATCH", demoCluster, `{"environment":"qa"}`},
			{"POST", "/namespaces", `{"id":"late"}`},
			{"POST", "/batch", `{"operations":[{"op":"delete","kind":"cluster","id":"demo-cluster-01","mode":"orphan"}]}`},
		} {
			t.Run(name+", "+request[0]+" "+request[1], func(t *testing.T) {
				t.Parallel()
				w := setup(t)
				id, bearer := w.issued(`{"name":"deployer","role":"write","expires_at":"` + start.Add(time.Hour).Format(time.RFC3339) + `"}`)
				var head fleet.Head
				kind := []string{"Content-Type", "application/json"}
				if request[0] == "PATCH" {
					kind[1] = mergePatchType
				}
				got := w.slowly(func() { end(w, id); head = w.head() }, request[0], request[1], request[2], append(bearer, kind...)...)
				got.problem(401, "unauthorized")
				require.Equal(t, head, w.head(), "nothing was committed after that")
			})
		}
	}
}

// A revocation through another process counts as soon as it is in the log: also for a change that was computed before,
// and has to be computed again because of it.
func TestTokenRevokedDuringCommit(t *testing.T) {
	t.Parallel()
	a := setup(t)
	id, bearer := a.issued(writerBody)
	b := a.another()
	held := &slowCommit{begun: make(chan struct{}), proceed: make(chan struct{})}
	a.faults.set(func(f *faultyStore) { f.slow = held })
	answered := make(chan *answer, 1)
	go func() {
		answered <- a.patch(demoCluster, `{"environment":"qa"}`, bearer...)
	}()
	<-held.begun
	a.faults.set(func(f *faultyStore) { f.slow = nil })
	b.delete("/tokens/" + id).want(200)
	head := a.head()
	close(held.proceed)
	(<-answered).problem(401, "unauthorized")
	require.Equal(t, head, a.head())
}

// Answers without a commit, such as a no-op or a plan, are authorized by the head of the log, not by an older copy.
func TestAuthorizedByHead(t *testing.T) {
	t.Parallel()
	a := setup(t)
	b := a.another()
	id, bearer := a.issued(writerBody)
	require.NoError(t, b.replica.Load(t.Context()))
	b.put(demoCluster, `{"environment":"dev"}`, bearer...).want(200)
	a.delete("/tokens/" + id).want(200)
	b.put(demoCluster, `{"environment":"dev"}`, bearer...).problem(401, "unauthorized")
	b.patch(demoCluster, `{"environment":"qa"}`, bearer...).problem(401, "unauthorized")
}

// A poll that waits for a revision is judged by the State that answers it: the DNS name may be another cluster's by then.
func TestPollAuthorizedAfterWait(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/clusters", `{"id":"other","cluster_dns":"other.k8s.example.com","environment":"dev","namespaces":[{"id":"podinfo"}]}`)
	_, bearer := w.issued(`{"name":"poller","role":"poll","cluster_id":"demo-cluster-01"}`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req := w.request("GET", demoPolls+"/namespaces", "", append(bearer, "X-Fleet-Min-Revision", strconv.Itoa(w.revision()+2))...).WithContext(ctx)
	answered := make(chan *answer, 1)
	go func() { answered <- w.send(req) }()
	require.Eventually(t, func() bool { return w.metric(`flux_resourceset_authenticated_requests_total{credential="token"}`) == 1 }, 30*time.Second, time.Millisecond)
	w.patch(demoCluster, `{"cluster_dns":"moved.k8s.example.com"}`).want(200)
	plan := w.plan(`{"op":"patch","kind":"cluster","id":"other","patch":{"cluster_dns":"` + demoDNS + `"}}`)
	w.patch("/clusters/other?plan_hash="+plan["plan_hash"].(string), `{"cluster_dns":"`+demoDNS+`"}`).want(200)
	got := <-answered
	got.problem(403, "forbidden")
	require.False(t, strings.Contains(string(got.body), "podinfo"))
}
