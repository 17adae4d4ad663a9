package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/routers"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/server"
)

// auditTrail compares the audit events of a world with the answers that its client received: every test of this package is one of the
// audit log, too.
type auditTrail struct {
	t     *testing.T
	log   *server.AuditLog
	lines buffer

	mu    sync.Mutex
	want  []string // events of answers
	known map[string]bool
}

func newAuditTrail(t *testing.T) *auditTrail {
	t.Helper()
	a := &auditTrail{t: t, known: map[string]bool{}}
	var err error
	a.log, err = server.OpenAuditLog(server.AuditConfig{Output: "stdout", Stdout: &a.lines})
	require.NoError(t, err)
	t.Cleanup(a.log.Close)
	return a
}

// events returns all events, and ends the log.
func (a *auditTrail) events() []map[string]any {
	a.t.Helper()
	a.log.Close()
	return parseAudit(a.t, a.lines.String())
}

func parseAudit(t *testing.T, text string) (out []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var e map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		out = append(out, e)
	}
	return out
}

// answered records the event that an answer should have.
func (a *auditTrail) answered(route *routers.Route, req *http.Request, res *http.Response, body []byte) {
	id := res.Header.Get("X-Request-Id")
	if a == nil || id == "" { // polls without an error have no id, and no event
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[id] = true
	if e := wantedEvent(route, req, res, body); e != "" {
		a.want = append(a.want, fmt.Sprintf("%s %s %s %d", id, e, route.Operation.OperationID, res.StatusCode))
	}
}

// wantedEvent returns the type of the event of an answer; empty: it has none.
func wantedEvent(route *routers.Route, req *http.Request, res *http.Response, body []byte) string {
	op := route.Operation
	security := route.Spec.Security
	if op.Security != nil {
		security = *op.Security
	}
	writes := req.Method != http.MethodGet && req.Method != http.MethodHead && len(security) > 0 && (security[0]["writeToken"] != nil || security[0]["adminToken"] != nil)
	applies := writes && req.URL.Query().Get("dry_run") != "true"
	var problem struct{ Error, Detail string }
	_ = json.Unmarshal(body, &problem)
	rules := []string{"protected", "confirmation_required", "in_rollout", "frozen", "pinned", "managed_by_source", "field_conflict", "policy", "secret_value", "second_person"}
	switch status := res.StatusCode; {
	case op.OperationID == "CreateSession" && status >= 400:
		return "fleet.audit.sign_in_failed"
	case status == 401, status == 403, status == 429 && strings.Contains(problem.Detail, "without a valid token"):
		return "fleet.audit.refused"
	case applies && (slices.Contains(rules, problem.Error) || problem.Error == "stale" && strings.Contains(problem.Detail, "planned")):
		return "fleet.audit.refused"
	case applies && problem.Error == "outcome_unknown":
		return "fleet.audit.change"
	case status >= 400:
		return ""
	}
	switch op.OperationID {
	case "CreateSession":
		return "fleet.audit.sign_in"
	case "EndSessions":
		return onlyIf(applies, "fleet.audit.sessions_ended")
	case "CreateToken", "RotateToken":
		return onlyIf(applies, "fleet.audit.token_issued")
	case "RevokeToken":
		return onlyIf(applies, "fleet.audit.token_revoked")
	case "GetBackup":
		return "fleet.audit.backup_read"
	case "GetWebhookSecret":
		return "fleet.audit.secret_read"
	}
	return onlyIf(applies, "fleet.audit.change")
}

// ofChange reports whether an event is about tokens of another change, which has its own event.
func ofChange(e map[string]any) bool {
	kind, _ := e["type"].(string)
	operation, _ := e["operation"].(string)
	return strings.HasPrefix(kind, "fleet.audit.token_") && !strings.HasSuffix(operation, "Token")
}

func onlyIf(condition bool, text string) string {
	if condition {
		return text
	}
	return ""
}

// limited reports whether a limit of refused requests dropped events.
func (a *auditTrail) limited() bool {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(a.log.Collector())
	families, err := metrics.Gather()
	require.NoError(a.t, err)
	for _, m := range families[0].GetMetric() {
		if m.GetLabel()[0].GetValue() == "limited" {
			return m.GetCounter().GetValue() > 0
		}
	}
	return false
}

// check requires exactly one event for each answer that has one, and none for others, and no token in any.
func (a *auditTrail) check() {
	got := []string{}
	events := a.events()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range events {
		if id, _ := e["request_id"].(string); a.known[id] && at(e, "actor", "credential") != "internal" && !ofChange(e) {
			got = append(got, fmt.Sprintf("%s %s %s %v", id, e["type"], e["operation"], e["status"]))
		}
	}
	slices.Sort(got)
	slices.Sort(a.want)
	if a.limited() {
		for _, e := range got {
			require.Contains(a.t, a.want, e)
		}
	} else {
		require.Equal(a.t, append([]string{}, a.want...), got)
	}
	for _, secret := range []string{readToken, readPrevious, writeToken, writePrevious, "Bearer "} {
		require.NotContains(a.t, a.lines.String(), secret)
	}
	require.NotRegexp(a.t, `frss?_[0-9A-Za-z]`, a.lines.String())
}
