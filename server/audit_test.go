package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// TestAuditOfEveryOperation: each operation with each refused credential has one event with the right fields, and no event has a part of
// a credential, a header, a query or a body. The trail of the world compares the number of events with the answers.
func TestAuditOfEveryOperation(t *testing.T) {
	t.Parallel()
	w := setup(t)
	poller := w.issue(pollBody)
	expired := w.issue(`{"name":"ci","role":"admin","expires_at":"2026-01-02T03:04:06Z"}`)
	unknown := fleet.FormatSecret([32]byte{1})
	secrets := []string{poller.secret, expired.secret, unknown, "guess-canary", "header-canary", "query-canary", "body-canary"}
	sent := 0
	for _, tg := range targets(t) {
		if tg.access == public {
			continue
		}
		w.clock.advance(time.Minute)
		for _, by := range []struct {
			secret, reason, actor string
			status                int
		}{
			{"", "missing", "", 401},
			{unknown, "unknown", "", 401},
			{"guess-canary", "unknown", "", 401},
			{expired.secret, "expired", "token:ci (" + expired.id + ")", 401},
			{poller.secret, "forbidden", "token:poll-demo (" + poller.id + ")", 403},
		} {
			if by.status == 403 && (tg.access == pollOwn || tg.access == self || tg.access == session) {
				continue
			}
			header := ""
			if by.secret != "" {
				header = "Bearer " + by.secret
			}
			path := strings.Replace(tg.path, "nobody", "nobody-"+unknown, 1) // only where the path has a parameter
			separator := "?"
			if strings.Contains(path, "?") {
				separator = "&"
			}
			body := ""
			if tg.body != "" {
				body = `{"body-canary":"body-canary"}`
			}
			before := len(w.audit.lines.String())
			got := w.do(tg.method, path+separator+"reason=query-canary", body, "Authorization", header, "User-Agent", "header-canary", "X-Change-Reason", "header-canary",
				"X-Change-Author", "header-canary", "X-Request-Id", unknown, "If-Match", "header-canary", "Traceparent", "header-canary", "Referer", "header-canary", "Cookie", "header-canary")
			require.Equal(t, by.status, got.status, "%s %s: %s", tg.method, path, got.body)
			e := w.audit.next(before)
			kind := "fleet.audit.refused"
			if tg.access == session {
				kind = "fleet.audit.sign_in_failed"
			}
			require.Equal(t, []any{kind, "refused", tg.method, float64(by.status), by.reason, got.header.Get("X-Request-Id")},
				[]any{e["type"], e["decision"], e["method"], e["status"], e["reason"], e["request_id"]})
			require.NotEmpty(t, e["operation"])
			require.NotEmpty(t, e["route"])
			require.Contains(t, e["remote"], "127.0.0.1:")
			require.Equal(t, map[int]string{401: "unauthorized", 403: "forbidden"}[by.status], e["error"])
			if by.actor != "" {
				require.Equal(t, by.actor, at(e, "actor", "name"))
			} else {
				require.NotContains(t, e, "actor")
			}
			sent++
		}
	}
	t.Log(sent, "refused requests")
	for _, secret := range secrets {
		require.NotContains(t, w.audit.lines.String(), secret)
	}
}

// TestAuditOfChanges: the fields of accepted and refused changes, tokens and reads of secrets; values, reasons and the content of issued
// tokens are in no event.
func TestAuditOfChanges(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var before int
	event := func(got *answer) map[string]any {
		e := w.audit.next(before)
		before = len(w.audit.lines.String())
		require.Equal(t, got.header.Get("X-Request-Id"), e["request_id"])
		return e
	}
	fields := func(e map[string]any, names ...string) (out []any) {
		for _, name := range names {
			out = append(out, e[name])
		}
		return out
	}
	token := w.create("/tokens", `{"name":"ci","role":"write"}`)
	e := event(token)
	id := token.json()["id"].(string)
	require.Equal(t, []any{"fleet.audit.token_issued", "allowed", "CreateToken", "/tokens", 2.0, 1.0, []any{"token"}, []any{"token/" + id}},
		fields(e, "type", "decision", "operation", "path", "revision", "objects", "kinds", "documents"))
	require.Equal(t, map[string]any{"name": "static-write", "credential": "static-write"}, e["actor"])
	by := bearer(token.json()["token"].(string))

	e = event(w.patch(demoCluster, `{"patches":{"podinfo":{"ui.message":"value-canary"}}}`, append(by, "X-Change-Reason", "reason-canary")...).want(200))
	require.Equal(t, []any{"fleet.audit.change", "PatchCluster", "PATCH", "/clusters/:id", demoCluster, 200.0, 3.0, []any{"cluster/demo-cluster-01"}},
		fields(e, "type", "operation", "method", "route", "path", "status", "revision", "documents"))
	require.Equal(t, map[string]any{"name": "token:ci (" + id + ")", "credential": "token", "token": id}, e["actor"])

	w.patch(demoCluster+"?dry_run=true", `{"patches":{"podinfo":{"ui.message":"other"}}}`).want(200) // no event
	event(w.create("/freezes", `{"id":"stop","all":true,"reason":"incident"}`))
	e = event(w.delete(demoCluster, by...).problem(409, "frozen"))
	require.Equal(t, []any{"fleet.audit.refused", "refused", "DeleteCluster", demoCluster, 409.0, "frozen", nil, nil, nil},
		fields(e, "type", "decision", "operation", "path", "status", "error", "reason", "revision", "documents"))
	w.delete(demoCluster+"?dry_run=true").problem(409, "frozen") // no event
	w.patch(demoCluster, `{"nonsense":true}`).want(400)
	w.get(demoCluster).want(200)
	require.Equal(t, "fleet.audit.token_revoked", event(w.delete("/tokens/" + id).want(200))["type"])

	// A change that revokes the token of a cluster has two events.
	poller := w.create("/tokens", pollBody)
	event(poller)
	w.send(w.request("DELETE", "/freezes/stop", "")).want(200)
	e = w.audit.next(before)
	before = len(w.audit.lines.String())
	require.Equal(t, "fleet.audit.change", e["type"])
	w.delete(demoCluster + "?mode=orphan").want(200)
	both := w.audit.nextOf(before, 2)
	before = len(w.audit.lines.String())
	require.Equal(t, []any{"fleet.audit.change", "DeleteCluster"}, fields(both[0], "type", "operation"))
	require.Equal(t, []any{"fleet.audit.token_revoked", "DeleteCluster", 1.0, []any{"token"}, []any{"token/" + poller.json()["id"].(string)}},
		fields(both[1], "type", "operation", "objects", "kinds", "documents"))
	require.Equal(t, both[0]["request_id"], both[1]["request_id"])
	require.Equal(t, both[0]["revision"], both[1]["revision"])
	require.Equal(t, "fleet.audit.backup_read", event(w.get("/backup").want(200))["type"])

	text := w.audit.lines.String()
	for _, canary := range []string{"value-canary", "reason-canary", by[1], strings.TrimPrefix(by[1], "Bearer ")} {
		require.NotContains(t, text, canary)
	}
}

// next waits for the line after an offset of the output, and returns it.
func (a *auditTrail) next(offset int) map[string]any { return a.nextOf(offset, 1)[0] }

// nextOf waits for a number of lines after an offset of the output, and returns them.
func (a *auditTrail) nextOf(offset, number int) []map[string]any {
	a.t.Helper()
	require.Eventually(a.t, func() bool { return strings.Count(a.lines.String()[offset:], "\n") >= number }, 10*time.Second, time.Millisecond)
	lines := parseAudit(a.t, a.lines.String()[offset:])
	require.Len(a.t, lines, number)
	return lines
}
