// Package auditlog writes audit events as JSON lines, or exports them. It never delays the sender of an event: an event that the queue or a
// limit does not admit is dropped and counted.
//
//	Emit --> limit of refusals by sender --> queue --> one goroutine --> a file, standard output, standard error, or Export
package auditlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Limits of events. Refused requests cost their sender nothing, so they are limited, and never use the whole queue.
const (
	queueLength   = 4096
	maxRefusals   = queueLength / 2 // in the queue
	refusalWindow = time.Minute
	perSender     = 60    // refusals in a window
	maxSenders    = 1_000 // in a window; the others share one limit
	closeTimeout  = 2 * time.Second
	reopenAfter   = time.Second // how often a file that was moved is noticed
	maxExported   = 256         // events that Export takes at once
)

// Decisions.
const (
	Allowed = "allowed"
	Refused = "refused"
	Unknown = "unknown" // the store did not confirm a commit, which may have happened
)

// Event is one line of the output, or one exported record. It contains no value of a document and no secret. Texts are short and without
// control characters, which the caller of Emit ensures.
type Event struct {
	Time      time.Time `json:"time"`
	Type      string    `json:"type"`
	Decision  string    `json:"decision"`
	Actor     *Actor    `json:"actor,omitempty"` // absent: unknown
	Method    string    `json:"method,omitempty"`
	Operation string    `json:"operation,omitempty"` // operationId of the OpenAPI document
	Route     string    `json:"route,omitempty"`     // path with the names of its parameters
	Path      string    `json:"path,omitempty"`
	Status    int       `json:"status,omitempty"` // of HTTP
	Error     string    `json:"error,omitempty"`  // code of the problem
	Reason    string    `json:"reason,omitempty"` // of auth_failures_total
	RequestID string    `json:"request_id,omitempty"`
	Remote    string    `json:"remote,omitempty"` // address of the connection
	Revision  int64     `json:"revision,omitempty"`
	Kinds     []string  `json:"kinds,omitempty"`     // of the changed documents
	Objects   int       `json:"objects,omitempty"`   // number of changed documents
	Documents []string  `json:"documents,omitempty"` // the first of them, as kind/id
	// Dropped is the number of events that were dropped since the previous event.
	Dropped uint64 `json:"dropped,omitempty"`

	// Sender identifies the sender of a refused request for its limit.
	Sender string `json:"-"`
}

// Actor is the sender of a request, or a part of the service that made a change.
type Actor struct {
	Name       string `json:"name,omitempty"`       // as revisions show it
	Credential string `json:"credential,omitempty"` // kind of credential, as in authenticated_requests_total
	Issuer     string `json:"issuer,omitempty"`
	Subject    string `json:"subject,omitempty"` // claim sub
	Token      string `json:"token,omitempty"`   // id of a managed token
}

// Config configures a Log.
type Config struct {
	// Output is "stdout", "stderr" or the path of a file.
	Output string
	// Export sends events instead of Output. It may block for a long time, and must not keep the events after it returns. nil: events are
	// written to Output as lines.
	Export         func(context.Context, []Event) error
	Stdout, Stderr io.Writer
	Logger         *slog.Logger
}

// Log is the audit log of a process. A nil Log drops all events.
type Log struct {
	cfg     Config
	queue   chan Event
	done    chan struct{}
	closed  atomic.Bool
	out     io.Writer
	file    *os.File // nil: the output is none
	checked time.Time
	cut     bool // the last line is incomplete
	failing bool
	dropped atomic.Uint64 // since the last line
	events  *prometheus.CounterVec

	mu      sync.Mutex
	senders [2]map[string]int // refusals in this window: of unknown senders, and of known actors, whom the former cannot hide
	window  time.Time
}

// Open opens the output. Close must be called.
func Open(cfg Config) (*Log, error) {
	l := &Log{cfg: cfg, queue: make(chan Event, queueLength), done: make(chan struct{}), senders: [2]map[string]int{{}, {}}}
	l.events = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "flux_resourceset", Name: "audit_events_total",
		Help: "Audit events of this process: written, limited (too many refused requests of one sender), dropped (the queue was full), failed (the output or the collector returned an error).",
	}, []string{"result"})
	for _, result := range []string{"written", "limited", "dropped", "failed"} {
		l.events.WithLabelValues(result)
	}
	switch {
	case cfg.Export != nil:
	case cfg.Output == "stdout":
		l.out = cfg.Stdout
	case cfg.Output == "stderr":
		l.out = cfg.Stderr
	default:
		if err := l.reopen(); err != nil {
			return nil, err
		}
	}
	go l.run()
	return l, nil
}

// Collector returns the counter of events.
func (l *Log) Collector() prometheus.Collector { return l.events }

// Emit queues an event. It does not wait.
func (l *Log) Emit(e Event) {
	if l == nil || l.closed.Load() {
		return
	}
	if e.Decision == Refused && !l.admit(e) {
		l.drop("limited")
		return
	}
	if e.Decision == Refused && len(l.queue) >= maxRefusals {
		l.drop("dropped")
		return
	}
	select {
	case l.queue <- e:
	default:
		l.drop("dropped")
	}
}

func (l *Log) drop(result string) {
	l.dropped.Add(1)
	l.events.WithLabelValues(result).Inc()
}

// admit counts a refusal, and reports whether its sender is within the limit.
func (l *Log) admit(e Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if age := e.Time.Sub(l.window); age < 0 || age >= refusalWindow {
		clear(l.senders[0])
		clear(l.senders[1])
		l.window = e.Time
	}
	senders := l.senders[0]
	if e.Actor != nil && e.Actor.Name != "" {
		senders = l.senders[1]
	}
	if _, known := senders[e.Sender]; !known && len(senders) >= maxSenders {
		e.Sender = ""
	}
	senders[e.Sender]++
	return senders[e.Sender] <= perSender
}

// Close writes the queued events, for a short time. No event may be emitted later.
func (l *Log) Close() {
	if l == nil || l.closed.Swap(true) {
		return
	}
	select {
	case l.queue <- Event{}: // the end
	case <-time.After(closeTimeout):
		return
	}
	select {
	case <-l.done:
	case <-time.After(closeTimeout):
	}
}

func (l *Log) run() {
	defer close(l.done)
	for {
		events, ended := l.next()
		if len(events) > 0 {
			l.deliver(events)
		}
		if ended {
			return
		}
	}
}

// next waits for an event, and returns it with those that wait and can be exported with it. ended: there are no further ones.
func (l *Log) next() (events []Event, ended bool) {
	for e := <-l.queue; e.Type != ""; {
		events = append(events, e)
		if l.cfg.Export == nil || len(events) == maxExported {
			return events, false
		}
		select {
		case e = <-l.queue:
		default:
			return events, false
		}
	}
	return events, true
}

// deliver writes one event, or exports several.
func (l *Log) deliver(events []Event) {
	missing := l.dropped.Swap(0)
	events[0].Dropped = missing
	var err error
	if l.cfg.Export != nil {
		err = l.cfg.Export(context.Background(), events)
	} else {
		err = l.write(events[0])
	}
	if err != nil {
		l.dropped.Add(missing + uint64(len(events)))
		l.events.WithLabelValues("failed").Add(float64(len(events)))
		if !l.failing { // once, until one is written
			l.cfg.Logger.Error("audit events cannot be written", "error", err)
		}
	} else {
		l.events.WithLabelValues("written").Add(float64(len(events)))
	}
	l.failing = err != nil
}

func (l *Log) write(e Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if l.cut {
		line = append([]byte{'\n'}, line...)
	}
	if err := l.reopenMoved(); err != nil {
		return err
	}
	n, err := l.out.Write(line)
	if n > 0 {
		l.cut = n < len(line)
	}
	return err
}

// reopenMoved opens the file again after another program has moved or removed it.
func (l *Log) reopenMoved() error {
	if l.file == nil || time.Since(l.checked) < reopenAfter {
		return nil
	}
	l.checked = time.Now()
	open, err := l.file.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Stat(l.cfg.Output); err == nil && os.SameFile(open, now) {
		return nil
	}
	return l.reopen()
}

func (l *Log) reopen() error {
	// Without O_NONBLOCK, the start would wait for ever for the reader of a named pipe.
	file, err := os.OpenFile(l.cfg.Output, os.O_APPEND|os.O_CREATE|os.O_RDWR|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return fmt.Errorf("the audit log cannot be opened: %w", err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file: use stdout or stderr for a pipe")
	}
	var last [1]byte
	if err == nil && info.Size() > 0 { // a process that was killed may have left a part of a line
		_, err = file.ReadAt(last[:], info.Size()-1)
	}
	if err != nil {
		return fmt.Errorf("the audit log %s cannot be used: %w", l.cfg.Output, errors.Join(err, file.Close()))
	}
	if l.file != nil {
		err = l.file.Close()
	}
	l.file, l.out, l.cut = file, file, info.Size() > 0 && last[0] != '\n'
	return err
}
