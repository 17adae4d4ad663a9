package cli_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestConfirmedPlanBindsChange: a change is made only while it has the effect that was compared with --max-removals, also on one cluster.
func TestConfirmedPlanBindsChange(t *testing.T) {
	t.Parallel()
	server := serve(t, "DATABASE_URL=sqlite::memory:", "SEED_FILE=../examples/demo/seed.json", "SEED_ACCEPT=true")
	direct := map[string]string{"FLUX_API_URL": server.String(), "FLUX_API_TOKEN": "read-token", "FLUX_API_WRITE_TOKEN": "write-token", "XDG_STATE_HOME": t.TempDir()}
	meanwhile := ""
	srv := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(server) },
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Path == "/plan" {
				if got := run(t, cli.Env{}, direct, strings.Fields(meanwhile)...); got.code != 0 {
					t.Errorf("%s: exit %d\n%s", meanwhile, got.code, got.stderr)
				}
			}
			return nil
		},
	})
	t.Cleanup(srv.Close)
	through := maps.Clone(direct)
	through["FLUX_API_URL"] = srv.URL
	for _, test := range []struct{ before, args, meanwhile string }{
		{
			"", "component set podinfo --cluster demo-cluster-01 --set replicaCount=3",
			"component set podinfo --cluster demo-cluster-01 --set replicaCount=7",
		},
		{
			"component set podinfo --cluster demo-cluster-01 --set a.b=1 --field-manager ci",
			"component relinquish podinfo --cluster demo-cluster-01 --field-manager ci",
			"component set podinfo --cluster demo-cluster-01 --set a.c=1 --field-manager ci",
		},
		{"", "cluster label demo-cluster-01 tier=web", "cluster label demo-cluster-01 tier=other"},
		{"", "component set --enabled=false podinfo --cluster demo-cluster-01 --max-removals 1", "component set --enabled=false podinfo --cluster demo-cluster-01"},
	} {
		if test.before != "" {
			if got := run(t, cli.Env{}, direct, strings.Fields(test.before)...); got.code != 0 {
				t.Fatalf("%s: exit %d\n%s", test.before, got.code, got.stderr)
			}
		}
		meanwhile = test.meanwhile
		args := strings.Fields(test.args)
		if !strings.Contains(test.args, "--max-removals") {
			args = append(args, "--max-removals", "0")
		}
		if got := run(t, cli.Env{}, through, args...); got.code != 1 || !strings.Contains(got.stderr, "plan") {
			t.Errorf("%s: exit %d, although the effect changed after the plan\n%s", test.args, got.code, got.stderr)
		}
	}
}

// TestLeavesSelectionMeanwhile: a cluster that no longer matches the selector when the change is made is not changed.
func TestLeavesSelectionMeanwhile(t *testing.T) {
	t.Parallel()
	server := serve(t, "DATABASE_URL=sqlite::memory:", "SEED_FILE=../examples/demo/seed.json", "SEED_ACCEPT=true")
	direct := map[string]string{"FLUX_API_URL": server.String(), "FLUX_API_TOKEN": "read-token", "FLUX_API_WRITE_TOKEN": "write-token", "XDG_STATE_HOME": t.TempDir()}
	must := func(args string) string {
		got := run(t, cli.Env{}, direct, strings.Fields(args)...)
		if got.code != 0 {
			t.Errorf("%s: exit %d\n%s", args, got.code, got.stderr)
		}
		return got.stdout
	}
	meanwhile := ""
	srv := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(server) },
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Query().Has("selector") && meanwhile != "" {
				args := meanwhile
				meanwhile = ""
				must(args)
			}
			return nil
		},
	})
	t.Cleanup(srv.Close)
	through := maps.Clone(direct)
	through["FLUX_API_URL"] = srv.URL
	must("cluster create stays --dns stays.example.com --environment dev --label a=b")
	must("cluster create leaves --dns leaves.example.com --environment dev --label a=b")
	for _, args := range []string{"cluster set --selector a=b --node-count 3", "delete cluster --selector a=b --yes"} {
		must("cluster label leaves a=b")
		meanwhile = "cluster label leaves a=c"
		if got := run(t, cli.Env{}, through, strings.Fields(args)...); got.code != 0 {
			t.Errorf("%s: exit %d\n%s", args, got.code, got.stderr)
		}
		if got := must("get cluster leaves"); strings.Contains(got, "node_count") {
			t.Errorf("%s changed a cluster that had left the selection: %s", args, got)
		}
	}
	if got := must("get clusters --selector a=b -o name"); got != "" {
		t.Errorf("not deleted: %s", got)
	}
}
