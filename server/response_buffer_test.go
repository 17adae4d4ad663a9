package server_test

import (
	"compress/gzip"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/stretchr/testify/require"
)

// stall requests a plan and reads no byte of the answer until full is closed. It returns the status once the answer is ready.
func (w *world) stall(plan string, full <-chan struct{}) (status int) {
	req := httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, "/plan", strings.NewReader(plan))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+readToken)
	return w.stalled(req, full)
}

// stalled is stall for any request.
func (w *world) stalled(req *http.Request, full <-chan struct{}) (status int) {
	client := &stalled{header: http.Header{}, full: full}
	go w.http.Config.Handler.ServeHTTP(client, req)
	synctest.Wait()
	return client.status
}

// Clients that do not read the answers to their plans delay no request, not even their own, and do not keep the planned State
// in memory.
func TestPlansToStalledClients(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := setupWith(t, options{serve: serveInMemory})
		old := weak.Make(w.replica.State())
		full := make(chan struct{})
		defer close(full)
		for range 30 {
			require.Equal(t, http.StatusOK, w.stall(setTag, full))
		}
		require.NotEmpty(t, w.plan(`{"op":"set_component","all":true,"component_id":"podinfo","oci_tag":"9.9.9"}`)["groups"])
		w.do("POST", "/batch", setTag).want(200)
		require.Eventually(t, func() bool { runtime.GC(); return old.Value() == nil }, waitFor, tick)
	})
}

// A waiting request does not keep the State of its arrival in memory.
func TestWaitingPlans(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := setupWith(t, options{serve: serveInMemory})
		working, proceed := make(chan struct{}, 1), make(chan struct{})
		w.faults.set(func(f *faultyStore) { f.past = func() { working <- struct{}{}; <-proceed } })
		statuses := make(chan int, 2)
		plan := func(op string) {
			statuses <- w.do("POST", "/plan", `{"operations":[`+op+`]}`, "Authorization", "Bearer "+readToken).status
		}
		go plan(`{"op":"restore","revision":1}`)
		<-working
		w.patch(demoCluster, `{"labels":{"a":"b"}}`).want(200) // which the running one does not know
		old := weak.Make(w.replica.State())
		go plan(`{"op":"set_labels","all":true,"labels":{"c":"d"}}`)
		synctest.Wait()
		w.patch(demoCluster, `{"labels":{"a":"c"}}`).want(200)
		require.Eventually(t, func() bool { runtime.GC(); return old.Value() == nil }, waitFor, tick)
		w.faults.set(func(f *faultyStore) { f.past = nil }) // it is computed again because of the change
		close(proceed)
		require.Equal(t, []int{http.StatusOK, http.StatusOK}, []int{<-statuses, <-statuses})
	})
}

// The unread answers of one credential are limited, also if they do not compress; others have room.
func TestResponseBufferOfPlans(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := setupWith(t, options{records: patchedFleet(4), serve: serveInMemory})
		var ops []string
		for i := range 4 {
			noise := make([]byte, 180<<10)
			_, err := rand.Read(noise)
			require.NoError(t, err)
			ops = append(ops, fmt.Sprintf(`{"op":"patch_values","cluster_ids":["c-%04d"],"component_id":"app","values":{"noise":%q}}`, i, base64.StdEncoding.EncodeToString(noise)))
		}
		large := `{"operations":[` + strings.Join(ops, ",") + `]}`
		full := make(chan struct{})
		read := sync.OnceFunc(func() { close(full) })
		defer read()
		stalls := 0
		ask := func(token string) *answer {
			return w.do("POST", "/plan", large, "Authorization", "Bearer "+token)
		}
		for w.stall(large, full) == http.StatusOK {
			stalls++
			require.Less(t, stalls, 20)
		}
		require.Greater(t, stalls, 5)
		refused := ask(readToken).problem(429, "too_many_requests")
		require.Contains(t, refused.json()["detail"], "receive them first")
		require.Equal(t, "5", refused.header.Get("Retry-After"))
		ask(writeToken).want(200)
		read()
		synctest.Wait()
		ask(readToken).want(200)
	})
}

// A plan and a batch read the same whether they are sent compressed or not.
func TestGzipResponses(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, path := range []string{"/plan", "/batch?dry_run=true"} {
		plain := w.do("POST", path, setTag, "Accept-Encoding", "identity").want(200)
		require.Empty(t, plain.header.Get("Content-Encoding"))
		res, err := w.http.Client().Do(w.request("POST", path, setTag, "Accept-Encoding", "gzip")) // the world's own holds bodies against the contract
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.Equal(t, "gzip", res.Header.Get("Content-Encoding"))
		require.Equal(t, "Accept-Encoding", res.Header.Get("Vary"))
		zr, err := gzip.NewReader(res.Body)
		require.NoError(t, err)
		body, err := io.ReadAll(zr)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.True(t, json.Valid(body))
		require.Equal(t, string(plain.body), string(body))
	}
}
