package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// result is the output and the exit code of a run.
type result struct {
	code           int
	stdout, stderr string
}

// run executes a command line in this process; env selects which streams are terminals.
func run(t *testing.T, env cli.Env, variables map[string]string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if env.Stdin == nil {
		env.Stdin = strings.NewReader("")
	}
	env.Stdout, env.Stderr, env.Version = &stdout, &stderr, "test"
	env.Getenv = func(name string) string {
		if value, ok := variables[name]; ok {
			return value
		}
		if name == "XDG_CONFIG_HOME" || name == "XDG_STATE_HOME" {
			return t.TempDir()
		}
		return ""
	}
	code := cli.Run(context.Background(), append([]string{"flux-resourceset-cli"}, args...), env)
	return result{code, stdout.String(), stderr.String()}
}

// recorder is a server that records requests and responds with a cluster. It replaces only the network: rules are tested with the
// real server.
func recorder(t *testing.T, requests *[]string) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/plan" {
			action := "update"
			if body, err := io.ReadAll(r.Body); err != nil || bytes.Contains(body, []byte(`"op":"delete"`)) || bytes.Contains(body, []byte(`"unassign"`)) {
				action = "delete"
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"plan_hash":"abc","changes":[{"kind":"cluster","id":"c","action":%q}],"groups":[],"results":[],"totals":{},"warnings":[]}`, action)
			return
		}
		*requests = append(*requests, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Fleet-Min-Revision"))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Fleet-Revision", "7")
		w.Header().Add("Warning", `299 - "first \"quoted\" piece"`)
		document := `{"id":"c","environment":"de\u001bv","platform_components":[{"id":"p","enabled":true}],"patches":{},"new_field":1e3}`
		if r.URL.Path == "/batch" {
			result := `{"op":"delete","clusters":1,"documents":1,"document":` + document + `}`
			document = `{"revision":7,"changes":[{"kind":"cluster","id":"c","action":"delete"}],"plan_hash":"","warnings":[],"results":[` + result + `,` + result + `]}`
		}
		_, _ = w.Write([]byte(document))
	}))
	t.Cleanup(srv.Close)
	return srv
}

func TestPrompts(t *testing.T) {
	t.Parallel()
	terminal := cli.Env{StdinTerminal: true, StdoutTerminal: true, StderrTerminal: true}
	for _, test := range []struct {
		name, reply, args string
		asks              bool
		code              int
	}{
		{"no", "n\n", "delete cluster c", true, 1},
		{"nothing", "", "delete cluster c", true, 1},
		{"return", "\n", "delete cluster c", true, 1},
		{"yes", "y\n", "delete cluster c", true, 0},
		{"YES", "YES\n", "delete cluster c --mode orphan", true, 0},
		{"flag", "", "delete cluster c -y", false, 0},
		{"dry run", "", "delete cluster c --dry-run", false, 0},
		{"unassign", "n\n", "component unassign p --cluster c", true, 1},
		{"delete", "y\n", "delete namespace n", true, 0},
		{"cascade", "n\n", "delete namespace n --cascade", true, 1},
		{"update", "", "namespace set n --label a=b", false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var requests []string
			env := terminal
			env.Stdin = strings.NewReader(test.reply)
			got := run(t, env, map[string]string{"FLUX_API_URL": recorder(t, &requests).URL}, strings.Fields(test.args)...)
			if asked := strings.Contains(got.stderr, "? [y/N] "); asked != test.asks || got.code != test.code {
				t.Errorf("asked %v, exit %d; want %v, %d\n%s", asked, got.code, test.asks, test.code, got.stderr)
			}
			if sent := len(requests) > 0; sent != (test.code == 0) {
				t.Errorf("sent: %v", requests)
			}
		})
	}
}

func TestTerminalOutput(t *testing.T) {
	t.Parallel()
	var requests []string
	variables := map[string]string{"FLUX_API_URL": recorder(t, &requests).URL}
	terminal := cli.Env{StdoutTerminal: true, StderrTerminal: true}
	got := run(t, terminal, variables, "cluster", "get", "c")
	if !strings.HasPrefix(got.stdout, "ID   ENVIRONMENT") || !strings.Contains(got.stdout, "de?v") {
		t.Errorf("no clean table on a terminal:\n%q", got.stdout)
	}
	if want := "\x1b[33mWarning:\x1b[0m first \"quoted\" piece\n"; !strings.Contains(got.stderr, want) {
		t.Errorf("warnings on a terminal: %q", got.stderr)
	}
	variables["NO_COLOR"] = "1"
	if got := run(t, terminal, variables, "cluster", "get", "c"); strings.Contains(got.stderr, "\x1b") {
		t.Errorf("NO_COLOR: %q", got.stderr)
	}
	got = run(t, cli.Env{}, variables, "cluster", "get", "c")
	if !json.Valid([]byte(got.stdout)) || !strings.Contains(got.stdout, `"new_field": 1e3`) {
		t.Errorf("a field this program does not know is lost or changed:\n%s", got.stdout)
	}
}

// TestCreateAndAssign: both are one change, and one request.
func TestCreateAndAssign(t *testing.T) {
	t.Parallel()
	var requests []string
	variables := map[string]string{"FLUX_API_URL": recorder(t, &requests).URL, "FLUX_API_TOKEN": "r", "FLUX_API_WRITE_TOKEN": "w"}
	if got := run(t, cli.Env{}, variables, "namespace", "create", "n", "--cluster", "c"); got.code != 0 {
		t.Fatal(got)
	}
	want := []string{"POST /batch?return=documents Bearer w "}
	if strings.Join(requests, "|") != strings.Join(want, "|") {
		t.Errorf("got  %q\nwant %q", requests, want)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[]")) }))
	t.Cleanup(srv.Close)
	variables := map[string]string{"FLUX_API_URL": srv.URL}
	got := run(t, cli.Env{}, variables, "cluster", "list")
	if got.code != 1 || !strings.Contains(got.stderr, "--ca-file") {
		t.Errorf("an unknown authority: %+v", got)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run(t, cli.Env{}, variables, "cluster", "list", "--ca-file", ca); got.code != 0 {
		t.Errorf("a known authority: %+v", got)
	}
}

// TestRealTerminal checks how the program detects a terminal.
func TestRealTerminal(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("util-linux' script makes the terminal")
	}
	script, err := exec.LookPath("script")
	if err != nil {
		t.Fatal("script is not installed: apt-get install -y bsdutils")
	}
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	var requests []string
	srv := recorder(t, &requests)
	for reply, want := range map[string]string{"y\n": "cluster/c deleted", "n\n": "not confirmed"} {
		cmd := exec.Command(script, "-qefc", filepath.Join(bin, "flux-resourceset-cli")+" delete cluster c", "/dev/null")
		cmd.Env = append(os.Environ(), "FLUX_API_URL="+srv.URL, "XDG_CONFIG_HOME="+t.TempDir(), "NO_COLOR=1")
		cmd.Stdin = strings.NewReader(reply)
		out, _ := cmd.CombinedOutput()
		if text := string(out); !strings.Contains(text, "? [y/N]") || !strings.Contains(text, want) {
			t.Errorf("reply %q:\n%s", reply, text)
		}
	}
}

// TestDocs: the manual describes the commands as they are.
func TestDocs(t *testing.T) {
	t.Parallel()
	got := run(t, cli.Env{}, nil, "docs")
	if got.code != 0 {
		t.Fatal(got.stderr)
	}
	const name = "../docs/cli.md"
	if *update {
		if err := os.WriteFile(name, []byte(got.stdout), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got.stdout != string(want) {
		t.Error("docs/cli.md is not current: run make generate")
	}
}

// scripted is a server that answers METHOD PATH with the given responses in turn, then repeats the last one.
func scripted(t *testing.T, answers map[string][]string) (url string, requests *[]string) {
	t.Helper()
	requests = &[]string{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := r.Method + " " + r.URL.Path
		*requests = append(*requests, call)
		queue := answers[call]
		if len(queue) == 0 {
			t.Errorf("unexpected %s", call)
			return
		}
		if len(queue) > 1 {
			answers[call] = queue[1:]
		}
		status, body, _ := strings.Cut(queue[0], " ")
		code, err := strconv.Atoi(status)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("ETag", `"`+strconv.Itoa(len(*requests))+`"`)
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(srv.Close)
	return srv.URL, requests
}

const missingAnswer = `404 {"error":"not_found","detail":"it is gone"}`

// TestRaces: another client changes the same document between two requests. Most changes need no request before.
func TestRaces(t *testing.T) {
	t.Parallel()
	const (
		stale   = `412 {"error":"stale","detail":"it has changed"}`
		cluster = `200 {"id":"c","excludes":{}}`
	)
	for _, test := range []struct {
		name, args string
		answers    map[string][]string
		code       int
		requests   string
	}{
		{
			"changed meanwhile", "cluster exclude c namespace/n", map[string][]string{
				"GET /clusters/c": {cluster},
				"POST /batch":     {stale, `200 {"revision":2,"changes":[],"results":[{"op":"patch","document":{"id":"c"}}]}`},
			}, 0, `GET /clusters/c|POST /batch|GET /clusters/c|POST /batch`,
		},
		{
			"never ends", "cluster exclude c namespace/n", map[string][]string{"GET /clusters/c": {cluster}, "POST /batch": {stale}}, 1, "",
		},
		{
			"the condition of the user", "cluster exclude c namespace/n --if-match x",
			map[string][]string{"GET /clusters/c": {cluster}, "POST /batch": {stale}},
			1,
			`GET /clusters/c|POST /batch`,
		},
		{
			"the assignment fails", "namespace create n --cluster c", map[string][]string{
				"POST /batch": {`422 {"error":"limit_exceeded","detail":"too much"}`},
			}, 1, "POST /batch",
		},
		{
			"something else is taken", "namespace create n --cluster c", map[string][]string{
				"GET /namespaces/n": {missingAnswer},
				"POST /batch":       {`409 {"error":"conflict","detail":"it exists"}`},
			}, 1, "POST /batch|GET /namespaces/n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url, requests := scripted(t, test.answers)
			got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": url}, strings.Fields(test.args)...)
			if got.code != test.code {
				t.Errorf("exit %d: %s", got.code, got.stderr)
			}
			if sent := strings.Join(*requests, "|"); test.requests != "" && sent != test.requests {
				t.Errorf("sent %s\nwant %s", sent, test.requests)
			}
		})
	}
}

// TestPages: a list is complete with any paging of the server, and ends at --limit.
func TestPages(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		if r.URL.Query().Get("actor") != "a,b" {
			t.Errorf("the filter is lost: %s", r.URL)
		}
		var page []map[string]int
		for n := from + 1; n <= min(from+limit, 2500); n++ {
			page = append(page, map[string]int{"revision": n})
		}
		if end := from + limit; end < 2500 {
			w.Header().Set("Link", `</elsewhere>; rel="prev", </revisions?actor=a,b&cursor=`+strconv.Itoa(end)+`&limit=`+strconv.Itoa(limit)+`>; rel="next"`)
		}
		_ = json.NewEncoder(w).Encode(page)
	}))
	t.Cleanup(srv.Close)
	for args, want := range map[string]int{"": 2500, "--limit 7": 7, "--limit 1001": 1001, "--limit 9999": 2500} {
		got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": srv.URL}, strings.Fields("get revisions --actor a,b "+args)...)
		var list []json.RawMessage
		if err := json.Unmarshal([]byte(got.stdout), &list); err != nil || len(list) != want {
			t.Errorf("%q: %d entries, want %d: %v %s", args, len(list), want, err, got.stderr)
		}
		if more := strings.Contains(got.stderr, "there are more"); more != (want < 2500) {
			t.Errorf("%q: %q", args, got.stderr)
		}
	}
}
