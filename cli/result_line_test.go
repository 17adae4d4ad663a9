package cli_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestOneLineAfterAChange: after a change a terminal shows one line; programs, and -o, get the response.
func TestOneLineAfterAChange(t *testing.T) {
	t.Parallel()
	variables := map[string]string{"FLUX_API_URL": realServer(t), "FLUX_API_TOKEN": "write-token", "NO_COLOR": "1"}
	person := cli.Env{StdoutTerminal: true, StderrTerminal: true}
	do := func(args string) string {
		t.Helper()
		got := run(t, person, variables, strings.Fields(args)...)
		if got.code != 0 {
			t.Fatalf("%s: exit %d\n%s", args, got.code, got.stderr)
		}
		return got.stdout
	}
	for _, step := range []struct{ args, want string }{
		{"cluster create c-1 --dns c-1.example.com --environment dev", "cluster/c-1 created (revision 2)\n"},
		{"cluster create c-2 --dns c-2.example.com --environment dev", "cluster/c-2 created (revision 3)\n"},
		{"cluster set c-2 --label a=b", "cluster/c-2 changed (revision 4)\n"},
		{"cluster label c-1 tier=web", "cluster/c-1 labeled (revision 5)\n"},
		{"cluster label c-1 tier=web", "cluster/c-1 unchanged\n"},
		{"cluster label --selector environment=dev wave=1", "3 clusters labeled (revision 6)\n"},
		{"component assign podinfo --cluster c-1", "component/podinfo assigned to cluster/c-1 (revision 7)\n"},
		{"component assign podinfo --cluster c-1 --cluster c-2", "component/podinfo assigned to 2 clusters (revision 8)\n"},
		{"component assign podinfo --all", "component/podinfo unchanged\n"},
		{"component set podinfo --cluster c-1 --set replicaCount=2", "component/podinfo patched on cluster/c-1 (revision 9)\n"},
		{"component set podinfo --all --component-version 6.9.0", "component/podinfo changed on 3 clusters (revision 10)\n"},
		{"component set --enabled=false podinfo --all --yes", "component/podinfo disabled on 3 clusters (revision 11)\n"},
		{"component unassign podinfo --cluster c-2", "component/podinfo unassigned from cluster/c-2 (revision 12)\n"},
		{"namespace create team --cluster c-1", "namespace/team created and assigned to cluster/c-1 (revision 13)\n"},
		{"namespace set team --label a=b", "namespace/team changed (revision 14, 1 cluster)\n"},
		{"restore 13 namespace team --yes", "namespace/team restored to revision 13 (revision 15, 1 cluster)\n"},
		{"delete namespace team --cascade --yes", "namespace/team deleted (revision 16, 1 cluster)\n"},
		{"revision revert 16 --yes", "revision 16 reverted (revision 17, 1 cluster)\n"},
		{"restore 16 --yes", "the fleet restored to revision 16 (revision 18, 1 cluster)\n"},
		{"cluster set c-2 --deletion-protection", "cluster/c-2 changed (revision 19)\n"},
		{"apply -f testdata/one.yaml", "1 created, 0 changed, 0 deleted, 0 unchanged; revision 20, 0 clusters.\n"},
		{"cluster label c-1 tier=db --quiet", ""},
		{"cluster create c-3 --dns c-3.example.com --environment dev", "cluster/c-3 created (revision 22)\n"},
		{"delete cluster c-3 --yes", "cluster/c-3 deleted; Flux removes its objects after the next poll (revision 23)\n"},
		{"cluster create c-4 --dns c-4.example.com --environment dev", "cluster/c-4 created (revision 24)\n"},
		{"layer create base --priority 100 --all", "layer/base created (revision 25, 0 clusters)\n"},
		{"namespace create shared --layer base", "namespace/shared created and assigned to layer/base (revision 26, 4 clusters)\n"},
		{"component set podinfo --layer base --component-version 6.9.1", "component/podinfo changed on layer/base (revision 27, 0 clusters)\n"},
		{"layer create more --priority 200 --all", "layer/more created (revision 28, 0 clusters)\n"},
		{"component set podinfo --layer base --layer more --set replicaCount=4", "component/podinfo patched on 2 layers (revision 29, 0 clusters)\n"},
		{"delete cluster c-4 --mode orphan --yes", "cluster/c-4 forgotten; Flux keeps its objects (revision 30)\n"},
		{"cluster create c-5 --dns c-5.example.com --environment dev --label adopt=this --namespace shared", "cluster/c-5 created (revision 31)\n"},
		{"layer adopt common --priority 300 --selector adopt=this --yes", "layer/common created and filled with shared settings (revision 32, 0 clusters)\n"},
		{"layer adopt common --yes", "layer/common unchanged\n"},
		{"layer adopt common --priority 310 --yes", "layer/common changed (revision 33, 0 clusters)\n"},
		{"namespace create cluster-tools --layer base", "namespace/cluster-tools created and assigned to layer/base (revision 34, 4 clusters)\n"},
		{"cluster set --selector id=c-1 --node-count 3", "cluster/c-1 changed (revision 35)\n"},
		{"cluster set --all --node-count 4", "4 clusters changed (revision 36)\n"},
		{"cluster set --all --node-count 4", "4 clusters unchanged\n"},
		{"delete cluster --cluster c-5 --cluster demo-cluster-01 --max-removals 99", "2 clusters deleted; Flux removes their objects after the next poll (revision 37)\n"},
	} {
		if got := do(step.args); got != step.want {
			t.Errorf("%s\ngot  %q\nwant %q", step.args, got, step.want)
		}
	}
	for args, want := range map[string]string{
		"cluster label c-1 tier=x --dry-run=server": "ID ", "cluster label c-1 tier=y -o table": "ID ", "cluster label c-1 tier=z -o json": "{", "cluster label c-1 tier=a -o name": "cluster/c-1\n",
	} {
		if got := do(args); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q", args, got)
		}
	}
	piped := run(t, cli.Env{}, variables, "cluster", "label", "c-1", "tier=p")
	if !strings.HasPrefix(piped.stdout, "{") {
		t.Errorf("a program is told in words: %q", piped.stdout)
	}
	if got := run(t, person, variables, "cluster", "label", "c-1", "tier=q", "--dry-run=client"); got.code != 2 {
		t.Errorf("--dry-run=client: exit %d\n%s", got.code, got.stderr)
	}
}

// realServer runs the built server with the demo fleet.
func realServer(t *testing.T) string {
	t.Helper()
	return serve(t, "DATABASE_URL=sqlite::memory:", "SEED_FILE=../examples/demo/seed.json", "SEED_ACCEPT=true").String()
}

// TestEditAtTheTerminal: edit shows the plan and prompts; the file is kept after a no.
func TestEditAtTheTerminal(t *testing.T) {
	t.Parallel()
	variables := map[string]string{"FLUX_API_URL": realServer(t), "FLUX_API_TOKEN": "write-token", "NO_COLOR": "1", "EDITOR": `sed -i "s/component_version: latest/component_version: 6.9.0/"`}
	person := cli.Env{StdinTerminal: true, StdoutTerminal: true, StderrTerminal: true, Stdin: typed(t, "n\n")}
	got := run(t, person, variables, "edit", "component", "podinfo")
	if got.code != 1 || !strings.Contains(got.stderr, "component_version: \"latest\" → \"6.9.0\"") || !strings.Contains(got.stderr, "change component/podinfo like this? [y/N]") {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
	kept := regexp.MustCompile(`is kept in (\S+);`).FindStringSubmatch(got.stderr)
	if kept == nil {
		t.Fatalf("where is the file?\n%s", got.stderr)
	}
	defer func() { _ = os.Remove(kept[1]) }()
	if text, err := os.ReadFile(kept[1]); err != nil || !strings.Contains(string(text), "component_version: 6.9.0\n") {
		t.Errorf("%v: %s", err, text)
	}
	person.Stdin, variables["VISUAL"] = typed(t, "y\n"), "cp "+kept[1] // as the hint says
	if got := run(t, person, variables, "edit", "component", "podinfo"); got.stdout != "component/podinfo changed (revision 2, 1 cluster)\n" {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// typed returns terminal input as a file, because the editor inherits it and must not consume it.
func typed(t *testing.T, text string) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	if _, err := w.WriteString(text); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	return r
}
