package webhooks

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// TestGone: 410 suspends the webhook by a commit, and its own revisions are not sent to it.
func TestGone(t *testing.T) {
	t.Parallel()
	e, r := setup(t), newReceiver(t)
	r.answersStatus(410)
	e.webhook(t, "log", r.URL, nil)
	e.change(t)
	require.Equal(t, "rev_2", r.next(t).id())
	require.Eventually(t, func() bool { return e.replica.State().Webhooks()[0].Suspended }, guard, 2*time.Millisecond)
	found, err := e.store.Summaries(t.Context(), store.HistoryQuery{Limit: 1}, 1)
	require.NoError(t, err)
	require.Equal(t, "webhook:log", found[0].Actor)

	r.answers(nil)
	e.change(t)
	e.update(t, store.Meta{}, func(tx *fleet.Tx) error {
		_, err := tx.PatchWebhook("log", map[string]any{"suspended": false})
		return err
	})
	last := e.change(t)
	e.clock.advance(time.Minute)
	require.Equal(t, []string{"rev_2", "rev_4", "rev_5", revisionID(last)}, r.ids(t, 4), "without revision 3 by the webhook")
}

// TestClaimedAuthorGetsEvents: the author of a revision is a claim of the client, so a writer that claims to be the webhook cannot hide a
// change from its receiver. A receiver recognizes its own changes by the actor in the event.
func TestClaimedAuthorGetsEvents(t *testing.T) {
	t.Parallel()
	e, r := setup(t), newReceiver(t)
	e.webhook(t, "log", r.URL, nil)
	e.update(t, store.Meta{Actor: "token:mallory (t-1)", Author: "webhook:log"}, func(tx *fleet.Tx) error {
		_, err := tx.Create(fleet.KindNamespace, []byte(`{"id":"hidden","labels":{}}`))
		return err
	})
	last := e.change(t)
	got := r.next(t)
	require.Equal(t, "rev_2", got.id(), "and not %s", revisionID(last))
	require.Contains(t, string(got.body), `"actor":"token:mallory (t-1)"`)
}

// TestDeletion: the deletion of a webhook ends a request under way, and another webhook with its id begins anew.
func TestDeletion(t *testing.T) {
	t.Parallel()
	e, r := setup(t), newReceiver(t)
	started, ended := make(chan struct{}, 10), make(chan struct{}, 10)
	r.answers(func(_ http.ResponseWriter, req *http.Request) {
		started <- struct{}{}
		<-req.Context().Done()
		ended <- struct{}{}
	})
	e.webhook(t, "log", r.URL, nil)
	e.change(t)
	<-started
	began := time.Now()
	e.update(t, store.Meta{}, func(tx *fleet.Tx) error {
		_, err := tx.Delete(fleet.KindWebhook, "log", fleet.DeleteOptions{})
		return err
	})
	<-ended
	require.Less(t, time.Since(began), requestTimeout, "the request did not wait for its timeout")
	e.change(t)
	r.answers(nil)
	<-r.requests
	e.webhook(t, "log", r.URL, nil)
	require.Equal(t, revisionID(e.change(t)), r.next(t).id())
}

// TestFilters: which revisions and events a webhook receives.
func TestFilters(t *testing.T) {
	t.Parallel()
	e, all, layers, freezes := setup(t), newReceiver(t), newReceiver(t), newReceiver(t)
	e.webhook(t, "all", all.URL, nil)
	e.webhook(t, "layers", layers.URL, map[string]any{"kinds": []any{"layer"}})
	e.webhook(t, "freezes", freezes.URL, map[string]any{"events": []any{"fleet.freeze.started", "fleet.freeze.ended"}})
	e.update(t, store.Meta{}, func(tx *fleet.Tx) error {
		_, err := tx.CreateToken(fleet.NewToken{ID: "t", Name: "t", Role: "read"}, e.clock.Now())
		return err
	})
	e.change(t)
	e.update(t, store.Meta{}, func(tx *fleet.Tx) error {
		_, err := tx.Create(fleet.KindLayer, []byte(`{"id":"l","priority":1,"selector":"a=b"}`))
		return err
	})
	e.update(t, store.Meta{}, func(tx *fleet.Tx) error {
		_, err := tx.Create(fleet.KindFreeze, []byte(`{"id":"f","all":true,"reason":"CHG-7"}`))
		return err
	})
	require.Equal(t, []string{"rev_2", "rev_3", "rev_5", "rev_6", "rev_7", "rev_7_freeze_f_started"}, all.ids(t, 6), "all but tokens")
	require.Equal(t, "rev_6", layers.next(t).id())
	got := freezes.next(t)
	require.Equal(t, "rev_7_freeze_f_started", got.id())
	require.Equal(t, "CHG-7", got.json(t)["data"].(map[string]any)["freeze_reason"])
	e.until(t, "layers", func(d Delivery) bool { return d.Revision == 7 })
}

// TestHeldSource: a receiver learns that an artifact is held, once for each reason, and no value of the message.
func TestHeldSource(t *testing.T) {
	t.Parallel()
	e, r := setup(t), newReceiver(t)
	e.webhook(t, "held", r.URL, map[string]any{"events": []any{"fleet.source.held"}})
	e.update(t, store.Meta{}, func(tx *fleet.Tx) error {
		_, err := tx.Create(fleet.KindSource, []byte(`{"id":"platform","url":"oci://registry.example.com/fleet","tag":"prod"}`))
		return err
	})
	digest := "sha256:" + strings.Repeat("a", 64)
	for _, hash := range []string{"one", "two"} {
		var rev fleet.Revision
		for _, message := range []string{"password hunter2", "password hunter3"} { // the second one is the same refusal
			at := e.update(t, store.Meta{}, func(tx *fleet.Tx) error {
				_, err := tx.HoldArtifact("platform", fleet.HeldArtifact{SourceArtifact: fleet.SourceArtifact{Digest: digest}, Code: fleet.CodeConfirm, PlanHash: hash, Message: message})
				return err
			})
			rev = cmp.Or(rev, at)
		}
		got := r.next(t)
		require.Equal(t, revisionID(rev)+"_source_platform_held", got.id())
		data := got.json(t)["data"].(map[string]any)
		require.Equal(t, []any{"platform", digest, hash}, []any{data["source"], data["digest"], data["plan_hash"]})
		require.NotContains(t, string(got.body), "hunter")
	}
}

// TestFailedSource: a receiver learns once for each reason that an artifact cannot be read.
func TestFailedSource(t *testing.T) {
	t.Parallel()
	e, r := setup(t), newReceiver(t)
	e.webhook(t, "failed", r.URL, map[string]any{"events": []any{"fleet.source.failed"}})
	e.update(t, store.Meta{}, func(tx *fleet.Tx) error {
		_, err := tx.Create(fleet.KindSource, []byte(`{"id":"platform","url":"oci://registry.example.com/fleet","tag":"prod"}`))
		return err
	})
	for _, reason := range []string{"unreachable", "", "unreachable", "unverified"} {
		rev := e.update(t, store.Meta{}, func(tx *fleet.Tx) error {
			_, err := tx.FailArtifact("platform", reason, time.Now())
			return err
		})
		if reason == "" {
			continue // it can be read again
		}
		got := r.next(t)
		require.Equal(t, revisionID(rev)+"_source_platform_failed", got.id())
		require.Equal(t, reason, got.json(t)["data"].(map[string]any)["message"])
	}
}

// TestPagers: a failed source triggers an alert and its success resolves it, under one key. The key of the integration is where the vendor
// expects it, and not in the address. Events that are no alerts are not sent.
func TestPagers(t *testing.T) {
	t.Parallel()
	e, duty, genie := setup(t), newReceiver(t), newReceiver(t)
	e.webhook(t, "duty", duty.URL+"/v2/enqueue?routing_key=R1", map[string]any{"format": "pagerduty"})
	e.webhook(t, "genie", genie.URL+"/v2/alerts?api_key=G1", map[string]any{"format": "opsgenie", "kinds": []any{"source"}})
	e.update(t, store.Meta{}, func(tx *fleet.Tx) error {
		_, err := tx.Create(fleet.KindSource, []byte(`{"id":"platform","url":"oci://registry.example.com/fleet","tag":"prod"}`))
		return err
	})
	var keys []any
	for _, reason := range []string{"unreachable", ""} {
		e.update(t, store.Meta{}, func(tx *fleet.Tx) error {
			_, err := tx.FailArtifact("platform", reason, time.Now())
			return err
		})
		action, path := "trigger", "/v2/alerts"
		got, alert := duty.next(t), genie.next(t)
		if reason == "" {
			action, path = "resolve", fmt.Sprintf("/v2/alerts/%s/close?identifierType=alias", keys[1])
		} else {
			keys = []any{got.json(t)["dedup_key"], alert.json(t)["alias"]}
			require.NotEqual(t, keys[0], keys[1], "webhooks have alerts of their own")
		}
		require.Equal(t, "/v2/enqueue", got.url)
		require.Equal(t, []any{action, "R1", keys[0]}, []any{got.json(t)["event_action"], got.json(t)["routing_key"], got.json(t)["dedup_key"]})
		require.Empty(t, got.header.Get("Authorization"))
		require.Equal(t, []string{path, "GenieKey G1"}, []string{alert.url, alert.header.Get("Authorization")})
		require.NotContains(t, string(alert.body), "G1")
	}
}

// TestBatches: a webhook that is far behind receives several revisions in one body below 64 KiB, and none is missing.
func TestBatches(t *testing.T) {
	t.Parallel()
	e, r := setup(t), newReceiver(t)
	r.answersStatus(500)
	e.webhook(t, "log", r.URL, nil)
	const n = 130
	for i := range n {
		e.update(t, store.Meta{Reason: strings.Repeat("ü", 900)}, func(tx *fleet.Tx) error {
			for j := range 1 + i%5*20 {
				if _, err := tx.Create(fleet.KindNamespace, fmt.Appendf(nil, `{"id":"%s-%d-%d","labels":{}}`, strings.Repeat("n", 50), i, j)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	r.next(t)
	e.until(t, "log", func(d Delivery) bool { return d.Attempts == 1 })
	r.answers(nil)
	e.clock.advance(time.Hour)
	next, batches := 2.0, 0
	for next <= n+1 {
		got := r.next(t)
		require.Less(t, len(got.body), 64<<10)
		body := got.json(t)
		list, several := body["data"].([]any)
		if !several {
			list = []any{body["data"]}
		} else {
			batches++
			require.LessOrEqual(t, len(list), maxBatch)
		}
		for _, one := range list {
			require.Equal(t, next, one.(map[string]any)["revision"])
			next++
		}
		require.Equal(t, revisionID(fleet.Revision(next-1)), got.id())
	}
	require.Positive(t, batches)
}

// TestLargeCommit: the body of a commit with 10,000 documents stays small.
func TestLargeCommit(t *testing.T) {
	t.Parallel()
	e, r := setup(t), newReceiver(t)
	e.webhook(t, "log", r.URL, map[string]any{"kinds": []any{"namespace"}})
	e.update(t, store.Meta{Reason: "large"}, func(tx *fleet.Tx) error {
		for i := range 10_000 {
			if _, err := tx.Create(fleet.KindNamespace, fmt.Appendf(nil, `{"id":"%s-%d","labels":{}}`, strings.Repeat("n", 50), i)); err != nil {
				return err
			}
		}
		return nil
	})
	got := r.next(t)
	require.Less(t, len(got.body), 64<<10)
	require.Equal(t, 10_000.0, got.json(t)["data"].(map[string]any)["change_count"])
}

// TestReceiversThatMisbehave: a receiver that hangs, drips, redirects or answers without end costs one bounded request.
func TestReceiversThatMisbehave(t *testing.T) {
	t.Parallel()
	redirected := make(chan struct{}, 1)
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { redirected <- struct{}{} }))
	t.Cleanup(target.Close)
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	var endless atomic.Int64 // bytes that the sender took of the endless body
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"never answers": {func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-done:
			}
		}, "did not answer within"},
		"redirects": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, target.URL, http.StatusTemporaryRedirect)
		}, "307 Temporary Redirect"},
		"redirects to metadata": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		}, "302 Found"},
		"endless body": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			for r.Context().Err() == nil {
				n, err := w.Write([]byte(strings.Repeat("x", 64<<10)))
				if endless.Add(int64(n)); err != nil {
					return
				}
			}
		}, "500 Internal Server Error: xxx"},
		"byte by byte": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte("\x1b"))
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
		}, "500 Internal Server Error"},
		"an endless header": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 64<<10))
		}, "header"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, r := setup(t, func(c *Config) {
				if c.Timeout = 300 * time.Millisecond; name == "endless body" { // the first KiB suffices
					c.Timeout = 2 * guard
				}
			}), newReceiver(t)
			r.answers(test.answer)
			e.webhook(t, "log", r.URL, nil)
			e.change(t)
			d := e.until(t, "log", func(d Delivery) bool { return d.Attempts == 1 })
			require.Contains(t, d.Error, test.want)
			require.LessOrEqual(t, len(d.Error), 400)
			require.NotContains(t, d.Error, "\x1b")
			require.Empty(t, redirected)
			require.Less(t, endless.Load(), int64(32<<20), "more than buffers hold")
		})
	}
}

// TestAddressesAtConnect: a name that resolves to a public address first and to a private one later is refused when it is.
func TestAddressesAtConnect(t *testing.T) {
	t.Parallel()
	e, r := setup(t, func(c *Config) { c.AllowPrivate = false }), newReceiver(t)
	_, port, err := net.SplitHostPort(r.Listener.Addr().String())
	require.NoError(t, err)
	e.webhook(t, "log", "http://localhost:"+port+"/?key=SECRET", nil) // the name of the machine's own resolver
	e.change(t)
	d := e.until(t, "log", func(d Delivery) bool { return d.Attempts == 1 })
	require.Equal(t, errAddress.Error(), d.Error)
	require.Empty(t, r.requests)
}

// TestRotation: after a rotation both secrets sign for 24 hours, and the signature is that of Standard Webhooks.
func TestRotation(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.webhook(t, "log", "https://hooks.example.com/", nil)
	hook := func() *fleet.Webhook { return e.replica.State().Webhooks()[0] }
	first, ok := e.d.Secret(hook())
	require.True(t, ok)
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(first, "whsec_"))
	require.NoError(t, err)
	require.Len(t, raw, 32)
	e.update(t, store.Meta{}, func(tx *fleet.Tx) error { return tx.RotateWebhook("log", e.clock.Now()) })
	second, _ := e.d.Secret(hook())
	require.NotEqual(t, first, second)
	at := e.clock.Now()
	before := *hook()
	before.Generation, before.RotatedAt = 1, nil
	old := e.d.sign(&before, "rev_1", at, []byte("{}"))
	both := strings.Fields(e.d.sign(hook(), "rev_1", at.Add(0), []byte("{}")))
	require.Len(t, both, 2)
	require.Equal(t, old, both[1])
	require.Len(t, strings.Fields(e.d.sign(hook(), "rev_1", at.Add(24*time.Hour-time.Second), nil)), 2)
	require.Len(t, strings.Fields(e.d.sign(hook(), "rev_1", at.Add(24*time.Hour), nil)), 1)
}

// TestReplay: a replay sends revisions again, in order and with the same ids, also one that is requested during a request.
func TestReplay(t *testing.T) {
	t.Parallel()
	e, r := setup(t), newReceiver(t)
	release := make(chan struct{})
	e.webhook(t, "log", r.URL, nil)
	e.change(t)
	require.Equal(t, "rev_2", r.next(t).id())
	entered := make(chan struct{}, 1)
	r.answers(func(http.ResponseWriter, *http.Request) { entered <- struct{}{}; <-release })
	e.change(t)
	<-entered
	e.update(t, store.Meta{}, func(tx *fleet.Tx) error { return tx.ReplayWebhook("log", 0) })
	r.answers(nil)
	close(release)
	require.Equal(t, "rev_3", r.next(t).id())
	replayed := r.ids(t, 4)
	if replayed[0] == "rev_4" { // the revision of the request itself was sent before the request was seen
		replayed = append(replayed[1:], r.next(t).id())
	}
	require.Equal(t, []string{"rev_1", "rev_2", "rev_3", "rev_4"}, replayed)
}

// TestLostCursor: without its row, a webhook continues after its creation, or one hour ago, with a gap for what lies between.
func TestLostCursor(t *testing.T) {
	t.Parallel()
	e, r := setup(t), newReceiver(t)
	e.webhook(t, "log", r.URL, nil)
	e.change(t)
	e.change(t)
	r.ids(t, 2)
	e.until(t, "log", func(d Delivery) bool { return d.Revision == 3 })
	e.stop()
	table := sqlite.NewObservations(e.path)
	require.NoError(t, table.Put(t.Context(), []clusterstatus.Row{{Subject: subjectPrefix + "log", Body: "nonsense", ObservedAt: time.Now().AddDate(1, 0, 0)}}))
	e.clock.advance(10 * time.Minute)
	p := e.start(e.store)
	require.Equal(t, []string{"rev_2", "rev_3"}, r.ids(t, 2), "younger than one hour: everything again")
	p.until(t, "log", func(d Delivery) bool { return d.Revision == 3 })
	p.stop()
	require.NoError(t, table.Put(t.Context(), []clusterstatus.Row{{Subject: subjectPrefix + "log", Body: "nonsense", ObservedAt: time.Now().AddDate(2, 0, 0)}}))
	e.clock.advance(2 * time.Hour)
	e.process = e.start(e.store)
	got := r.next(t)
	require.Equal(t, "gap_2_3", got.id())
	require.Equal(t, map[string]any{"reason": "cursor", "from": 2.0, "to": 3.0, "link": "https://fleet.example.com/ui/changes"}, got.json(t)["data"])
	require.Equal(t, revisionID(e.change(t)), r.next(t).id())
}

// TestRestart: a process that continues after another one sends nothing twice, and nothing is missing.
func TestRestart(t *testing.T) {
	t.Parallel()
	e, r := setup(t), newReceiver(t)
	e.webhook(t, "log", r.URL, nil)
	for range 3 {
		id := revisionID(e.change(t))
		require.Equal(t, id, r.next(t).id())
		e.until(t, "log", func(d Delivery) bool { return d.Status == 200 && d.Revision == e.replica.State().Revision() })
		e.stop()
		e.process = e.start(e.store)
	}
	require.Empty(t, r.requests)
}

// TestRetention: revisions that the log no longer has are named in a gap.
func TestRetention(t *testing.T) {
	t.Parallel()
	e, r := setup(t), newReceiver(t)
	e.webhook(t, "log", r.URL, nil)
	e.update(t, store.Meta{}, func(tx *fleet.Tx) error { return tx.SuspendWebhook("log") })
	e.change(t)
	e.clock.advance(time.Hour)
	e.change(t)
	e.stop()
	oldest, _, err := e.store.Compact(t.Context(), e.clock.Now())
	require.NoError(t, err)
	require.EqualValues(t, 4, oldest)
	p := e.start(e.store)
	p.update(t, store.Meta{}, func(tx *fleet.Tx) error {
		_, err := tx.PatchWebhook("log", map[string]any{"suspended": false})
		return err
	})
	got := r.next(t)
	require.Equal(t, "gap_2_3", got.id())
	require.Equal(t, "retention", got.json(t)["data"].(map[string]any)["reason"])
	require.Equal(t, []string{"rev_4", "rev_5"}, r.ids(t, 2))
}

// TestSlowReceiver: others continue, and so do changes of the fleet.
func TestSlowReceiver(t *testing.T) {
	t.Parallel()
	e, slow, fast := setup(t), newReceiver(t), newReceiver(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	slow.answers(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-release:
		}
	})
	for i := range maxConcurrent - 1 {
		e.webhook(t, fmt.Sprintf("slow-%d", i), slow.URL, map[string]any{"kinds": []any{"namespace"}})
	}
	e.webhook(t, "fast", fast.URL, map[string]any{"kinds": []any{"namespace"}})
	for range 20 {
		e.change(t)
	}
	for last := e.replica.State().Revision(); ; {
		if fast.next(t).id() == revisionID(last) {
			break
		}
	}
}

// TestMessages: messages for Slack and Teams cannot mention people, and need no other request.
func TestMessages(t *testing.T) {
	t.Parallel()
	e, slack, teams := setup(t), newReceiver(t), newReceiver(t)
	e.webhook(t, "slack", slack.URL, map[string]any{"format": "slack", "kinds": []any{"namespace"}})
	e.webhook(t, "teams", teams.URL, map[string]any{"format": "teams", "kinds": []any{"namespace"}})
	e.update(t, store.Meta{Actor: "ci", Author: "ann", Reason: "<!channel> [x](https://evil) & more"}, func(tx *fleet.Tx) error {
		_, err := tx.Create(fleet.KindNamespace, []byte(`{"id":"web","labels":{}}`))
		return err
	})
	text := slack.next(t).json(t)["text"]
	require.Equal(t, "Revision 3: created namespace/web, by ci for ann (1 document): &lt;!channel&gt; [x](https://evil) &amp; more\n<https://fleet.example.com/ui/changes/3|Open>", text)
	card := string(teams.next(t).body)
	require.Contains(t, card, `\u0026lt;!channel`)
	require.NotContains(t, card, `[x](`)
}

// TestTest: a test event is sent at once and changes nothing.
func TestTest(t *testing.T) {
	t.Parallel()
	e, r := setup(t), newReceiver(t)
	e.webhook(t, "log", r.URL, map[string]any{"suspended": true})
	e.until(t, "log", func(Delivery) bool { e.d.mu.Lock(); defer e.d.mu.Unlock(); return e.d.workers["log"] != nil })
	got, err := e.d.Test(t.Context(), e.replica.State().Webhooks()[0])
	require.NoError(t, err)
	require.Equal(t, []any{200, ""}, []any{got.Status, got.Error})
	require.Equal(t, "fleet.test", r.next(t).json(t)["type"])
	r.answersStatus(404)
	got, err = e.d.Test(t.Context(), e.replica.State().Webhooks()[0])
	require.NoError(t, err)
	require.Equal(t, "the receiver answered 404 Not Found", got.Error)
}

// TestTwoProcesses: two processes that write alternately deliver in order, each revision by the process that committed it.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	others := func(c *Config) { c.Alone = false }
	e, r := setup(t, others), newReceiver(t)
	other := e.start(e.store, others)
	e.webhook(t, "log", r.URL, nil)
	const n = 8
	for i := range n {
		if i%2 == 0 {
			e.change(t)
		} else {
			other.change(t)
		}
	}
	requireOrder(t, r, 2, n+1)
}

// requireOrder receives until a revision: each is delivered, first deliveries in order.
func requireOrder(t *testing.T, r *receiver, first, last fleet.Revision) (duplicates int) {
	t.Helper()
	for next := first; next <= last; {
		id := r.next(t).id()
		var rev fleet.Revision
		_, err := fmt.Sscanf(id, "rev_%d", &rev)
		require.NoError(t, err, id)
		require.LessOrEqual(t, rev, next, "order")
		if rev == next {
			next++
		} else {
			duplicates++
		}
	}
	return duplicates
}

// TestTakeover: another process delivers what the one that committed it does not, also if that one's clock is off by 10 minutes.
func TestTakeover(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{"same clocks": 0, "ahead": 10 * time.Minute, "behind": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			others := func(c *Config) { c.Alone = false }
			e, r := setup(t, others), newReceiver(t)
			skewed := func(c *Config) { c.Now = func() time.Time { return e.clock.Now().Add(skew) } }
			e.webhook(t, "log", r.URL, nil)
			rev := e.change(t)
			require.Equal(t, revisionID(rev), r.next(t).id())
			e.until(t, "log", func(d Delivery) bool { return d.Revision == rev })
			// It commits and does not deliver.
			silent := store.NewReplica(store.Config{Store: e.store, Rules: fleet.Rules{Environments: []string{"dev"}}, Now: func() time.Time { return e.clock.Now().Add(skew) }})
			require.NoError(t, silent.Load(t.Context()))
			last := (&process{replica: silent}).change(t)
			other := e.start(e.store, others, skewed)
			e.stop()
			other.until(t, "log", func(d Delivery) bool { return d.Revision == rev && other.began("log") })
			if skew >= 0 { // by a clock that is behind, the commit is old already
				require.Empty(t, r.requests)
			}
			e.clock.advance(takeoverAfter + time.Second)
			require.Equal(t, revisionID(last), r.next(t).id())
		})
	}
}

// TestReplacedHistory: after the history was replaced, a gap says so, and delivery continues after its head.
func TestReplacedHistory(t *testing.T) {
	t.Parallel()
	e, r := setup(t), newReceiver(t)
	e.webhook(t, "log", r.URL, nil)
	e.change(t)
	e.change(t)
	r.ids(t, 2)
	e.until(t, "log", func(d Delivery) bool { return d.Revision == 3 })
	e.stop()
	// Another history with the same webhook, as after the restore of a backup that was written to since.
	b := setup(t)
	b.webhook(t, "log", r.URL, map[string]any{"suspended": true})
	for range 5 {
		b.change(t)
	}
	b.stop()
	e.clock = b.clock // and the table of the first one
	p := e.start(b.store)
	p.update(t, store.Meta{}, func(tx *fleet.Tx) error {
		_, err := tx.PatchWebhook("log", map[string]any{"suspended": false})
		return err
	})
	got := r.next(t)
	require.True(t, strings.HasPrefix(got.id(), "gap_history_"), got.id())
	require.Equal(t, "history", got.json(t)["data"].(map[string]any)["reason"])
	require.Equal(t, revisionID(p.change(t)), r.next(t).id())
}

// TestWithoutKey: nothing is sent without WEBHOOK_KEY.
func TestWithoutKey(t *testing.T) {
	t.Parallel()
	e, r := setup(t, func(c *Config) { c.Key = "" }), newReceiver(t)
	e.webhook(t, "log", r.URL, nil)
	e.change(t)
	d := e.until(t, "log", func(d Delivery) bool { return d.Attempts == 1 })
	require.Contains(t, d.Error, "WEBHOOK_KEY")
	require.Contains(t, e.d.Problem(), "WEBHOOK_KEY")
	require.Empty(t, r.requests)
}

// TestShutdown: a request under way is completed, and its result is stored.
func TestShutdown(t *testing.T) {
	t.Parallel()
	e, r := setup(t), newReceiver(t)
	entered, release := make(chan struct{}), make(chan struct{})
	r.answers(func(http.ResponseWriter, *http.Request) { close(entered); <-release })
	e.webhook(t, "log", r.URL, nil)
	rev := e.change(t)
	<-entered
	stopped := make(chan struct{})
	go func() { e.stop(); close(stopped) }()
	close(release)
	<-stopped
	c, ok := e.row("log")
	require.True(t, ok)
	require.Equal(t, rev, c.Revision)
}

// TestWait: which process may attempt a delivery, and when.
func TestWait(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const other = "other"
	for name, test := range map[string]struct {
		alone, owned    bool
		at, changed     time.Duration // of the revision and of the cursor, before now
		writer          string        // empty: this process
		attempts        int
		nextIn          time.Duration
		atLeast, atMost time.Duration
	}{
		"the only process":                       {alone: true, writer: other},
		"its own revision":                       {owned: true, writer: other},
		"a new revision of another process":      {atLeast: takeoverAfter, atMost: takeoverAfter},
		"an old one, after its own deliveries":   {at: takeoverAfter},
		"an old one, while another delivers":     {at: time.Hour, writer: other, atLeast: takeoverAfter, atMost: takeoverAfter},
		"an old one, which nobody delivers":      {at: time.Hour, changed: takeoverAfter, writer: other},
		"the clock of another one is ahead":      {at: -10 * time.Minute, atLeast: takeoverAfter, atMost: takeoverAfter},
		"its own retry":                          {owned: true, attempts: 1, nextIn: 30 * time.Second, atLeast: 30 * time.Second, atMost: 30 * time.Second},
		"its own retry is due":                   {owned: true, attempts: 1, nextIn: -time.Second},
		"the retry of another process":           {at: time.Hour, changed: 30 * time.Second, writer: other, attempts: 1, atLeast: otherProcessDelay, atMost: 2 * otherProcessDelay},
		"the other clock is ahead, with a retry": {owned: true, changed: time.Minute, writer: other, attempts: 1, nextIn: 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := New(Config{Alone: test.alone, Now: func() time.Time { return now }})
			w := &worker{d: d, changedAt: now.Add(-test.changed)}
			next := now.Add(test.nextIn)
			c := &cursor{Writer: d.process, Attempts: test.attempts, NextAt: &next, Wait: 30 * time.Second}
			if test.writer != "" {
				c.Writer = test.writer
			}
			got := max(0, w.wait(c, &delivery{owned: test.owned, at: now.Add(-test.at)}))
			require.GreaterOrEqual(t, got, test.atLeast)
			require.LessOrEqual(t, got, test.atMost)
		})
	}
}
