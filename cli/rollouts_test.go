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

// pagePrelude makes a page's commands print what they print on a terminal, where their output is not redirected.
const pagePrelude = `set -euo pipefail
exec 3>&1 2>&1
flux-resourceset-cli() {
	if [[ /dev/fd/1 -ef /dev/fd/3 && " $* " != *" -o "* ]]; then
		command flux-resourceset-cli -o table "$@"
	else
		command flux-resourceset-cli "$@"
	fi
}
`

var pageBlock = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

// TestRollouts runs the commands of docs/rollouts.md in order, and compares what the page shows with what they print.
func TestRollouts(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/rollouts.md")
	if err != nil {
		t.Fatal(err)
	}
	var script, files strings.Builder
	script.WriteString("server\n")
	commands := 0
	for i, block := range pageBlock.FindAllStringSubmatch(string(page), -1) {
		info, body := block[1], block[2]
		name := fmt.Sprintf("block-%d", i)
		switch {
		case strings.HasPrefix(info, "sh"):
			code := "0"
			if _, want, ok := strings.Cut(info, "exit="); ok {
				code = want
			}
			fmt.Fprintf(&script, "exits %s bash %s\n", code, name)
			body = pagePrelude + body
			commands++
		case strings.HasSuffix(info, " output"):
			fmt.Fprintf(&script, "shown %s\n", name)
		default:
			continue
		}
		fmt.Fprintf(&files, "-- %s --\n%s", name, body)
	}
	if commands < 20 {
		t.Fatalf("found only %d blocks of commands", commands)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rollouts.txtar"), []byte(script.String()+files.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	p := scripts(t)
	p.Dir, p.UpdateScripts = dir, false
	p.Cmds["shown"] = shown
	testscript.Run(t, p)
}

// shown is `shown FILE`: standard output is what the file holds, where … stands for anything. How wide columns are is
// not compared.
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
