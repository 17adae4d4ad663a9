package server_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// stallReading sends a read and reads no byte of the answer until full is closed.
func (w *world) stallReading(path string, full <-chan struct{}) (status int) {
	req := httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, path, nil)
	req.Header.Set("Authorization", "Bearer "+readToken)
	return w.stalled(req, full)
}

// A client that does not read its pages of the history does not delay others.
func TestHistoryToStalledClients(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := setupWith(t, options{serve: serveInMemory})
		full := make(chan struct{})
		defer close(full)
		for _, path := range []string{"/revisions", "/revisions/1?limit=10000", demoCluster + "/history"} {
			for range 100 {
				require.Equal(t, http.StatusOK, w.stallReading(path, full), path)
			}
			w.get(path, "Authorization", "Bearer "+readToken).want(200)
		}
	})
}

// The unread pages of the history of one credential are limited, also if they do not compress.
func TestResponseBufferOfHistory(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		records := patchedFleet(8)
		for i, r := range records[1:] {
			noise := make([]byte, 400<<10)
			_, err := rand.Read(noise)
			require.NoError(t, err)
			var doc map[string]any
			require.NoError(t, json.Unmarshal(r.Body, &doc))
			doc["labels"] = map[string]string{"noise": base64.StdEncoding.EncodeToString(noise)}
			records[1+i].Body, err = json.Marshal(doc)
			require.NoError(t, err)
		}
		w := setupWith(t, options{records: records, serve: serveInMemory})
		full := make(chan struct{})
		read := sync.OnceFunc(func() { close(full) })
		defer read()
		stalls := 0
		for w.stallReading("/revisions/1", full) == http.StatusOK {
			stalls++
			require.Less(t, stalls, 20)
		}
		require.Positive(t, stalls)
		ask := func(token string) *answer { return w.get("/revisions/1", "Authorization", "Bearer "+token) }
		refused := ask(readToken).problem(429, "too_many_requests")
		require.Contains(t, refused.json()["detail"], "receive them first")
		require.Equal(t, "5", refused.header.Get("Retry-After"))
		ask(writeToken).want(200)
		read()
		synctest.Wait()
		ask(readToken).want(200)
	})
}

// Pages of the history are made two at a time, however many are asked for.
func TestTwoHistoryReadsPerPrincipal(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := setupWith(t, options{serve: serveInMemory})
		const asked = 6
		working, proceed := make(chan struct{}, asked), make(chan struct{})
		w.faults.set(func(f *faultyStore) { f.changes = func() { working <- struct{}{}; <-proceed } })
		statuses := make(chan int, asked)
		for range asked {
			go func() { statuses <- w.get("/revisions/1").status }()
		}
		for range asked / 2 {
			synctest.Wait()
			require.Len(t, working, 2)
			for range 2 {
				<-working
				proceed <- struct{}{}
			}
		}
		for range asked {
			require.Equal(t, http.StatusOK, <-statuses)
		}
	})
}

// The number of unread answers of one credential is limited, because the memory of each depends on the fleet. Others still
// read, and polls are not limited by it.
func TestReadsToStalledClients(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/clusters", demoCluster, demoCluster + "?revision=1", "/namespaces"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				w := setupWith(t, options{serve: serveInMemory})
				full := make(chan struct{})
				read := sync.OnceFunc(func() { close(full) })
				defer read()
				for range 128 {
					require.Equal(t, http.StatusOK, w.stallReading(path, full))
				}
				ask := func(token string) *answer { return w.get(demoCluster, "Authorization", "Bearer "+token) }
				ask(readToken).problem(429, "too_many_requests")
				ask(writeToken).want(200)
				w.poll(demoPolls + "/namespaces").want(200)
				read()
				synctest.Wait()
				ask(readToken).want(200)
			})
		})
	}
}

// There is an end to how many reads there are of all together.
func TestReadsInTotal(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := setupWith(t, options{serve: serveInMemory})
		full := make(chan struct{})
		defer close(full)
		for i := range 4 {
			token := w.issue(`{"name":"t-` + string(rune('a'+i)) + `","role":"read"}`).secret
			for range 128 {
				req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, demoCluster, nil)
				req.Header.Set("Authorization", "Bearer "+token)
				require.Equal(t, http.StatusOK, w.stalled(req, full))
			}
		}
		w.get(demoCluster).problem(429, "too_many_requests")
		w.patch(demoCluster, `{"environment":"qa"}`).want(200)
	})
}
