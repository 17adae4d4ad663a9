package cli_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestConfirmClusters: a person confirms a change of more clusters than CONFIRM_CLUSTERS, programs and --yes are not asked, and the line
// about a change has the number of clusters that it reached.
func TestConfirmClusters(t *testing.T) {
	t.Parallel()
	variables := map[string]string{"FLUX_API_URL": realServer(t), "FLUX_API_TOKEN": "write-token", "NO_COLOR": "1"}
	for i := range 12 {
		args := fmt.Sprintf("cluster create c-%d --dns c-%d.example.com --environment %s --component podinfo", i, i, []string{"dev", "prod"}[i%2])
		if got := run(t, cli.Env{}, variables, strings.Fields(args)...); got.code != 0 {
			t.Fatal(got.stderr)
		}
	}
	const effect = "1 document would change; inputs of 13 clusters: 0 added, 13 changed, 0 removed.\n"
	for _, step := range []struct {
		args, limit, reply string
		code               int
		asked              bool
		stdout             string
	}{
		{"component set podinfo --component-version 6.9.0", "", "n\n", 1, true, ""},
		{"component set podinfo --component-version 6.9.0", "", "y\n", 0, true, "component/podinfo changed (revision 14, 13 clusters)\n"},
		{"component set podinfo --component-version 6.9.1 --yes", "", "", 0, false, "component/podinfo changed (revision 15, 13 clusters)\n"},
		{"component set podinfo --component-version 6.9.2", "13", "", 0, false, "component/podinfo changed (revision 16, 13 clusters)\n"},
		{"component set podinfo --all --component-version 6.9.3", "", "y\n", 0, true, "component/podinfo changed on 13 clusters (revision 17)\n"},
		{"component set podinfo --cluster c-1 --component-version 6.9.4", "", "", 0, false, "component/podinfo changed on cluster/c-1 (revision 18)\n"},
		{"component create redis --component-path redis --oci-url https://charts.example.com --component-version 20.1.0", "", "", 0, false, "component/redis created (revision 19, 0 clusters)\n"},
		{"strategy create waves --stage all=*", "", "", 0, false, "strategy/waves created (revision 20)\n"},
		{"component set podinfo --all --component-version 7.0.0 --max-removals 0", "many", "", 0, false, "component/podinfo changed on 13 clusters (revision 21)\n"},
		{"component set podinfo --component-version 7.0.1", "many", "", 2, false, ""},
		{"cluster set --all --component podinfo --component traefik", "", "n\n", 1, true, ""},
		{"cluster set --selector environment=dev --label wave=1", "", "", 0, false, "7 clusters changed (revision 22)\n"},
	} {
		env := maps.Clone(variables)
		if step.limit != "" {
			env["CONFIRM_CLUSTERS"] = step.limit
		}
		person := cli.Env{StdinTerminal: true, StdoutTerminal: true, StderrTerminal: true, Stdin: strings.NewReader(step.reply)}
		got := run(t, person, env, strings.Fields(step.args)...)
		if asked := strings.Contains(got.stderr, "make this change? [y/N]"); got.code != step.code || asked != step.asked || got.stdout != step.stdout {
			t.Errorf("%s: exit %d, asked %t\n%s%s", step.args, got.code, asked, got.stdout, got.stderr)
		}
		if step.asked && step.limit == "" && strings.Contains(step.args, "6.9.0") && !strings.HasPrefix(got.stderr, effect) {
			t.Errorf("%s: %q", step.args, got.stderr)
		}
	}
	if got := run(t, cli.Env{}, variables, "component", "set", "podinfo", "--component-version", "7.0.1"); got.code != 0 || got.stderr != "" {
		t.Errorf("a program is asked: %d %s", got.code, got.stderr)
	}
	plan := run(t, cli.Env{}, variables, strings.Fields("component set redis --component-version 20.2.0 --rollout redis-20 --stage dev=environment=dev --stage prod=environment=prod:50% --soak 1h --plan -o table")...)
	for _, want := range []string{"STAGE", "dev", "environment=dev", "7", "6", "soak 1h"} {
		if plan.code != 1 || !strings.Contains(plan.stdout, want) {
			t.Errorf("no %q: exit %d\n%s%s", want, plan.code, plan.stdout, plan.stderr)
		}
	}
	for _, format := range []string{"table", "json"} {
		same := strings.Fields("component set podinfo --component-version 7.0.1 --rollout podinfo-7 --stage all=* --plan -o " + format)
		if got := run(t, cli.Env{}, variables, same...); got.code != 0 {
			t.Errorf("the plan of a rollout of nothing, as %s: exit %d\n%s", format, got.code, got.stderr)
		}
	}
}
