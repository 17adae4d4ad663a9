package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestTruncatedFile: a file that ends in the middle of a line may have another meaning, so no command uses it, but for files of Helm
// values: those of charts often end so.
func TestTruncatedFile(t *testing.T) {
	t.Parallel()
	const file = "rolebindings:\n- id: admins\n  role: cluster-admin\n  subjects:\n  - kind: Group\n    name: platform-team\n" +
		"platform_components:\n- id: web\n  component_path: ./web\n  oci_tag: 1.20.10\n  patches:\n    replicas: \"12\"\n"
	var requests []string
	variables := map[string]string{"FLUX_API_URL": recorder(t, &requests).URL}
	for end := 1; end < len(file); end++ {
		if file[end-1] == '\n' {
			continue
		}
		got := run(t, cli.Env{Stdin: strings.NewReader(file[:end])}, variables, "apply", "-f", "-", "--yes")
		if got.code != 2 || !strings.Contains(got.stderr, "standard input seems truncated") || !strings.Contains(got.stderr, "newline") {
			t.Errorf("cut after %q: exit %d\n%s", file[:end], got.code, got.stderr)
		}
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "cut.yaml")
	if err := os.WriteFile(name, []byte("role: cluster-admin\nid: c"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"apply -f " + dir, "diff -f " + name, "plan -f " + name, "apply -f " + name + " --plan-hash x", "rolebinding create -f " + name,
		"rolebinding set -f " + name, "rolebinding set c -p @" + name, "component set p --cluster c -f -",
	} {
		got := run(t, cli.Env{Stdin: strings.NewReader("role: cluster-admin\nid: c")}, variables, strings.Fields(args)...)
		if got.code != 2 || !strings.Contains(got.stderr, " seems truncated") {
			t.Errorf("%s: exit %d\n%s", args, got.code, got.stderr)
		}
	}
	if len(requests) > 0 {
		t.Errorf("sent: %q", requests)
	}
	if got := run(t, cli.Env{}, variables, "component", "set", "p", "--cluster", "c", "-f", name); strings.Contains(got.stderr, "truncated") || len(requests) == 0 {
		t.Errorf("values: exit %d\n%s", got.code, got.stderr)
	}
	// Truncated JSON is invalid, and an argument cannot be truncated.
	for _, args := range []string{"apply -f -", "rolebinding create r -f -", "rolebinding set r -p role:\u00a0view"} {
		words := strings.Fields(strings.ReplaceAll(args, "\u00a0", "~"))
		words[len(words)-1] = strings.ReplaceAll(words[len(words)-1], "~", " ")
		got := run(t, cli.Env{Stdin: strings.NewReader(`{"kind":"rolebinding","id":"r","role":"view"}`)}, variables, words...)
		if strings.Contains(got.stderr, "truncated") {
			t.Errorf("%s: exit %d\n%s", args, got.code, got.stderr)
		}
	}
}
