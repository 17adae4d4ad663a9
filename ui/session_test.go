package ui_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFutureSessionRejected: a session with a time in the future is invalid, with a tolerance of a minute.
func TestFutureSessionRejected(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	env.advance(2 * time.Minute)
	env.signIn(readToken)
	require.Equal(t, http.StatusOK, env.get("/ui/").status)
	env.advance(-2 * time.Minute)
	require.Equal(t, http.StatusSeeOther, env.get("/ui/").status)
	env.advance(90 * time.Second)
	require.Equal(t, http.StatusOK, env.get("/ui/").status, "clocks of replicas differ by less than a minute")
}

// TestSessionBoundToCookieName: the value of the cookie for plain HTTP, which others may have read, is invalid in the cookie for HTTPS.
func TestSessionBoundToCookieName(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	page := env.page(sessionKey)
	serve := func(method, address, body string, cookies ...*http.Cookie) *http.Response {
		req := httptest.NewRequest(method, address, strings.NewReader(body))
		req.RemoteAddr = "127.0.0.1:1"
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for _, c := range cookies {
			req.AddCookie(c)
		}
		rec := httptest.NewRecorder()
		page.ServeHTTP(rec, req)
		return rec.Result()
	}
	form := url.Values{"token": {readToken}}.Encode()
	plain := serve(http.MethodPost, "http://127.0.0.1/ui/sign-in", form).Cookies()[0]
	secure := serve(http.MethodPost, "https://fleet.example.com/ui/sign-in", form).Cookies()[0]
	require.NotEqual(t, plain.Name, secure.Name)
	require.Equal(t, http.StatusOK, serve(http.MethodGet, "https://fleet.example.com/ui/", "", secure).StatusCode)
	renamed := &http.Cookie{Name: secure.Name, Value: plain.Value}
	require.Equal(t, http.StatusSeeOther, serve(http.MethodGet, "https://fleet.example.com/ui/", "", renamed).StatusCode)
}

// TestFormSizeLimit: a form has at most 16 KiB, so requests without a token cannot fill the memory.
func TestFormSizeLimit(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	small := env.send(env.client, http.MethodPost, "/ui/sign-in", url.Values{"token": {readToken}, "to": {"/ui/"}, "x": {strings.Repeat("x", 15<<10)}})
	require.Equal(t, http.StatusSeeOther, small.status)
	large := env.send(env.newClient(t), http.MethodPost, "/ui/sign-in", url.Values{"token": {readToken}, "to": {"/ui/"}, "x": {strings.Repeat("x", 17<<10)}})
	require.NotEqual(t, http.StatusSeeOther, large.status)
	require.Empty(t, large.header.Get("Set-Cookie"))
}
