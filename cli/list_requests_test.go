package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestListRequestsOnlyItsClusters: additional columns are requested for the listed rows, not for thousands of clusters.
func TestListRequestsOnlyItsClusters(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args, id      string
		clusters      int
		status, whole string // the queries; "-": none
	}{
		"few":          {"-l team=a -e dev --component podinfo --limit 2", "c-%d", 2, "limit=10000&selector=id in (c-0,c-1)", "component=podinfo&environment=dev&limit=2&selector=team=a&view=effective"},
		"many":         {"-l team=a -e dev --component podinfo", "cluster-of-some-name-%03d", 300, "environment=dev&limit=10000&selector=team=a", "component=podinfo&environment=dev&selector=team=a&view=effective"},
		"a long id":    {"", strings.Repeat("c", 64) + "%d", 1, "limit=10000", "view=effective"},
		"none":         {"-l team=a", "", 0, "-", "selector=team=a&view=effective"},
		"deleted ones": {"--deleted", "c-%d", 1, "limit=10000&selector=id in (c-0)", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			status, whole := "-", "-"
			list := make([]map[string]any, test.clusters)
			for i := range list {
				id := fmt.Sprintf(test.id, i)
				list[i] = map[string]any{"id": id, "cluster_name": id, "cluster_dns": id + ".example.com", "environment": "dev"}
			}
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				w.Header().Set("Content-Type", "application/json")
				asked, _ := url.QueryUnescape(r.URL.RawQuery)
				var answer any = list
				switch {
				case r.URL.Path == "/status":
					status, answer = asked, map[string]any{"total": 0, "clusters": []any{}}
				case r.URL.Path == "/layers":
					answer = []any{map[string]any{"id": "web"}}
				case r.URL.Query().Has("view"):
					whole = asked
				}
				_ = json.NewEncoder(w).Encode(answer)
			}))
			t.Cleanup(srv.Close)
			got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": srv.URL}, append(strings.Fields("get clusters -o wide"), strings.Fields(test.args)...)...)
			if got.code != 0 || strings.Contains(got.stderr, "left out") || status != test.status || whole != test.whole {
				t.Errorf("exit %d, status %q, effective %q\n%s", got.code, status, whole, got.stderr)
			}
		})
	}
}
