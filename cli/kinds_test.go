package cli_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/flux-resourceset/flux-resourceset/ui"
)

// The made-up kind of these tests has the name rolebarrier, with the length and the place in the alphabet of the kind that it
// replaces, so that tables are as wide and lists have the same order.
var (
	madeUp   = strings.NewReplacer("rolebinding", "rolebarrier", "role binding", "role barrier", "Role binding", "Role barrier", "ROLEBINDING", "ROLEBARRIER")
	original = strings.NewReplacer("rolebarrier", "rolebinding")
)

// TestMadeUpKind: programs in which role bindings have another name in the command line and in the API show the same as the original
// with the other name, if only the files differ that docs/extending.md names. A command or a page that names kinds one by one, or
// reads the list of a kind from a typed field, shows something else.
func TestMadeUpKind(t *testing.T) {
	t.Parallel()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	built := t.TempDir()
	buildMadeUpKind(t, built)
	changed := filepath.Join(built, "flux-resourceset-cli")
	translator := httptest.NewServer(translate(api(t, realServer(t))))
	t.Cleanup(translator.Close)
	run := func(program, server string, line []string) string {
		cmd := exec.CommandContext(t.Context(), program, line...)
		home := filepath.Dir(changed)
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + home, "FLUX_API_URL=" + server, "FLUX_API_TOKEN=write-token",
			`EDITOR=sed -i "s/role: edit/role: admin/"`, "XDG_STATE_HOME=" + filepath.Join(home, filepath.Base(server)),
		}
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(out), home, "HOME")
		for _, v := range volatile {
			text = v.pattern.ReplaceAllString(text, v.with)
		}
		return fmt.Sprintf("%sexit code %d\n", text, cmd.ProcessState.ExitCode())
	}
	reference := realServer(t)
	file := filepath.Join(t.TempDir(), "one.yaml")
	verbs := map[string]bool{}
	for line := range strings.SplitSeq(strings.TrimSpace(kindLines), "\n") {
		switch words := strings.Fields(line); {
		case len(words) < 2:
		case words[0] == "rolebinding":
			verbs[words[1]] = true
		case strings.HasPrefix(words[1], "rolebinding"):
			verbs[words[0]] = true
		}
		content := "rolebindings: [{id: filed, role: view, subjects: [{kind: User, name: ann}]}]\nclusters: [{id: c-2, cluster_dns: c-2.example.com, environment: dev, rolebindings: [{id: filed}]}]\n"
		words := func(of *strings.Replacer) []string {
			if err := os.WriteFile(file, []byte(of.Replace(content)), 0o600); err != nil {
				t.Fatal(err)
			}
			list := strings.Fields(of.Replace(strings.ReplaceAll(line, "FILE", file)))
			for i, word := range list {
				if word == `""` {
					list[i] = ""
				}
			}
			return list
		}
		want := madeUp.Replace(run(filepath.Join(bin, "flux-resourceset-cli"), reference, words(strings.NewReplacer())))
		got := run(changed, translator.URL, words(madeUp))
		if strings.HasPrefix(line, "explain --fields") { // the descriptions are the API's
			got = madeUp.Replace(got)
		}
		if got != want {
			t.Errorf("%s\nwith the made-up kind:\n%s\nwant:\n%s", line, got, want)
		}
		if strings.Contains(want, "exit code 2") { // the command line is wrong
			t.Errorf("%s:\n%s", line, want)
		}
	}
	page, err := ui.New(ui.Config{API: httputil.NewSingleHostReverseProxy(api(t, reference)), Changes: true})
	if err != nil {
		t.Fatal(err)
	}
	shown := httptest.NewServer(page)
	t.Cleanup(shown.Close)
	wanted := pagesOf(t, shown.URL, strings.NewReplacer())
	for path, got := range pagesOf(t, startPage(t, filepath.Join(built, "page"), translator.URL), madeUp) {
		if want := madeUp.Replace(wanted[path]); got != want {
			t.Errorf("%s\n%s", path, diff.Diff("made-up kind", []byte(got), "original", []byte(want)))
		}
	}
	var kinds []struct {
		Name  string
		Verbs []string
	}
	listed, err := exec.CommandContext(t.Context(), filepath.Join(bin, "flux-resourceset-cli"), "api-resources", "-o", "json").Output()
	if err == nil {
		err = json.Unmarshal(listed, &kinds)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds {
		for _, verb := range kind.Verbs {
			if kind.Name == "rolebinding" && !verbs[verb] {
				t.Errorf("no line runs rolebinding %s", verb)
			}
		}
	}
}

// pagesOf returns the pages that show kinds, without times and versions.
func pagesOf(t *testing.T, base string, names *strings.Replacer) map[string]string {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	read := func(rsp *http.Response, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rsp.Body.Close() }()
		text, err := io.ReadAll(rsp.Body)
		if err != nil || rsp.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d, %v", rsp.Request.URL, rsp.StatusCode, err)
		}
		shown := variablePage.ReplaceAllString(lastDay.ReplaceAllString(string(text), ""), "VARIABLE")
		for _, v := range volatile {
			shown = v.pattern.ReplaceAllString(shown, v.with)
		}
		return shown
	}
	read(browser.PostForm(base+"/ui/sign-in", url.Values{"token": {"write-token"}, "to": {"/ui/"}}))
	pages := map[string]string{}
	for path := range strings.FieldsSeq(kindPages) {
		pages[path] = read(browser.Get(base + names.Replace(path)))
	}
	return pages
}

// variablePage matches the parts of a page that differ between requests.
// lastDay is the graph of the last day, which appears when the server has counted for the first time.
var lastDay = regexp.MustCompile(`(?s)<section class="strip".*?</section>`)

var variablePage = regexp.MustCompile(`\b(just now|\d+ (s|min) ago|due in [0-9ms]+|[0-9-]{10} [0-9:]{8} UTC)|[0-9a-f]{16}`)

// kindPages are the pages that depend on the kinds, for the fleet after kindLines.
const kindPages = `
/ui/
/ui/definitions
/ui/definitions/rolebindings/editors
/ui/clusters
/ui/clusters/c-1
/ui/clusters/c-1/inputs/rolebindings/editors
/ui/components
/ui/layers
/ui/layers/base
/ui/changes
/ui/changes?kind=rolebinding
/ui/changes/2
/ui/changes/5
/ui/changes/5/revert
/ui/changes/2/restore?kind=rolebinding&id=editors
/ui/search?q=editors
/ui/layers/base/delete
/ui/clusters/c-1/delete
`

// startPage starts the page with the made-up kind for an API, and returns its address.
func startPage(t *testing.T, program, api string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, api)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the test's context ends it
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + strings.TrimSpace(address)
}

// pageProgram serves the page for an API at an address.
const pageProgram = `package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"

	"github.com/flux-resourceset/flux-resourceset/ui"
)

func main() {
	api, err := url.Parse(os.Args[1])
	if err != nil {
		panic(err)
	}
	page, err := ui.New(ui.Config{API: httputil.NewSingleHostReverseProxy(api), Changes: true})
	if err != nil {
		panic(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	panic(http.Serve(listener, page))
}
`

// kindLines are commands that depend on the kinds. FILE has a document of the made-up kind and a cluster with it.
const kindLines = `
--help
rolebinding --help
rolebinding create --help
cluster create --help
layer create --help
cluster exclude --help
get revisions --help
explain --help
inputs --help
render --help
api-resources -o wide
api-resources -o json
rolebinding create editors --role edit --group web --cluster demo-cluster-01 -o wide
rolebinding create editors --role edit --group web -o json
get rolebindings -o wide
get rolebindings --sort-by role -o name
get rolebinding editors -o table
rolebinding set editors --role view
edit rolebinding editors --yes
rolebinding set editors --patch {"role":"edit"}
history rolebinding editors -o wide
restore 3 rolebinding editors --yes
rolebinding assign editors --all --plan -o wide
rolebinding assign editors --all
rolebinding unassign editors --cluster demo-cluster-01 --plan -o wide
rolebinding unassign editors --cluster demo-cluster-01 --plan --rendered -o wide
rolebinding unassign editors --cluster demo-cluster-01 --plan --rendered -o json
rolebinding unassign editors --cluster demo-cluster-01 --yes
cluster create c-1 --dns c-1.example.com --environment dev --rolebinding editors
cluster set c-1 --rolebinding editors --label a=b
get clusters -o wide
get cluster c-1 -o wide
cluster describe c-1
cluster status c-1 -o wide
layer create base --priority 100 --all --rolebinding editors --plan -o wide
layer create base --priority 100 --all --rolebinding editors
layer adopt base --yes
get layers -o wide
get layer base -o wide
get clusters -o wide
cluster describe c-1
cluster exclude c-1 rolebinding/editors
cluster describe c-1
cluster exclude c-1 rolebinding/editors --off
get cluster c-1 -o wide
explain c-1 editors --list rolebindings -o wide
explain c-1 -o wide
explain --fields rolebinding
explain --fields rolebinding.subjects
inputs c-1 --type rolebindings -o wide
render c-1 --type rolebindings
plan -f FILE -o wide
diff -f FILE -o wide
apply -f FILE --yes
export
diff rolebinding/editors rolebinding/filed -o wide
get revisions -o wide
get revisions --kind rolebinding -o wide
get revision 2 -o wide
get revision 5 -o wide
revision revert 5 --only rolebinding/editors --plan -o wide
restore 3 rolebinding editors --plan -o wide
restore 3 rolebinding editors --yes -o wide
restore 3 rolebinding nothing --yes
apply -f FILE --prune rolebinding --plan -o wide
get rolebinding editor
delete rolebinding filed --yes
delete rolebinding filed --cascade --yes
auth can-i delete rolebinding
__complete -- rol
__complete -- rolebinding ""
__complete -- get rolebinding ""
__complete -- cluster create --rolebinding ""
__complete -- get revisions --kind ""
__complete -- explain --list ""
__complete -- auth can-i get ""
__complete -- export ""
__complete -- inputs --type ""
`

// api parses the address of a server.
func api(t *testing.T, address string) *url.URL {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// buildMadeUpKind builds the command line and the page into a directory, with a copy of the descriptors of role bindings under
// another name, in place of them.
func buildMadeUpKind(t *testing.T, built string) {
	t.Helper()
	dir := t.TempDir()
	replaced := map[string]string{}
	replace := func(name, code string) {
		t.Helper()
		path, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		replaced[path] = filepath.Join(dir, strings.ReplaceAll(path, string(filepath.Separator), "_"))
		if err := os.WriteFile(replaced[path], []byte(code), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"internal/kinds/rolebindings.go", "internal/kinds/kind.go", "../internal/summarize/effects.go", "../ui/kinds.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code := regexp.MustCompile(`\broleBindings\b`).ReplaceAllString(madeUp.Replace(string(text)), "roleBarriers")
		code = strings.Replace(code, `charts.ResourceSet("rolebarriers")`, `strings.ReplaceAll(charts.ResourceSet("rolebindings"), "rolebinding", "rolebarrier")`, 1)
		replace(name, strings.Replace(code, "client.KindRoleBinding", `"rolebarrier"`, 1))
	}
	replace("../ui/madeup/main.go", pageProgram)
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	for program, source := range map[string]string{"flux-resourceset-cli": "../cmd/flux-resourceset-cli", "page": "../ui/madeup"} {
		build := exec.CommandContext(t.Context(), "go", "build", "-overlay", file, "-ldflags", "-X main.version=v0.0.0-test", "-o", filepath.Join(built, program), source)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}

// translate returns an API in which role bindings have the name of the made-up kind.
func translate(api *url.URL) http.Handler {
	body := func(b io.ReadCloser, of *strings.Replacer) (io.ReadCloser, int64, error) {
		text, err := io.ReadAll(b)
		translated := of.Replace(string(text))
		return io.NopCloser(bytes.NewBufferString(translated)), int64(len(translated)), errors.Join(err, b.Close())
	}
	headers := func(h http.Header, of *strings.Replacer) {
		for _, values := range h {
			for i, value := range values {
				values[i] = of.Replace(value)
			}
		}
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(api)
			r.Out.URL.Path, r.Out.URL.RawPath = original.Replace(r.Out.URL.Path), ""
			r.Out.URL.RawQuery = original.Replace(r.Out.URL.RawQuery)
			r.Out.Header.Del("Accept-Encoding")
			headers(r.Out.Header, original)
			if r.Out.Body != nil {
				r.Out.Body, r.Out.ContentLength, _ = body(r.Out.Body, original) // a failed read is a failed request
			}
		},
		ModifyResponse: func(rsp *http.Response) (err error) {
			headers(rsp.Header, madeUp)
			rsp.Header.Del("Content-Length")
			rsp.Body, rsp.ContentLength, err = body(rsp.Body, madeUp)
			return err
		},
	}
}
