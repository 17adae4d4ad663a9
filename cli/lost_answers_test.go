package cli_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

var namedRequest = regexp.MustCompile(`request id ([0-9a-f-]{36})`)

// TestLostAnswers: the error of a change without a response names the request, under which the history has it.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	server := serve(t, "DATABASE_URL=sqlite::memory:", "SEED_FILE=../examples/demo/seed.json", "SEED_ACCEPT=true")
	var plansToo atomic.Bool
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(server) },
		ModifyResponse: func(r *http.Response) error {
			if r.Request.Method != http.MethodGet && (plansToo.Load() || r.Request.URL.Path != "/plan") {
				panic(http.ErrAbortHandler) // after the server has answered
			}
			return nil
		},
	}
	lossy := httptest.NewServer(proxy)
	t.Cleanup(lossy.Close)
	direct := map[string]string{"FLUX_API_URL": server.String(), "FLUX_API_TOKEN": "read-token", "FLUX_API_WRITE_TOKEN": "write-token", "XDG_STATE_HOME": t.TempDir()}
	through := maps.Clone(direct)
	through["FLUX_API_URL"] = lossy.URL
	for _, args := range []string{
		"namespace create n", "namespace set n --label a=b", `namespace set n -p {"labels":null}`, "namespace create m --cluster demo-cluster-01",
		"namespace assign n --cluster demo-cluster-01", "namespace unassign n --cluster demo-cluster-01 --yes", "delete namespace n --yes",
		"apply -f -", "token create t --role read", "token rotate t", "token revoke t --yes", "cluster label demo-cluster-01 a=b",
		"component set podinfo --cluster demo-cluster-01 --set a=1", "component set --enabled=false podinfo --cluster demo-cluster-01 --yes",
		"restore 2 cluster demo-cluster-01 --yes", "delete cluster demo-cluster-01 --yes", "restore 1 --yes --max-removals 99",
	} {
		documents := strings.NewReader(`{"kind":"rolebinding","id":"r","role":"view","subjects":[]}`)
		got := run(t, cli.Env{Stdin: documents}, through, append(strings.Fields(args), "-q")...)
		request := namedRequest.FindStringSubmatch(got.stderr)
		if got.code != 1 || !strings.Contains(got.stderr, "may have been made") || !strings.Contains(got.stderr, "get revisions") || request == nil {
			t.Errorf("%s: exit %d\n%s", args, got.code, got.stderr)
			continue
		}
		if list := run(t, cli.Env{}, direct, "revision", "list", "--limit", "1"); !strings.Contains(list.stdout, request[1]) {
			t.Errorf("%s: no revision of request %s:\n%s", args, request[1], list.stdout)
		}
	}
	// Requests without a change, and requests that were never sent, lack that text.
	plansToo.Store(true)
	nowhere := maps.Clone(direct)
	nowhere["FLUX_API_URL"] = "http://127.0.0.1:1"
	for args, variables := range map[string]map[string]string{
		"namespace create k --dry-run": through, "namespace create k --plan": through, "namespace create k": nowhere,
	} {
		got := run(t, cli.Env{}, variables, strings.Fields(args)...)
		if got.code == 0 || strings.Contains(got.stderr, "may have been made") {
			t.Errorf("%s: exit %d\n%s", args, got.code, got.stderr)
		}
	}
}
