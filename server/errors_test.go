package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
)

func TestMethodNotAllowed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, path := range []string{"/clusters", demoCluster, demoPolls + "/namespaces", "/health", "/openapi.yaml", "/revisions/1", "/docs/"} {
		for _, method := range []string{"PURGE", "TRACE", "FOO", "get", "PROPFIND"} {
			got := w.do(method, path, "")
			require.Contains(t, []int{404, 405}, got.status, "%s %s", method, path)
			if got.status == 405 {
				got.problem(405, "method_not_allowed")
				require.Contains(t, got.header.Get("Allow"), "GET", "%s %s", method, path)
			}
		}
	}
	w.unchanged(func() {
		require.Contains(t, w.do("POST", demoCluster, `{}`).problem(405, "method_not_allowed").header.Get("Allow"), "PATCH")
		w.do("DELETE", "/clusters", "").problem(405, "method_not_allowed")
		w.do("POST", demoPolls+"/namespaces", `{}`).problem(405, "method_not_allowed")
		// A method override is a header like any other.
		w.do("POST", demoCluster, `{}`, "X-HTTP-Method-Override", "DELETE").want(405)
		w.get(demoCluster, "X-HTTP-Method-Override", "DELETE", "X-Method-Override", "DELETE").want(200)
		w.get(demoCluster + "?_method=DELETE").want(400)
	})
}

func TestNotFound(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{server.ModeCRUD, server.ModeReadOnly} {
		w := setupWith(t, options{mode: mode})
		for _, path := range []string{"/", "/nowhere", "/api", "/api/v2/flux", "/clusters/a/b/c", "/clusters/", "/Clusters", "/.env", "/openapi.yaml/", "/debug/pprof/", "/%00", "/clusters/%2e%2e/secret"} {
			for _, method := range []string{"GET", "POST", "DELETE"} {
				got := w.do(method, path, "")
				require.Equal(t, 404, got.status, "%s %s %s", mode, method, path)
			}
		}
	}
}

// Ids in a path are data too.
func TestPathIDs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.unchanged(func() {
		for _, id := range []string{"%2F", "..%2F..%2Fetc", "%00", "%ff%fe", "a%20b", "Demo-Cluster-01", "demo-cluster-01%00", "%25", "*", strings.Repeat("a", 253), "%F0%9F%9A%80", "'%20or%201=1"} {
			for _, path := range []string{"/clusters/", "/namespaces/", "/platform_components/", "/rolebindings/"} {
				w.get(path+id).problem(404, "not_found")
				w.delete(path+id).problem(404, "not_found")
			}
			w.put(demoCluster+"/namespaces/"+id, "").problem(404, "not_found")
		}
		w.get("/clusters/"+strings.Repeat("a", 254)).problem(400, "validation_error")
	})
}

func TestReadOnlyMode(t *testing.T) {
	t.Parallel()
	w := setupWith(t, options{mode: server.ModeReadOnly})
	for _, query := range []string{"for=null", "for=", "for=changes"} {
		w.get("/ready?"+query).problem(400, "validation_error")
	}
	w.get("/ready?for=polls").want(200)
	w.unchanged(func() {
		for _, s := range samples {
			w.do("POST", s.path, s.create).problem(405, "method_not_allowed")
			w.put(s.path+"/x", s.merge).problem(405, "method_not_allowed")
			w.patch(s.path+"/x", s.merge).problem(405, "method_not_allowed")
			w.delete(s.path+"/x").problem(405, "method_not_allowed")
			w.get(s.path).problem(404, "not_found")
			w.get(s.path+"/x").problem(404, "not_found")
		}
		w.put(demoCluster+"/namespaces/podinfo", "").problem(405, "method_not_allowed")
		w.get("/revisions").problem(404, "not_found")
	})
	w.get("/docs/").want(200)
	w.requirePolls(demoDNS, 200, "")
}

// Parts of a query that a parser would drop must not turn a dry run into a change, or select all documents.
func TestMalformedQuery(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.unchanged(func() {
		for _, query := range []string{
			"cascade=true&dry_run=true;x=1", "cascade=true&dry_run=tru%zz", "cascade=true&dry_run=true%", "cascade=true;dry_run=true",
			"cascade=true&dry_run=", "cascade=true&dry_run=true&dry_run=false", "cascade=true&dry-run=true", "cascade=true&plan_hash=",
		} {
			got := raw(t, w, "DELETE /namespaces/podinfo?"+query+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+writeToken+"\r\nConnection: close\r\n\r\n")
			require.Equal(t, 400, got.status, query)
			got.problem(400, "validation_error")
		}
		w.do("POST", "/batch", `{"operations":[{"op":"set_labels","all":true,"labels":{"a":"b"}}],"plan_hash":""}`).problem(400, "validation_error")
		w.get("/clusters/demo-cluster-01").want(200)
	})
	for mode, paths := range map[string][]string{
		server.ModeCRUD:     {"/clusters?selector=a;b", "/api/v2/flux/clusters?selector=environment%3Ddev;x", "/api/v2/flux/clusters?selector=%zz"},
		server.ModeReadOnly: {"/api/v2/flux/clusters?selector=environment%3Ddev;x", "/api/v2/flux/clusters?selector=%zz"},
	} {
		w := setupWith(t, options{mode: mode})
		for _, path := range paths {
			raw(t, w, "GET "+path+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+readToken+"\r\nConnection: close\r\n\r\n").problem(400, "validation_error")
		}
	}
}

// Parameters that are not text are refused before any store is asked: Postgres takes neither NUL nor bad UTF-8.
func TestParametersAreText(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.unchanged(func() {
		for _, path := range []string{"/clusters/", "/namespaces/", "/platform_components/", "/rolebindings/"} {
			for _, id := range []string{"%00", "%ff", "a%00b"} {
				for _, rest := range []string{"", "?revision=1", "/history"} {
					w.get(path+id+rest).problem(404, "not_found")
				}
			}
		}
		for _, query := range []string{"actor=%00", "actor=%ff", "kind=cluster&id=%00", "kind=cluster&id=a%ff"} {
			w.get("/revisions?"+query).problem(400, "validation_error")
		}
		for _, manager := range []string{"%00", "%ff", "ci%c3%28"} {
			w.put(demoCluster+"/patches/podinfo?field_manager="+manager, `{"replicaCount":"3"}`).problem(400, "validation_error")
		}
		for _, header := range []string{"X-Change-Reason", "X-Change-Author", "If-Match"} {
			for _, value := range []string{"\xff", "gr\xfc\xdfe", "a\xc3"} {
				w.patch("/namespaces/podinfo", `{"labels":{"a":"b"}}`, header, value).problem(400, "validation_error")
			}
		}
	})
	w.patch("/namespaces/podinfo", `{"labels":{"a":"b"}}`, "X-Change-Reason", "grüße 漢字", "X-Change-Author", "ünï@example.com").want(200)
}

// Allow lists the methods of this server: in mode read-only, no write.
func TestAllow(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]map[string]string{
		server.ModeCRUD: {
			"/clusters": "GET, HEAD, OPTIONS, POST", demoCluster: "DELETE, GET, HEAD, OPTIONS, PATCH, PUT", "/batch": "OPTIONS, POST",
			demoPolls + "/namespaces": "GET, HEAD, OPTIONS", "/health": "GET, HEAD, OPTIONS",
		},
		server.ModeReadOnly: {
			"/clusters": "OPTIONS", demoCluster: "OPTIONS", "/batch": "OPTIONS",
			demoPolls + "/namespaces": "GET, HEAD, OPTIONS", "/health": "GET, HEAD, OPTIONS",
		},
	} {
		w := setupWith(t, options{mode: mode})
		for path, allow := range want {
			for method, status := range map[string]int{"OPTIONS": 204, "BREW": 405, "CONNECT": 405, "TRACE": 405} {
				got := raw(t, w, method+" "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
				require.Equal(t, status, got.status, "%s %s %s", mode, method, path)
				require.Equal(t, []string{allow}, got.header.Values("Allow"), "%s %s %s", mode, method, path)
			}
		}
		if mode == server.ModeReadOnly {
			require.Equal(t, "OPTIONS", w.do("POST", "/clusters", `{}`).problem(405, "method_not_allowed").header.Get("Allow"))
		}
	}
}

// A request id from outside is kept where it is plain text, and replaced where it could forge something.
func TestRequestID(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, kept := range []string{"abc-123", "x", strings.Repeat("a", 128), `quoted"<>`} {
		require.Equal(t, kept, w.get(demoCluster, "X-Request-Id", kept).header.Get("X-Request-Id"))
	}
	for _, replaced := range []string{"a b", "tab\tbed", strings.Repeat("a", 129), "grüße", "\u2028", "\xff\xfe", writeToken, "a-" + readPrevious} {
		require.Len(t, w.get(demoCluster, "X-Request-Id", replaced).header.Get("X-Request-Id"), 36, replaced)
	}
	for _, injected := range []string{"x\r\nSet-Cookie: a=b", "x\nSet-Cookie: a=b", "x\x00y", "x\rSet-Cookie: a=b"} {
		got := raw(t, w, "GET /clusters HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+readToken+"\r\nX-Request-Id: "+injected+"\r\nConnection: close\r\n\r\n")
		require.Empty(t, got.header.Get("Set-Cookie"))
		require.NotEqual(t, injected, got.header.Get("X-Request-Id"))
	}
	require.NotContains(t, w.logs.String(), "Set-Cookie: a=b\n")
}

func TestPanic(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.faults.set(func(f *faultyStore) { f.panics = true })
	got := w.get("/revisions", "X-Request-Id", "boom-1").problem(500, "internal_error")
	require.Contains(t, got.json()["detail"], "boom-1")
	for _, leak := range []string{"secret", "goroutine", ".go:", "panic"} {
		require.NotContains(t, string(got.body), leak)
	}
	failed := w.logs.lines(t, "request failed")
	require.Len(t, failed, 1)
	require.Equal(t, "boom-1", failed[0]["request_id"])
	require.Contains(t, failed[0]["error"], "the secret of")
	require.Equal(t, 1.0, w.metric("flux_resourceset_panics_total"))
	w.get(demoCluster).want(200)
}

// While the store is unavailable, reads and polls are answered, and writes get Retry-After.
func TestStoreUnavailable(t *testing.T) {
	t.Parallel()
	w := setup(t)
	before := w.poll(demoPolls + "/platform-components")
	w.faults.set(func(f *faultyStore) {
		f.fail = fmt.Errorf("%w: dial tcp db.internal:5432, password %s", store.ErrUnavailable, readPrevious)
	})
	w.requireOutage(before)
	w.faults.set(func(f *faultyStore) { f.fail = nil })
	w.get("/ready").want(200)
	w.patch(demoCluster, `{"environment":"qa"}`).want(200)
}

func TestStoreClosed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	before := w.poll(demoPolls + "/platform-components")
	require.NoError(t, w.store.Close())
	w.requireOutage(before)
}

func (w *world) requireOutage(before *answer) {
	w.t.Helper()
	for _, refused := range []*answer{
		w.patch(demoCluster, `{"environment":"qa"}`), w.create503("/namespaces", `{"id":"x"}`), w.delete(demoCluster), w.put(demoCluster+"/namespaces/traefik", `{}`, "Content-Type", ""),
		w.put(demoCluster, `{"environment":"dev"}`),                              // which it is, as far as is known here
		w.patch("/clusters/none", `{"environment":"qa"}`),                        // which is not there, as far as is known here
		w.patch(demoCluster, `{"environment":"qa"}`, "If-Match", `"1-00000000"`), // likewise
		w.patch(demoCluster+"?dry_run=true", `{"environment":"qa"}`),
		w.do(http.MethodPost, "/plan", `{"operations":[{"op":"delete","kind":"namespace","id":"none"}]}`),
	} {
		refused.problem(503, "store_unavailable")
		require.Equal(w.t, "1", refused.header.Get("Retry-After"))
		require.NotContains(w.t, string(refused.body), "db.internal")
	}
	w.get("/revisions").problem(503, "store_unavailable")
	notReady := w.get("/ready").want(503)
	require.Equal(w.t, "the store does not answer", at(notReady.json(), "checks", "store"))
	require.NotContains(w.t, string(notReady.body), "db.internal")
	w.get("/ready?for=polls").want(200) // polls are still answered, so a load balancer must keep sending them
	w.get("/ready?for=changes").problem(400, "validation_error")
	w.get("/health").want(200)
	after := w.poll(demoPolls + "/platform-components").want(200)
	require.Equal(w.t, before.body, after.body)
	require.Equal(w.t, "dev", w.get(demoCluster).want(200).json()["environment"])
	w.patch(demoCluster, `{"nonsense":1}`).problem(400, "validation_error")
}

func (w *world) create503(path, body string) *answer {
	w.t.Helper()
	return w.do(http.MethodPost, path, body)
}

// The readiness of a server for changes is false while commits fail, although the store answers, and true again as soon as one
// would succeed, without an attempt.
func TestReadyWhileCommitsFail(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, fails := range []error{
		errors.New("the log is full"), fmt.Errorf("%w: cannot start a transaction", store.ErrUnavailable), fmt.Errorf("%w: cut off", store.ErrUnknown),
	} {
		w.faults.set(func(f *faultyStore) { f.commit = fails })
		w.get("/ready").want(200)
		require.GreaterOrEqual(t, w.create503("/namespaces", `{"id":"x"}`).status, 500)
		for range 3 {
			notReady := w.get("/ready").want(503)
			require.Equal(t, "the store answers, but commits fail; the log has the cause", at(notReady.json(), "checks", "store"))
		}
		w.poll(demoPolls + "/namespaces").want(200)
		w.faults.set(func(f *faultyStore) { f.commit = nil })
		w.get("/ready").want(200)
		w.get("/ready").want(200)
	}
	// Refused requests and canceled waits do not affect it.
	w.do(http.MethodPost, "/namespaces", `{"id":"podinfo"}`).problem(409, "conflict")
	w.faults.set(func(f *faultyStore) { f.commit = context.Canceled })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.replica.Update(ctx, store.Meta{}, func(tx *fleet.Tx) error {
		_, err := tx.Create(fleet.KindNamespace, []byte(`{"id":"x"}`))
		return err
	})
	require.Error(t, err)
	w.get("/ready").want(200)
}

// Others that are faster every time have a code of their own: the store is well.
func TestContended(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.faults.set(func(f *faultyStore) { f.commit = fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrContended) })
	got := w.create503("/namespaces", `{"id":"x"}`).problem(503, "contended")
	require.Equal(t, "1", got.header.Get("Retry-After"))
}

// An unclear commit is reported as unknown, with its id, and without Retry-After, because a repetition could commit it twice.
func TestOutcomeUnknown(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.faults.set(func(f *faultyStore) { f.commit = fmt.Errorf("%w: connection reset", store.ErrUnknown) })
	got := w.patch(demoCluster, `{"environment":"qa"}`).problem(503, "outcome_unknown")
	require.Empty(t, got.header.Get("Retry-After"))
	require.Regexp(t, `commit [0-9a-f-]{36}`, got.json()["detail"])
	require.NotContains(t, string(got.body), "connection reset")
}

func TestUnexpectedStoreError(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.faults.set(func(f *faultyStore) { f.commit = fmt.Errorf("%w at page 7", store.ErrCorrupt) })
	got := w.patch(demoCluster, `{"environment":"qa"}`).problem(500, "internal_error")
	require.NotContains(t, string(got.body), "page 7")
	w.faults.set(func(f *faultyStore) { f.commit = store.ErrReadOnly })
	w.patch(demoCluster, `{"environment":"qa"}`).problem(405, "method_not_allowed")
	w.requirePolls(demoDNS, 200, "")
}

// Polls and probes are logged at level debug only, because they are the bulk of the requests.
func TestRequestLog(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]int{slog.LevelInfo: 2, slog.LevelDebug: 6} {
		w := setupWith(t, options{level: level})
		w.poll(demoPolls + "/namespaces").want(200)
		w.get("/health").want(200)
		w.get("/ready").want(200)
		w.get("/metrics").want(200)
		w.patch(demoCluster, `{"environment":"qa"}`, "X-Request-Id", "w-1", "User-Agent", "test").want(200)
		w.get("/clusters/nobody").want(404)
		lines := w.logs.lines(t, "request")
		require.Len(t, lines, want, level)
		for _, line := range lines {
			if line["method"] != "PATCH" {
				continue
			}
			require.Equal(t, "w-1", line["request_id"])
			require.Equal(t, demoCluster, line["path"])
			require.EqualValues(t, 200, line["status"])
			require.Equal(t, "static-write", line["actor"])
			require.Equal(t, "test", line["user_agent"])
			require.Contains(t, line, "took")
			require.Contains(t, line, "remote")
		}
	}
}

func TestHardenedHeaders(t *testing.T) {
	t.Parallel()
	w := setup(t)
	debug := setupWith(t, options{level: slog.LevelDebug}) // polls go the router's way
	for _, path := range []string{"/clusters", "/health", "/openapi.json", "/docs/", "/nowhere", demoPolls + "/namespaces", demoPolls + "/nothing", "/api/v2/flux/clusters"} {
		got := debug.get(path)
		require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"), path)
		require.Equal(t, "no-store", got.header.Get("Cache-Control"), path)
		got = w.get(path)
		require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"), path)
		require.Equal(t, "no-store", got.header.Get("Cache-Control"), path)
		require.Empty(t, got.header.Get("Server"), path)
		require.Empty(t, got.header.Get("Access-Control-Allow-Origin"), path)
	}
	require.Contains(t, w.get("/docs/").header.Get("Content-Security-Policy"), "default-src 'none'")
}
