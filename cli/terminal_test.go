package cli_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/flux-resourceset/flux-resourceset/cli"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
)

// TestTerminal compares the output on narrow and wide terminals with golden files.
func TestTerminal(t *testing.T) {
	t.Parallel()
	variables := map[string]string{"FLUX_API_URL": realServer(t), "FLUX_API_TOKEN": "write-token", "NO_COLOR": "1", "NO_PAGER": "1"}
	prepare := []string{
		"apply -f ../examples/fleet --reason CHG-100:_the_fleet",
		"component set grafana --cluster prod-01 --component-version 17.1.0-hotfix.20260102 --reason INC-7:_dashboards_are_empty_since_the_upgrade",
		"component set grafana --selector environment=prod --set ingress.annotations.team=observability --set replicas=3",
		"cluster label prod-01 region=eu-central-1 owner=team-observability exposed=true",
	}
	for _, args := range prepare {
		if got := run(t, cli.Env{}, variables, strings.Fields(args)...); got.code != 0 {
			t.Fatalf("%s: %s", args, got.stderr)
		}
	}
	later := func() time.Time { return time.Now().Add(3 * time.Hour) } // so that every age is 3h
	for _, columns := range []int{80, 200} {
		var page strings.Builder
		person := cli.Env{Now: later, StdoutTerminal: true, StderrTerminal: true, Size: func() (int, int) { return columns, 24 }}
		for _, args := range []string{
			"get clusters", "get clusters --show-labels", "get components", "component usage grafana", "get revisions", "cluster describe prod-01",
			"component unassign grafana --layer web --plan", "component set grafana --cluster prod-01 --set replicas=4", "get revision 3",
		} {
			got := run(t, person, variables, strings.Fields(args)...)
			fmt.Fprintf(&page, "$ flux-resourceset-cli %s\n%s%s\n", args, masked(got.stdout), masked(got.stderr))
			if !strings.HasSuffix(args, "list") && !strings.Contains(args, "usage") {
				continue
			}
			for line := range strings.Lines(got.stdout) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > columns {
					t.Errorf("%s: %d columns, on a terminal of %d:\n%s", args, n, columns, line)
				}
			}
		}
		golden(t, fmt.Sprintf("terminal/%d.txt", columns), page.String())
	}
	piped := run(t, cli.Env{Size: func() (int, int) { return 40, 24 }}, variables, "cluster", "list", "-o", "table")
	if strings.Contains(piped.stdout, "…") {
		t.Errorf("cells are cut in a file:\n%s", piped.stdout)
	}
	wide := run(t, cli.Env{StdoutTerminal: true, Size: func() (int, int) { return 40, 24 }}, variables, "cluster", "list", "-o", "wide")
	if strings.Contains(wide.stdout, "…") {
		t.Errorf("-o wide cuts cells:\n%s", wide.stdout)
	}
}

// TestNarrowTable: on a narrow terminal, empty columns go before a cell is cut.
func TestNarrowTable(t *testing.T) {
	t.Parallel()
	out := render.Output{Tables: func() ([]render.Table, error) {
		return []render.Table{{Header: []string{"ID", "REASON", "SUMMARY"}, Rows: [][]string{{"1", "", "created namespace/a"}, {"2", "", "deleted"}}}}, nil
	}}
	for width, want := range map[int]string{
		0:  "ID   REASON   SUMMARY\n1    -        created namespace/a\n2    -        deleted\n",
		33: "ID   REASON   SUMMARY\n1    -        created namespace/a\n2    -        deleted\n",
		29: "ID  SUMMARY\n1   created namespace/a\n2   deleted\n",
		20: "ID  SUMMARY\n1   created namespa…\n2   deleted\n",
	} {
		var b strings.Builder
		if err := out.Write(&b, render.Style{Format: "table", Width: width}); err != nil || b.String() != want {
			t.Errorf("%d columns: %q, want %q: %v", width, b.String(), want, err)
		}
	}
}

// TestPager: output longer than the screen goes through PAGER, unless NO_PAGER is set; other output does not.
func TestPager(t *testing.T) {
	t.Parallel()
	var requests []string
	url := recorder(t, &requests).URL
	seen := filepath.Join(t.TempDir(), "seen")
	short := cli.Env{StdoutTerminal: true, Size: func() (int, int) { return 80, 1 }}
	for name, test := range map[string]struct {
		env   cli.Env
		pager string
		more  map[string]string
		paged bool
	}{
		"long":       {short, "cat >>" + seen + "; echo $LESS >>" + seen, nil, true},
		"fails":      {short, "no-such-pager-of-anybody", nil, false},
		"no pager":   {short, "cat >>" + seen, map[string]string{"NO_PAGER": "1"}, false},
		"cat":        {short, "cat", nil, false},
		"fits":       {cli.Env{StdoutTerminal: true, Size: func() (int, int) { return 80, 25 }}, "cat >>" + seen, nil, false},
		"no size":    {cli.Env{StdoutTerminal: true}, "cat >>" + seen, nil, false},
		"not to one": {cli.Env{Size: func() (int, int) { return 80, 1 }}, "cat >>" + seen, nil, false},
	} {
		variables := map[string]string{"FLUX_API_URL": url, "PAGER": test.pager, "NO_COLOR": "1"}
		maps.Copy(variables, test.more)
		got := run(t, test.env, variables, "cluster", "get", "c", "-o", "table")
		text, err := os.ReadFile(seen)
		_ = os.Remove(seen)
		if paged := err == nil; paged != test.paged || got.code != 0 || strings.Contains(got.stdout, "ENVIRONMENT") == paged {
			t.Errorf("%s: paged %v, want %v; exit %d\n%s%s", name, paged, test.paged, got.code, got.stdout, got.stderr)
		} else if paged && !strings.HasSuffix(string(text), "\nFRX\n") {
			t.Errorf("%s: the pager saw %q", name, text)
		}
	}
}

// masked returns text without values that differ between runs.
func masked(text string) string {
	for _, v := range volatile {
		text = v.pattern.ReplaceAllString(text, v.with)
	}
	return regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d…`).ReplaceAllString(text, "2026-01-02T15:04…")
}

// golden compares with a file below testdata, which -update writes.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; -update writes it\n%s", file, got)
	}
}
