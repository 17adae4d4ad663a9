// Package docs_test keeps README.md and docs/ true: links lead somewhere, docs/extending.md names what exists, docs/cli.md
// is what the commands say, and the commands of the quick start and of docs/api.md do and print what the pages show.
package docs_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

const root = ".."

var fence = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("*.md")
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return append(found, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"), filepath.Join(root, "test", "faults", "README.md"))
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range pages(t) {
		prose := fence.ReplaceAllString(read(t, page), "")
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") {
				continue
			}
			to := page
			if target != "" {
				to = filepath.Join(filepath.Dir(page), filepath.FromSlash(target))
			}
			require.FileExists(t, existing(to), "%s: the link to %s leads nowhere", page, m[1])
			if anchor != "" && strings.HasSuffix(to, ".md") {
				require.Contains(t, anchors(read(t, to)), anchor, "%s: the link to %s leads to no heading", page, m[1])
			}
		}
	}
}

// TestCommandsNamePackages: the packages and directories of `go run`, `go test` and `cd` in the pages exist.
func TestCommandsNamePackages(t *testing.T) {
	t.Parallel()
	command := regexp.MustCompile(`(?:go (?:run|test) (?:\S+ )*?\./|\(cd )([a-z][\w/-]*)`)
	found := 0
	for _, page := range pages(t) {
		for _, m := range command.FindAllStringSubmatch(read(t, page), -1) {
			require.DirExists(t, filepath.Join(root, m[1]), "%s: %s", page, m[0])
			found++
		}
	}
	require.NotZero(t, found)
}

// existing is the path, or for a directory something in it: a link may lead to either.
func existing(path string) string {
	if entries, err := os.ReadDir(path); err == nil {
		for _, e := range entries {
			if !e.IsDir() {
				return filepath.Join(path, e.Name())
			}
		}
	}
	return path
}

// anchors are the headings of a page as links name them, and its explicit anchors.
func anchors(text string) map[string]bool {
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	found, again := map[string]bool{}, map[string]int{}
	for _, m := range explicitAnchor.FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	for line := range strings.Lines(fence.ReplaceAllString(text, "")) {
		if heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			name := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), ""), " ", "-")
			if n := again[name]; n > 0 {
				found[fmt.Sprintf("%s-%d", name, n)] = true
			}
			found[name] = true
			again[name]++
		}
	}
	return found
}

var explicitAnchor = regexp.MustCompile(`<a id="([^"]+)"></a>`)

// TestOperationsHaveAnchors: docs/api.md has one anchor for each operation of the contract, with its id as the name.
func TestOperationsHaveAnchors(t *testing.T) {
	t.Parallel()
	names := func(text, pattern string) (found []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			found = append(found, m[1])
		}
		return found
	}
	operations := names(read(t, filepath.Join(root, "openapi", "openapi.yaml")), `(?m)^ +operationId: (\w+)$`)
	require.NotEmpty(t, operations)
	require.ElementsMatch(t, operations, names(read(t, "api.md"), explicitAnchor.String()))
}

// TestEveryPageIsInTheSite: mkdocs.yml leads to each page once.
func TestEveryPageIsInTheSite(t *testing.T) {
	t.Parallel()
	_, nav, found := strings.Cut(read(t, filepath.Join(root, "mkdocs.yml")), "\nnav:\n")
	require.True(t, found)
	listed := regexp.MustCompile(`[a-z-]+\.md`).FindAllString(nav, -1)
	there, err := filepath.Glob("*.md")
	require.NoError(t, err)
	require.ElementsMatch(t, there, listed)
}

// TestChecklistsNameWhatExists: the rows of the checklists are | [path](path) | `name`, `name` | what to do |.
func TestChecklistsNameWhatExists(t *testing.T) {
	t.Parallel()
	row := regexp.MustCompile(`(?m)^\| \[[^\]]+\]\(([^)]+)\) \| ([^|]+) \|`)
	for _, page := range []string{"extending.md", filepath.Join(root, "CONTRIBUTING.md")} {
		rows := row.FindAllStringSubmatch(read(t, page), -1)
		require.NotEmpty(t, rows)
		for _, m := range rows {
			text := read(t, filepath.Join(filepath.Dir(page), filepath.FromSlash(m[1])))
			for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(m[2], -1) {
				require.Regexp(t, `(^|\W)`+regexp.QuoteMeta(name[1])+`(\W|$)`, text, "%s: %s has no %s", page, m[1], name[1])
			}
		}
	}
}

// TestVersionsOfFlux: docs/templates.md names the versions that the end-to-end tests pin, of both sets.
func TestVersionsOfFlux(t *testing.T) {
	t.Parallel()
	page := read(t, "templates.md")
	tools := filepath.Join(root, "test", "e2e", "tools")
	for _, name := range []string{"flux-operator", "helm-controller", "kustomize-controller", "source-controller"} {
		row := "| " + name + " |"
		for _, dir := range []string{tools, filepath.Join(tools, "newest")} {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				dir = tools // both sets have this one
			}
			pinned := regexp.MustCompile(`/` + name + ` v(\S+)`).FindStringSubmatch(read(t, filepath.Join(dir, name, "go.mod")))
			require.Len(t, pinned, 2)
			row += " " + pinned[1] + " |"
		}
		require.Contains(t, page, row)
	}
}

// TestExtendingOmitsNoFile: docs/extending.md links each file of the product that names role bindings, which stand for every kind of
// definition.
func TestExtendingOmitsNoFile(t *testing.T) {
	t.Parallel()
	exempt := []string{
		"cli/cli.go", "fleet/doc.go", // the reading order names examples
		"fleet/internal/rendering/objects.go", // Kubernetes kinds, not kinds of definitions
		"cli/import.go",                       // likewise
	}
	page := read(t, "extending.md")
	names := regexp.MustCompile(`(?i)role_?binding`)
	for _, dir := range []string{"charts", "cli", "client", "fleet", "internal", "server", "ui"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
			if !slices.Contains(exempt, file) && names.MatchString(read(t, path)) && !strings.Contains(page, "](../"+file+")") {
				t.Errorf("docs/extending.md does not link %s, which names role bindings", file)
			}
			return nil
		}))
	}
}

// TestReferenceOfTheCLI: docs/cli.md is what the command writes; make docs writes it.
func TestReferenceOfTheCLI(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(filepath.Join(programs(t), "flux-resourceset-cli"), "docs").Output()
	require.NoError(t, err)
	if page := strings.TrimRight(read(t, "cli.md"), "\n"); page != strings.TrimRight(string(out), "\n") {
		t.Error("docs/cli.md is not what the commands say: run make docs and commit the result")
	}
}

func TestQuickStart(t *testing.T) {
	t.Parallel()
	_, rest, found := strings.Cut(read(t, filepath.Join(root, "README.md")), "\n## Quick start\n")
	require.True(t, found)
	part, _, _ := strings.Cut(rest, "\n## ")
	runBlocks(t, part)
}

// TestFirstHourHasItsOwnDatabase: the revisions that the page shows are right for who comes from the quick start, whose server keeps
// its own in data/.
func TestFirstHourHasItsOwnDatabase(t *testing.T) {
	t.Parallel()
	command := regexp.MustCompile(`(?m)^make run.*$`).FindString(read(t, "first-hour.md"))
	setting := regexp.MustCompile(`DATABASE_URL='(.*)'`).FindStringSubmatch(command)
	require.NotNil(t, setting, "%q serves the database of the quick start", command)
	require.NotContains(t, read(t, filepath.Join(root, "scripts", "run-demo")), setting[1], "the database of the quick start")
}

// TestDistNeedsNoVersion: a release can be built from any checkout; a version that is given is used as it is.
func TestDistNeedsNoVersion(t *testing.T) {
	t.Parallel()
	repository := t.TempDir()
	script, err := os.ReadFile(filepath.Join(root, "scripts", "version"))
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(repository, "scripts"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(repository, "scripts", "version"), script, 0o700))
	version := func() string {
		out, err := exec.Command(filepath.Join(repository, "scripts", "version")).CombinedOutput()
		require.NoError(t, err, string(out))
		return strings.TrimSpace(string(out))
	}
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", repository, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	accepted := regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`) // by scripts/dist
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "first")
	require.Regexp(t, accepted, version())
	git("tag", "v0.1.0")
	require.Equal(t, "v0.1.0", version())
	git("commit", "-q", "--allow-empty", "-m", "second")
	require.Regexp(t, accepted, version())

	for args, want := range map[string]string{"": "scripts/dist", "VERSION=v1.2.3": "VERSION='v1.2.3' scripts/dist"} {
		cmd := exec.Command("make", append([]string{"-n", "dist"}, strings.Fields(args)...)...)
		cmd.Dir = root
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "VERSION=") || strings.HasPrefix(v, "MAKE") })
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Equal(t, want, strings.TrimSpace(string(out)))
	}
}

func TestTourOfTheAPI(t *testing.T) {
	t.Parallel()
	runBlocks(t, read(t, "api.md"))
}

func TestLayers(t *testing.T) {
	t.Parallel()
	runBlocks(t, read(t, "layers.md"))
}

func TestSecretsPerCluster(t *testing.T) {
	t.Parallel()
	runBlocks(t, read(t, "secrets.md"))
}

// runBlocks runs the commands of a page in order against a server with the demo fleet, in one environment of variables:
//
//	```sh           has to succeed
//	```sh error     the server has to answer with an error (400 or above)
//	```sh exit=1    its last command has to end with this exit code
//	```… output     what the block before it prints; … stands for anything
func runBlocks(t *testing.T, page string) {
	t.Helper()
	for _, tool := range []string{"bash", "curl", "jq"} {
		_, err := exec.LookPath(tool)
		require.NoError(t, err, "the pages' commands need %s: apt-get install -y %s", tool, tool)
	}
	dir, base := t.TempDir(), startServer(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "variables"), nil, 0o600))
	const shown = "http://127.0.0.1:8080"
	var output string
	ran := 0
	for _, m := range fence.FindAllStringSubmatch(page, -1) {
		kind, body := m[1], m[2]
		switch {
		case body == "make run\n":
		case kind == "sh", kind == "sh error":
			output = runBlock(t, block{dir: dir, server: base, body: strings.ReplaceAll(body, shown, base), wantError: kind == "sh error"})
			ran++
		case kind == "sh exit=1":
			output = runBlock(t, block{dir: dir, server: base, body: body + "(($? == 1)) || exit 9\n", mayFail: true})
			ran++
		case strings.HasSuffix(kind, " output"):
			got, want := strings.TrimRight(strings.ReplaceAll(output, base, shown), "\n"), strings.TrimRight(body, "\n")
			require.True(t, matches(got, want), "the page shows\n%s\nand the command prints\n%s", want, got)
		}
	}
	require.NotZero(t, ran, "no commands found")
}

// matches tells whether a text is another one in which … stands for anything.
func matches(got, want string) bool {
	parts := strings.Split(want, "…")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile(`(?s)^` + strings.Join(parts, ".*?") + `$`).MatchString(got)
}

// prelude is what every block runs with: curl has to fail when an answer is an error, and in an error block when it is not.
const prelude = `set -euo pipefail
curl() {
	local status=0
	if [[ -z $EXPECT_ERROR ]]; then
		if [[ ! " $* " =~ \ -[A-Za-z]*f[A-Za-z]*\  ]]; then
			echo "curl without -f does not fail when the server answers with an error" >&2
			return 1
		fi
		command curl "$@"
		return
	fi
	echo called >>"$DIR/called"
	command curl --fail-with-body "$@" || status=$?
	if ((status == 22)); then return 0; fi
	echo "curl ended with $status; an answer of 400 or above was expected" >&2
	return 1
}
. "$DIR/variables"
`

// block is some commands of a page.
type block struct {
	dir, server, body  string
	wantError, mayFail bool
}

func runBlock(t *testing.T, b block) string {
	t.Helper()
	dir, body := b.dir, b.body
	if b.mayFail {
		body = "set +e\n" + body + "set -e\n"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", prelude+body+"\n"+`declare -p | grep -E '^declare -- [A-Z]+=' >"$DIR/variables"`)
	expect := ""
	if b.wantError {
		expect = "yes"
	}
	cmd.Env = append(os.Environ(), "DIR="+dir, "EXPECT_ERROR="+expect, "PATH="+programs(t)+string(os.PathListSeparator)+os.Getenv("PATH"),
		"FLUX_API_URL="+b.server, "FLUX_API_TOKEN=demo-read", "FLUX_API_WRITE_TOKEN=demo-write", "XDG_CONFIG_HOME="+dir, "XDG_STATE_HOME="+dir)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	require.NoError(t, err, "this failed:\n%s\n%s\n%s", body, out.String(), complaints.String())
	called := filepath.Join(dir, "called")
	if b.wantError {
		require.FileExists(t, called, "no curl in this error block:\n%s", body)
		require.NoError(t, os.Remove(called))
	}
	return strings.ReplaceAll(out.String(), "\r", "")
}

// startServer is `make run` on a fresh store and a port of its own; it answers the address.
func startServer(t *testing.T) string {
	t.Helper()
	server, err := testrig.StartServer(testrig.Program{Path: filepath.Join(programs(t), "flux-resourceset"), Dir: root, Env: []string{
		"API_MODE=crud", "AUTH_TOKEN=demo-read", "CRUD_AUTH_TOKEN=demo-write",
		"SEED_FILE=examples/demo/seed.json", "SEED_ACCEPT=true", "DATABASE_URL=sqlite://" + filepath.Join(t.TempDir(), "fleet.db") + "?mode=rwc",
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(), server.Log()) })
	require.NotEmpty(t, server.Base, server.Log())
	return server.Base
}

// binaries is the directory that programs builds into; TestMain makes and removes it.
var binaries string

var build = sync.OnceValue(func() error {
	// What the programs are built from is an input of these tests: go test runs them again when it has changed, because
	// they have looked at it.
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go"), strings.HasSuffix(path, ".sql"), strings.HasSuffix(path, ".yaml"):
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		return err
	}
	return testrig.Build(context.Background(), root, binaries, "dev")
})

// programs is the directory with the server and the CLI, built once.
func programs(t *testing.T) string {
	t.Helper()
	require.NoError(t, build())
	return binaries
}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "flux-resourceset-docs-*")
		if err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		binaries = dir
		return m.Run()
	}())
}

// TestAlertsAreExplained: the page has a part for each alert of the chart, which the alert links to.
func TestAlertsAreExplained(t *testing.T) {
	t.Parallel()
	rules := read(t, filepath.Join(root, "charts", "flux-resourceset", "files", "alerts.yaml"))
	explained := anchors(read(t, "alerts.md"))
	found := regexp.MustCompile(`(?m)alert: (\w+)$`).FindAllStringSubmatch(rules, -1)
	require.NotEmpty(t, found)
	for _, m := range found {
		require.Contains(t, explained, strings.ToLower(m[1]))
		require.Contains(t, rules, "blob/main/docs/alerts.md#"+strings.ToLower(m[1])+"\n")
	}
}
