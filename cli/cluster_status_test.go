package cli_test

import (
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestStatusOfFailedClusters: the table has the failed input with its cause, and both states of a failing cluster that is silent.
func TestStatusOfFailedClusters(t *testing.T) {
	t.Parallel()
	url, _ := scripted(t, map[string][]string{"GET /status": {`200 {"complete":true,"total":9,"counts":{"silent":9,"failed":1},"all_silent_since":"2026-01-02T03:04:05Z",` +
		`"clusters":[{"id":"c","environment":"dev","state":"silent","states":["silent","failed"],"counts":{"failed":1},"failure":{"severity":"error","reason":"UpgradeFailed",` +
		`"message":"Helm upgrade failed for release a/b with chart b@1: timed out\n\nLast Helm logs:\nx","object":"HelmRelease/a/b","revision":"","at":"2026-01-02T03:04:05Z","list":"platform-components","id":"podinfo"}}]}`}})
	got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": url}, "cluster", "status", "--state", "failed", "-o", "table")
	for _, want := range []string{"COMPONENT", "MESSAGE", "silent,failed", "podinfo", "UpgradeFailed: timed out"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in\n%s%s", want, got.stdout, got.stderr)
		}
	}
	if !strings.Contains(got.stderr, "All clusters are silent: the last poll was at 2026-01-02T03:04:05Z.") || strings.Contains(got.stdout, "Helm") {
		t.Errorf("it prints\n%s%s", got.stdout, got.stderr)
	}
}

// TestCausesOfFailures: one row for each cause, with the revision before it; the text is safe for a terminal.
func TestCausesOfFailures(t *testing.T) {
	t.Parallel()
	url, _ := scripted(t, map[string][]string{"GET /status": {`200 {"complete":true,"total":30,"counts":{"failed":14},"clusters":[],"causes":[` +
		`{"id":"5f1c2ab96f0e","state":"failed","cause":"pod <name> is \u001b[31mnot ready","list":"platform-components","input":"podinfo","component_version":"6.9.0","clusters":12,"environments":{"prod":3,"dev":9},` +
		`"cluster_ids":["a","b"],"since":"2026-01-02T03:04:45Z","latest":"2026-01-02T03:05:00Z","revision":29,"revision_at":"2026-01-02T03:04:05Z","example_cluster":"a"},` +
		`{"id":"0123456789ab","state":"failed","cause":"denied","list":"namespaces","input":"team","clusters":1,"environments":{"dev":1},"cluster_ids":["c"]},` +
		`{"id":"other","state":"failed","other_causes":2,"clusters":1,"environments":{"dev":1},"cluster_ids":["d"]}]}`}})
	got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": url}, "cluster", "status", "--group", "cause", "-o", "wide")
	for _, want := range []string{"COMPONENT", "podinfo", "6.9.0", "12", "dev 9, prod 3", "40s after revision 29", "pod <name> is ", "5f1c2ab96f0e", "a,b and 10 more", "namespaces/team", "2 other causes"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in\n%s%s", want, got.stdout, got.stderr)
		}
	}
	if strings.Contains(got.stdout, "\x1b") {
		t.Errorf("%q", got.stdout)
	}
}

// TestStatusOfDecommissionedCluster: it is not "behind" like an active cluster.
func TestStatusOfDecommissionedCluster(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`"state":"never","lists":[{"list":"namespaces","state":"never"}]`:                                                               "c was decommissioned at 2026-01-02T03:04:05Z, and has never polled.",
		`"state":"behind","seen_at":"2026-01-02T03:04:00Z","lists":[{"list":"namespaces","state":"behind"}]`:                            "has not polled since: it keeps its objects. Its last poll was at 2026-01-02T03:04:00Z.",
		`"state":"behind","seen_at":"2026-01-02T03:04:09Z","lists":[{"list":"a","state":"behind"},{"list":"b","state":"delivered"}]`:    "has received 1 of 2 empty lists. Its last poll was at 2026-01-02T03:04:09Z.",
		`"state":"silent","seen_at":"2026-01-02T03:04:09Z","lists":[{"list":"a","state":"delivered"},{"list":"b","state":"delivered"}]`: "has received its empty lists: Flux there removes everything that came from here.",
	} {
		url, _ := scripted(t, map[string][]string{"GET /clusters/c/status": {`200 {"id":"c","deleted_at":"2026-01-02T03:04:05Z",` + answer + `,"inputs":[],"events":[],"counts":{}}`}})
		got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": url}, "cluster", "status", "c", "-o", "table")
		if got.code != 0 || !strings.Contains(got.stderr, want) || strings.Contains(got.stderr, "behind") || strings.Contains(got.stderr, "silent") {
			t.Errorf("%s: exit %d, %q, want %q", answer, got.code, got.stderr, want)
		}
	}
}
