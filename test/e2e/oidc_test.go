package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-resourceset/flux-resourceset/internal/testbrowser"
	"github.com/flux-resourceset/flux-resourceset/internal/testissuer"
	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// identified is a server with issuers, on a store of its own.
type identified struct {
	*testing.T
	w      *rig.Env
	server *rig.Server
	home   string // of the command line
}

func setupIssuers(t *testing.T, issuers string) *identified {
	t.Helper()
	w, dir := world(t), t.TempDir()
	server, err := w.StartServer(t.Context(), rig.ServerConfig{Name: "server-" + strings.ToLower(t.Name()), Settings: map[string]string{
		"API_MODE": "crud", "DATABASE_URL": "sqlite://" + filepath.Join(dir, "fleet.db") + "?mode=rwc", "SEED_FILE": "../../examples/demo/seed.json", "SEED_ACCEPT": "true",
		"AUTH_TOKEN": rig.ReadToken, "CRUD_AUTH_TOKEN": rig.WriteToken, "ALLOW_SHORT_TOKENS": "true", "OIDC_ISSUERS": issuers, "SESSION_KEY": strings.Repeat("k", 32),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return &identified{t, w, server, dir}
}

// command is the command line without tokens, with further variables.
func (s *identified) command(variables []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.Context(), filepath.Join(s.w.Bin(), "flux-resourceset-cli"), args...)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=" + s.home, "FLUX_API_URL=" + s.server.URL}, variables...)
	return cmd
}

// succeeds runs the command line.
func (s *identified) succeeds(variables []string, args ...string) string {
	s.Helper()
	out, err := s.command(variables, args...).CombinedOutput()
	if err != nil {
		s.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// fails runs the command line, which fails with a text.
func (s *identified) fails(text string, variables []string, args ...string) {
	s.Helper()
	out, err := s.command(variables, args...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), text) {
		s.Fatalf("%s: %v, without %q:\n%s", strings.Join(args, " "), err, text, out)
	}
}

// grant creates an access document as an admin.
func (s *identified) grant(args ...string) {
	s.Helper()
	s.succeeds([]string{"FLUX_API_WRITE_TOKEN=" + rig.WriteToken}, append([]string{"access", "create"}, args...)...)
}

var link = regexp.MustCompile(`http://localhost:[0-9]+/\S+`)

// login runs auth login, and passes its first URL, and the code after it, to the person. It returns the output and the error.
func (s *identified) login(person func(address, code string) error, args ...string) (string, error) {
	s.Helper()
	cmd := s.command(nil, append([]string{"auth", "login"}, args...)...)
	output, input := io.Pipe()
	cmd.Stdout, cmd.Stderr = input, input
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		_ = input.Close()
		ended <- err
	}()
	var all strings.Builder
	for lines := bufio.NewScanner(output); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		if address := link.FindString(lines.Text()); address != "" {
			_, code, _ := strings.Cut(lines.Text(), "enter the code ")
			if err := person(strings.TrimSuffix(address, ","), code); err != nil {
				s.Errorf("the person: %v", err)
			}
		}
	}
	return all.String(), <-ended
}

// visitor is a browser without scripts.
func visitor() (*http.Client, error) {
	jar, err := cookiejar.New(nil)
	return &http.Client{Jar: jar, Timeout: time.Minute}, err
}

var requestID = regexp.MustCompile(`name="id" value="([^"]+)"`)

// inBrowser signs a person in with a browser on the same machine.
func inBrowser(ctx context.Context, person string) func(address, code string) error {
	return func(address, _ string) error {
		browser, err := visitor()
		if err != nil {
			return err
		}
		_, form, err := get(ctx, browser, address)
		if err != nil {
			return err
		}
		id := requestID.FindStringSubmatch(form)
		u, err := url.Parse(address)
		if err != nil || id == nil {
			return errors.Join(err, fmt.Errorf("no form to sign in:\n%s", form))
		}
		return post(ctx, browser, u.Scheme+"://"+u.Host+"/login/username", url.Values{"id": {id[1]}, "username": {person}, "password": {rig.ProviderPassword}})
	}
}

// onDevice signs a person in with a browser on another machine.
func onDevice(ctx context.Context, person string) func(address, code string) error {
	return func(address, code string) error {
		browser, err := visitor()
		if err != nil {
			return err
		}
		if err := post(ctx, browser, address+"/login", url.Values{"user_code": {code}, "username": {person}, "password": {rig.ProviderPassword}}); err != nil {
			return err
		}
		_, _, err = get(ctx, browser, address+"/confirm?action=allowed")
		return err
	}
}

func get(ctx context.Context, browser *http.Client, address string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	rsp, err := browser.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer rsp.Body.Close()
	text, err := io.ReadAll(rsp.Body)
	return rsp.StatusCode, string(text), err
}

func post(ctx context.Context, browser *http.Client, address string, form url.Values) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	rsp, err := browser.Do(req)
	if err != nil {
		return err
	}
	defer rsp.Body.Close()
	if rsp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", rsp.Request.URL, rsp.Status)
	}
	return nil
}

// People sign in at a real provider: on the page in Chromium, with a browser on the same machine, and on a device. Their rights
// follow the groups of the last sign-in. Sessions go on while the provider is down, and a new key of it is found.
func TestSignInAtProvider(t *testing.T) {
	t.Parallel()
	provider, err := rig.StartProvider(t.Context(), map[string][]string{"ann": {"team-web"}, "bob": {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(provider.Stop)
	s := setupIssuers(t, fmt.Sprintf("[{name: corp, url: %q, client_id: %s, groups_claim: groups, user_claim: email}]", provider.URL, rig.ProviderClient))
	s.grant("readers", "--issuer", "corp", "--group", "team-web", "--may", "read")

	signIn := func(person string) *testbrowser.Browser {
		b := testbrowser.New(t)
		b.Run(chromedp.Navigate(s.server.URL + "/ui/clusters"))
		b.Follow("main a.button")
		b.Run(chromedp.SendKeys("#username", person, chromedp.ByQuery), chromedp.SendKeys("#password", rig.ProviderPassword, chromedp.ByQuery))
		b.Click("button")
		return b
	}
	ann := signIn("ann")
	ann.At("/ui/clusters")
	var shown string
	ann.Run(chromedp.Text("main", &shown, chromedp.ByQuery))
	if !strings.Contains(shown, "demo-cluster-01") {
		t.Errorf("the page after the sign-in:\n%s", shown)
	}
	bob := signIn("bob")
	bob.Run(chromedp.WaitVisible("[role=alert]", chromedp.ByQuery), chromedp.Text("main", &shown, chromedp.ByQuery))
	if !strings.Contains(shown, "may not read the fleet") {
		t.Errorf("the page for a person without rights:\n%s", shown)
	}

	out, err := s.login(onDevice(t.Context(), "ann"), "--device")
	if err != nil || !strings.Contains(out, "Signed in as oidc:corp:ann@example.com (ann)") {
		t.Fatalf("auth login --device: %v\n%s", err, out)
	}
	if out := s.succeeds(nil, "cluster", "list", "-o", "name"); !strings.Contains(out, "demo-cluster-01") {
		t.Errorf("cluster list: %s", out)
	}

	// A session keeps the groups of its sign-in.
	provider.SetGroups("ann", "team-data")
	s.succeeds(nil, "cluster", "list")
	if out, err := s.login(inBrowser(t.Context(), "ann"), "--no-browser"); err != nil {
		t.Fatalf("auth login: %v\n%s", err, out)
	}
	s.fails("no access document permits this", nil, "cluster", "list")
	provider.SetGroups("ann", "team-web")

	// A new key is found within a minute, and the provider is not needed afterwards.
	if err := provider.RotateKey(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for again := time.NewTicker(5 * time.Second); ; <-again.C { // wrong tokens count for the lockout
		out, err := s.login(inBrowser(ctx, "ann"), "--no-browser")
		if err == nil {
			break
		}
		if ctx.Err() != nil || !strings.Contains(out, "names none of the issuer's keys") {
			t.Fatalf("auth login after a rotation: %v\n%s", err, out)
		}
	}
	provider.Stop()
	s.succeeds(nil, "cluster", "list")
	ann.Run(chromedp.Navigate(s.server.URL+"/ui/layers"), chromedp.Text("main", &shown, chromedp.ByQuery))
	if !strings.Contains(shown, "Layers") {
		t.Errorf("the page while the provider is down:\n%s", shown)
	}
	if out, err := s.login(func(string, string) error { return nil }, "--no-browser"); err == nil || !strings.Contains(out, "the issuer: ") {
		t.Errorf("auth login while the provider is down: %v\n%s", err, out)
	}
	if err := provider.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, err := s.login(inBrowser(t.Context(), "ann"), "--no-browser"); err != nil {
		t.Errorf("auth login after the outage: %v\n%s", err, out)
	}
}

// A workload of a cluster authenticates with the token of its ServiceAccount, verified with a file of the API server's keys.
func TestServiceAccountToken(t *testing.T) {
	t.Parallel()
	w, ctx := world(t), t.Context()
	keys, err := w.ServiceAccountKeys(ctx)
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := errors.Join(err, os.WriteFile(file, keys, 0o600)); err != nil {
		t.Fatal(err)
	}
	s := setupIssuers(t, fmt.Sprintf("[{name: k8s, url: 'https://kubernetes.default.svc', jwks_file: %s, audiences: [fleet]}]", file))
	s.grant("deploy", "--issuer", "k8s", "--claim", "sub=system:serviceaccount:oidc-jobs:deploy", "--may", "read")

	if err := w.Kube.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "oidc-jobs"}}); err != nil {
		t.Fatal(err)
	}
	token := func(name, audience string) []string {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "oidc-jobs", Name: name}}
		if err := w.Kube.Create(ctx, account); err != nil && !strings.Contains(err.Error(), "already exists") {
			t.Fatal(err)
		}
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
		if err := w.Kube.SubResource("token").Create(ctx, account, request); err != nil {
			t.Fatal(err)
		}
		return []string{"FLUX_API_TOKEN=" + request.Status.Token}
	}
	s.succeeds(token("deploy", "fleet"), "cluster", "list")
	s.fails("it is for another service", token("deploy", "https://kubernetes.default.svc"), "cluster", "list")
	s.fails("no access document permits this", token("other", "fleet"), "cluster", "list")
	if log := s.server.Log(); !strings.Contains(log, "oidc:k8s:system:serviceaccount:oidc-jobs:other") {
		t.Error("the log does not name the ServiceAccount")
	}
}

// A job of GitHub Actions needs no secret: the command line requests its ID token. Jobs of other branches and repositories, such as
// a pull request of a fork, have no rights.
func TestGitHubActions(t *testing.T) {
	t.Parallel()
	github := testissuer.New(t)
	s := setupIssuers(t, fmt.Sprintf("[{name: github, url: %q, audiences: ['https://fleet.example.com']}]", github.URL()))
	s.grant("ci", "--issuer", "github", "--claim", "repository_id=4711", "--claim", "ref=refs/heads/main", "--may", "read")
	job := func(changes testissuer.Claims) []string {
		claims := testissuer.Claims{
			"sub": "repo:acme/web:ref:refs/heads/main", "repository": "acme/web", "repository_id": "4711", "repository_owner_id": "42", "ref": "refs/heads/main",
			"event_name": "push", "iat": time.Now().Unix(), "nbf": time.Now().Add(-time.Minute).Unix(), "exp": time.Now().Add(5 * time.Minute).Unix(),
		}
		maps.Copy(claims, changes)
		runner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer of-the-runner" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			if claims["aud"] == nil {
				claims["aud"] = r.URL.Query().Get("audience")
			}
			_ = json.NewEncoder(w).Encode(map[string]string{"value": github.Token(claims)})
		}))
		t.Cleanup(runner.Close)
		return []string{"ACTIONS_ID_TOKEN_REQUEST_URL=" + runner.URL + "/token?api-version=2.0", "ACTIONS_ID_TOKEN_REQUEST_TOKEN=of-the-runner"}
	}
	ours := testissuer.Claims{"aud": "https://fleet.example.com"}
	s.succeeds(job(ours), "cluster", "list")
	s.fails("it is for another service", job(nil), "cluster", "list") // the command line requests a token for its URL
	for name, changes := range map[string]testissuer.Claims{
		"another branch":         {"aud": "https://fleet.example.com", "ref": "refs/heads/other"},
		"a pull request":         {"aud": "https://fleet.example.com", "ref": "refs/pull/7/merge", "sub": "repo:acme/web:pull_request"},
		"a repository that took": {"aud": "https://fleet.example.com", "repository_id": "4712"},
	} {
		t.Log(name)
		s.fails("no access document permits this", job(changes), "cluster", "list")
	}
}
