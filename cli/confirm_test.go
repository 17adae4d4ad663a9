package cli_test

import (
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestConfirmedEnvironments: exactly the requested environments confirm a change. A further one may have been typed for another
// prompt.
func TestConfirmedEnvironments(t *testing.T) {
	t.Parallel()
	for reply, code := range map[string]int{"prod\n": 0, "prod,dev\n": 1, "prod prod\n": 1, "dev\n": 1, "pro\n": 1, "\n": 1, "": 1} {
		var requests []string
		env := cli.Env{StdinTerminal: true, StderrTerminal: true, Stdin: strings.NewReader(reply)}
		got := run(t, env, map[string]string{"FLUX_API_URL": plannerOf(t, protectedPlan, &requests)}, "component", "unassign", "p", "--all")
		if sent := strings.Contains(strings.Join(requests, "|"), "/batch"); got.code != code || sent != (code == 0) {
			t.Errorf("%q: exit %d, want %d; sent %v\n%s", reply, got.code, code, requests, got.stderr)
		}
	}
}

// TestDeletionsWithinLimit: a plan that deletes a document needs confirmation at a terminal even if Flux uninstalls nothing, and so
// fits any --max-removals.
func TestDeletionsWithinLimit(t *testing.T) {
	t.Parallel()
	const plan = `{"base_revision":4,"plan_hash":"abc","confirmation_required":false,"changes":[{"kind":"layer","id":"l","action":"delete"}],"groups":[],"results":[],
		"totals":{"clusters":0,"added":0,"changed":0,"removed":0,"removals":0},"warnings":[]}`
	for _, args := range []string{"component set p --all --enabled --max-removals 5", "component set p --all --enabled"} {
		for reply, code := range map[string]int{"y\n": 0, "n\n": 1, "": 1} {
			var requests []string
			env := cli.Env{StdinTerminal: true, StderrTerminal: true, Stdin: strings.NewReader(reply)}
			got := run(t, env, map[string]string{"FLUX_API_URL": plannerOf(t, plan, &requests)}, strings.Fields(args)...)
			if got.code != code || !strings.Contains(got.stderr, "[y/N]") || strings.Contains(strings.Join(requests, "|"), "/batch") != (code == 0) {
				t.Errorf("%s, reply %q: exit %d, want %d; sent %v\n%s", args, reply, got.code, code, requests, got.stderr)
			}
		}
	}
}
