package webhooks

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

const testKey = "0123456789abcdef0123456789abcdef"

// guard ends a wait of a test that fails.
const guard = 30 * time.Second

// clock is a clock that tests advance.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// received is a request that a receiver got.
type received struct {
	header http.Header
	body   []byte
	url    string // path and query
}

func (r received) id() string { return r.header.Get("Webhook-Id") }

func (r received) json(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal(r.body, &v))
	return v
}

// receiver is an HTTP server that answers with the results of a function.
type receiver struct {
	*httptest.Server
	requests chan received
	mu       sync.Mutex
	answer   http.HandlerFunc
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{requests: make(chan received, 10_000)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		answer := r.answer
		r.mu.Unlock()
		if answer != nil {
			answer(w, req)
		}
		r.requests <- received{req.Header.Clone(), body, req.URL.String()}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answers(f http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

func (r *receiver) answersStatus(status int) {
	r.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
}

// next returns the next request.
func (r *receiver) next(t *testing.T) received {
	t.Helper()
	select {
	case got := <-r.requests:
		return got
	case <-time.After(guard):
		require.FailNow(t, "no request arrived")
		return received{}
	}
}

// ids returns the ids of the next n requests.
func (r *receiver) ids(t *testing.T, n int) []string {
	t.Helper()
	var out []string
	for range n {
		out = append(out, r.next(t).id())
	}
	return out
}

// env is a store with one process.
type env struct {
	t     *testing.T
	path  string
	store store.Store
	clock *clock
	*process
}

// process is a Replica with a Deliverer.
type process struct {
	replica *store.Replica
	d       *Deliverer
	stop    func()
}

func setup(t *testing.T, options ...func(*Config)) *env {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fleet.db")
	require.NoError(t, sqlite.Migrate(t.Context(), path))
	st, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	e := &env{t: t, path: path, store: st, clock: &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
	e.process = e.start(st, options...)
	return e
}

// start starts another process on the store.
func (e *env) start(st store.Store, options ...func(*Config)) *process {
	e.t.Helper()
	p := &process{}
	p.replica = store.NewReplica(store.Config{Store: st, Rules: fleet.Rules{Environments: []string{"dev"}, MaxRemovals: 1000}, Now: e.clock.Now, Interval: 5 * time.Millisecond})
	require.NoError(e.t, p.replica.Load(e.t.Context()))
	cfg := Config{
		Replica: p.replica, History: st, Table: sqlite.NewObservations(e.path), Key: testKey, PublicURL: "https://fleet.example.com",
		AllowHTTP: true, AllowPrivate: true, Alone: true, Now: e.clock.Now,
	}
	for _, o := range options {
		o(&cfg)
	}
	p.d = New(cfg)
	ctx, cancel := context.WithCancel(context.WithoutCancel(e.t.Context()))
	var running sync.WaitGroup
	running.Go(func() { p.replica.Run(ctx) })
	running.Go(func() { p.d.Run(ctx) })
	p.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	e.t.Cleanup(p.stop)
	return p
}

// update commits a change of this process, and returns the revision.
func (p *process) update(t *testing.T, meta store.Meta, edit func(*fleet.Tx) error) fleet.Revision {
	t.Helper()
	if meta.Actor == "" {
		meta.Actor = "ann"
	}
	res, err := p.replica.Update(t.Context(), meta, edit)
	require.NoError(t, err)
	return res.State.Revision()
}

// webhook creates a webhook.
func (p *process) webhook(t *testing.T, id, url string, fields map[string]any) fleet.Revision {
	t.Helper()
	body := map[string]any{"id": id, "url": url}
	maps.Copy(body, fields)
	return p.update(t, store.Meta{}, func(tx *fleet.Tx) error {
		_, err := tx.CreateWebhook(body)
		return err
	})
}

var namespaces struct {
	sync.Mutex
	n int
}

// change commits a change of one document.
func (p *process) change(t *testing.T) fleet.Revision {
	t.Helper()
	namespaces.Lock()
	namespaces.n++
	body := fmt.Sprintf(`{"id":"ns-%d","labels":{}}`, namespaces.n)
	namespaces.Unlock()
	return p.update(t, store.Meta{Reason: "CHG-1"}, func(tx *fleet.Tx) error {
		_, err := tx.Create(fleet.KindNamespace, []byte(body))
		return err
	})
}

// delivery returns the state of a webhook's delivery once a condition holds.
func (p *process) until(t *testing.T, id string, condition func(Delivery) bool) Delivery {
	t.Helper()
	var got Delivery
	require.Eventually(t, func() bool {
		doc, ok := p.replica.State().Get(fleet.KindWebhook, id)
		if !ok {
			return false
		}
		got = p.d.Delivery(doc.Webhook())
		return condition(got)
	}, guard, 2*time.Millisecond)
	return got
}

// began reports whether the worker of a webhook has a cursor.
func (p *process) began(id string) bool {
	p.d.mu.Lock()
	w := p.d.workers[id]
	p.d.mu.Unlock()
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current != nil
}

// row returns the cursor in the table.
func (e *env) row(id string) (c cursor, ok bool) {
	e.t.Helper()
	table := sqlite.NewObservations(e.path)
	_, err := table.Since(e.t.Context(), time.Now().AddDate(1, 0, 0), []string{subjectPrefix + id}, func(r clusterstatus.Row) { c, ok = parseCursor(r) })
	require.NoError(e.t, err)
	return c, ok
}

func insecure(c *Config) { c.TLS = &tls.Config{InsecureSkipVerify: true} }
