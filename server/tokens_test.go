package server_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// issued is a token as it was given out.
type issued struct{ id, secret, etag string }

// issue creates a token.
func (w *world) issue(body string) issued {
	w.t.Helper()
	got := w.create("/tokens", body)
	secret, _ := got.json()["token"].(string)
	require.True(w.t, fleet.LooksLikeSecret(secret), secret)
	return issued{got.json()["id"].(string), secret, got.etag()}
}

func bearer(secret string) []string { return []string{"Authorization", "Bearer " + secret} }

const pollBody = `{"name":"poll-demo","role":"poll","cluster_id":"demo-cluster-01"}`

func TestPollToken(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/clusters", `{"id":"other","cluster_dns":"other.example.com","environment":"dev"}`)
	token := w.issue(pollBody)
	for _, resource := range []string{"/platform-components", "/namespaces", "/rolebindings"} {
		require.Equal(t, w.poll(demoPolls+resource).ids(), w.get(demoPolls+resource, bearer(token.secret)...).want(200).ids())
	}
	var bodies []string
	for _, dns := range []string{"other.example.com", "nobody.example.com"} {
		got := w.get("/api/v2/flux/clusters/"+dns+"/namespaces", bearer(token.secret)...).problem(403, "forbidden")
		got.header.Del("X-Request-Id")
		got.header.Del("Date")
		got.header.Del("Content-Length")
		var lines strings.Builder
		require.NoError(t, got.header.Write(&lines))
		bodies = append(bodies, lines.String()+strings.ReplaceAll(string(got.body), dns, "X"))
	}
	require.Equal(t, bodies[0], bodies[1], "whether a cluster exists is told to nobody who may not poll for it")
	w.get("/api/v2/flux/clusters", bearer(token.secret)...).problem(403, "forbidden")
	w.get(demoCluster, bearer(token.secret)...).problem(403, "forbidden")

	w.delete("/tokens/" + token.id).want(200)
	w.get(demoPolls+"/namespaces", bearer(token.secret)...).problem(401, "unauthorized")
}

// A poll token lives as long as its cluster is answered.
func TestPollTokenOfDeletedCluster(t *testing.T) {
	t.Parallel()
	w := setup(t)
	token, ci := w.issue(pollBody), w.issue(`{"name":"ci","role":"write","expires_at":"2027-01-01T00:00:00Z"}`)
	w.delete(demoCluster, bearer(ci.secret)...).want(200)
	require.Empty(t, w.get(demoPolls+"/namespaces", bearer(token.secret)...).want(200).ids())
	w.delete(demoCluster+"?mode=orphan", bearer(ci.secret)...).want(200)
	w.get(demoPolls+"/namespaces", bearer(token.secret)...).problem(401, "unauthorized")
	require.Equal(t, []string{ci.id}, w.get("/tokens").ids())
	last := w.get("/revisions?limit=1").list()[0]
	require.Equal(t, "token:ci ("+ci.id+")", last["actor"])
	require.EqualValues(t, 2, last["change_count"], "the cluster and its token, in one commit")
	w.create("/clusters", `{"id":"demo-cluster-01","cluster_dns":"`+demoDNS+`","environment":"dev"}`)
	w.get(demoPolls+"/namespaces", bearer(token.secret)...).problem(401, "unauthorized")
}

// A poll token belongs to one creation of its cluster: it reads neither lists nor anything else of a cluster that is created again
// under the same id and DNS name. Undoing the deletion keeps it.
func TestPollTokenOfClusterCreatedAgain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	token := w.issue(pollBody)
	deletion := w.delete(demoCluster).want(200).header.Get("X-Fleet-Revision")
	w.do("POST", "/revisions/"+deletion+"/revert", "").want(200)
	w.get(demoPolls+"/namespaces", bearer(token.secret)...).want(200)

	w.delete(demoCluster).want(200)
	require.Empty(t, w.get(demoPolls+"/namespaces", bearer(token.secret)...).want(200).ids(), "Flux uninstalls")
	w.create("/clusters", `{"id":"demo-cluster-01","cluster_dns":"`+demoDNS+`","environment":"prod","platform_components":[{"id":"podinfo"}]}`)
	w.get(demoPolls+"/platform-components", bearer(token.secret)...).problem(401, "unauthorized")
	require.Empty(t, w.get("/tokens").ids())
	w.issue(pollBody)
}

func TestTokenRotation(t *testing.T) {
	t.Parallel()
	w := setup(t)
	first := w.issue(pollBody)
	poll := func(secret string) int { return w.get(demoPolls+"/namespaces", bearer(secret)...).status }
	rotate := func(body string) string {
		got := w.do("POST", "/tokens/"+first.id+"/rotate", body).want(200).json()
		require.Len(t, got["secrets"].([]any)[0].(map[string]any)["fingerprint"], 8)
		return got["token"].(string)
	}
	second := rotate(`{"overlap":"1h"}`)
	require.Equal(t, []int{200, 200}, []int{poll(first.secret), poll(second)})
	w.clock.advance(time.Hour - time.Microsecond)
	require.Equal(t, []int{200, 200}, []int{poll(first.secret), poll(second)})
	w.clock.advance(time.Microsecond)
	require.Equal(t, []int{401, 200}, []int{poll(first.secret), poll(second)})
	third := rotate(`{"overlap":"1h"}`)
	fourth := rotate(`{"overlap":"30m"}`)
	require.Equal(t, []int{200, 200, 200}, []int{poll(second), poll(third), poll(fourth)})
	w.clock.advance(30 * time.Minute)
	require.Equal(t, []int{401, 401, 200}, []int{poll(second), poll(third), poll(fourth)}, "a later rotation does not make an old secret work longer")
	fifth := rotate(`{"overlap":"0s"}`)
	require.Equal(t, []int{401, 200}, []int{poll(fourth), poll(fifth)})
	require.Len(t, w.get("/tokens/" + first.id).json()["secrets"], 1)
	for _, bad := range []string{`{}`, `{"overlap":""}`, `{"overlap":"1d"}`, `{"overlap":"-1s"}`, `{"overlap":"721h"}`, `{"overlap":"1h","expires_at":"2020-01-01T00:00:00Z"}`, `{"overlap":"1h","x":1}`} {
		w.do("POST", "/tokens/"+first.id+"/rotate", bad).problem(400, "validation_error")
	}
	w.do("POST", "/tokens/nobody/rotate", `{"overlap":"1h"}`).problem(404, "not_found")
	for range 4 {
		rotate(`{"overlap":"1h"}`)
	}
	w.do("POST", "/tokens/"+first.id+"/rotate", `{"overlap":"1h"}`).problem(409, "conflict")
	require.Equal(t, 200, poll(rotate(`{"overlap":"0s"}`)))
}

func TestTokenExpiry(t *testing.T) {
	t.Parallel()
	w := setup(t)
	token := w.issue(`{"name":"ci","role":"read","expires_at":"2026-01-02T04:04:05Z"}`)
	w.get("/clusters", bearer(token.secret)...).want(200)
	w.clock.advance(time.Hour)
	w.get("/clusters", bearer(token.secret)...).problem(401, "unauthorized")
	w.do("POST", "/tokens/"+token.id+"/rotate", `{"overlap":"1h"}`).problem(400, "validation_error")
	renewed := w.do("POST", "/tokens/"+token.id+"/rotate", `{"overlap":"1h","expires_at":"2027-01-01T00:00:00Z"}`).want(200).json()["token"].(string)
	w.get("/clusters", bearer(renewed)...).want(200)
	w.get("/clusters", bearer(token.secret)...).problem(401, "unauthorized")
}

func TestTokenValidation(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.unchanged(func() {
		for body, pointer := range map[string]string{
			`{"name":"a","role":"poll"}`:                                                          "/cluster_id",
			`{"name":"a","role":"poll","cluster_id":"nobody"}`:                                    "/cluster_id",
			`{"name":"a","role":"read","cluster_id":"demo-cluster-01"}`:                           "/cluster_id",
			`{"name":"a","role":"root"}`:                                                          "/role",
			`{"name":"A b","role":"read"}`:                                                        "/name",
			`{"role":"read"}`:                                                                     "/name",
			`{"name":"a","role":"read","expires_at":"2026-01-02T03:04:05Z"}`:                      "/expires_at",
			`{"name":"a","role":"read","expires_at":"tomorrow"}`:                                  "/expires_at",
			`{"name":"a","role":"read","description":"` + strings.Repeat("x", 1025) + `"}`:        "/description",
			`{"name":"a","role":"read","id":"x"}`:                                                 "/id",
			`{"name":"a","role":"read","secrets":[{"sha256":"` + strings.Repeat("0", 64) + `"}]}`: "/secrets",
		} {
			require.Equal(t, []string{pointer}, w.do("POST", "/tokens", body).problem(400, "validation_error").pointers(), body)
		}
		dry := w.do("POST", "/tokens?dry_run=true", pollBody).want(200)
		require.NotContains(t, dry.json(), "token")
		require.NotContains(t, string(dry.body), "frs_")
	})
	token := w.issue(pollBody)
	w.do("POST", "/tokens", pollBody).problem(409, "conflict")
	require.Contains(t, w.create("/tokens", `{"name":"ci","role":"write"}`).header.Get("Warning"), "never expires")
	w.delete("/tokens/"+token.id, "If-Match", `"1-00000000"`).problem(412, "stale")
	w.delete("/tokens/"+token.id, "If-Match", token.etag).want(200)
	w.delete("/tokens/"+token.id).problem(404, "not_found")
}

// Tokens are not part of the fleet's documents: batches and restores do not change them, and the log shows them without their
// digests.
func TestTokensNotInFleet(t *testing.T) {
	t.Parallel()
	w := setup(t)
	before := w.revision()
	token := w.issue(pollBody)
	for _, body := range []string{
		`{"operations":[{"op":"delete","kind":"token","id":"` + token.id + `"}]}`,
		`{"operations":[{"op":"create","kind":"token","document":{"id":"x"}}]}`,
		`{"operations":[{"op":"restore","revision":1,"kind":"token","id":"` + token.id + `"}]}`,
	} {
		w.do("POST", "/batch", body).problem(400, "validation_error")
		w.do("POST", "/plan", body).problem(400, "validation_error")
	}
	w.delete("/tokens/" + token.id).want(200)
	w.do("POST", "/revisions/"+strconv.Itoa(before+1)+"/restore", "").want(200)
	w.do("POST", "/revisions/"+strconv.Itoa(before)+"/restore", "").want(200)
	require.Empty(t, w.get("/tokens").ids())
	for n := 1; n <= w.revision(); n++ {
		require.NotContains(t, string(w.get("/revisions/"+strconv.Itoa(n)).want(200).body), "sha256")
	}
	created := w.get("/revisions/" + strconv.Itoa(before+1)).json()
	require.Equal(t, "poll-demo", at(created, "changes", 0, "after", "name"))
	require.NotContains(t, at(created, "changes", 0, "after"), "secrets")
}

// A read-only server knows the tokens that a crud server made, and one that has not loaded yet does not call them wrong.
func TestTokensOnReadOnlyServer(t *testing.T) {
	t.Parallel()
	crud := setup(t)
	token := crud.issue(pollBody)
	snap, err := crud.store.Load(t.Context())
	require.NoError(t, err)
	w := setupWith(t, options{mode: server.ModeReadOnly, records: snap.Records})
	w.get(demoPolls+"/namespaces", bearer(token.secret)...).want(200)
	w.get("/api/v2/flux/clusters/nobody.example.com/namespaces", bearer(token.secret)...).problem(403, "forbidden")
	w.get("/tokens").problem(404, "not_found")

	w = setupWith(t, options{unloaded: true})
	w.get(demoPolls+"/namespaces", bearer(token.secret)...).problem(503, "store_unavailable")
	w.get(demoPolls+"/namespaces", bearer("frs_guess")...).problem(401, "unauthorized")
}

// A revocation reaches every process through the log, and tokens are known without the store.
func TestTokensReachEveryProcess(t *testing.T) {
	t.Parallel()
	w := setup(t)
	other := w.second()
	kept, revoked := w.issue(pollBody), w.issue(`{"name":"ci","role":"read"}`)
	status := func(secret string) int {
		return other.get(demoPolls+"/namespaces", bearer(secret)...).status
	}
	require.Eventually(t, func() bool { return status(kept.secret) == 200 && status(revoked.secret) == 200 }, time.Minute, time.Millisecond)
	w.delete("/tokens/" + revoked.id).want(200)
	require.Eventually(t, func() bool { return status(revoked.secret) == 401 }, time.Minute, time.Millisecond)

	w.faults.set(func(f *faultyStore) { f.fail = store.ErrUnavailable })
	w.do("POST", "/tokens", `{"name":"more","role":"read"}`).problem(503, "store_unavailable")
	for _, at := range []*world{w, other} {
		at.get(demoPolls+"/namespaces", bearer(kept.secret)...).want(200)
		at.get(demoPolls+"/namespaces", bearer(revoked.secret)...).want(401)
		at.get("/api/v2/flux/clusters", bearer(kept.secret)...).want(403)
	}
}

// second is another process on the same store, which follows it.
func (w *world) second() *world {
	w.t.Helper()
	other := setupWith(w.t, options{mode: server.ModeReadOnly, unloaded: true, configure: func(c *server.Config) {
		replica := store.NewReplica(store.Config{Store: w.faults, Now: w.clock.Now, Interval: time.Millisecond})
		require.NoError(w.t, replica.Load(w.t.Context()))
		ctx, stop := context.WithCancel(w.t.Context())
		done := make(chan struct{})
		go func() { defer close(done); replica.Run(ctx) }()
		w.t.Cleanup(func() { stop(); <-done })
		c.Replica = replica
	}})
	return other
}

// TestLastUseOfTokens: uses of tokens are shown, and are no part of the fleet.
func TestLastUseOfTokens(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clock.advance(time.Minute)
	poll, ci := w.issue(pollBody), w.issue(`{"name":"ci","role":"read"}`)
	lastUse := func(token issued) any { return w.get("/tokens/" + token.id).want(200).json()["last_used_at"] }
	require.Nil(t, lastUse(poll))
	require.Nil(t, lastUse(ci))
	revision := w.head()

	used := w.clock.Now().Add(time.Second).UTC().Truncate(time.Second)
	w.clock.advance(time.Second)
	w.get("/clusters", bearer(ci.secret)...).want(200)
	w.get(demoPolls+"/namespaces", bearer(poll.secret)...).want(200)
	for _, token := range []issued{poll, ci} {
		require.Contains(t, lastUse(token), used.Format("2006-01-02T15:04:05"))
	}
	etag := w.get("/tokens/" + ci.id).etag()
	w.clock.advance(59 * time.Minute)
	w.get("/clusters", bearer(ci.secret)...).want(200)
	require.Equal(t, used.Format(time.RFC3339), lastUse(ci), "it is recorded once an hour")
	w.clock.advance(time.Minute)
	w.get(demoPolls+"/namespaces", bearer(ci.secret)...).want(200)
	require.Equal(t, used.Add(time.Hour).Format(time.RFC3339), lastUse(ci), "a poll with a token of another role is a use")
	require.Equal(t, etag, w.get("/tokens/"+ci.id).etag())
	require.Equal(t, revision, w.head())

	again := w.issue(`{"name":"poll-again","role":"poll","cluster_id":"demo-cluster-01"}`)
	require.Nil(t, lastUse(again), "the poll was before the token was created")
	listed := map[any]any{}
	for _, token := range w.get("/tokens").want(200).list() {
		listed[token["name"]] = token["last_used_at"]
	}
	require.Equal(t, map[any]any{"poll-demo": lastUse(poll), "ci": lastUse(ci), "poll-again": nil}, listed)
}

// TestTokensThatExpireSoon: the filter lists tokens that end within a time, and not those that have ended.
func TestTokensThatExpireSoon(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for name, days := range map[string]int{"past": 1, "soon": 31, "next": 32, "late": 400} {
		w.issue(`{"name":"` + name + `","role":"read","expires_at":"` + w.clock.Now().AddDate(0, 0, days).UTC().Format(time.RFC3339) + `"}`)
	}
	w.issue(`{"name":"never","role":"read"}`)
	w.clock.advance(48 * time.Hour)
	names := func(query string) (out []any) {
		for _, token := range w.get("/tokens?" + query).want(200).list() {
			out = append(out, token["name"])
		}
		return out
	}
	require.ElementsMatch(t, []any{"soon", "next"}, names("expires_within_days=30"))
	require.Equal(t, []any{"soon"}, names("expires_within_days=30&name=soon"))
	require.Len(t, names("expires_within_days=30&limit=1"), 1)
	require.Empty(t, names("expires_within_days=1"))
	for _, days := range []string{"0", "-1", "x", "3651", "99999999999999999999"} {
		w.get("/tokens?expires_within_days="+days).problem(400, "validation_error")
	}
}
