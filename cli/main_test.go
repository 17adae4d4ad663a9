package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// binaries is the directory with the built programs; TestMain creates and removes it.
var binaries string

// programs builds the server and the CLI as shipped, once, and returns their directory.
var programs = sync.OnceValues(func() (string, error) {
	return binaries, testrig.Build(context.Background(), "..", binaries, "v0.0.0-test")
})

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if program := os.Getenv(standIn); program != "" {
			if err := runStandIn(program, os.Args[1:]); err != nil {
				_, _ = fmt.Fprintln(os.Stderr, err)
				return 1
			}
			return 0
		}
		dir, err := os.MkdirTemp("", "flux-resourceset-*")
		if err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		binaries = dir
		return m.Run()
	}())
}

// TestScripts runs the programs as users do; each script has servers of its own.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, scripts(t))
}

// scripts are the parameters of all scripts.
func scripts(t *testing.T) testscript.Params {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := filepath.Abs("testdata/fleet") // clusters without layers
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs("../examples")
	if err != nil {
		t.Fatal(err)
	}
	return testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("BIN", bin)
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "xdg"))
			// A script must not require revisions of another script's server on the same port.
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("SEED", filepath.Join(examples, "demo", "seed.json"))
			env.Setenv("FLEET", fleet)
			return os.Symlink(examples, filepath.Join(env.WorkDir, "examples"))
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"server":  startServer,
			"exits":   exits,
			"mask":    mask,
			"jsonlen": jsonLength,
			"values":  inputValues,
			"mode":    fileMode,
			"keep":    keep,
		},
		Condition: func(cond string) (bool, error) {
			if name, ok := strings.CutPrefix(cond, "shell:"); ok {
				return haveShell(name)
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	}
}

// haveShell looks for a shell. bash is required; CI with all shells sets REQUIRE_SHELLS to require the others.
func haveShell(name string) (bool, error) {
	_, err := exec.LookPath(name)
	if err != nil && (name == "bash" || os.Getenv("REQUIRE_SHELLS") != "") {
		return false, fmt.Errorf("%s is not installed: apt-get install -y %s", name, name)
	}
	return err == nil, nil
}

// startServer is `server [NAME=VALUE...]`: it starts the server on a memory store with the demo fleet and points the
// environment at it. It is stopped when the script ends.
func startServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("server cannot be negated")
	}
	bin, err := programs()
	ts.Check(err)
	server, err := testrig.StartServer(testrig.Program{Path: filepath.Join(bin, "flux-resourceset"), Dir: ts.Getenv("WORK"), Env: append([]string{
		"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("WORK"), "API_MODE=crud", "AUTH_TOKEN=read-token", "CRUD_AUTH_TOKEN=write-token",
		"SEED_FILE=" + ts.Getenv("SEED"), "SEED_ACCEPT=true", "DATABASE_URL=sqlite::memory:",
	}, args...)})
	ts.Check(err)
	ts.Defer(func() { _ = server.Stop() }) // some scripts kill it
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ts.Check(server.Ready(ctx, nil))
	ts.Setenv("FLUX_API_URL", server.Base)
	ts.Setenv("FLUX_API_TOKEN", "read-token")
	ts.Setenv("FLUX_API_WRITE_TOKEN", "write-token")
}

// exits is `exits CODE PROGRAM [ARGS...]`: the program must end with this code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGS...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	switch {
	case err == nil && want != 0:
		ts.Fatalf("exit code 0, want %d", want)
	case err != nil && !errors.As(err, &exit):
		ts.Check(err)
	case err != nil && exit.ExitCode() != want:
		ts.Fatalf("exit code %d, want %d", exit.ExitCode(), want)
	}
}

var volatile = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "HASH"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "SERVER"},
	{regexp.MustCompile(`"(\d+)-[0-9a-f]{8}"`), `"$1-ETAG"`},
	{regexp.MustCompile(`go1\.[0-9.]+`), "GO"},
	{regexp.MustCompile(`(linux|darwin|windows)/[a-z0-9]+`), "PLATFORM"},
	{regexp.MustCompile(`\(\d+ms\)|\(\d+(\.\d+)?µ?s\)`), "(TOOK)"},
}

// mask is `mask stdout|stderr`: it writes the output of the last program to "got", with TIME and similar placeholders for values
// that differ between runs.
func mask(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: mask stdout|stderr")
	}
	text := ts.ReadFile(args[0])
	for _, v := range volatile {
		text = v.pattern.ReplaceAllString(text, v.with)
	}
	text = strings.ReplaceAll(text, ts.Getenv("WORK"), "WORK")
	ts.Check(os.WriteFile(ts.MkAbs("got"), []byte(text), 0o600))
}

// jsonLength is `jsonlen N`: standard output is one JSON list with N entries.
func jsonLength(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: jsonlen N")
	}
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(ts.ReadFile("stdout")), &list); err != nil {
		ts.Fatalf("standard output is not one JSON list: %v", err)
	}
	if strconv.Itoa(len(list)) != args[0] {
		ts.Fatalf("the list has %d entries, want %s", len(list), args[0])
	}
}

// inputValues is `values COMPONENT`: standard output is a list of platform-components inputs; the component's values are written to
// "got".
func inputValues(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: values COMPONENT")
	}
	var doc struct {
		Inputs []struct {
			ID     string
			Values json.RawMessage
		}
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &doc))
	for _, input := range doc.Inputs {
		if input.ID == args[0] {
			var b bytes.Buffer
			ts.Check(json.Indent(&b, input.Values, "", "  "))
			ts.Check(os.WriteFile(ts.MkAbs("got"), append(b.Bytes(), '\n'), 0o600))
			return
		}
	}
	ts.Fatalf("there is no input %q", args[0])
}

// keep is `keep VARIABLE`: the output of the last program becomes the variable's value.
func keep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: keep VARIABLE")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// fileMode is `mode PERMISSIONS FILE`.
func fileMode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode PERMISSIONS FILE")
	}
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}
