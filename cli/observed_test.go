package cli_test

import (
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestStatusOfADecommissionedCluster: it is not "behind" like a cluster that is meant to run something.
func TestStatusOfADecommissionedCluster(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`"state":"never","lists":[{"list":"namespaces","state":"never"}]`:                                                               "c was decommissioned at 2026-01-02T03:04:05Z, and has never polled.",
		`"state":"behind","seen_at":"2026-01-02T03:04:00Z","lists":[{"list":"namespaces","state":"behind"}]`:                            "has not polled since: it keeps what it runs. It last polled at 2026-01-02T03:04:00Z.",
		`"state":"behind","seen_at":"2026-01-02T03:04:09Z","lists":[{"list":"a","state":"behind"},{"list":"b","state":"delivered"}]`:    "has received 1 of 2 empty lists. It last polled at 2026-01-02T03:04:09Z.",
		`"state":"silent","seen_at":"2026-01-02T03:04:09Z","lists":[{"list":"a","state":"delivered"},{"list":"b","state":"delivered"}]`: "has received its empty lists: Flux there removes everything that came from here.",
	} {
		url, _ := scripted(t, map[string][]string{"GET /clusters/c/status": {`200 {"id":"c","deleted_at":"2026-01-02T03:04:05Z",` + answer + `,"inputs":[],"events":[],"counts":{}}`}})
		got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": url}, "cluster", "status", "c", "-o", "table")
		if got.code != 0 || !strings.Contains(got.stderr, want) || strings.Contains(got.stderr, "behind") || strings.Contains(got.stderr, "silent") {
			t.Errorf("%s: exit %d, %q, want %q", answer, got.code, got.stderr, want)
		}
	}
}
