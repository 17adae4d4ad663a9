package fleet

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWebhookDocuments: rules of webhooks, and which fields requests can set.
func TestWebhookDocuments(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ body, problem string }{
		"no url":              {`{"id":"w"}`, "/url"},
		"no scheme":           {`{"id":"w","url":"hooks.example.com"}`, "/url"},
		"another scheme":      {`{"id":"w","url":"ftp://hooks.example.com"}`, "/url"},
		"no host":             {`{"id":"w","url":"https:///x"}`, "/url"},
		"only a port":         {`{"id":"w","url":"https://:443/x"}`, "/url"},
		"user information":    {`{"id":"w","url":"https://a:b@hooks.example.com/"}`, "/url"},
		"a fragment":          {`{"id":"w","url":"https://hooks.example.com/#x"}`, "/url"},
		"a hidden query":      {`{"id":"w","url":"https://hooks.example.com/?…"}`, "/url"},
		"an id with a /":      {`{"id":"a/b","url":"https://hooks.example.com/"}`, "/id"},
		"an unknown format":   {`{"id":"w","url":"https://hooks.example.com/","format":"xml"}`, "/format"},
		"a pager without key": {`{"id":"w","url":"https://events.pagerduty.com/v2/enqueue","format":"pagerduty"}`, "/url"},
		"another pager's key": {`{"id":"w","url":"https://api.opsgenie.com/v2/alerts?routing_key=x","format":"opsgenie"}`, "/url"},
		"events of a pager":   {`{"id":"w","url":"https://api.opsgenie.com/v2/alerts?api_key=x","format":"opsgenie","events":["fleet.rollout.paused"]}`, "/events"},
		"an unknown event":    {`{"id":"w","url":"https://hooks.example.com/","events":["fleet.gap"]}`, "/events/0"},
		"an unknown kind":     {`{"id":"w","url":"https://hooks.example.com/","kinds":["No Kind"]}`, "/kinds/0"},
		"an unknown field":    {`{"id":"w","url":"https://hooks.example.com/","region":"eu"}`, ""},
		"a bad selector":      {`{"id":"w","url":"https://hooks.example.com/","selector":"a=(b"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			_, err := s.Begin().finishWebhook(test.body)
			failed, ok := err.(*Error) //nolint:errorlint // Finish returns it unwrapped
			require.True(t, ok, "%v", err)
			require.Equal(t, CodeInvalid, failed.Code)
			require.Equal(t, test.problem, failed.Problems[0].Pointer)
		})
	}
}

func (tx *Tx) finishWebhook(body string) (Result, error) {
	obj, err := ParseObject([]byte(body))
	if err != nil {
		return Result{}, err
	}
	if _, err := tx.CreateWebhook(obj); err != nil {
		return Result{}, err
	}
	return tx.Finish(Commit{At: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Actor: "ann"})
}

func start(t *testing.T) *State {
	t.Helper()
	s, err := NewState(Rules{Environments: []string{"dev"}}, Head{}, time.Time{}, nil)
	require.NoError(t, err)
	return s
}

// TestWebhookSecretsHidden: neither views, the history nor recorded operations contain the path or the query of a URL.
func TestWebhookSecretsHidden(t *testing.T) {
	t.Parallel()
	s := start(t)
	res, err := s.Begin().finishWebhook(`{"id":"w","url":"https://hooks.example.com/T0/SECRET?key=SECRET","generation":7,"after":0,"replays":3}`)
	require.NoError(t, err)
	hook := res.State.Webhooks()[0]
	require.Equal(t, []any{int64(1), Revision(1)}, []any{hook.Generation, hook.After})
	require.Equal(t, "https://hooks.example.com/T0/SECRET?…", hook.DisplayURL())
	shown := func(c Commit) string {
		before, after, err := c.Changes[0].Public()
		require.NoError(t, err)
		return string(before) + string(after) + string(c.Operations) + c.Summary(nil, 1)
	}
	require.NotContains(t, shown(res.Commit), "SECRET")
	tx := res.State.Begin()
	_, err = tx.PatchWebhook("w", map[string]any{"url": "https://hooks.example.com/T0/SECRET2?key=SECRET2"})
	require.NoError(t, err)
	next, err := tx.Finish(Commit{Actor: "ann"})
	require.NoError(t, err)
	require.NotContains(t, shown(next.Commit), "SECRET")

	// The URL that a response shows keeps the stored one.
	tx = next.State.Begin()
	_, err = tx.PutWebhook("w", map[string]any{"url": "https://hooks.example.com/T0/SECRET2?…", "format": "slack"})
	require.NoError(t, err)
	last, err := tx.Finish(Commit{Actor: "ann"})
	require.NoError(t, err)
	require.Equal(t, "https://hooks.example.com/T0/SECRET2?key=SECRET2", last.State.Webhooks()[0].URL)
}

// TestEventsOfChanges: the events that changes of rollouts and freezes cause.
func TestEventsOfChanges(t *testing.T) {
	t.Parallel()
	body := func(state string, started int, stages ...string) json.RawMessage {
		text := ""
		for i, stage := range stages {
			if i > 0 {
				text += ","
			}
			text += stage
		}
		return json.RawMessage(fmt.Sprintf(`{"id":"r","state":%q,"started":%d,"stages":[%s],"changes":[],"paused_because":"stage \"a\": 1 cluster failed, and 0 may; SECRET"}`, state, started, text))
	}
	a, b, approved, skipped := `{"name":"a"}`, `{"name":"b","approval":true}`, `{"name":"b","approval":true,"approved":{"by":"x","at":"2026-01-02T00:00:00Z"}}`, `{"name":"a","skipped":true}`
	for name, test := range map[string]struct {
		kind          Kind
		before, after json.RawMessage
		want          []string
	}{
		"created":                         {KindRollout, nil, body("proposed", 0, a, b), []string{"rollout_r_created"}},
		"created, approval first":         {KindRollout, nil, body("proposed", 0, b), []string{"rollout_r_created", "rollout_r_waiting_for_approval"}},
		"a stage, and the next waits":     {KindRollout, body("proposed", 0, a, b), body("running", 1, a, b), []string{"rollout_r_stage_started", "rollout_r_waiting_for_approval"}},
		"a stage, and the next may start": {KindRollout, body("proposed", 0, a, approved), body("running", 1, a, approved), []string{"rollout_r_stage_started"}},
		"an approval":                     {KindRollout, body("running", 1, a, b), body("running", 1, a, approved), []string{"rollout_r_stage_approved"}},
		"a skipped stage":                 {KindRollout, body("proposed", 0, a, a), body("running", 1, skipped, a), []string{"rollout_r_stage_skipped"}},
		"paused":                          {KindRollout, body("running", 1, a, b), body("paused", 1, a, b), []string{"rollout_r_paused"}},
		"resumed":                         {KindRollout, body("paused", 1, a, b), body("running", 1, a, b), []string{"rollout_r_waiting_for_approval"}},
		"back":                            {KindRollout, body("running", 1, a, a), body("paused", 0, a, a), []string{"rollout_r_paused"}},
		"completed":                       {KindRollout, body("running", 1, a), body("completed", 1, a), []string{"rollout_r_completed"}},
		"aborted":                         {KindRollout, body("running", 1, a), body("aborted", 1, a), []string{"rollout_r_aborted"}},
		"deleted":                         {KindRollout, body("aborted", 1, a), nil, nil},
		"a freeze":                        {KindFreeze, nil, json.RawMessage(`{"id":"r","all":true,"reason":"x"}`), []string{"freeze_r_started"}},
		"a changed freeze":                {KindFreeze, json.RawMessage(`{"id":"r","all":true,"reason":"x"}`), json.RawMessage(`{"id":"r","all":true,"reason":"y"}`), nil},
		"an ended freeze":                 {KindFreeze, json.RawMessage(`{"id":"r","all":true,"reason":"x"}`), nil, []string{"freeze_r_ended"}},
		"another kind":                    {KindLayer, nil, json.RawMessage(`{"id":"r"}`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events, err := Change{Kind: test.kind, ID: "r", Before: test.before, After: test.after}.Events()
			require.NoError(t, err)
			var got []string
			for _, e := range events {
				got = append(got, e.Name())
				text, err := json.Marshal(e.Data)
				require.NoError(t, err)
				require.NotContains(t, string(text), "SECRET", "a cause that a cluster reported")
			}
			require.Equal(t, test.want, got)
		})
	}
}

// TestWebhookRotationAndReplay: what rotations and replays store, and that webhooks are never reverted.
func TestWebhookRotationAndReplay(t *testing.T) {
	t.Parallel()
	s := start(t)
	res, err := s.Begin().finishWebhook(`{"id":"w","url":"https://hooks.example.com/"}`)
	require.NoError(t, err)
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for range 2 {
		tx := res.State.Begin()
		require.NoError(t, tx.RotateWebhook("w", now))
		require.NoError(t, tx.ReplayWebhook("w", 0))
		res, err = tx.Finish(Commit{Actor: "ann", At: now})
		require.NoError(t, err)
	}
	hook := res.State.Webhooks()[0]
	require.Equal(t, []any{int64(3), Revision(0), int64(2), now}, []any{hook.Generation, hook.After, hook.Replays, *hook.RotatedAt})
	tx := res.State.Begin()
	require.Error(t, tx.ReplayWebhook("w", 99))
	_, err = tx.reverted(3, res.Commit.Changes, "", "")
	require.ErrorContains(t, err, "webhooks, which are never reverted")
}
