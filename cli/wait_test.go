package cli_test

import (
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
