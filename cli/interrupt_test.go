package cli_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestInterrupt: a signal ends every command that waits for a person, a state or a pager, with exit code 130. Nothing is changed.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	variables := map[string]string{"FLUX_API_URL": realServer(t), "FLUX_API_TOKEN": "write-token", "NO_COLOR": "1", "PAGER": "echo paged; exec sleep 1000"}
	for _, args := range []string{"component create podinfo --component-path podinfo", "cluster create shop --environment dev --dns shop.example.com", "component assign podinfo --cluster shop"} {
		if got := run(t, cli.Env{}, variables, strings.Fields(args)...); got.code != 0 {
			t.Fatalf("%s: %s", args, got.stderr)
		}
	}
	revisions := run(t, cli.Env{}, variables, "revision", "list", "-o", "json").stdout
	t.Cleanup(func() {
		if now := run(t, cli.Env{}, variables, "revision", "list", "-o", "json").stdout; now != revisions {
			t.Errorf("changed:\n%s", now)
		}
	})
	for command, shown := range map[string]string{
		"delete cluster shop":                       "[y/N]",
		"component unassign podinfo --cluster shop": "[y/N]",
		"revision revert 3":                         "[y/N]",
		"get cluster shop":                          "paged",
		"apply -f -":                                "", // nothing, shown the file is complete
		"get clusters -w --interval 1h":             "shop",
		"get revisions -w":                          "REVISION",
		"wait shop --interval 1h":                   " ...",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			out := &output{text: shown, seen: make(chan struct{})}
			input, typing := io.Pipe()
			defer func() { _ = typing.Close() }()
			env := cli.Env{
				Stdin: input, Stdout: out, Stderr: out, StdinTerminal: true, StdoutTerminal: true, StderrTerminal: true,
				Size:   func() (int, int) { return 80, 1 },
				Getenv: func(name string) string { return variables[name] },
			}
			code := runInterrupted(out, env, strings.Fields(command)...)
			if text := out.String(); code != 130 || strings.Contains(command, "delete") && !strings.Contains(text, "interrupted; nothing was changed") || strings.Contains(text, "canceled") {
				t.Errorf("exit code %d\n%s", code, text)
			}
		})
	}
}

// TestRevertOfMissingRevision: what the server refuses is not asked about first.
func TestRevertOfMissingRevision(t *testing.T) {
	t.Parallel()
	variables := map[string]string{"FLUX_API_URL": realServer(t), "FLUX_API_TOKEN": "write-token"}
	env := cli.Env{StdinTerminal: true, StderrTerminal: true, Stdin: strings.NewReader("y\n")}
	got := run(t, env, variables, "revision", "revert", "9999")
	if got.code != 1 || strings.Contains(got.stderr, "[y/N]") || !strings.Contains(got.stderr, "9999") {
		t.Errorf("exit code %d\n%s", got.code, got.stderr)
	}
}

// runInterrupted runs a command line, and cancels its context once it has printed the text that out waits for.
func runInterrupted(out *output, env cli.Env, args ...string) int {
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	go func() {
		<-out.seen
		interrupt()
	}()
	if out.text == "" {
		close(out.seen)
	}
	return cli.Run(ctx, append([]string{"flux-resourceset-cli"}, args...), env)
}

// output is a terminal that reports when a text has appeared on it.
type output struct {
	text string
	seen chan struct{}

	mu    sync.Mutex
	shown bytes.Buffer
	told  bool
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.shown.Write(p)
	if o.text != "" && !o.told && strings.Contains(o.shown.String(), o.text) {
		o.told = true
		close(o.seen)
	}
	return n, err
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.shown.String()
}

// writerFunc is a terminal.
type writerFunc func(text string)

func (w writerFunc) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}

// TestExportFluxInterrupted: an export that is interrupted between two clusters does not end as if it had all of them.
func TestExportFluxInterrupted(t *testing.T) {
	t.Parallel()
	variables := map[string]string{"FLUX_API_URL": realServer(t), "FLUX_API_TOKEN": "write-token"}
	for _, id := range []string{"a", "b"} {
		if got := run(t, cli.Env{}, variables, "cluster", "create", id, "--environment", "dev", "--dns", id+".example.com"); got.code != 0 {
			t.Fatal(got.stderr)
		}
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	env := cli.Env{Stdin: strings.NewReader(""), Stdout: io.Discard, Getenv: func(name string) string { return variables[name] }}
	env.Stderr = writerFunc(func(text string) {
		if strings.Contains(text, "Cluster a has no objects") {
			interrupt()
		}
	})
	if code := cli.Run(ctx, []string{"flux-resourceset-cli", "export", "--flux", "--all", "--out", t.TempDir()}, env); code != 130 {
		t.Errorf("exit code %d", code)
	}
}
