package webhooks

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

const (
	syncInterval  = time.Second // between two reads of the table
	tableTimeout  = 5 * time.Second
	maxConcurrent = 8 // requests of all webhooks
)

// Config configures a Deliverer. Replica and History are required.
type Config struct {
	Replica *store.Replica
	History History
	// Table has the cursors, and is closed by Run; nil: they are in memory only.
	Table clusterstatus.Store
	// Key is the secret from which signing secrets are derived, PublicURL the address of the service; empty: nothing is sent.
	Key, PublicURL string
	// AllowHTTP permits URLs without TLS, AllowPrivate loopback and private addresses.
	AllowHTTP, AllowPrivate bool
	// Proxy forwards all requests, and must then restrict the addresses; nil: none.
	Proxy *url.URL
	// Alone means that no other process writes to the store, so this one delivers every revision at once.
	Alone bool
	// Tracker has the status of clusters, and Cause returns the cause of a failure, for events of failing clusters; nil: none are sent.
	Tracker *clusterstatus.Tracker
	Cause   func(cluster *fleet.Document, input string, e *clusterstatus.Event) string
	Logger  *slog.Logger
	// The fields below have useful zero values outside tests.
	Now      func() time.Time
	Timeout  time.Duration // of a request
	TLS      *tls.Config
	Resolver *net.Resolver
}

// Deliverer delivers the events of all webhooks.
type Deliverer struct {
	cfg     Config
	process string // differs in every process
	client  *http.Client
	log     revisions
	slots   chan struct{}
	idle    time.Duration // the longest wait of a worker

	mu      sync.Mutex
	workers map[string]*worker

	delivered, failed atomic.Int64 // requests
}

// New returns a Deliverer; Run starts it.
func New(cfg Config) *Deliverer {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = requestTimeout
	}
	d := &Deliverer{
		cfg: cfg, process: rand.Text(), slots: make(chan struct{}, maxConcurrent), idle: time.Minute, workers: map[string]*worker{},
		log: revisions{history: cfg.History, known: map[fleet.Revision]*revision{}},
	}
	d.client = &http.Client{Transport: d.newTransport(), CheckRedirect: noRedirects}
	return d
}

// Problem returns the reason for which no webhook can be created with the configuration; empty: there is none.
func (d *Deliverer) Problem() string {
	if d.cfg.Key == "" || d.cfg.PublicURL == "" {
		return "WEBHOOK_KEY is not set: signing secrets are derived from it; set WEBHOOK_KEY and PUBLIC_URL on every server first"
	}
	return ""
}

// Run delivers until ctx ends. Requests under way may then end, within their timeout.
func (d *Deliverer) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer func() {
		running.Wait()
		if d.cfg.Table != nil {
			if err := d.cfg.Table.Close(); err != nil {
				d.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the table of cluster status, which has the progress of webhooks, was not closed", slog.Any("error", err))
			}
		}
	}()
	if d.cfg.Tracker != nil {
		events := &clusterEvents{d: d, tracker: d.cfg.Tracker, cause: d.cfg.Cause}
		running.Go(func() { events.run(ctx) })
	}
	var lastSync time.Time
	for ctx.Err() == nil {
		st := d.cfg.Replica.State()
		rev := fleet.Revision(0)
		if st != nil {
			rev = st.Revision() + 1
			d.reconcile(ctx, st, &running)
		}
		if time.Since(lastSync) >= syncInterval {
			lastSync = time.Now()
			d.sync(ctx)
		}
		for _, w := range d.all() {
			w.notify()
		}
		wait, cancel := context.WithTimeout(ctx, syncInterval)
		_ = d.cfg.Replica.WaitFor(wait, rev) // an error is the end of the wait
		cancel()
	}
}

// reconcile starts a worker for each new webhook, and ends those of deleted ones.
func (d *Deliverer) reconcile(ctx context.Context, st *fleet.State, running *sync.WaitGroup) {
	d.mu.Lock()
	defer d.mu.Unlock()
	present := map[string]bool{}
	for _, hook := range st.Webhooks() {
		present[hook.ID] = true
		w := d.workers[hook.ID]
		if w == nil {
			w = d.newWorker(ctx, hook)
			d.workers[hook.ID] = w
			running.Go(func() { w.run(ctx) })
		}
		w.webhook.Store(hook)
	}
	for id, w := range d.workers {
		if !present[id] {
			w.remove()
			delete(d.workers, id)
		}
	}
}

// newWorker returns a worker whose requests end when the webhook is deleted, but not with ctx.
func (d *Deliverer) newWorker(ctx context.Context, hook *fleet.Webhook) *worker {
	removed, remove := context.WithCancel(context.WithoutCancel(ctx))
	w := &worker{
		d: d, id: hook.ID, wake: make(chan struct{}, 1), sending: make(chan struct{}, 1), tableRead: d.cfg.Table == nil,
		removed: removed, remove: remove,
	}
	w.webhook.Store(hook)
	return w
}

func (d *Deliverer) all() []*worker {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]*worker, 0, len(d.workers))
	for _, w := range d.workers {
		out = append(out, w)
	}
	return out
}

// sync reads the cursors that other processes wrote. They are read by subject: no row is written in the future.
func (d *Deliverer) sync(ctx context.Context) {
	all := map[string]*worker{}
	var subjects []string
	for _, w := range d.all() {
		all[subjectPrefix+w.id] = w
		subjects = append(subjects, subjectPrefix+w.id)
	}
	if d.cfg.Table == nil || len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	_, err := d.cfg.Table.Since(ctx, time.Now().AddDate(1, 0, 0), subjects, func(r clusterstatus.Row) {
		if w := all[r.Subject]; w != nil && r.Cluster == "" {
			w.observe(r)
		}
	})
	for _, w := range all {
		w.mu.Lock()
		if err != nil {
			w.logStoreError(ctx, err)
		} else {
			w.tableRead = true
		}
		w.mu.Unlock()
	}
}

// endOfLostRevisions returns the last revision of the gap that a webhook receives whose cursor was lost: delivery begins after the
// creation of the webhook, or one hour ago if that is later. 0: there is no gap.
func (d *Deliverer) endOfLostRevisions(ctx context.Context, hook *fleet.Webhook, st *fleet.State, now time.Time) (fleet.Revision, error) {
	found, err := d.cfg.History.Summaries(ctx, store.HistoryQuery{Until: now.Add(-time.Hour), Limit: 1}, 1)
	if err != nil || len(found) == 0 || found[0].Revision <= hook.After || found[0].Revision > st.Revision() {
		return 0, err
	}
	return found[0].Revision, nil
}

// committed reports whether this process committed a revision.
func (d *Deliverer) committed(r *revision) bool { return d.cfg.Replica.Committed(r.Head()) }

// Delivery is the state of the delivery of a webhook.
type Delivery struct {
	Revision fleet.Revision // the last one that was delivered or did not match
	Attempts int
	NextAt   *time.Time
	Status   int
	Error    string
	At       *time.Time
}

// Delivery returns the state of the delivery of a webhook, as far as this process knows it.
func (d *Deliverer) Delivery(hook *fleet.Webhook) Delivery {
	out := Delivery{Revision: hook.After}
	d.mu.Lock()
	w := d.workers[hook.ID]
	d.mu.Unlock()
	if w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range []*cursor{w.current, w.stored} {
			if c != nil && c.matches(hook) {
				out = Delivery{c.Revision, c.Attempts, c.NextAt, c.Status, c.Error, c.At}
				break
			}
		}
	}
	if !hook.Known() {
		out.Error = "the webhook has a field that this version does not know, so this process does not deliver to it"
	}
	return out
}

// Stats are counters of this process.
type Stats struct{ Delivered, Failed int64 }

// Stats returns the counters.
func (d *Deliverer) Stats() Stats { return Stats{d.delivered.Load(), d.failed.Load()} }

// ErrNotRunning is the error of Test while this process does not deliver to the webhook.
var ErrNotRunning = errors.New("the webhook was created or deleted just now: try again")

// Test sends a test event and returns the result. It waits for a request of the webhook that is under way.
func (d *Deliverer) Test(ctx context.Context, hook *fleet.Webhook) (Result, error) {
	d.mu.Lock()
	w := d.workers[hook.ID]
	d.mu.Unlock()
	if w == nil {
		return Result{}, ErrNotRunning
	}
	m, err := d.message(hook, d.testEvent(hook, rand.Text()))
	if err != nil {
		return Result{}, err
	}
	r, ok := w.request(ctx, hook, m)
	if !ok {
		return Result{}, ErrNotRunning
	}
	return r, nil
}
