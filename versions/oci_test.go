package versions

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
)

var created = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// TestRepository: the versions of a chart, an artifact and an image, by precedence, with digests and times.
func TestRepository(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	digests := map[string]string{}
	for i, tag := range []string{"1.9.0", "1.10.0", "1.10.0_build.1", "v2.0.0-rc.1", "latest", "sha-0123abc"} {
		digests[tag] = r.push(t, "charts/podinfo:"+tag, created.Add(time.Duration(i)*time.Hour), nil)
	}
	s := newScanner(t, []*server{r})
	got := scanOne(t, s, Source{Kind: Chart, URL: "oci://" + r.host() + "/charts/", Path: "podinfo", Wants: every})
	require.Nil(t, got.Err)
	require.Equal(t, []string{"v2.0.0-rc.1", "1.10.0+build.1", "1.10.0", "1.9.0", "sha-0123abc", "latest"}, names(got.Versions))
	require.Equal(t, Version{"1.10.0+build.1", "1.10.0_build.1", digests["1.10.0_build.1"], created.Add(2 * time.Hour)}, got.Versions[1])
	require.Equal(t, 6, got.Listed)
	require.Zero(t, got.Invalid)
	require.False(t, got.Truncated)

	got = scanOne(t, s, Source{Kind: Image, URL: r.host() + "/charts/podinfo", Wants: func(v string) bool { return v == "1.10.0_build.1" }})
	require.Nil(t, got.Err)
	require.Equal(t, []string{"1.10.0_build.1"}, names(got.Versions), "a tag of an image is not changed")
}

// TestKnownVersions: digests of known versions are not requested again, a tracked tag is, and its time only if it moved.
func TestKnownVersions(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	for _, tag := range []string{"1.0.0", "1.1.0", "latest"} {
		r.push(t, "podinfo:"+tag, created, map[string]string{createdAnnotation: "2026-01-02T03:04:05Z"})
	}
	s := newScanner(t, []*server{r})
	source := Source{Kind: OCIArtifact, URL: "oci://" + r.host() + "/podinfo", Wants: func(v string) bool { return v != "latest" }, Track: []string{"latest", "missing", "not/a/tag"}}
	first := scanOne(t, s, source)
	require.Nil(t, first.Err)
	require.Equal(t, []string{"1.1.0", "1.0.0", "latest"}, names(first.Versions))
	require.Equal(t, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), first.Versions[2].CreatedAt, "the annotation comes before the configuration of the image")
	require.Zero(t, r.count("/blobs/"), "the annotation is enough")
	require.Equal(t, 3+1, r.count("/manifests/"), "one for each, and one that does not exist")

	before := r.count("/manifests/")
	for _, v := range first.Versions {
		v.Tag = "" // the version is enough
		source.Known = append(source.Known, v)
	}
	second := scanOne(t, s, source)
	require.Equal(t, first.Versions, second.Versions)
	require.Equal(t, 2, r.count("/manifests/")-before, "the tracked ones")

	moved := r.push(t, "podinfo:latest", created.Add(time.Hour), nil)
	third := scanOne(t, s, source)
	require.Equal(t, Version{"latest", "latest", moved, created.Add(time.Hour)}, third.Versions[2])

	// Without a filter, the list of tags is not read.
	before = r.count("/tags/list")
	only := scanOne(t, s, Source{Kind: Image, URL: r.host() + "/podinfo", Track: []string{"latest"}})
	require.Equal(t, third.Versions[2:], only.Versions)
	require.Equal(t, before, r.count("/tags/list"))
}

// TestSharedList: components with one repository share its requests.
func TestSharedList(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	for _, tag := range []string{"1.0.0", "2.0.0"} {
		r.push(t, "podinfo:"+tag, created, nil)
	}
	s := newScanner(t, []*server{r})
	one := Source{Kind: OCIArtifact, URL: "oci://" + r.host() + "/podinfo", Wants: func(v string) bool { return v == "1.0.0" }}
	two := Source{Kind: Image, URL: r.host() + "/podinfo", Wants: every}
	got := scanAll(t, s, one, two, one)
	require.Equal(t, []string{"1.0.0"}, names(got[0].Versions))
	require.Equal(t, []string{"2.0.0", "1.0.0"}, names(got[1].Versions))
	require.Equal(t, got[0].Versions, got[2].Versions)
	require.Equal(t, 1, r.count("/tags/list"))
	require.Equal(t, 2, r.count("/manifests/"))
}

// TestMultiPlatformImage: the time is that of an image for linux/amd64.
func TestMultiPlatformImage(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	var add []mutate.IndexAddendum
	for i, arch := range []string{"arm64", "amd64"} {
		img, err := mutate.CreatedAt(empty.Image, v1.Time{Time: created.Add(time.Duration(i) * time.Hour)})
		require.NoError(t, err)
		add = append(add, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	index := mutate.AppendManifests(empty.Index, add...)
	ref, err := name.ParseReference(r.host() + "/podinfo:1.0.0")
	require.NoError(t, err)
	require.NoError(t, remote.WriteIndex(ref, index, remote.WithTransport(r.Client().Transport)))
	digest, err := index.Digest()
	require.NoError(t, err)
	got := scanOne(t, newScanner(t, []*server{r}), Source{Kind: Image, URL: r.host() + "/podinfo", Wants: every})
	require.Nil(t, got.Err)
	require.Equal(t, []Version{{"1.0.0", "1.0.0", digest.String(), created.Add(time.Hour)}}, got.Versions)
}

// TestResolveLimit: one scan requests the digests of the newest versions only.
func TestResolveLimit(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	for _, tag := range []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0"} {
		r.push(t, "podinfo:"+tag, created, nil)
	}
	s := newScanner(t, []*server{r}, func(c *Config) { c.Limits.Resolve, c.Limits.Keep = 2, 3 })
	got := scanOne(t, s, Source{Kind: Image, URL: r.host() + "/podinfo", Wants: every, Known: []Version{{Version: "1.0.0"}, {Version: "0.9.0"}}})
	require.Equal(t, []string{"1.3.0", "1.2.0", "1.1.0"}, names(got.Versions))
	require.Equal(t, []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0"}, got.Present)
	require.NotEmpty(t, got.Versions[1].Digest)
	require.Empty(t, got.Versions[2].Digest)
	require.Equal(t, 4, got.Listed)
}

// tokenService returns a registry that requires tokens, and its service for tokens, which is another host.
func tokenService(t *testing.T) (r, tokens *server) {
	t.Helper()
	tokens = newServer(t, func(w http.ResponseWriter, q *http.Request) {
		user, password, ok := q.BasicAuth()
		if ok && (user != "robot" || password != "PASSWORD") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if !ok {
			_, _ = w.Write([]byte(`{"token":"anonymous"}`))
			return
		}
		_, _ = w.Write([]byte(`{"token":"TOKEN"}`))
	})
	r = newRegistry(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.Header.Get("Authorization") == "Bearer TOKEN" || q.Header.Get("Pushing") != "" {
				next.ServeHTTP(w, q)
				return
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="https://localhost`+tokens.URL[len("https://127.0.0.1"):]+`/token",service="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
		})
	})
	return r, tokens
}

// TestTokens: the credentials of a registry are exchanged for a token, and only sent to its service for tokens.
func TestTokens(t *testing.T) {
	t.Parallel()
	r, tokens := tokenService(t)
	push := r.Client().Transport
	r.Client().Transport = roundTripper(func(q *http.Request) (*http.Response, error) {
		q.Header.Set("Pushing", "true")
		return push.RoundTrip(q)
	})
	r.push(t, "private/podinfo:1.0.0", created, nil)
	source := Source{Kind: Image, URL: r.host() + "/private/podinfo", Wants: every}
	trust := func(c *Config) { c.TLS.ServerName = "example.com" } // the certificate of the test has no name localhost
	for name, test := range map[string]struct {
		auth string
		want Class
	}{
		"of the registry": {`{"auths":{"` + r.host() + `":{"username":"robot","password":"PASSWORD"}}}`, ""},
		"of the path":     {`{"auths":{"` + r.host() + `":{"auth":"eDp5"},"` + r.host() + `/private":{"auth":"cm9ib3Q6UEFTU1dPUkQ="}}}`, ""},
		"wrong":           {`{"auths":{"` + r.host() + `":{"auth":"eDp5"}}}`, Unauthorized},
		"of another host": {`{"auths":{"other.example.com":{"auth":"cm9ib3Q6UEFTU1dPUkQ="}}}`, Unauthorized},
		"of another path": {`{"auths":{"` + r.host() + `/priv":{"auth":"cm9ib3Q6UEFTU1dPUkQ="}}}`, Unauthorized},
		"none":            {`{}`, Unauthorized},
		"programs only":   {`{"credsStore":"evil","credHelpers":{"` + r.host() + `":"evil"}}`, Unauthorized},
	} {
		s := newScanner(t, []*server{r, tokens}, trust, func(c *Config) { c.AuthFile = authFile(t, test.auth) })
		got := scanOne(t, s, source)
		if test.want == "" {
			require.Nil(t, got.Err, name)
			require.Equal(t, []string{"1.0.0"}, names(got.Versions), name)
			continue
		}
		require.NotNil(t, got.Err, name)
		require.Equal(t, test.want, got.Err.Class, name)
		require.Empty(t, got.Versions)
	}
	for _, value := range r.headers("Authorization") {
		require.NotContains(t, value, "Basic", "the registry receives tokens only")
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestHTTP: a registry without TLS needs a setting.
func TestHTTP(t *testing.T) {
	t.Parallel()
	tls := newRegistry(t)
	plain := httptest.NewServer(tls.Config.Handler)
	t.Cleanup(plain.Close)
	tls.push(t, "podinfo:1.0.0", created, nil)
	host := plain.Listener.Addr().String()
	for _, allow := range []bool{false, true} {
		s := newScanner(t, nil, func(c *Config) { c.AllowHTTP = allow })
		got := scanOne(t, s, Source{Kind: Image, URL: host + "/podinfo", Wants: every})
		require.Equal(t, allow, got.Err == nil, "%v", got.Err)
		if allow {
			require.Equal(t, []string{"1.0.0"}, names(got.Versions))
		}
	}
}

// TestPagesOfRegistries: all tags are read from registries that send no link, links of another scheme or port, several links,
// or small pages only.
func TestPagesOfRegistries(t *testing.T) {
	t.Parallel()
	const all = 2105
	for name, c := range map[string]struct {
		links            func(r *http.Request, next string) []string
		most             int // tags per page; more are refused
		ignoresLast      bool
		listed, requests int
		truncated        bool
	}{
		"a link":           {func(_ *http.Request, next string) []string { return []string{"<" + next + `>; rel="next"`} }, 1000, false, all, 3, false},
		"no link":          {nil, 1000, false, all, 3, false},
		"no link, no last": {nil, 1000, true, 1000, 2, true},
		"another scheme": {func(r *http.Request, next string) []string {
			return []string{"<http://" + r.Host + next + `>; rel="next"`}
		}, 1000, false, all, 3, false},
		"another port": {func(_ *http.Request, next string) []string {
			return []string{"<https://127.0.0.1:9" + next + `>; rel="next"`}
		}, 1000, false, all, 3, false},
		"a second header": {func(_ *http.Request, next string) []string {
			return []string{"</x>; rel=prev", "<" + next + ">; rel=next"}
		}, 1000, false, all, 3, false},
		"a second link": {func(_ *http.Request, next string) []string {
			return []string{`</x>; rel="first", <` + next + `>; title="a,b"; rel="next"`}
		}, 1000, false, all, 3, false},
		"no next link":      {func(*http.Request, string) []string { return []string{"</x>; rel=first"} }, 1000, false, all, 3, false},
		"pages of 100 only": {func(_ *http.Request, next string) []string { return []string{"<" + next + ">"} }, 100, false, all, 23, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newServer(t, func(w http.ResponseWriter, q *http.Request) {
				if strings.Contains(q.URL.Path, "/manifests/") {
					w.WriteHeader(http.StatusNotFound)
				}
				if !strings.HasSuffix(q.URL.Path, "/tags/list") {
					return
				}
				n, err := strconv.Atoi(q.URL.Query().Get("n"))
				if err != nil || n > c.most {
					w.WriteHeader(http.StatusBadRequest)
					return
				}
				first := 0
				if last, err := strconv.Atoi(strings.TrimPrefix(q.URL.Query().Get("last"), "1.0.")); err == nil && !c.ignoresLast {
					first = last + 1
				}
				var tags []string
				for i := first; i < min(first+n, all); i++ {
					tags = append(tags, fmt.Sprintf(`"1.0.%d"`, i))
				}
				if first+n < all && c.links != nil {
					for _, link := range c.links(q, fmt.Sprintf("%s?n=%d&last=1.0.%d", q.URL.Path, n, first+n-1)) {
						w.Header().Add("Link", link)
					}
				}
				_, _ = fmt.Fprintf(w, `{"tags":[%s]}`, strings.Join(tags, ","))
			})
			got := scanOne(t, newScanner(t, []*server{r}), Source{Kind: Image, URL: r.host() + "/podinfo", Wants: every})
			require.Nil(t, got.Err)
			require.Equal(t, c.listed, got.Listed)
			require.Equal(t, c.truncated, got.Truncated)
			require.Equal(t, c.requests, r.count("/tags/list"))
		})
	}
}
