package cli_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestAPIResources: api-resources lists each kind under the name of its command, without a server.
func TestAPIResources(t *testing.T) {
	t.Parallel()
	got := run(t, cli.Env{}, nil, "api-resources", "-o", "table")
	if got.code != 0 || strings.Join(strings.Fields(got.stdout)[:4], " ") != "NAME SHORTNAMES KIND VERBS" {
		t.Fatalf("%d %s%s", got.code, got.stdout, got.stderr)
	}
	got = run(t, cli.Env{}, nil, "api-resources", "-o", "json")
	var kinds []struct {
		Name       string   `json:"name"`
		ShortNames []string `json:"short_names"`
		Kind       string   `json:"kind"`
		Verbs      []string `json:"verbs"`
	}
	if err := json.Unmarshal([]byte(got.stdout), &kinds); err != nil {
		t.Fatalf("%v: %s%s", err, got.stdout, got.stderr)
	}
	listed := map[string]string{}
	for _, k := range kinds {
		listed[k.Kind] = k.Name
		for _, name := range append(k.ShortNames, strings.Fields(k.Name)[0]) {
			words := append([]string{name}, strings.Fields(k.Name)[1:]...)
			for _, verb := range k.Verbs {
				help := run(t, cli.Env{}, nil, append(slices.Clip(words), verb, "--help")...)
				if help.code != 0 || !strings.Contains(help.stdout, "Usage: ") {
					t.Errorf("%s %s: %d %s", name, verb, help.code, help.stderr)
				}
			}
		}
	}
	for kind, name := range map[string]string{
		"cluster": "cluster", "layer": "layer", "namespace": "namespace", "platform_component": "component", "rolebinding": "rolebinding",
		"resource_type": "resource-type", "resource/TYPE": "resource TYPE", "token": "token",
	} {
		if listed[kind] != name {
			t.Errorf("%s is listed as %q, want %q", kind, listed[kind], name)
		}
	}
	if got := run(t, cli.Env{}, nil, "api-resources", "-o", "name"); !strings.HasPrefix(got.stdout, "component\n") {
		t.Errorf("%d %s%s", got.code, got.stdout, got.stderr)
	}
	if got := run(t, cli.Env{}, nil, "api-resources", "cluster"); got.code != 2 {
		t.Errorf("%+v", got)
	}
}
