package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var webhookSettings = []string{
	"API_MODE=crud", "WEBHOOK_KEY=0123456789abcdef0123456789abcdef", "PUBLIC_URL=https://fleet.example.com", "WEBHOOK_ALLOW_HTTP=true", "WEBHOOK_ALLOW_PRIVATE=true",
}

// webhookLog is a receiver that records the revisions that arrive.
type webhookLog struct {
	*httptest.Server
	mu         sync.Mutex
	next       int // the next revision that has not arrived
	duplicates int
	wrong      []string
	arrived    chan int
}

func newWebhookLog(t *testing.T, first int) *webhookLog {
	t.Helper()
	l := &webhookLog{next: first, arrived: make(chan int, 100_000)}
	l.Server = httptest.NewServer(http.HandlerFunc(l.receive))
	t.Cleanup(l.Close)
	return l
}

// receive records the revisions of a body: one, several, or a gap. It answers after the test may have killed the sender.
func (l *webhookLog) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender was killed before it had sent the event
	}
	var event struct {
		ID, Type string
		Data     json.RawMessage
	}
	type revision struct{ Revision, From, To int }
	var one revision
	var list []revision
	_ = json.Unmarshal(body, &event)
	if json.Unmarshal(event.Data, &list) != nil {
		_ = json.Unmarshal(event.Data, &one)
		list = []revision{one}
	}
	l.mu.Lock()
	for _, rev := range list {
		if event.Type == "fleet.gap" {
			rev.Revision = rev.From
		}
		switch {
		case rev.Revision > l.next || rev.Revision == 0:
			l.wrong = append(l.wrong, fmt.Sprintf("%s arrived when %d was next", event.ID, l.next))
		case rev.Revision < l.next:
			l.duplicates++
		default:
			l.next = max(rev.Revision, rev.To) + 1
		}
	}
	next := l.next
	l.mu.Unlock()
	l.arrived <- next
	w.WriteHeader(http.StatusNoContent)
}

// waitFor waits until all revisions below next have arrived.
func (l *webhookLog) waitFor(t *testing.T, next int, server *program) {
	t.Helper()
	for timeout := time.After(2 * time.Minute); ; {
		l.mu.Lock()
		at, wrong := l.next, l.wrong
		l.mu.Unlock()
		require.Empty(t, wrong)
		if at >= next {
			return
		}
		select {
		case <-l.arrived:
		case <-timeout:
			require.FailNow(t, "revisions are missing", "%d of %d: %s", at, next, server.Log())
		}
	}
}

// TestWebhookKills: a process is killed at a delivery, before or after it could store that it was made. No revision is missing, and
// the first deliveries are in order. WEBHOOK_KILLS sets the number of kills of each store.
func TestWebhookKills(t *testing.T) {
	t.Parallel()
	kills := 5
	if n, err := strconv.Atoi(os.Getenv("WEBHOOK_KILLS")); err == nil {
		kills = n
	}
	for backend, parallel := range map[string]int{"sqlite": 1, "postgres": max(1, kills/20)} {
		for i := range parallel { // on Postgres another process waits 15 seconds, since the killed one might continue
			t.Run(fmt.Sprintf("%s %d", backend, i), func(t *testing.T) {
				t.Parallel()
				url, _ := backends()[backend](t)
				settings := append([]string{"DATABASE_URL=" + url}, webhookSettings...)
				server := start(t, settings...)
				log := newWebhookLog(t, 2)
				require.Equal(t, 201, server.insist("POST", "/webhooks", `{"id":"log","url":"`+log.URL+`"}`).status)
				newest := 1
				for n := range max(1, kills/parallel) {
					for range 3 {
						newest++
						require.Equal(t, 201, server.insist("POST", "/namespaces", fmt.Sprintf(`{"id":"ns-%d"}`, newest)).status)
					}
					<-log.arrived
					time.Sleep(time.Duration(n%5) * 300 * time.Microsecond) // around the time at which the cursor is stored
					server.Kill()
					server = start(t, settings...)
				}
				log.waitFor(t, newest+1, server)
				t.Logf("%d revisions, %d arrived again", newest, log.duplicates)
			})
		}
	}
}

// TestWebhookTwoProcesses: two processes on Postgres write alternately. Deliveries are in order, and deletion ends them.
func TestWebhookTwoProcesses(t *testing.T) {
	t.Parallel()
	url, _ := backends()["postgres"](t)
	settings := append([]string{"DATABASE_URL=" + url}, webhookSettings...)
	servers := []*program{start(t, settings...), start(t, settings...)}
	log := newWebhookLog(t, 2)
	require.Equal(t, 201, servers[0].insist("POST", "/webhooks", `{"id":"log","url":"`+log.URL+`"}`).status)
	const n = 20
	for i := range n {
		require.Equal(t, 201, servers[i%2].insist("POST", "/namespaces", fmt.Sprintf(`{"id":"ns-%d"}`, i)).status)
	}
	log.waitFor(t, n+2, servers[0])
	t.Logf("%d arrived again", log.duplicates)
	require.Equal(t, 200, servers[1].insist("DELETE", "/webhooks/log", "").status)
	require.Equal(t, 201, servers[0].insist("POST", "/namespaces", `{"id":"last"}`).status)
	require.Equal(t, 200, servers[0].insist("GET", "/revisions", "").status)
	log.mu.Lock()
	defer log.mu.Unlock()
	require.Equal(t, n+2, log.next)
}

// TestWebhookSettings: problems of the configuration, and what is refused without it.
func TestWebhookSettings(t *testing.T) {
	t.Parallel()
	server := start(t, "API_MODE=crud", "DATABASE_URL=sqlite::memory:")
	got := server.send("POST", "/webhooks", `{"id":"log","url":"https://hooks.example.com/"}`)
	require.Equal(t, 409, got.status)
	require.Contains(t, got.body, "WEBHOOK_KEY")
}
