package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// streamEvent is a server-sent event.
type streamEvent struct {
	id, name string
	data     map[string]any
}

// stream is an open event stream.
type stream struct {
	t      *testing.T
	status int
	header http.Header
	events chan streamEvent // closed at the end
	close  context.CancelFunc
}

// streamFrom opens an event stream at a server.
func streamFrom(t *testing.T, client *http.Client, url string, headers ...string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+readToken)
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := client.Do(req)
	require.NoError(t, err)
	s := &stream{t: t, status: res.StatusCode, header: res.Header, events: make(chan streamEvent, 1000), close: cancel}
	go func() {
		defer res.Body.Close()
		defer close(s.events)
		readEvents(bufio.NewScanner(res.Body), s.events)
	}()
	return s
}

// readEvents parses server-sent events. It omits comments, and the field retry.
func readEvents(lines *bufio.Scanner, events chan<- streamEvent) {
	lines.Buffer(nil, 1<<20)
	var e streamEvent
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case name == "id":
			e.id = value
		case name == "event":
			e.name = value
		case name == "data":
			if json.Unmarshal([]byte(value), &e.data) != nil {
				return
			}
		case lines.Text() == "" && e.id+e.name != "":
			events <- e
			e = streamEvent{}
		}
	}
}

func (w *world) stream(query string, headers ...string) *stream {
	w.t.Helper()
	return streamFrom(w.t, w.http.Client(), w.http.URL+"/revisions"+query, headers...)
}

// next is the next event; the test's own timeout ends the wait.
func (s *stream) next() streamEvent {
	s.t.Helper()
	e, open := <-s.events
	require.True(s.t, open, "the stream ended")
	return e
}

// begin requires an accepted stream, and returns its position.
func (s *stream) begin() string {
	s.t.Helper()
	require.Equal(s.t, http.StatusOK, s.status)
	first := s.next()
	require.Empty(s.t, first.name)
	return first.id
}

// revision requires the next event to be a revision, and returns its number.
func (s *stream) revision() int {
	s.t.Helper()
	e := s.next()
	require.Equal(s.t, "revision", e.name, "%v", e)
	number := int(e.data["revision"].(float64))
	require.Equal(s.t, fmt.Sprintf("%d:%s", number, e.data["commit_id"]), e.id)
	return number
}

// ended requires the stream to end, and returns the problem of the event end; empty: there is none.
func (s *stream) ended() (code string) {
	s.t.Helper()
	for e := range s.events {
		require.Equal(s.t, "end", e.name, "%v", e)
		code = e.data["error"].(string)
	}
	return code
}

// change commits one revision.
func (w *world) change(n int) {
	w.t.Helper()
	w.patch(demoCluster, fmt.Sprintf(`{"labels":{"change":"c%d"}}`, n)).want(200)
}

// A stream has every revision once, as the list has it, and none from before.
func TestStreamOfRevisions(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.stream("")
	require.Equal(t, "text/event-stream", s.header.Get("Content-Type"))
	require.Equal(t, store.FormatHead(w.head()), s.begin())
	for n := range 5 {
		w.change(n)
		e := s.next()
		require.Equal(t, store.FormatHead(w.head()), e.id)
		require.Equal(t, w.get("/revisions?limit=1").list()[0], e.data)
	}
	resumed := w.stream("?after=0", "Last-Event-ID", "2")
	require.Equal(t, "2", resumed.begin())
	require.Equal(t, 3, resumed.revision())
}

// A long poll answers with revisions at once, oldest first, and otherwise waits for one.
func TestLongPoll(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for n := range 3 {
		w.change(n)
	}
	all := w.get("/revisions?after=0").want(200)
	require.Len(t, all.list(), w.revision())
	require.InDelta(t, 1, all.list()[0]["revision"], 0)
	require.Contains(t, all.header.Get("Link"), fmt.Sprintf("after=%d%%3A", w.revision()))

	now := fmt.Sprintf("/revisions?after=%s", store.FormatHead(w.head()))
	require.Empty(t, w.get(now).want(200).list())
	require.Empty(t, w.get(now+"&wait=1ms").want(200).list())
	w.do(http.MethodHead, now+"&wait=60s", "").want(200)
	answered := make(chan *answer)
	go func() { answered <- w.get(now + "&wait=60s") }()
	w.change(4)
	require.Len(t, (<-answered).want(200).list(), 1)
}

func TestWatchPages(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for n := range 250 {
		w.edit(n)
	}
	next, seen := "/revisions?after=0", 0
	for range 3 {
		page := w.get(next).want(200)
		for _, rev := range page.list() {
			seen++
			require.InDelta(t, seen, rev["revision"], 0)
		}
		next = strings.TrimPrefix(strings.Split(page.header.Get("Link"), ">")[0], "<")
	}
	require.Equal(t, w.revision(), seen)
	require.Empty(t, w.get(next).want(200).list())
	s := w.stream("?after=0")
	s.begin()
	for rev := range w.revision() {
		require.Equal(t, rev+1, s.revision())
	}
}

// edit commits one revision without a request.
func (w *world) edit(n int) {
	w.t.Helper()
	_, err := w.replica.Update(w.t.Context(), store.Meta{Actor: "test"}, func(tx *fleet.Tx) error {
		_, err := tx.Patch(fleet.KindCluster, "demo-cluster-01", fmt.Appendf(nil, `{"labels":{"change":"e%d"}}`, n))
		return err
	})
	require.NoError(w.t, err)
}

// Filters select the same revisions in a watch as in a list, also of commits with more changes than a summary names.
func TestWatchFilters(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.change(1)
	w.create("/namespaces", `{"id":"team-blue"}`)
	_, err := w.replica.Update(t.Context(), store.Meta{Actor: "bulk"}, func(tx *fleet.Tx) error {
		for n := range 40 {
			if _, err := tx.Create(fleet.KindCluster, fmt.Appendf(nil, `{"id":"bulk-%02d","cluster_dns":"bulk-%02d.example.com","environment":"dev"}`, n, n)); err != nil {
				return err
			}
		}
		_, err := tx.Create(fleet.KindNamespace, []byte(`{"id":"zz-bulk"}`))
		return err
	})
	require.NoError(t, err)
	w.change(2)
	for _, filter := range []string{"kind=namespace", "kind=namespace&id=team-blue", "kind=namespace&id=zz-bulk", "kind=cluster&id=bulk-39", "actor=bulk", "actor=bulk&kind=rolebinding", "kind=cluster&actor=static-write", "actor=nobody"} {
		var list, watch []any
		for _, rev := range w.get("/revisions?" + filter).want(200).list() {
			list = append([]any{rev["revision"]}, list...)
		}
		for _, rev := range w.get("/revisions?after=0&" + filter).want(200).list() {
			watch = append(watch, rev["revision"])
		}
		require.Equal(t, list, watch, filter)
	}
	for _, query := range []string{"since=2026-01-01T00:00:00Z", "until=2026-01-01T00:00:00Z", "cursor=4", "limit=0", "limit=1001", "id=x", "wait=61s", "wait=2m", "wait=-1s", "wait=x", "after=x"} {
		w.get("/revisions?after=0&"+query).problem(400, "validation_error")
	}
	w.get("/revisions?wait=1s").problem(400, "validation_error")
	w.get("/revisions?wait=1s", "Accept", "text/event-stream").problem(400, "validation_error")
}

// Clients that send the default of each parameter can watch.
func TestWatchLimit(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for n := range 5 {
		w.change(n)
	}
	for _, limit := range []string{"100", "1000"} {
		require.Equal(t, w.get("/revisions?after=1").want(200).list(), w.get("/revisions?after=1&wait=1s&limit="+limit).want(200).list())
	}
	for _, filter := range []string{"", "&kind=cluster&actor=static-write"} {
		var pages [][]any
		for next := "/revisions?after=1&limit=2" + filter; len(pages) < 4; {
			answer := w.get(next).want(200)
			var page []any
			for _, rev := range answer.list() {
				page = append(page, rev["revision"])
			}
			pages = append(pages, page)
			next = nextLink(t, answer)
		}
		require.Equal(t, [][]any{{2., 3.}, {4., 5.}, {6.}, nil}, pages, filter)
	}
	s := w.stream("?after=1&limit=2")
	s.begin()
	for want := 2; want <= 6; want++ {
		require.Equal(t, want, s.revision(), "a limit does not end a stream")
	}
}

func TestWatchFromUnknownRevision(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.change(1)
	head := w.head()
	other := fmt.Sprintf("%d:%s", head.Revision-1, head.ID)
	for _, stream := range []string{"", "text/event-stream"} {
		w.get("/revisions?after=1000", "Accept", stream).problem(404, "not_found")
		require.Contains(t, string(w.get("/revisions?after=1000").body), fmt.Sprintf("the newest is %d", head.Revision))
		for _, after := range []string{other, fmt.Sprintf("%d:%s", head.Revision, newUUID(9)), fmt.Sprintf("1000:%s", head.ID)} {
			refused := w.get("/revisions?after="+after, "Accept", stream).problem(409, "diverged")
			require.Contains(t, string(refused.body), "continue with after="+store.FormatHead(head))
		}
	}
	w.get("/revisions", "Accept", "text/event-stream", "Last-Event-ID", other).problem(409, "diverged")
}

// The header Last-Event-ID cannot add fields to the stream.
func TestLastEventIDInjection(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, id := range []string{"1 event: revision", "1\tdata: x", "0x1", "-1", "1:" + strings.Repeat("a", 36), "1:{5f1c2ab9-6f0e-4f0e-9a43-4a0c6ab1c0de}", "9999999999999999999", "1%0A2", "é"} {
		w.get("/revisions", "Accept", "text/event-stream", "Last-Event-ID", id).problem(400, "validation_error")
	}
}

// HEAD has the header of the answer, and neither waits nor holds a place.
func TestHeadOfStream(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for range 20 {
		got := w.do(http.MethodHead, "/revisions", "", "Accept", "text/event-stream").want(200)
		require.Equal(t, "text/event-stream", got.header.Get("Content-Type"))
	}
	require.Contains(t, string(w.get("/metrics").body), "flux_resourceset_watches 0\n")
}

// One credential cannot take the streams of others, and streams take no place of other reads.
func TestStreamLimits(t *testing.T) {
	t.Parallel()
	w := setupWith(t, options{configure: func(c *server.Config) { c.WatchStreams = 12 }})
	open := func(token string) *stream { return w.stream("", "Authorization", "Bearer "+token) }
	var streams []*stream
	for range 8 {
		s := open(readToken)
		s.begin()
		streams = append(streams, s)
	}
	var refused sync.WaitGroup
	for range 5000 / 100 {
		refused.Go(func() {
			for range 100 {
				got := w.get("/revisions", "Accept", "text/event-stream", "Authorization", "Bearer "+readToken)
				if got.status != 429 || got.header.Get("Retry-After") == "" {
					t.Errorf("status %d", got.status)
				}
			}
		})
	}
	refused.Wait()
	for range 4 {
		open(writeToken).begin()
	}
	w.get("/revisions?after=0&wait=1s").problem(429, "too_many_requests") // of all
	w.get("/revisions").want(200)
	w.get("/clusters").want(200)
	metrics := string(w.get("/metrics").body)
	require.Contains(t, metrics, "flux_resourceset_watches 12\n")
	require.Contains(t, metrics, "flux_resourceset_watches_refused_total 5001\n")
	w.change(1)
	for _, s := range streams {
		require.Equal(t, w.revision(), s.revision())
	}
}

// Idle streams do not query the store, and a revision is read once for all of them.
func TestStreamsShareReads(t *testing.T) {
	t.Parallel()
	history := &countingHistory{}
	w := setupWith(t, options{configure: func(c *server.Config) {
		history.History = c.History
		c.History = history
		c.WatchStreams = 1000
	}})
	var streams []*stream
	for i := range 20 {
		secret := w.issue(fmt.Sprintf(`{"name":"watch-%d","role":"read"}`, i)).secret
		for range 8 {
			streams = append(streams, w.stream("", "Authorization", "Bearer "+secret))
		}
	}
	for _, s := range streams {
		s.begin()
	}
	before := history.count()
	for n := range 3 {
		w.edit(n)
		for _, s := range streams {
			for s.revision() != w.revision() { // the tokens were revisions, too
			}
		}
	}
	require.LessOrEqual(t, history.count()-before, 6)
	require.Positive(t, history.count()-before)
}

// countingHistory counts reads.
type countingHistory struct {
	server.History
	mu    sync.Mutex
	reads int
}

func (h *countingHistory) Summaries(ctx context.Context, q store.HistoryQuery, names int) ([]store.Summary, error) {
	h.mu.Lock()
	h.reads++
	h.mu.Unlock()
	return h.History.Summaries(ctx, q, names)
}

func (h *countingHistory) count() int { h.mu.Lock(); defer h.mu.Unlock(); return h.reads }

// A stream ends at once when its token is revoked, and at its end when the token expires without a revision.
func TestStreamEndsWithItsToken(t *testing.T) {
	t.Parallel()
	w := setup(t)
	token := w.issue(`{"name":"watcher","role":"read"}`)
	s := w.stream("", "Authorization", "Bearer "+token.secret)
	s.begin()
	other := w.stream("")
	other.begin()
	w.delete("/tokens/" + token.id).want(200)
	require.Equal(t, "unauthorized", s.ended())
	other.revision()
}

// newUUID is a commit id that no commit has.
func newUUID(n byte) string { return fmt.Sprintf("%02x000000-0000-4000-8000-000000000000", n) }
