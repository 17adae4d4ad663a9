package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestOneMeaningOfValues: an object replaces the value as a whole, with its nulls, whichever command or file sets it and wherever.
func TestOneMeaningOfValues(t *testing.T) {
	t.Parallel()
	variables := map[string]string{"FLUX_API_URL": realServer(t), "FLUX_API_TOKEN": "write-token"}
	dir := t.TempDir()
	file := func(text string) string {
		name := filepath.Join(dir, "file.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	cli := func(line ...string) string {
		t.Helper()
		got := run(t, cli.Env{}, variables, line...)
		if got.code != 0 {
			t.Fatalf("%s: %s", line, got.stderr)
		}
		return got.stdout
	}
	cli("layer", "create", "dev", "--selector", "environment=dev", "--priority", "10")
	for _, value := range []string{`{"a":1}`, `{"a":1,"b":null}`, `{"limits":{"cpu":null}}`, `{}`, `[{"x":null}]`} {
		for where, kind := range map[string]string{"--cluster demo-cluster-01": "cluster demo-cluster-01", "--selector id=demo-cluster-01": "cluster demo-cluster-01", "--cluster demo-cluster-01 --field-manager ci --force": "cluster demo-cluster-01", "--layer dev": "layer dev"} {
			target := strings.Fields(kind)
			for _, how := range []string{"--set-json", "apply"} {
				if how == "apply" && strings.Contains(where, "field-manager") {
					continue // another manager's value is a conflict
				}
				cli(append(strings.Fields("component set podinfo "+where), "--set-json", `obj={"a":1,"b":2}`, "-q")...)
				if how == "apply" {
					cli("apply", "-q", "-f", file("kind: "+target[0]+"\nid: "+target[1]+"\npatches: {podinfo: {obj: "+value+"}}\n"))
				} else {
					cli(append(strings.Fields("component set podinfo "+where), "--set-json", "obj="+value, "-q")...)
				}
				var doc struct {
					Patches map[string]map[string]json.RawMessage
				}
				if err := json.Unmarshal([]byte(cli(target[0], "get", target[1], "-o", "json")), &doc); err != nil {
					t.Fatal(err)
				}
				if text, err := json.Marshal(doc.Patches["podinfo"]["obj"]); err != nil || string(text) != value {
					t.Errorf("%s %s %s: %s", how, where, value, text)
				}
				if strings.Contains(where, "field-manager") {
					cli("component", "relinquish", "podinfo", "--cluster", target[1], "--field-manager", "ci", "-q", "--yes")
				}
			}
		}
	}
}
