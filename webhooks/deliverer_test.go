package webhooks

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDelivery: each revision after the creation of a webhook is delivered, in order.
func TestDelivery(t *testing.T) {
	t.Parallel()
	e, r := setup(t), newReceiver(t)
	e.change(t)
	e.webhook(t, "log", r.URL, nil)
	for range 3 {
		e.change(t)
	}
	first := r.next(t)
	require.Equal(t, []string{"rev_3", "rev_4", "rev_5"}, append([]string{first.id()}, r.ids(t, 2)...))
	body := first.json(t)
	require.Equal(t, []any{"1.0", "rev_3", "https://fleet.example.com", "fleet.revision"}, []any{body["specversion"], body["id"], body["source"], body["type"]})
	data := body["data"].(map[string]any)
	require.Equal(t, []any{3.0, "ann", "CHG-1", "https://fleet.example.com/ui/changes/3"}, []any{data["revision"], data["actor"], data["reason"], data["link"]})
	e.until(t, "log", func(d Delivery) bool { return d.Revision == 5 && d.Status == 200 })
}

// TestRetries: a failed event is sent again, later ones wait, and the cursor says why.
func TestRetries(t *testing.T) {
	t.Parallel()
	e, r := setup(t), newReceiver(t)
	r.answersStatus(503)
	e.webhook(t, "log", r.URL, nil)
	e.change(t)
	e.change(t)
	require.Equal(t, "rev_2", r.next(t).id())
	d := e.until(t, "log", func(d Delivery) bool { return d.Attempts == 1 })
	require.Equal(t, []any{503, "the receiver answered 503 Service Unavailable"}, []any{d.Status, d.Error})
	require.WithinRange(t, *d.NextAt, e.clock.Now().Add(4*time.Second), e.clock.Now().Add(6*time.Second))
	r.answers(nil)
	e.clock.advance(6 * time.Second)
	require.Equal(t, []string{"rev_2", "rev_3"}, r.ids(t, 2))
	e.until(t, "log", func(d Delivery) bool { return d.Revision == 3 && d.Attempts == 0 && d.Error == "" })
	c, ok := e.row("log")
	require.True(t, ok)
	require.EqualValues(t, 3, c.Revision)
}

// TestCertificates: the certificate of the receiver is verified.
func TestCertificates(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{true, false} {
		r := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }))
		t.Cleanup(r.Close)
		options := []func(*Config){}
		if trusted {
			options = append(options, insecure)
		}
		e := setup(t, options...)
		e.webhook(t, "log", r.URL, nil)
		e.change(t)
		e.until(t, "log", func(d Delivery) bool {
			return d.Status == 204 == trusted && (d.Revision == 2 || strings.Contains(d.Error, "certificate"))
		})
	}
}
