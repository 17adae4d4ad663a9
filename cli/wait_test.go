package cli_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestWaitForClusters: wait ends when all selected clusters confirmed, when one failed, and at once when none is selected.
func TestWaitForClusters(t *testing.T) {
	t.Parallel()
	const (
		progressing = `200 {"complete":true,"total":3,"counts":{"progressing":2,"confirmed":1},"clusters":[]}`
		confirmed   = `200 {"complete":true,"total":3,"counts":{"confirmed":3},"clusters":[]}`
		failed      = `200 {"complete":true,"total":9,"counts":{"progressing":2,"failed":7,"silent":1},"clusters":[` +
			`{"id":"c-1","environment":"dev","state":"silent","states":["silent","failed"],"counts":{},"failure":{"severity":"error","reason":"UpgradeFailed","message":"timed out","object":"","revision":"","at":"2026-01-02T03:04:05Z","id":"podinfo"}}]}`
		superseded = `200 {"complete":true,"total":3,"counts":{"confirmed":2,"superseded":1},"clusters":[]}`
		none       = `200 {"complete":true,"total":0,"counts":{},"clusters":[]}`
		removed    = `200 {"complete":true,"total":2,"counts":{"confirmed":1,"delivered":1},"clusters":[{"id":"c","environment":"dev","state":"delivered","states":["delivered"],"counts":{"confirmed":1}}]}`
		delivered  = `200 {"complete":true,"total":2,"counts":{"confirmed":1,"delivered":1},"clusters":[{"id":"c","environment":"dev","state":"delivered","states":["delivered"],"counts":{"delivered":1}}]}`
	)
	for name, test := range map[string]struct {
		args    string
		answers []string
		code    int
		stderr  string
	}{
		"confirmed":                   {"--selector tier=gold", []string{progressing, progressing, confirmed}, 0, "1 of 3 clusters confirmed: 1 confirmed, 2 progressing ...\n3 of 3 clusters confirmed: 3 confirmed\n"},
		"failed":                      {"--component podinfo --component-version 6.9.0", []string{progressing, failed}, 1, "7 of 9 clusters failed:\n  c-1: podinfo UpgradeFailed: timed out\n  and 6 more"},
		"superseded is the end":       {"--changed-in 4", []string{superseded}, 0, "3 of 3"},
		"no cluster":                  {"--selector tier=gold", []string{none}, 1, "no cluster is selected"},
		"a revision without effect":   {"--changed-in 4", []string{none}, 0, "the revision changed no input of these clusters"},
		"a removal sends no receipt":  {"--changed-in 4", []string{removed, removed}, 0, "2 of 2"},
		"delivered is not confirmed":  {"--changed-in 4", []string{delivered, delivered, confirmed}, 0, "1 of 2 clusters confirmed: 1 confirmed, 1 delivered ...\n3 of 3"},
		"delivered of the whole list": {"--component podinfo --within 50ms", []string{removed}, 2, "not in time: 1 of 2 clusters confirmed: 1 confirmed, 1 delivered after 50ms"},
		"a refusal":                   {"--changed-in 999", []string{`404 {"error":"not_found","detail":"there is no revision 999"}`}, 1, "there is no revision 999"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := scripted(t, map[string][]string{"GET /status": test.answers})
			got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": url}, append([]string{"wait", "--interval", "1ms"}, strings.Fields(test.args)...)...)
			if got.code != test.code || !strings.Contains(got.stderr, test.stderr) || got.stdout != "" {
				t.Errorf("exit %d, want %d\n%s%s\nwant %s", got.code, test.code, got.stdout, got.stderr, test.stderr)
			}
		})
	}
	url, _ := scripted(t, map[string][]string{"GET /status": {progressing, confirmed}})
	got := run(t, cli.Env{StderrTerminal: true, Size: func() (int, int) { return 20, 24 }}, map[string]string{"FLUX_API_URL": url, "NO_COLOR": "1"}, "wait", "--all", "--interval", "1ms")
	if got.code != 2 {
		t.Errorf("an unknown flag: exit %d", got.code)
	}
	got = run(t, cli.Env{StderrTerminal: true, Size: func() (int, int) { return 20, 24 }}, map[string]string{"FLUX_API_URL": url, "NO_COLOR": "1"}, "wait", "-l", "a=b", "--interval", "1ms")
	if want := "\r\x1b[K1 of 3 clusters con\r\x1b[K3 of 3 clusters con\n"; got.stderr != want {
		t.Errorf("at a terminal:\n%q, want\n%q", got.stderr, want)
	}
	for _, line := range []string{"", "c --changed-in 4", "c --selector a=b", "--selector=", "--component-version 1", "--oci-tag v1 --selector a=b", "--selector a=b --interval 0s"} {
		if got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": "http://127.0.0.1:1"}, append([]string{"wait"}, strings.Fields(line)...)...); got.code != 2 {
			t.Errorf("wait %s: exit %d\n%s", line, got.code, got.stderr)
		}
	}
}

// TestWaitForRollout: wait ends when the affected clusters of all stages confirmed, or of those up to a stage; offline ones do not
// count, and nothing is confirmed while counts are missing or incomplete.
func TestWaitForRollout(t *testing.T) {
	t.Parallel()
	rollout := func(state string, started int, complete bool, progress string) string {
		return fmt.Sprintf(`200 {"id":"r","state":%q,"started":%d,"complete":%t,"stages":[{"name":"canary","state":"started","clusters":3%s},{"name":"rest","state":"pending","clusters":2}],`+
			`"changes":[],"waiting":{"reason":"soak","message":"the soak of canary"}}`, state, started, complete, progress)
	}
	const (
		confirmed = `,"progress":{"affected":3,"confirmed":2,"offline":1}`
		offline   = `,"progress":{"affected":3,"offline":3}`
		pending   = `,"progress":{"affected":3,"confirmed":2,"pending":1}`
		failed    = `,"progress":{"affected":3,"confirmed":2,"failed":1,"failures":[{"cluster_id":"c-1","failure":{"severity":"error","reason":"UpgradeFailed","message":"timed out","object":"","revision":"","at":"2026-01-02T03:04:05Z","id":"podinfo"}}]}`
	)
	for name, test := range map[string]struct {
		args    string
		answers []string
		code    int
		stderr  string
	}{
		"a stage":                  {"--stage canary", []string{rollout("proposed", 0, true, ""), rollout("running", 1, true, pending), rollout("running", 1, true, confirmed)}, 0, "proposed, 0 of 2 stages started, 0 of 0 clusters confirmed: the soak of canary ...\nrunning, 1 of 2 stages started, 2 of 3 clusters confirmed\n"},
		"completed":                {"", []string{rollout("running", 1, true, confirmed), rollout("completed", 2, true, "")}, 0, "completed"},
		"further stages":           {"--within 50ms", []string{rollout("running", 1, true, confirmed)}, 2, "not in time: running, 1 of 2 stages started"},
		"incomplete":               {"--stage canary --within 50ms", []string{rollout("running", 1, false, confirmed)}, 2, "not in time"},
		"without counts":           {"--stage canary --within 50ms", []string{rollout("running", 1, true, "")}, 2, "not in time"},
		"offline is not confirmed": {"--stage canary --within 50ms", []string{rollout("running", 1, true, offline)}, 2, "not in time"},
		"failed":                   {"--stage canary", []string{rollout("paused", 1, true, failed)}, 1, "1 of 3 clusters failed:\n  c-1: podinfo UpgradeFailed: timed out"},
		"aborted":                  {"", []string{rollout("aborted", 1, true, "")}, 1, "is aborted"},
		"no such stage":            {"--stage x", []string{rollout("running", 1, true, confirmed)}, 1, `has no stage "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := scripted(t, map[string][]string{"GET /rollouts/r": test.answers})
			got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": url}, append([]string{"wait", "--rollout", "r", "--interval", "1ms"}, strings.Fields(test.args)...)...)
			if got.code != test.code || !strings.Contains(got.stderr, test.stderr) || got.stdout != "" {
				t.Errorf("exit %d, want %d\n%s%s\nwant %s", got.code, test.code, got.stdout, got.stderr, test.stderr)
			}
		})
	}
	for _, line := range []string{"--rollout r c", "--rollout r --changed-in 4", "--stage x", "--rollout="} {
		if got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": "http://127.0.0.1:1"}, append([]string{"wait"}, strings.Fields(line)...)...); got.code != 2 {
			t.Errorf("wait %s: exit %d\n%s", line, got.code, got.stderr)
		}
	}
}

// TestWatchRollout: watch prints a line for each change until a person has to continue; the exit code is about the rollout only
// with --exit-status.
func TestWatchRollout(t *testing.T) {
	t.Parallel()
	rollout := func(state string, started int, more string) string {
		return fmt.Sprintf(`200 {"id":"r","state":%q,"started":%d,"complete":true,"stages":[{"name":"canary","state":"started","clusters":3,"progress":{"affected":3,"confirmed":%d,"failed":1}},{"name":"rest","state":"pending","clusters":2}],"changes":[]%s}`, state, started, started, more)
	}
	soak, approval := `,"waiting":{"reason":"soak","message":"the soak of canary"}`, `,"waiting":{"reason":"approval","message":"stage \"rest\" needs an approval"}`
	running := []string{rollout("running", 0, ""), rollout("running", 0, ""), rollout("running", 1, soak)}
	const lines = "running, 0 of 2 stages started, 0 of 0 clusters confirmed ...\nrunning, 1 of 2 stages started, 1 of 3 clusters confirmed, 1 failed: the soak of canary ...\n"
	for name, test := range map[string]struct {
		last, stdout string
		code         int // with --exit-status
	}{
		"completed": {rollout("completed", 2, ""), lines + "completed\n", 0},
		"aborted":   {rollout("aborted", 1, ""), lines + "aborted\n", 1},
		"paused":    {rollout("paused", 1, `,"paused_because":"a failure"`), lines + "paused, 1 of 2 stages started, 1 of 3 clusters confirmed, 1 failed: a failure\n", 1},
		"approval":  {rollout("running", 1, approval), lines + "running, 1 of 2 stages started, 1 of 3 clusters confirmed, 1 failed: stage \"rest\" needs an approval\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for code, flags := range map[int][]string{0: nil, test.code: {"--exit-status"}} {
				url, _ := scripted(t, map[string][]string{"GET /rollouts/r": append(slices.Clone(running), test.last)})
				got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": url}, append([]string{"rollout", "watch", "r", "--interval", "1ms"}, flags...)...)
				if got.code != code || got.stdout != test.stdout {
					t.Errorf("%s: exit %d, want %d\n%s%s\nwant %s", flags, got.code, code, got.stdout, got.stderr, test.stdout)
				}
			}
		})
	}
	url, _ := scripted(t, map[string][]string{"GET /rollouts/r": running})
	for _, flags := range [][]string{nil, {"--exit-status"}} {
		ctx, cancel := context.WithCancel(t.Context())
		env := cli.Env{Stdout: cancelWriter(cancel), Stderr: io.Discard, Getenv: func(name string) string { return map[string]string{"FLUX_API_URL": url}[name] }}
		if code := cli.Run(ctx, append([]string{"flux-resourceset-cli", "rollout", "watch", "r", "--interval", "1h"}, flags...), env); code != 130 {
			t.Errorf("interrupted, %s: exit %d", flags, code)
		}
		cancel()
	}
	got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": url}, "rollout", "watch", "r", "--interval", "1ms", "--within", "50ms")
	if got.code != 2 || !strings.Contains(got.stderr, "not in time: running, 1 of 2") {
		t.Errorf("--within: exit %d\n%s", got.code, got.stderr)
	}
}

// cancelWriter cancels a context when something is written.
type cancelWriter context.CancelFunc

func (w cancelWriter) Write(b []byte) (int, error) { w(); return len(b), nil }
