package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestWatch follows a real server: first all documents, then their changes, until an interrupt.
func TestWatch(t *testing.T) {
	t.Parallel()
	variables := map[string]string{"FLUX_API_URL": realServer(t), "FLUX_API_TOKEN": "write-token"}
	do := func(args string) {
		t.Helper()
		if got := run(t, cli.Env{}, variables, strings.Fields(args)...); got.code != 0 {
			t.Fatalf("%s: %s", args, got.stderr)
		}
	}
	list := watching(t, variables, "get namespaces --watch --interval 5ms -o name")
	one := watching(t, variables, "get component podinfo -w --interval 5ms -o jsonpath={.component_version}{\"\\n\"}")
	revisions := watching(t, variables, "get revisions --watch --interval 5ms -o custom-columns=R:.revision,WHAT:.summary --no-headers")
	lines := watching(t, variables, "get revisions --watch --kind namespace -o json")
	for range 3 {
		list.next(t)
	}
	one.want(t, "latest")
	revisions.want(t, "1   seeded the fleet")

	do("namespace create team")
	list.want(t, "namespace/team")
	revisions.want(t, "2   created namespace/team")
	for want := 1; want <= 2; want++ { // the seed has namespaces, too
		var revision struct{ Revision int }
		if err := json.Unmarshal([]byte(lines.next(t)), &revision); err != nil || revision.Revision != want {
			t.Fatalf("one document on each line: %v, %v", revision, err)
		}
	}
	do("component set podinfo --component-version 6.9.0")
	one.want(t, "6.9.0")
	do("namespace set team --label a=b")
	list.want(t, "namespace/team")
	do("delete namespace team")
	do("namespace create other")
	list.want(t, "namespace/other")
	if code, stderr := list.stop(); code != 130 || !strings.Contains(stderr, "namespace/team was deleted.") {
		t.Errorf("exit %d\n%s", code, stderr)
	}
	do("delete component podinfo --cascade --yes")
	if code, stderr := one.end(); code != 0 || !strings.Contains(stderr, "component/podinfo was deleted.") {
		t.Errorf("the last document is gone: exit %d\n%s", code, stderr)
	}
	revisions.stop()

	for _, args := range []string{"get namespaces --watch --sort-by ID", "get namespaces --watch --interval 1ns", "get component x --watch --revision 3", "get revisions --watch --until 1h"} {
		if got := run(t, cli.Env{}, variables, strings.Fields(args)...); got.code != 2 {
			t.Errorf("%s: exit %d\n%s", args, got.code, got.stderr)
		}
	}
	if got := run(t, cli.Env{}, variables, "component", "get", "nothing", "--watch"); got.code != 1 {
		t.Errorf("what is not there: exit %d", got.code)
	}
}

// watcher is a command that runs until it is stopped.
type watcher struct {
	lines  *bufio.Scanner
	cancel context.CancelFunc
	ended  chan struct{}
	code   int
	stderr locked
}

func watching(t *testing.T, variables map[string]string, args string) *watcher {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	out, in := io.Pipe()
	w := &watcher{lines: bufio.NewScanner(out), cancel: cancel, ended: make(chan struct{})}
	state := t.TempDir()
	env := cli.Env{Stdin: strings.NewReader(""), Stdout: in, Stderr: &w.stderr, Version: "test", Getenv: func(name string) string {
		if strings.HasPrefix(name, "XDG_") {
			return state
		}
		return variables[name]
	}}
	go func() {
		defer close(w.ended)
		w.code = cli.Run(ctx, append([]string{"flux-resourceset-cli"}, strings.Fields(args)...), env)
		_ = in.Close()
	}()
	return w
}

func (w *watcher) next(t *testing.T) string {
	t.Helper()
	if !w.lines.Scan() {
		<-w.ended
		t.Fatalf("the watch has ended: %s", w.stderr.String())
	}
	return w.lines.Text()
}

func (w *watcher) want(t *testing.T, line string) {
	t.Helper()
	if got := w.next(t); got != line {
		t.Fatalf("got %q, want %q", got, line)
	}
}

func (w *watcher) stop() (code int, stderr string) {
	w.cancel()
	return w.end()
}

func (w *watcher) end() (code int, stderr string) {
	for w.lines.Scan() { // so that the command never blocks on its output
	}
	<-w.ended
	return w.code, w.stderr.String()
}

// locked is a buffer for one writing and one reading goroutine.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(p) }

func (l *locked) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }
