package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const pageKey = "a-key-for-sessions-that-nobody-guesses"

// TestPageSettings: the address of the fleet page, its changes, and sessions shared between processes.
func TestPageSettings(t *testing.T) {
	t.Parallel()
	run := func(settings ...string) *program {
		return start(t, append([]string{"DATABASE_URL=sqlite::memory:", "SEED_FILE=" + demoSeed, "SEED_ACCEPT=true", "API_MODE=crud", "METRICS_ADDR=127.0.0.1:0"}, settings...)...)
	}
	reader := run("SESSION_KEY=" + pageKey)
	editor := run("SESSION_KEY="+pageKey, "UI_CHANGES=true")
	stranger := run()
	require.Equal(t, 404, run("UI=off").page("/ui/", nil).StatusCode)
	require.Equal(t, 404, run("API_MODE=read-only").page("/ui/", nil).StatusCode)
	require.Equal(t, 404, status(t, "http://"+reader.watchAddr()+"/ui/"), "it is not where metrics are")

	session := editor.signIn(writeToken)
	for p, want := range map[*program]int{reader: 200, editor: 200, stranger: http.StatusSeeOther} {
		require.Equal(t, want, p.page("/ui/", session).StatusCode)
	}
	require.Contains(t, stranger.Log(), "SESSION_KEY is not set")
	require.Equal(t, http.StatusMethodNotAllowed, reader.post("/ui/changes/1/revert", session, url.Values{"reason": {"x"}}).StatusCode)
	require.Equal(t, http.StatusBadRequest, editor.post("/ui/changes/1/revert", session, url.Values{"reason": {"x"}}).StatusCode, "without a plan")

	for _, p := range []*program{reader, editor, stranger} {
		require.NotContains(t, p.Log(), pageKey)
		require.NotContains(t, p.Log(), session.Value)
	}
	for setting, want := range map[string]string{
		"UI=maybe": "UI is", "UI_CHANGES=maybe": "UI_CHANGES is", "SESSION_KEY=short": "SESSION_KEY has less than 32 characters",
		"SESSION_KEY=" + pageKey + "\n": "SESSION_KEY begins or ends with a space, or has a newline", "WEBHOOK_KEY=" + pageKey + "\n": "WEBHOOK_KEY begins or ends with a space, or has a newline",
		"SESSION_KEY_PREVIOUS= " + pageKey: "SESSION_KEY_PREVIOUS begins or ends with a space, or has a newline",
	} {
		p := run(setting)
		require.Equal(t, 2, p.exit(), setting)
		require.Contains(t, p.Log(), want)
	}
}

func (p *program) page(path string, session *http.Cookie) *http.Response {
	p.t.Helper()
	return p.browse(http.MethodGet, path, session, nil)
}

func (p *program) post(path string, session *http.Cookie, form url.Values) *http.Response {
	p.t.Helper()
	return p.browse(http.MethodPost, path, session, form)
}

func (p *program) signIn(token string) *http.Cookie {
	p.t.Helper()
	cookies := p.post("/ui/sign-in", nil, url.Values{"token": {token}}).Cookies()
	require.Len(p.t, cookies, 1)
	return cookies[0]
}

func (p *program) browse(method, path string, session *http.Cookie, form url.Values) *http.Response {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.Base+path, strings.NewReader(form.Encode()))
	require.NoError(p.t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if session != nil {
		req.AddCookie(session)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	rsp, err := client.Do(req)
	require.NoError(p.t, err)
	require.NoError(p.t, rsp.Body.Close())
	return rsp
}
