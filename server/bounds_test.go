package server_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
)

// Limits of waits for background work, and their polling interval.
const (
	waitFor = time.Minute
	tick    = 10 * time.Millisecond
)

// hold makes a request with a body that does not end, so that it stays where it is. It returns when the server has begun to
// read the body, which is when the request has its place in the queue. release ends it.
func (w *world) hold(path, token string) (release func()) {
	w.t.Helper()
	reader, writer := io.Pipe()
	req := w.request(http.MethodPost, path, "x", "Authorization", "Bearer "+token)
	req.Body, req.ContentLength = reader, -1
	req.Header.Set("Expect", "100-continue")
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: waitFor}}
	var wg sync.WaitGroup
	wg.Go(func() {
		res, err := client.Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	})
	_, err := writer.Write([]byte(`{"operations":[`))
	require.NoError(w.t, err)
	return func() {
		_ = writer.CloseWithError(io.ErrUnexpectedEOF)
		wg.Wait()
	}
}

const setTag = `{"operations":[{"op":"set_component","all":true,"component_id":"podinfo","oci_tag":"9.9.9"}]}`

// One credential has a few plans under way, and the others still have theirs; plans keep no batch waiting.
func TestPlansPerPrincipal(t *testing.T) {
	t.Parallel()
	w := setup(t)
	other := w.issue(`{"name":"other","role":"read"}`).secret
	var held []func()
	for range 4 {
		held = append(held, w.hold("/plan", readToken))
	}
	plan := func(token string) *answer { return w.do("POST", "/plan", setTag, "Authorization", "Bearer "+token) }
	refused := plan(readToken).problem(429, "too_many_requests")
	require.Equal(t, "5", refused.header.Get("Retry-After"))
	plan(other).want(200)
	w.do("POST", "/batch", setTag).want(200)
	for _, release := range held {
		release()
	}
	require.Eventually(t, func() bool { return plan(readToken).status == http.StatusOK }, waitFor, tick)
}

// The number of waiting plans is limited for all principals together, and so is that of batches.
func TestPlansInTotal(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/plan", "/batch"} {
		w := setup(t)
		var held []func()
		for i := range 24 {
			if i%4 == 0 {
				token := w.issue(fmt.Sprintf(`{"name":"t-%d","role":"write"}`, i)).secret
				for range 4 {
					held = append(held, w.hold(path, token))
				}
			}
		}
		last := w.issue(`{"name":"last","role":"write"}`).secret
		body := setTag + strings.Repeat(" ", 5<<10)
		ask := func() *answer { return w.do("POST", path, body, "Authorization", "Bearer "+last) }
		ask().problem(429, "too_many_requests")
		w.do("POST", "/batch?dry_run=true", setTag, "Authorization", "Bearer "+last).want(200) // a small one has a queue of its own
		for _, release := range held {
			release()
		}
		require.Eventually(t, func() bool { return ask().status == http.StatusOK }, waitFor, tick)
	}
}

// A plan beyond the limit of an answer is refused while it is computed, and so is a batch that grows the fleet as much.
func TestPlanMemoryBounded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := setupWith(t, options{records: patchedFleet(400), serve: serveInMemory})
		value := strings.Repeat("x", 200<<10)
		w.unchanged(func() {
			grown := w.do("POST", "/plan", fmt.Sprintf(`{"operations":[{"op":"patch_values","all":true,"component_id":"app","values":{"b":%q}}]}`, value))
			require.Contains(t, grown.problem(422, "limit_exceeded").json()["detail"], "add more than 64 MiB")
			// Small in the documents, and the difference on each cluster is another one.
			large := w.do("POST", "/plan", fmt.Sprintf(`{"operations":[{"op":"patch","kind":"platform_component","id":"app","patch":{"patches":{"b":%q}}}]}`, value))
			require.Contains(t, large.problem(422, "limit_exceeded").json()["detail"], "the effect is larger than 64 MiB")
		})
	})
}

// One plan and one batch of a principal run at a time, even if the queue has room.
func TestOnePlanPerPrincipal(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/plan", "/batch?dry_run=true"} { // a batch that is none waits for other writers too
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				w := setupWith(t, options{serve: serveInMemory})
				working, proceed := make(chan struct{}, 3), make(chan struct{})
				w.faults.set(func(f *faultyStore) { f.past = func() { working <- struct{}{}; <-proceed } })
				statuses := make(chan int, cap(working))
				for range cap(working) {
					go func() {
						statuses <- w.do("POST", path, `{"operations":[{"op":"restore","revision":1}]}`).status
					}()
				}
				for range cap(working) {
					synctest.Wait() // until all goroutines wait
					require.Len(t, working, 1)
					<-working
					proceed <- struct{}{}
				}
				for range cap(working) {
					require.Equal(t, http.StatusOK, <-statuses)
				}
			})
		})
	}
}

// patchedFleet are clusters that have one component, with a value of their own.
func patchedFleet(n int) []fleet.Record {
	records := []fleet.Record{{Kind: fleet.KindComponent, ID: "app", Body: json.RawMessage(
		`{"id":"app","type":"helm","component_path":"app","component_version":"1.0.0","cluster_env_enabled":false,"oci_url":"https://charts.example.com","oci_tag":"1.0.0","depends_on":[],"patches":{}}`)}}
	for i := range n {
		id := fmt.Sprintf("c-%04d", i)
		records = append(records, fleet.Record{Kind: fleet.KindCluster, ID: id, Body: fmt.Appendf(nil,
			`{"id":%q,"cluster_name":%q,"cluster_dns":"%s.k","environment":"dev","labels":{},"platform_components":[{"id":"app","enabled":true,"oci_tag":"","component_path":"","component_version":""}],"namespaces":[],"rolebindings":[],"patches":{"app":{"a":"of %s"}},"deletion_protection":false}`, id, id, id, id)})
	}
	return records
}

// Answers of megabytes are sent in pieces, and are equal to buffered ones.
func TestListsAndPlansStreamed(t *testing.T) {
	t.Parallel()
	w := setupWith(t, options{records: patchedFleet(300)})
	list := w.get("/clusters").want(200)
	require.Len(t, list.list(), 300)
	require.True(t, bytes.HasSuffix(list.body, []byte("]\n")))
	require.Empty(t, w.get("/clusters?environment=prod").want(200).list())
	one := w.get("/clusters/c-0007").want(200)
	require.Contains(t, string(list.body), strings.TrimSpace(string(one.body)))
	plan := w.plan(`{"op":"patch_values","all":true,"component_id":"app","values":{"a":"<&>"}}`)
	require.Len(t, plan["groups"], 300)
	require.Equal(t, []any{}, plan["ownership"])
	applied := w.do("POST", "/batch", `{"operations":[{"op":"patch_values","all":true,"component_id":"app","values":{"a":"<&>"}}]}`).want(200)
	require.Len(t, applied.json()["changes"], 300)
}

// Two servers may read a request with Content-Length and Transfer-Encoding differently. So the connection is closed, and the
// rest is not read.
func TestContentLengthAndChunked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	addr, _, _ := serve(t, w.http.Config.Handler)
	const smuggled = "GET /version HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, headers := range map[string]string{
		"both":          "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
		"the other way": "Transfer-Encoding: chunked\r\nContent-Length: 40\r\n",
		"chunked":       "Transfer-Encoding: chunked\r\n",
	} {
		for _, token := range []string{writeToken, "wrong"} {
			conn := dialed(t, addr)
			_, err := io.WriteString(conn, "POST /plan HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+token+"\r\nContent-Type: application/json\r\n"+headers+"\r\n0\r\n\r\n"+smuggled)
			require.NoError(t, err)
			in := bufio.NewReader(conn)
			res, err := http.ReadResponse(in, nil)
			require.NoError(t, err, name)
			require.True(t, res.Close, name)
			_, err = io.Copy(io.Discard, res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			rest, _ := io.ReadAll(in) // a reset is as good as an end
			require.Empty(t, rest, "%s: a second answer", name)
		}
	}
}

// Above its limit a server closes the connection that has been quiet for the longest, and never one that speaks.
func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	var conns []net.Conn
	limit, _ := server.NewConnections(2, 9, 9)
	quiet := func(state http.ConnState) (ours, theirs net.Conn) {
		ours, theirs = net.Pipe()
		conns = append(conns, ours, theirs)
		limit(ours, http.StateNew)
		if state != http.StateNew {
			limit(ours, http.StateActive)
			limit(ours, state)
		}
		return ours, theirs
	}
	t.Cleanup(func() {
		for _, c := range conns {
			_ = c.Close()
		}
	})
	closed := func(theirs net.Conn) {
		t.Helper()
		_, err := theirs.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	}
	speaking, _ := quiet(http.StateActive)
	_, first := quiet(http.StateIdle)
	second, theirs := quiet(http.StateNew)
	closed(first)
	limit(second, http.StateActive)
	limit(second, http.StateIdle)
	_, third := quiet(http.StateNew)
	closed(theirs)
	limit(speaking, http.StateActive)
	_, fourth := quiet(http.StateNew)
	closed(third)
	_ = fourth
}

// TestUnauthenticatedConnections: connections that have sent something but no good credential are limited, of one address and in all.
// The oldest are closed, and never one with a credential.
func TestUnauthenticatedConnections(t *testing.T) {
	t.Parallel()
	changed, prove := server.NewConnections(100, 4, 2)
	opened := func(address string) *addressed {
		conn := &addressed{address: address}
		changed(conn, http.StateNew)
		return conn
	}
	speaks := func(address string) *addressed {
		conn := opened(address)
		changed(conn, http.StateActive)
		return conn
	}
	silent := opened("192.0.2.1:1")
	good := speaks("192.0.2.1:2")
	prove(good)
	first, second := speaks("192.0.2.1:3"), speaks("192.0.2.1:4")
	require.False(t, first.closed)
	third := speaks("192.0.2.1:5")
	require.True(t, first.closed)
	changed(second, http.StateIdle)
	changed(second, http.StateActive)
	require.False(t, second.closed || third.closed, "one that was counted is not counted again")
	network, other := speaks("[2001:db8::1]:1"), speaks("[2001:db8::2]:1")
	require.False(t, second.closed || third.closed)
	speaks("192.0.2.9:1")
	require.True(t, second.closed, "five in all")
	changed(first, http.StateClosed)
	changed(second, http.StateClosed)
	prove(third)
	for range 9 {
		speaks("192.0.2.1:6")
	}
	require.False(t, silent.closed || good.closed || third.closed)
	require.True(t, network.closed)
	_ = other
}

// addressed is a connection from an address.
type addressed struct {
	net.Conn
	address string
	closed  bool
}

func (a *addressed) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(a.address))
}

func (a *addressed) Close() error { a.closed = true; return nil }

// HTTP/2 clients without a token that read no answer send requests on every stream: their memory is bounded, valid credentials
// are answered, and probes get the real status.
func TestStalledClients(t *testing.T) {
	t.Parallel()
	w := setup(t)
	full := make(chan struct{})
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { close(full) })
	for i := range 256 {
		wg.Go(func() {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/openapi.json", nil)
			req.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", i/128)
			w.http.Config.Handler.ServeHTTP(&stalled{header: http.Header{}, full: full}, req)
		})
	}
	require.Eventually(t, func() bool { return anonymousStatus(w, "/version") == http.StatusServiceUnavailable }, waitFor, tick)
	for _, path := range []string{"/openapi.yaml", "/metrics", "/docs/", "/clusters", demoPolls + "/namespaces"} {
		require.Equal(t, http.StatusServiceUnavailable, anonymousStatus(w, path), path)
	}
	require.Equal(t, http.StatusOK, anonymousStatus(w, "/health"))
	require.Equal(t, http.StatusOK, anonymousStatus(w, "/ready"))
	watched := httptest.NewRecorder() // a metric counts the flood
	w.http.Config.Handler.(*server.Server).Watch().ServeHTTP(watched, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, watched.Code)
	require.Contains(t, watched.Body.String(), "flux_resourceset_anonymous_requests_turned_away_total")
	w.get("/clusters").want(200)
	w.poll(demoPolls + "/namespaces").want(200)
	w.get(demoPolls+"/namespaces", "Accept-Encoding", "identity").want(200)
	require.Positive(t, w.metric("flux_resourceset_anonymous_requests_turned_away_total"))
}

// TestStalledClientsOfOneAddress: they leave half of the room to others.
func TestStalledClientsOfOneAddress(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := setupWith(t, options{serve: serveInMemory})
		full := make(chan struct{})
		defer close(full)
		ask := func(address string) int {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/openapi.json", nil)
			req.RemoteAddr = address
			return w.stalled(req, full)
		}
		for range 128 {
			require.Equal(t, http.StatusOK, ask("[2001:db8::1]:1"))
		}
		require.Equal(t, http.StatusServiceUnavailable, ask("[2001:db8::2]:1"), "it is of the same network")
		require.Equal(t, http.StatusOK, ask("192.0.2.1:1"))
	})
}

// anonymousStatus returns the status for a client without a token. Above the limit the body is empty, which the spec does not
// allow.
func anonymousStatus(w *world, path string) int {
	req := w.request(http.MethodGet, path, "", "Authorization", "")
	res, err := w.http.Client().Do(req)
	require.NoError(w.t, err)
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(w.t, err)
	require.NoError(w.t, res.Body.Close())
	return res.StatusCode
}

// stalled is a client that reads no byte of its answer until full is closed.
type stalled struct {
	header http.Header
	full   <-chan struct{}
	status int
}

func (s *stalled) Header() http.Header { return s.header }

func (s *stalled) WriteHeader(status int) { s.status = status }

func (s *stalled) Write(p []byte) (int, error) { <-s.full; return len(p), nil }

// A body may have a million problems. Up to the limit are reported, from the lists' entries if these have the problems.
func TestBodyProblemsBounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	many := func(entry string) string { return strings.TrimSuffix(strings.Repeat(entry+",", 300_000), ",") }
	w.unchanged(func() {
		tooMany := w.do("POST", "/plan", `{"operations":[`+many(`{}`)+`]}`).problem(400, "validation_error").json()["errors"].([]any)
		require.Len(t, tooMany, 1)
		require.Equal(t, "/operations", at(tooMany[0].(map[string]any), "pointer"))
		unknown := w.create503("/clusters", `{"id":"x","x":[`+many(`[]`)+`]}`).problem(400, "validation_error").json()["errors"].([]any)
		require.Equal(t, "/x", at(unknown[0].(map[string]any), "pointer"))
		listed := w.create503("/clusters", `{"id":"x","cluster_dns":"x.example.com","environment":"dev","namespaces":[{"id":"a"},`+many(`{}`)+`]}`).
			problem(400, "validation_error").json()["errors"].([]any)
		require.Greater(t, len(listed), 100)
		require.LessOrEqual(t, len(listed), 2000)
		require.Equal(t, "/namespaces/1/id", at(listed[0].(map[string]any), "pointer"))
		labels := w.create503("/clusters", `{"id":"x","labels":{`+strings.TrimSuffix(strings.Repeat(`"a":1,`, 2), ",")+`}}`).problem(400, "validation_error")
		require.NotEmpty(t, labels.json()["errors"])
	})
}

// A change with a large body is queued as a batch on every route, because validation takes many times its size.
func TestLargeChangesQueuedAsBatches(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var held []func()
	for range 4 {
		held = append(held, w.hold("/batch", writeToken))
	}
	large := `{"id":"x","labels":{},"annotations":{"a":"` + strings.Repeat("x", 300<<10) + `"}}`
	w.create503("/namespaces", large).problem(429, "too_many_requests")
	w.create503("/namespaces", `{"id":"small"}`).want(201)
	for _, release := range held {
		release()
	}
	require.Eventually(t, func() bool { return w.create503("/namespaces", large).status != http.StatusTooManyRequests }, waitFor, tick)
}

// While a large change is validated, which may take seconds, others can commit.
func TestInvalidLargeChangesDelayNoOther(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{
		"/rolebindings": `{"id":"x","role":"view","subjects":[` + strings.Repeat(`{"kind":"User","name":"jo"},`, 20_000) + `{"kind":"User","name":"jo"}]}`,
		"/batch":        `{"operations":[{"op":"create","kind":"namespace","document":{"id":"x","labels":{"a":"` + strings.Repeat("x", 300<<10) + `"}}}]}`,
	} {
		inBubble(t, func(t *testing.T) {
			w := setupWith(t, options{serve: serveInMemory})
			judged, proceed := make(chan struct{}), make(chan struct{})
			w.faults.set(func(f *faultyStore) {
				f.confirm = func() { judged <- struct{}{}; <-proceed }
			})
			refused := make(chan int)
			go func() { refused <- w.do("POST", path, body).status }()
			<-judged
			w.faults.set(func(f *faultyStore) { f.confirm = nil })
			w.create503("/namespaces", `{"id":"meanwhile"}`).want(201)
			close(proceed)
			require.Equal(t, http.StatusBadRequest, <-refused)
			w.get("/namespaces/x").problem(404, "not_found")
		})
	}
}

// A large change that is right is made, once.
func TestLargeChangesComputedOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	before := w.revision()
	body := `{"id":"large","annotations":{"a":"` + strings.Repeat("x", 250<<10) + `"},"labels":{"a":"b"}` + strings.Repeat(" ", 10<<10) + `}`
	w.create503("/namespaces", body).want(201)
	require.Equal(t, before+1, w.revision())
	w.create503("/namespaces", body).problem(409, "conflict")
	require.Equal(t, before+1, w.revision())
}
