package server_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
	"github.com/flux-resourceset/flux-resourceset/store/postgres"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// A stopping server ends streams and long polls at once, so that it need not cut them off.
func TestDrainEndsWatches(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	logs, served := &buffer{}, make(chan error, 1)
	go func() {
		served <- server.Serve(ctx, ln, w.http.Config.Handler, nil, slog.New(slog.NewJSONHandler(logs, nil)))
	}()
	base, client := "http://"+ln.Addr().String()+"/revisions", &http.Client{Transport: &http.Transport{}}
	s := streamFrom(t, client, base)
	s.begin()
	resumed := streamFrom(t, client, base+"?after=0")
	require.Equal(t, http.StatusOK, resumed.status)
	waiting := make(chan int, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"?wait=60s&after="+store.FormatHead(w.head()), nil)
		if err != nil {
			waiting <- 0
			return
		}
		req.Header.Set("Authorization", "Bearer "+writeToken)
		res, err := client.Do(req)
		if err != nil {
			waiting <- 0
			return
		}
		defer res.Body.Close()
		waiting <- res.StatusCode
	}()
	w.awaitWatches(3)
	stop()
	require.NoError(t, <-served)
	require.Empty(t, s.ended())
	require.Equal(t, http.StatusOK, <-waiting)
	require.NotContains(t, logs.String(), "cut off")
}

// awaitWatches waits until the server has a number of watches.
func (w *world) awaitWatches(n int) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		return strings.Contains(string(w.get("/metrics").body), fmt.Sprintf("flux_resourceset_watches %d\n", n))
	}, time.Minute, time.Millisecond)
}

// A stream over HTTP/2 is the same.
func TestStreamOverHTTP2(t *testing.T) {
	t.Parallel()
	w := setupWith(t, options{serve: func(h http.Handler) *httptest.Server {
		srv := httptest.NewUnstartedServer(h)
		srv.EnableHTTP2 = true
		srv.StartTLS()
		return srv
	}})
	s := w.stream("?after=0")
	s.begin()
	require.Equal(t, 1, s.revision())
	for n := range 3 {
		w.change(n)
		require.Equal(t, w.revision(), s.revision())
	}
	w.awaitWatches(1)
	s.close()
	w.awaitWatches(0)
}

// A client that does not read is closed, and an idle one is not. A stream ends after 15 minutes at the latest.
func TestStreamTimes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := setupWith(t, options{serve: serveInMemory})
		stalled, err := w.http.Client().Transport.(*http.Transport).DialContext(t.Context(), "", "")
		require.NoError(t, err)
		defer stalled.Close()
		_, err = fmt.Fprintf(stalled, "GET /revisions HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nAuthorization: Bearer %s\r\n\r\n", readToken)
		require.NoError(t, err)
		_, err = bufio.NewReader(stalled).ReadString('\n')
		require.NoError(t, err)
		idle := w.stream("", "Authorization", "Bearer "+writeToken)
		idle.begin()
		began := time.Now()
		synctest.Wait()
		require.Contains(t, string(w.get("/metrics").body), "flux_resourceset_watches 2\n")
		time.Sleep(2 * time.Minute)
		require.Contains(t, string(w.get("/metrics").body), "flux_resourceset_watches 1\n")
		w.change(1)
		require.Equal(t, w.revision(), idle.revision())
		require.Empty(t, idle.ended())
		require.LessOrEqual(t, time.Since(began), 15*time.Minute)
		require.Greater(t, time.Since(began), 13*time.Minute)
	})
}

// A stream ends with its token when that expires, without a new revision.
func TestStreamEndsWhenItsTokenExpires(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := setupWith(t, options{serve: serveInMemory})
		secret := w.issue(`{"name":"short","role":"read","expires_at":"` + start.Add(time.Hour).Format(time.RFC3339) + `"}`).secret
		s := w.stream("", "Authorization", "Bearer "+secret)
		s.begin()
		w.clock.advance(2 * time.Hour)
		require.Equal(t, "unauthorized", s.ended())
	})
}

// A client that resumes has each revision exactly once, however often the server restarts and the connection breaks.
func TestStreamResumesExactlyOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	last, seen := "0", 0
	for turn := range 10 {
		w.restart()
		for n := range 3 {
			w.edit(100*turn + n)
		}
		s := w.stream("?after=0", "Last-Event-ID", last)
		require.Equal(t, last, s.begin())
		for range 1 + turn%3 {
			e := s.next()
			seen++
			require.InDelta(t, seen, e.data["revision"], 0)
			last = e.id
		}
		w.edit(100*turn + 50)
		s.close() // other events may be on their way
	}
	s := w.stream("", "Last-Event-ID", last)
	s.begin()
	for seen < w.revision() {
		seen++
		require.Equal(t, seen, s.revision())
	}
}

// restart replaces the server by another one on the same store.
func (w *world) restart() {
	w.t.Helper()
	w.replica = store.NewReplica(store.Config{Store: w.faults, Rules: rules, Now: w.clock.Now})
	require.NoError(w.t, w.replica.Load(w.t.Context()))
	srv, err := server.New(server.Config{Mode: server.ModeCRUD, Replica: w.replica, History: w.faults, Tokens: server.Tokens{Read: readToken, Write: writeToken}, Now: w.clock.Now})
	require.NoError(w.t, err)
	w.http.CloseClientConnections()
	w.http.Close()
	w.http = httptest.NewServer(srv)
	w.t.Cleanup(w.http.Close)
}

// Two processes that write alternately: a stream at either has every revision once, in order, and a position of one is valid at
// the other at once.
func TestStreamsOfTwoProcesses(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	replicas, servers, streams := [2]*store.Replica{}, [2]*httptest.Server{}, [2]*stream{}
	require.NoError(t, postgres.Migrate(t.Context(), url))
	for i := range 2 {
		st, err := postgres.Open(t.Context(), postgres.Config{URL: url})
		require.NoError(t, err)
		replicas[i] = store.NewReplica(store.Config{Store: st, Rules: rules})
		require.NoError(t, replicas[i].Load(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { replicas[i].Run(ctx) })
		srv, err := server.New(server.Config{Mode: server.ModeCRUD, Replica: replicas[i], History: st, Tokens: server.Tokens{Read: readToken, Write: writeToken}})
		require.NoError(t, err)
		servers[i] = httptest.NewServer(srv)
		t.Cleanup(func() { servers[i].Close(); cancel(); running.Wait(); _ = st.Close() })
	}
	for i := range 2 {
		streams[i] = streamFrom(t, servers[i].Client(), servers[i].URL+"/revisions?after=0")
		streams[i].begin()
	}
	const commits = 60
	for n := range commits {
		_, err := replicas[n%2].Update(t.Context(), store.Meta{Actor: "test"}, func(tx *fleet.Tx) error {
			_, err := tx.Create(fleet.KindNamespace, fmt.Appendf(nil, `{"id":"team-%02d"}`, n))
			return err
		})
		require.NoError(t, err)
		behind := 1 - n%2 // it may not have the revision yet
		there := streamFrom(t, servers[behind].Client(), servers[behind].URL+"/revisions", "Authorization", "Bearer "+writeToken, "Last-Event-ID", store.FormatHead(replicas[n%2].State().Head()))
		require.Equal(t, store.FormatHead(replicas[n%2].State().Head()), there.begin())
		there.close()
	}
	for _, s := range streams {
		for n := range commits {
			require.Equal(t, n+1, s.revision())
		}
	}
}

// A stream ends when an operator accepts another history, with the error that a client gets that resumes.
func TestStreamAcrossReplacedHistory(t *testing.T) {
	t.Parallel()
	for name, commits := range map[string]int{"shorter": 1, "as long": 3, "longer": 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			for n := range 4 {
				w.edit(n)
			}
			s := w.stream("")
			at := s.begin()

			other, err := sqlite.Open(t.Context(), sqlite.Config{Memory: true})
			require.NoError(t, err)
			t.Cleanup(func() { _ = other.Close() })
			writer := store.NewReplica(store.Config{Store: other, Rules: rules, Now: w.clock.Now})
			require.NoError(t, writer.Load(t.Context()))
			for n := range commits {
				_, err := writer.Update(t.Context(), store.Meta{Actor: "test"}, func(tx *fleet.Tx) error {
					_, err := tx.Create(fleet.KindNamespace, fmt.Appendf(nil, `{"id":"other-%d"}`, n))
					return err
				})
				require.NoError(t, err)
			}
			w.faults.Store = other
			require.ErrorIs(t, w.replica.Load(t.Context()), store.ErrReplaced)
			_, err = store.Accept(t.Context(), other, writer.State().Head(), fleet.Head{}, w.clock.Now())
			require.NoError(t, err)
			require.NoError(t, w.replica.Load(t.Context()))

			require.Equal(t, "diverged", s.ended())
			refused := w.get("/revisions", "Accept", "text/event-stream", "Last-Event-ID", at).problem(409, "diverged")
			now := store.FormatHead(w.replica.State().Head())
			require.Contains(t, string(refused.body), now)
			again := w.stream("?after=" + now)
			again.begin()
			w.create("/namespaces", `{"id":"later"}`)
			require.Equal(t, w.revision(), again.revision())
		})
	}
}

// A watch that retention has passed ends with the oldest revision, from which it can continue.
func TestRetentionPassesWatch(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.stream("")
	at := s.begin()
	reading, proceed := make(chan struct{}), make(chan struct{})
	compact := sync.OnceFunc(func() {
		close(reading)
		<-proceed
		_, _, err := w.store.Compact(context.WithoutCancel(t.Context()), start.Add(time.Hour))
		if err != nil {
			t.Error(err)
		}
	})
	w.faults.set(func(f *faultyStore) { f.summary = compact })
	w.edit(0)
	<-reading
	for n := range 3 {
		w.edit(n + 1)
	}
	w.clock.advance(2 * time.Hour)
	w.edit(9)
	oldest := w.revision()
	close(proceed)
	require.Equal(t, "gone", s.ended())
	for _, after := range []string{"0", "1", at, fmt.Sprint(oldest - 2)} {
		gone := w.get("/revisions?after="+after).problem(410, "gone").json()
		require.InDelta(t, oldest, gone["oldest_revision"], 0)
		require.Contains(t, gone["detail"], fmt.Sprintf("continue with after=%d", oldest-1))
	}
	w.get("/revisions", "Accept", "text/event-stream", "Last-Event-ID", at).problem(410, "gone")
	w.get(fmt.Sprintf("/revisions?after=%d:%s", oldest-1, newUUID(1))).problem(410, "gone")
	require.Len(t, w.get(fmt.Sprintf("/revisions?after=%d", oldest-1)).want(200).list(), 1)
}
