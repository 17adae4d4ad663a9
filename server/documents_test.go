package server_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sample is a document of one kind and a change of it, for tests of all kinds.
type sample struct {
	path, id, create string
	merge            string // a merge patch that changes it
	field            string // that the merge patch changes
	value            any    // it has afterwards
}

var samples = map[string]sample{
	"clusters": {
		"/clusters", "sample", `{"id":"sample","cluster_dns":"Sample.Example.com","environment":"dev"}`,
		`{"environment":"qa"}`, "environment", "qa",
	},
	"platform_components": {
		"/platform_components", "sample", `{"id":"sample","component_path":"charts/sample","oci_url":"https://charts.example.com"}`,
		`{"component_version":"1.2.3"}`, "component_version", "1.2.3",
	},
	"namespaces": {
		"/namespaces", "sample", `{"id":"sample"}`,
		`{"labels":{"team":"a"}}`, "labels",
		map[string]any{"team": "a"},
	},
	"rolebindings": {
		"/rolebindings", "sample", `{"id":"sample","role":"view","subjects":[{"kind":"User","name":"ann"}]}`,
		`{"role":"edit"}`, "role", "edit",
	},
}

var etagForm = regexp.MustCompile(`^"[0-9]+-[0-9a-f]{8}"$`)

// eachKind runs a test for every kind of document, each in a world of its own that holds the sample.
func eachKind(t *testing.T, test func(t *testing.T, w *world, s sample, created *answer)) {
	t.Helper()
	for name, s := range samples {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			test(t, w, s, w.create(s.path, s.create))
		})
	}
}

func TestDocumentLifeCycle(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, s sample, created *answer) {
		at := s.path + "/" + s.id
		require.Equal(t, at, created.header.Get("Location"))
		require.Regexp(t, etagForm, created.etag())
		require.Equal(t, 2, revisionOf(created))
		require.EqualValues(t, 2, created.json()["revision"])
		require.Equal(t, "2026-01-02T03:04:05.678901Z", created.json()["created_at"])

		got := w.get(at).want(200)
		require.JSONEq(t, string(created.body), string(got.body))
		require.Equal(t, created.etag(), got.etag())
		require.Contains(t, w.get(s.path).want(200).ids(), s.id)

		w.clock.advance(60e9)
		changed := w.patch(at, s.merge).want(200)
		require.Equal(t, s.value, changed.json()[s.field])
		require.NotEqual(t, created.etag(), changed.etag())
		require.Equal(t, "2026-01-02T03:04:05.678901Z", changed.json()["created_at"])
		require.Equal(t, "2026-01-02T03:05:05.678901Z", changed.json()["updated_at"])
		require.JSONEq(t, string(changed.body), string(w.get(at).body))

		deleted := w.delete(at).want(200)
		require.JSONEq(t, string(changed.body), string(deleted.body), "the document as it was")
		require.Equal(t, 4, revisionOf(deleted))
		w.get(at).problem(404, "not_found")
		w.delete(at).problem(404, "not_found")
		require.NotContains(t, w.get(s.path).ids(), s.id)
	})
}

// Null in a merge patch clears a field: required fields are refused, others get their default, and never null.
func TestNullClears(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, s sample, created *answer) {
		at := s.path + "/" + s.id
		cleared := 0
		for field, value := range created.json() {
			got := w.patch(at, fmt.Sprintf(`{%q:null}`, field))
			if got.status == 400 {
				got.problem(400, "validation_error")
				continue
			}
			require.Equal(t, 200, got.status, "%s: %s", field, got.body)
			require.IsType(t, value, got.json()[field], "%s: %s", field, got.body)
			cleared++
		}
		require.Greater(t, cleared, 3)
	})
}

func TestDocumentNotThere(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, s sample, _ *answer) {
		w.unchanged(func() {
			at := s.path + "/nobody"
			w.get(at).problem(404, "not_found")
			w.put(at, s.merge).problem(404, "not_found")
			w.patch(at, s.merge).problem(404, "not_found")
			w.delete(at).problem(404, "not_found")
			w.put(at, s.merge, "If-Match", `"1-00000000"`).problem(404, "not_found")
			require.Contains(t, string(w.do("POST", s.path, s.create).problem(409, "conflict").body), "exists already")
		})
	})
}

func TestDocumentIfMatch(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, s sample, created *answer) {
		at := s.path + "/" + s.id
		current := w.patch(at, s.merge, "If-Match", created.etag()).want(200).etag()
		w.unchanged(func() {
			for _, method := range []string{"PUT", "PATCH", "DELETE"} {
				body := s.merge
				if method == "DELETE" {
					body = ""
				}
				for _, stale := range []string{created.etag(), `"0-00000000"`, "nonsense", `"999-ffffffff", "998-ffffffff"`} {
					require.Equal(t, current, w.do(method, at, body, "If-Match", stale).problem(412, "stale").etag(), "the current one")
				}
			}
		})
		w.unchanged(func() {
			w.put(at, s.merge, "If-None-Match", "*").problem(400, "validation_error")
			w.patch(at, s.merge, "If-None-Match", current).problem(400, "validation_error")
			w.delete(at, "If-None-Match", `"1-00000000"`).problem(400, "validation_error")
		})
		for _, good := range []string{current, "*", `"0-00000000", ` + current, "W/" + current} {
			require.Equal(t, current, w.put(at, s.merge, "If-Match", good).want(200).etag(), "nothing changed, so nothing was committed")
		}
		w.delete(at, "If-Match", current).want(200)
	})
}

func TestDocumentIfNoneMatch(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, s sample, created *answer) {
		at := s.path + "/" + s.id
		for _, same := range []string{created.etag(), "W/" + created.etag(), "*", `"x", ` + created.etag()} {
			unchanged := w.get(at, "If-None-Match", same).want(304)
			require.Empty(t, unchanged.body)
			require.Equal(t, created.etag(), unchanged.etag())
		}
		w.get(at, "If-None-Match", `"1-00000000"`).want(200)
		w.patch(at, s.merge).want(200)
		w.get(at, "If-None-Match", created.etag()).want(200)
	})
}

func TestDocumentPatchTypes(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, s sample, _ *answer) {
		at := s.path + "/" + s.id
		for _, media := range []string{mergePatchType, "application/json", "application/json; charset=utf-8", "application/merge-patch+json;charset=UTF-8"} {
			require.Equal(t, s.value, w.do("PATCH", at, s.merge, "Content-Type", media).want(200).json()[s.field])
		}
		w.unchanged(func() {
			for _, media := range []string{"text/plain", "application/json-patch+json", "application/xml", "", "application/json; charset=latin1", "a/b/c", "application/x-www-form-urlencoded"} {
				refused := w.do("PATCH", at, s.merge, "Content-Type", media).problem(415, "unsupported_media_type")
				require.Equal(t, "application/json, application/merge-patch+json", refused.header.Get("Accept-Patch"))
			}
			w.do("PUT", at, s.merge, "Content-Type", mergePatchType).problem(415, "unsupported_media_type")
			w.do("POST", s.path, s.create, "Content-Type", "text/json").problem(415, "unsupported_media_type")
		})
	})
}

func TestDocumentDryRun(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, s sample, created *answer) {
		at := s.path + "/" + s.id
		w.unchanged(func() {
			other := strings.ReplaceAll(strings.ReplaceAll(s.create, `"sample"`, `"other"`), "Sample.", "other.")
			would := w.do("POST", s.path+"?dry_run=true", other).want(200)
			require.Equal(t, "other", would.json()["id"])
			require.Empty(t, would.header.Get("Location"))
			require.Equal(t, 2, revisionOf(would), "the fleet still stands where it stood")
			w.get(s.path+"/other").problem(404, "not_found")

			require.Equal(t, s.value, w.patch(at+"?dry_run=true", s.merge).want(200).json()[s.field])
			require.Equal(t, s.value, w.put(at+"?dry_run=true", s.merge).want(200).json()[s.field])
			require.Equal(t, 2, revisionOf(w.delete(at+"?dry_run=true").want(200)))
			require.JSONEq(t, string(created.body), string(w.get(at).want(200).body))

			w.do("POST", s.path+"?dry_run=true", s.create).problem(409, "conflict")
			w.patch(at+"?dry_run=true", `{"nonsense":1}`).problem(400, "validation_error")
			w.patch(at+"?dry_run=maybe", s.merge).problem(400, "validation_error")
			w.patch(at+"?dryrun=true", s.merge).problem(400, "validation_error")
			w.patch(at+"?dry_run=false&dry_run=true", s.merge).problem(400, "validation_error")
			w.patch(at+"?dry_run=true", s.merge, "If-Match", `"0-00000000"`).problem(412, "stale")
		})
		w.patch(at+"?dry_run=false", s.merge).want(200)
		require.Equal(t, 3, w.revision())
	})
}

// A write without a change makes no commit, with any method.
func TestDocumentNoChange(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, s sample, created *answer) {
		at := s.path + "/" + s.id
		w.unchanged(func() {
			for _, again := range []*answer{
				w.put(at, string(created.body)), w.patch(at, string(created.body)), w.put(at, s.create), w.put(at, `{}`), w.patch(at, `{}`),
				w.put(at, `{"revision":77,"created_at":"2020-01-01T00:00:00Z","updated_at":"2020-01-01T00:00:00Z"}`),
			} {
				require.JSONEq(t, string(created.body), string(again.want(200).body))
				require.Equal(t, created.etag(), again.etag())
				require.Equal(t, 2, revisionOf(again))
			}
		})
	})
}

func TestDocumentIDNeverChanges(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, s sample, _ *answer) {
		w.unchanged(func() {
			for _, method := range []string{"PUT", "PATCH"} {
				require.Equal(t, []string{"/id"}, w.do(method, s.path+"/"+s.id, `{"id":"other"}`).problem(400, "validation_error").pointers())
			}
		})
		w.put(s.path+"/"+s.id, `{"id":"sample"}`).want(200)
	})
}

func TestListPaging(t *testing.T) {
	t.Parallel()
	for path, create := range map[string]func(string) string{
		"/clusters": func(id string) string {
			return fmt.Sprintf(`{"id":%q,"cluster_dns":"%s.example.com","environment":"dev"}`, id, id)
		},
		"/platform_components": func(id string) string {
			return fmt.Sprintf(`{"id":%q,"component_path":"p","oci_url":"oci://r/%s"}`, id, id)
		},
		"/namespaces":   func(id string) string { return fmt.Sprintf(`{"id":%q}`, id) },
		"/rolebindings": func(id string) string { return fmt.Sprintf(`{"id":%q,"role":"view","subjects":[]}`, id) },
	} {
		t.Run(path[1:], func(t *testing.T) {
			t.Parallel()
			w := setupWith(t, options{empty: true})
			require.Equal(t, "[]\n", string(w.get(path).want(200).body))
			for _, id := range []string{"c", "e", "a", "d", "b"} {
				w.create(path, create(id))
			}
			all := w.get(path)
			require.Equal(t, []string{"a", "b", "c", "d", "e"}, all.ids())
			require.Equal(t, "5", all.header.Get("X-Total-Count"))
			require.Empty(t, all.header.Get("Link"))

			var pages [][]string
			for next := path + "?limit=2"; next != ""; {
				page := w.get(next).want(200)
				require.Equal(t, "5", page.header.Get("X-Total-Count"))
				pages = append(pages, page.ids())
				next = nextLink(t, page)
			}
			require.Equal(t, [][]string{{"a", "b"}, {"c", "d"}, {"e"}}, pages)
			require.Equal(t, []string{"d", "e"}, w.get(path+"?offset=3").ids())
			require.Empty(t, w.get(path+"?offset=5").ids())
			require.Empty(t, w.get(path+"?offset=999999999&limit=10000").ids())
			require.Empty(t, nextLink(t, w.get(path+"?limit=5")))
			for _, bad := range []string{"limit=0", "limit=-1", "limit=10001", "limit=x", "offset=-1", "offset=1.5", "limit=1&limit=2", "page=2", "limit=", "limit=99999999999999999999"} {
				w.get(path+"?"+bad).problem(400, "validation_error")
			}
		})
	}
}

// nextLink is the target of Link: rel="next", or empty.
func nextLink(t *testing.T, a *answer) string {
	t.Helper()
	link := a.header.Get("Link")
	if link == "" {
		return ""
	}
	target, ok := strings.CutSuffix(link, `>; rel="next"`)
	require.True(t, ok, link)
	target = strings.TrimPrefix(target, "<")
	_, err := url.Parse(target)
	require.NoError(t, err)
	return target
}

func TestReadYourWrites(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, path := range []string{demoPolls + "/namespaces", demoCluster, "/clusters", "/api/v2/flux/clusters", "/namespaces"} {
		require.Equal(t, 1, revisionOf(w.get(path, "X-Fleet-Min-Revision", "1").want(200)))
		w.get(path, "X-Fleet-Min-Revision", "soon").problem(400, "validation_error")
	}
	w.get("/clusters", "X-Fleet-Min-Revision", "-1").problem(400, "validation_error")

	// A read that asks for the next revision waits for it.
	answers := make(chan *answer)
	go func() { answers <- w.get(demoPolls+"/namespaces", "X-Fleet-Min-Revision", "2") }()
	w.put(demoCluster, `{"namespaces":[{"id":"podinfo"}]}`).want(200)
	got := <-answers
	require.Equal(t, []string{"podinfo"}, got.want(200).ids())
	require.Equal(t, 2, revisionOf(got))

	late := w.get(demoPolls+"/namespaces", "X-Fleet-Min-Revision", "3").problem(503, "store_unavailable")
	require.Equal(t, "1", late.header.Get("Retry-After"))
	require.Contains(t, string(late.body), "revision 3 has not arrived here")

	// The error for a revision that the store does not have differs from the one for a late revision: waiting does not help.
	for range 2 {
		unknown := w.get(demoCluster, "X-Fleet-Min-Revision", "3").problem(503, "unknown_revision")
		require.Empty(t, unknown.header.Get("Retry-After"))
		require.Equal(t, 2, revisionOf(unknown))
	}
	w.put(demoCluster, `{"namespaces":[]}`, "X-Fleet-Min-Revision", "3").problem(503, "unknown_revision")
	w.get(demoCluster, "X-Fleet-Min-Revision", "2").want(200)
}

// HEAD is GET without the body, wherever there is a GET.
func TestHead(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, path := range []string{"/health", "/ready", "/version", "/openapi.yaml", demoPolls + "/namespaces", "/clusters", demoCluster, "/revisions/1", "/docs/"} {
		get, head := w.get(path).want(200), w.do(http.MethodHead, path, "").want(200)
		require.NotEmpty(t, get.body, path)
		require.Empty(t, head.body, path)
		for _, name := range []string{"Content-Type", "ETag", "X-Fleet-Revision", "X-Total-Count"} {
			require.Equal(t, get.header.Get(name), head.header.Get(name), "%s %s", path, name)
		}
	}
	require.Empty(t, w.do(http.MethodHead, "/clusters/nobody", "").want(404).body)
	w.do(http.MethodHead, demoCluster, "", "Authorization", "").want(401)
	w.do(http.MethodHead, "/nowhere", "").want(404)
	w.do(http.MethodHead, demoCluster+"/namespaces/podinfo", "").want(405)
}
