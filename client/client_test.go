package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// connect returns a client of a server that runs handler. Retries do not wait.
func connect(t *testing.T, cfg client.Config, handler http.HandlerFunc) *client.Client {
	t.Helper()
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	cfg.URL, cfg.RetryWait = srv.URL, time.Nanosecond
	fleet, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return fleet
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "localhost:8080", "ftp://host", "http://", "http://user:secret@host", "http://host?x=1", "http://host#x", "http://h\x7f"} {
		_, err := client.New(client.Config{URL: url})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
	if _, err := client.New(client.Config{URL: "http://host", Token: "a\nb"}); err == nil {
		t.Error("a token with a line break was accepted")
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ read, write, wantRead, wantWrite string }{
		{"r", "w", "Bearer r", "Bearer w"},
		{"r", "", "Bearer r", "Bearer r"},
		{"", "w", "Bearer w", "Bearer w"},
		{"", "", "", ""},
	} {
		var got []string
		fleet := connect(t, client.Config{Token: test.read, WriteToken: test.write, UserAgent: "test"}, func(w http.ResponseWriter, r *http.Request) {
			got = append(got, r.Header.Get("Authorization"))
			if r.UserAgent() != "test" {
				t.Errorf("user agent %q", r.UserAgent())
			}
			answer(w, http.StatusOK, `{}`)
		})
		_, err1 := fleet.GetCluster(context.Background(), "c", nil)
		_, err2 := fleet.AssignNamespace(context.Background(), "c", "n", nil)
		if err := errors.Join(err1, err2); err != nil || got[0] != test.wantRead || got[1] != test.wantWrite {
			t.Errorf("%+v: %q, %v", test, got, err)
		}
	}
}

func TestAuthor(t *testing.T) {
	t.Parallel()
	var got []string
	fleet := connect(t, client.Config{Author: "ann"}, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.Header.Get("X-Change-Author"))
		answer(w, http.StatusOK, `{}`)
	})
	ctx, bob := context.Background(), "bob"
	_, err1 := fleet.GetCluster(ctx, "c", nil)
	_, err2 := fleet.AssignNamespace(ctx, "c", "n", nil)
	_, err3 := fleet.AssignNamespace(ctx, "c", "n", &api.AssignNamespaceParams{XChangeAuthor: &bob})
	if want := []string{"GET ", "PUT ann", "PUT bob"}; errors.Join(err1, err2, err3) != nil || !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestErrorsAreTyped(t *testing.T) {
	t.Parallel()
	fleet := connect(t, client.Config{}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/clusters/problem":
			w.Header().Set("ETag", `"2-0a0a0a0a"`)
			answer(w, http.StatusConflict, `{"title":"Conflict","status":409,"detail":"it is there","error":"conflict","errors":[{"pointer":"/id","detail":"taken"}]}`)
		case "/clusters/proxy":
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusBadGateway)
		case "/clusters/moved":
			http.Redirect(w, r, "https://elsewhere.example.com/", http.StatusFound)
		case "/clusters/same":
			w.WriteHeader(http.StatusNotModified)
		default:
			answer(w, http.StatusOK, `{"id":"c"}`)
		}
	})
	_, err := fleet.GetClusterWithResponse(context.Background(), "problem", nil)
	var problem *client.Error
	if !errors.As(err, &problem) || problem.StatusCode != 409 || client.ErrorCode(err) != "conflict" ||
		problem.Problem.Errors[0].Pointer != "/id" || problem.Header.Get("ETag") != `"2-0a0a0a0a"` {
		t.Errorf("%#v", problem)
	}
	if want := "GET /clusters/problem: 409: it is there"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	for path, want := range map[string]string{"proxy": "502: Bad Gateway", "moved": "redirects to https://elsewhere.example.com/"} {
		if _, err := fleet.GetClusterWithResponse(context.Background(), path, nil); err == nil || !strings.Contains(err.Error(), want) || client.ErrorCode(err) != "" {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{"same", "fine"} {
		if _, err := fleet.GetClusterWithResponse(context.Background(), path, nil); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestRetries counts the attempts for each kind of failure and call.
func TestRetries(t *testing.T) {
	t.Parallel()
	calls := map[string]func(ctx context.Context, c *client.Client) error{
		"get": func(ctx context.Context, c *client.Client) error {
			_, err := c.GetClusterWithResponse(ctx, "c", nil)
			return err
		},
		"put": func(ctx context.Context, c *client.Client) error {
			_, err := c.UpdateNamespaceWithResponse(ctx, "n", nil, api.NamespaceUpdate{})
			return err
		},
		"conditional put": func(ctx context.Context, c *client.Client) error {
			tag := `"1-00000000"`
			_, err := c.UpdateNamespaceWithResponse(ctx, "n", &api.UpdateNamespaceParams{IfMatch: &tag}, api.NamespaceUpdate{})
			return err
		},
		"delete": func(ctx context.Context, c *client.Client) error {
			_, err := c.DeleteNamespaceWithResponse(ctx, "n", nil)
			return err
		},
		"post": func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateNamespaceWithResponse(ctx, nil, api.NamespaceCreate{ID: "n"})
			return err
		},
		"patch": func(ctx context.Context, c *client.Client) error {
			_, err := c.PatchNamespaceWithResponse(ctx, "n", nil, api.NamespacePatch{})
			return err
		},
	}
	unavailable := func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "0")
		answer(w, http.StatusServiceUnavailable, `{"error":"store_unavailable"}`)
	}
	failures := map[string]func(w http.ResponseWriter){
		"unavailable": unavailable,
		"unknown":     func(w http.ResponseWriter) { answer(w, http.StatusServiceUnavailable, `{"error":"outcome_unknown"}`) },
		"later": func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "3600")
			answer(w, http.StatusServiceUnavailable, `{"error":"store_unavailable"}`)
		},
		"dropped":  func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"internal": func(w http.ResponseWriter) { answer(w, http.StatusInternalServerError, `{"error":"internal_error"}`) },
	}
	want := map[string]map[string]int32{
		"unavailable": {"get": 3, "put": 3, "conditional put": 3, "delete": 3, "post": 1, "patch": 1},
		"unknown":     {"get": 1, "put": 1, "conditional put": 1, "delete": 1, "post": 1, "patch": 1},
		"later":       {"get": 1, "put": 1, "conditional put": 1, "delete": 1, "post": 1, "patch": 1},
		"dropped":     {"get": 3, "put": 3, "conditional put": 1, "delete": 3, "post": 1, "patch": 1},
		"internal":    {"get": 1, "put": 1, "conditional put": 1, "delete": 1, "post": 1, "patch": 1},
	}
	for failure, fail := range failures {
		for name, call := range calls {
			t.Run(failure+"/"+name, func(t *testing.T) {
				t.Parallel()
				var made atomic.Int32
				fleet := connect(t, client.Config{}, func(w http.ResponseWriter, _ *http.Request) {
					made.Add(1)
					fail(w)
				})
				if err := call(context.Background(), fleet); err == nil {
					t.Error("no error")
				}
				if got := made.Load(); got != want[failure][name] {
					t.Errorf("called %d times, want %d", got, want[failure][name])
				}
			})
		}
	}
}

func TestRetrySucceeds(t *testing.T) {
	t.Parallel()
	var made atomic.Int32
	fleet := connect(t, client.Config{}, func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 100)
		n, _ := r.Body.Read(body)
		if made.Add(1) < 3 {
			panic(http.ErrAbortHandler)
		}
		answer(w, http.StatusOK, string(body[:n]))
	})
	rsp, err := fleet.UpdateNamespaceWithBodyWithResponse(context.Background(), "n", nil, "application/json", strings.NewReader(`{"id":"n"}`))
	if err != nil || rsp.JSON200 == nil || rsp.JSON200.ID != "n" {
		t.Errorf("the body was not sent again: %v, %+v", err, rsp)
	}
}

// TestLostAnswer: the answer to a repeated call may be the consequence of the first one.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	var made atomic.Int32
	fleet := connect(t, client.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		if made.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		answer(w, http.StatusNotFound, `{"error":"not_found","detail":"gone"}`)
	})
	_, err := fleet.DeleteNamespaceWithResponse(context.Background(), "n", nil)
	var problem *client.Error
	if !errors.As(err, &problem) || !problem.Lost {
		t.Errorf("%v", err)
	}
}

func TestNoConnection(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	attempts := 0
	fleet, err := client.New(client.Config{
		URL: url, Retries: 4, RetryWait: time.Nanosecond,
		Trace: func(*http.Request, *http.Response, time.Duration, error) { attempts++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	// Not even a POST can have been received, so it is repeated.
	if _, err := fleet.CreateNamespaceWithResponse(context.Background(), nil, api.NamespaceCreate{ID: "n"}); err == nil || attempts != 5 {
		t.Errorf("%d attempts: %v", attempts, err)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	fleet := connect(t, client.Config{Timeout: 20 * time.Millisecond}, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	_, err := fleet.GetClusterWithResponse(context.Background(), "c", nil)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 20ms") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := fleet.GetClusterWithResponse(ctx, "c", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestLargeAnswer(t *testing.T) {
	t.Parallel()
	var made atomic.Int32
	fleet := connect(t, client.Config{MaxResponse: 10}, func(w http.ResponseWriter, _ *http.Request) {
		made.Add(1)
		answer(w, http.StatusOK, `{"id":"a long one"}`)
	})
	if _, err := fleet.GetClusterWithResponse(context.Background(), "c", nil); err == nil || made.Load() != 1 {
		t.Errorf("%v after %d calls", err, made.Load())
	}
}

// TestRequiresNewestSeenRevision: every call, read or change, requires the newest revision that an answer named.
func TestRequiresNewestSeenRevision(t *testing.T) {
	t.Parallel()
	var asked []string
	fleet := connect(t, client.Config{}, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+r.Header.Get("X-Fleet-Min-Revision"))
		w.Header().Set("X-Fleet-Revision", map[string]string{"GET": "6", "PUT": "7", "DELETE": "5"}[r.Method])
		answer(w, http.StatusOK, `{}`)
	})
	ctx := context.Background()
	_, err1 := fleet.GetCluster(ctx, "c", nil)
	_, err2 := fleet.AssignNamespace(ctx, "c", "n", nil)
	_, err3 := fleet.GetCluster(ctx, "c", nil)
	_, err4 := fleet.UnassignNamespace(ctx, "c", "n", nil) // answered from an older revision: not a step back
	_, err5 := fleet.GetCluster(ctx, "c", nil)
	if got := strings.Join(asked, " "); errors.Join(err1, err2, err3, err4, err5) != nil || got != "GET PUT6 GET7 DELETE7 GET7" {
		t.Errorf("%s", got)
	}
}

// TestHistoryReplaced: the error distinguishes a server with an older history from an unavailable one.
func TestHistoryReplaced(t *testing.T) {
	t.Parallel()
	seen := &client.RevisionToken{}
	seen.Note(42)
	fleet := connect(t, client.Config{Seen: seen, Retries: -1}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Fleet-Revision", "7")
		if r.Header.Get("X-Fleet-Min-Revision") == "42" {
			answer(w, http.StatusServiceUnavailable, `{"error":"store_unavailable","detail":"not here"}`)
			return
		}
		answer(w, http.StatusOK, `{}`)
	})
	_, err := fleet.GetCluster(context.Background(), "c", nil)
	var problem *client.Error
	if !errors.As(err, &problem) {
		t.Fatal(err)
	}
	if have, asked, behind := problem.Behind(); have != 7 || asked != 42 || !behind || !strings.Contains(err.Error(), "revision 7") {
		t.Errorf("%d %d %v %v", have, asked, behind, err)
	}
	seen.Forget()
	if _, err := fleet.GetCluster(context.Background(), "c", nil); err != nil || seen.Revision() != 7 {
		t.Errorf("%v %d", err, seen.Revision())
	}
}

// TestUnknownRevision: a server whose store lacks the required revision answers at once. The call is repeated only if the program
// agrees, and nothing is retried otherwise.
func TestUnknownRevision(t *testing.T) {
	t.Parallel()
	for _, agrees := range []bool{true, false} {
		seen, calls, told := &client.RevisionToken{}, 0, []string{}
		seen.Note(42)
		fleet := connect(t, client.Config{Seen: seen, Replaced: func(change bool, have, seen int64) bool {
			told = append(told, fmt.Sprint(change, have, seen))
			return agrees
		}}, func(w http.ResponseWriter, r *http.Request) {
			calls++
			w.Header().Set("X-Fleet-Revision", "7")
			if r.Header.Get("X-Fleet-Min-Revision") == "42" {
				answer(w, http.StatusServiceUnavailable, `{"error":"unknown_revision","detail":"the store has no revision 42"}`)
				return
			}
			answer(w, http.StatusOK, `{}`)
		})
		_, err := fleet.AssignNamespace(context.Background(), "c", "n", nil)
		if code := client.ErrorCode(err); agrees != (err == nil) || !agrees && code != client.CodeUnknownRevision {
			t.Errorf("agrees %v: %v", agrees, err)
		}
		want := map[bool]int64{true: 7, false: 42}[agrees]
		if calls != map[bool]int{true: 2, false: 1}[agrees] || seen.Revision() != want || strings.Join(told, "|") != "true 7 42" {
			t.Errorf("agrees %v: %d calls, seen %d, told %q", agrees, calls, seen.Revision(), told)
		}
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	var got []string
	fleet := connect(t, client.Config{Warn: func(text string) { got = append(got, text) }}, func(w http.ResponseWriter, _ *http.Request) {
		for _, value := range []string{`299 - "plain"`, `299 agent "a \"quoted\" \\ one" "Mon"`, `199 - "another code"`, `299 -`, `299 - unquoted`, `299 - "open`} {
			w.Header().Add("Warning", value)
		}
		answer(w, http.StatusOK, `{}`)
	})
	if _, err := fleet.GetClusterWithResponse(context.Background(), "c", nil); err != nil {
		t.Fatal(err)
	}
	if strings.Join(got, "|") != `plain|a "quoted" \ one|open` {
		t.Errorf("%q", got)
	}
}

// TestUnanswered: only a change that was sent and not answered is an UnansweredError, not one that was never sent, nor a read.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	var sent atomic.Value
	fleet := connect(t, client.Config{}, func(_ http.ResponseWriter, r *http.Request) {
		sent.Store(r.Header.Get("X-Request-Id"))
		panic(http.ErrAbortHandler)
	})
	dry := true
	var unanswered *client.UnansweredError
	_, err := fleet.CreateNamespaceWithBodyWithResponse(context.Background(), nil, "application/json", strings.NewReader(`{"id":"n"}`))
	if !errors.As(err, &unanswered) || unanswered.RequestID == "" || unanswered.RequestID != sent.Load() {
		t.Errorf("a change: %v, request %v", err, sent.Load())
	}
	_, err = fleet.DeleteNamespaceWithResponse(context.Background(), "n", &api.DeleteNamespaceParams{DryRun: &dry})
	if err == nil || errors.As(err, &unanswered) {
		t.Errorf("a dry run: %v", err)
	}
	if _, err = fleet.PlanWithBodyWithResponse(context.Background(), nil, "application/json", strings.NewReader(`{}`)); err == nil || errors.As(err, &unanswered) {
		t.Errorf("a plan: %v", err)
	}
	if _, err = fleet.GetNamespaceWithResponse(context.Background(), "n", nil); err == nil || errors.As(err, &unanswered) {
		t.Errorf("a read: %v", err)
	}
	nobody, err := client.New(client.Config{URL: "http://127.0.0.1:1", RetryWait: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = nobody.DeleteNamespaceWithResponse(context.Background(), "n", nil); err == nil || errors.As(err, &unanswered) {
		t.Errorf("nobody there: %v", err)
	}
}
