package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// pagePrelude makes a page's commands print their terminal output, unless it is redirected.
const pagePrelude = `set -euo pipefail
exec 3>&1 2>&1
flux-resourceset-cli() {
	if [[ /dev/fd/1 -ef /dev/fd/3 && " $* " != *" -o "* && " $* " != *" --split "* ]]; then
		command flux-resourceset-cli -o table "$@"
	else
		command flux-resourceset-cli "$@"
	fi
}
`

var pageBlock = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

// TestRollouts and the tests after it run the commands of a page in order, and compare their output with the page.
func TestRollouts(t *testing.T) {
	t.Parallel()
	runPage(t, "rollouts", 7)
}

func TestOverridesPage(t *testing.T) {
	t.Parallel()
	runPage(t, "overrides", 12)
}

func TestVariablesPage(t *testing.T) {
	t.Parallel()
	runPage(t, "variables", 4)
}

func TestFilesPage(t *testing.T) {
	t.Parallel()
	runPage(t, "files", 4)
}

func TestPipelinesPage(t *testing.T) {
	t.Parallel()
	runPage(t, "pipelines", 5)
}

func TestFreezePage(t *testing.T) {
	t.Parallel()
	runPage(t, "freeze", 7)
}

func TestAccessPage(t *testing.T) {
	t.Parallel()
	runPage(t, "access", 8)
}

func TestAuditPage(t *testing.T) {
	t.Parallel()
	runPage(t, "audit", 3, "AUDIT_OUTPUT=audit.jsonl")
}

func TestWebhooksPage(t *testing.T) {
	t.Parallel()
	runPage(t, "webhooks", 3, "WEBHOOK_KEY=0123456789abcdef0123456789abcdef", "PUBLIC_URL=https://fleet.example.com")
}

func TestVersionsPage(t *testing.T) {
	t.Parallel()
	runPage(t, "versions", 6)
}

func TestEnvironmentsPage(t *testing.T) {
	t.Parallel()
	runPage(t, "environments", 5)
}

func TestPoliciesPage(t *testing.T) {
	t.Parallel()
	runPage(t, "policies", 2)
}

func TestUndo(t *testing.T) {
	t.Parallel()
	runPage(t, "undo", 7)
}

func TestFirstHour(t *testing.T) {
	t.Parallel()
	runPage(t, "first-hour", 8)
}

func TestFirstRollout(t *testing.T) {
	t.Parallel()
	runPage(t, "first-rollout", 6)
}

func TestResourceTypesPage(t *testing.T) {
	t.Parallel()
	runPage(t, "resource-types", 8)
}

// TestSourcePipelines runs the jobs of pipelines, too, with a registry.
func TestSourcePipelines(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/source-pipelines.md")
	if err != nil {
		t.Fatal(err)
	}
	address, bin := newRegistry(t)
	docPage{
		name: "source-pipelines", text: strings.ReplaceAll(jobs(t, string(page)), "registry.example.com", address), atLeast: 11, bin: bin,
		settings: []string{"VERSION_SCAN_ALLOW_HTTP=true", "VERSION_SCAN_ALLOW_PRIVATE=true"},
	}.run(t)
}

func runPage(t *testing.T, name string, atLeast int, settings ...string) {
	t.Helper()
	page, err := os.ReadFile("../docs/" + name + ".md")
	if err != nil {
		t.Fatal(err)
	}
	docPage{name: name, text: string(page), atLeast: atLeast, settings: settings}.run(t)
}

// docPage is a page whose commands are run.
type docPage struct {
	name, text string
	atLeast    int      // blocks of commands
	settings   []string // of the server
	bin        string   // a directory with further programs
}

func (p docPage) run(t *testing.T) {
	t.Helper()
	var script, files strings.Builder
	script.WriteString(strings.Join(append([]string{"server"}, p.settings...), " ") + "\n")
	commands := 0
	for i, fenced := range pageBlock.FindAllStringSubmatch(p.text, -1) {
		info, body := fenced[1], fenced[2]
		block := fmt.Sprintf("block-%d", i)
		switch {
		case strings.HasPrefix(info, "sh"):
			code := "0"
			if _, want, ok := strings.Cut(info, "exit="); ok {
				code = want
			}
			fmt.Fprintf(&script, "exits %s bash %s\n", code, block)
			body = pagePrelude + body
			commands++
		case strings.HasSuffix(info, " output"):
			fmt.Fprintf(&script, "shown %s\n", block)
		default:
			continue
		}
		fmt.Fprintf(&files, "-- %s --\n%s", block, body)
	}
	if commands < p.atLeast {
		t.Fatalf("found only %d blocks of commands", commands)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, p.name+".txtar"), []byte(script.String()+files.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	params := scripts(t)
	params.Dir, params.UpdateScripts = dir, false
	params.Cmds["shown"] = shown
	setup := params.Setup
	params.Setup = func(env *testscript.Env) error {
		err := setup(env)
		if p.bin != "" {
			env.Setenv("PATH", p.bin+string(os.PathListSeparator)+env.Getenv("PATH"))
		}
		return err
	}
	testscript.Run(t, params)
}

// shown is `shown FILE`: standard output equals the file, in which … matches anything. Column widths are not compared.
func shown(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: shown FILE")
	}
	squeeze := func(s string) string {
		return strings.TrimSpace(regexp.MustCompile(` {2,}`).ReplaceAllString(s, "  "))
	}
	parts := strings.Split(squeeze(ts.ReadFile(args[0])), "…")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	got := squeeze(ts.ReadFile("stdout"))
	if !regexp.MustCompile("(?s)^" + strings.Join(parts, ".*") + "$").MatchString(got) {
		ts.Fatalf("the page shows\n%s\nand the commands print\n%s", ts.ReadFile(args[0]), got)
	}
}
