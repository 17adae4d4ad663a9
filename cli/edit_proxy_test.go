package cli_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestEditBehindProxies: edit fails if another client changes the document, and only then, also behind proxies that compress: nginx
// removes a strong ETag or makes it weak, Apache appends the name of the compression.
func TestEditBehindProxies(t *testing.T) {
	t.Parallel()
	target, err := url.Parse(realServer(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, rewrite := range map[string]func(etag string) string{
		"removed": func(string) string { return "" },
		"weak":    func(etag string) string { return "W/" + etag },
		"suffix":  func(etag string) string { return strings.TrimSuffix(etag, `"`) + `-gzip"` },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := httptest.NewServer(&httputil.ReverseProxy{
				Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
				ModifyResponse: func(rsp *http.Response) error {
					etag := rsp.Header.Get("ETag")
					rsp.Header.Del("ETag")
					if etag = rewrite(etag); etag != "" {
						rsp.Header.Set("ETag", etag)
					}
					return nil
				},
			})
			t.Cleanup(proxy.Close)
			variables := map[string]string{"FLUX_API_URL": proxy.URL, "FLUX_API_TOKEN": "write-token"}
			if got := run(t, cli.Env{}, variables, "namespace", "create", name, "--label", "a=b"); got.code != 0 {
				t.Fatal(got.stderr)
			}
			other := "curl -sSf -o /dev/null -X PATCH -H 'Authorization: Bearer write-token' -H 'Content-Type: application/merge-patch+json' -d '{\"labels\":{\"other\":\"x\"}}' " + target.String() + "/namespaces/" + name
			variables["EDITOR"] = other + "; sed -i 's/a: b/a: c/'"
			if got := run(t, cli.Env{}, variables, "edit", "namespace", name); got.code != 1 || !strings.Contains(got.stderr, "412 stale") {
				t.Errorf("another client changed it: exit code %d\n%s%s", got.code, got.stdout, got.stderr)
			}
			variables["EDITOR"] = "sed -i 's/a: b/a: c/'"
			if got := run(t, cli.Env{}, variables, "edit", "namespace", name); got.code != 0 {
				t.Errorf("nobody changed it: exit code %d\n%s", got.code, got.stderr)
			}
		})
	}
}
