package history

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// entry is one line of a file: one of these.
type entry struct {
	Run    *Run    `json:"run,omitempty"`
	Start  *Start  `json:"start,omitempty"`
	Exit   *Exit   `json:"exit,omitempty"`
	Fault  *Fault  `json:"fault,omitempty"`
	Poll   *Poll   `json:"poll,omitempty"`
	Write  *Write  `json:"write,omitempty"`
	Commit *Commit `json:"commit,omitempty"`
	Stored *Stored `json:"stored,omitempty"`
	Note   *Note   `json:"note,omitempty"`
}

func (h *History) add(e entry) {
	switch {
	case e.Run != nil:
		h.Run = *e.Run
	case e.Start != nil:
		h.Starts = append(h.Starts, *e.Start)
	case e.Exit != nil:
		h.Exits = append(h.Exits, *e.Exit)
	case e.Fault != nil:
		h.Faults = append(h.Faults, *e.Fault)
	case e.Poll != nil:
		h.Polls = append(h.Polls, *e.Poll)
	case e.Write != nil:
		h.Writes = append(h.Writes, *e.Write)
	case e.Commit != nil:
		h.Commits = append(h.Commits, *e.Commit)
	case e.Stored != nil:
		h.Stored = e.Stored
	case e.Note != nil:
		h.Notes = append(h.Notes, *e.Note)
	}
}

// entries are the lines that a History is written as.
func (h *History) entries(yield func(entry) bool) {
	if !yield(entry{Run: &h.Run}) {
		return
	}
	_ = each(h.Starts, func(v *Start) entry { return entry{Start: v} }, yield) &&
		each(h.Exits, func(v *Exit) entry { return entry{Exit: v} }, yield) &&
		each(h.Faults, func(v *Fault) entry { return entry{Fault: v} }, yield) &&
		each(h.Notes, func(v *Note) entry { return entry{Note: v} }, yield) &&
		each(h.Commits, func(v *Commit) entry { return entry{Commit: v} }, yield) &&
		(h.Stored == nil || yield(entry{Stored: h.Stored})) &&
		each(h.Writes, func(v *Write) entry { return entry{Write: v} }, yield) &&
		each(h.Polls, func(v *Poll) entry { return entry{Poll: v} }, yield)
}

func each[T any](all []T, wrap func(*T) entry, yield func(entry) bool) bool {
	for i := range all {
		if !yield(wrap(&all[i])) {
			return false
		}
	}
	return true
}

// Save writes a History as lines of JSON, compressed.
func (h *History) Save(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	zw := gzip.NewWriter(f)
	enc := json.NewEncoder(zw)
	enc.SetEscapeHTML(false) // bodies of documents must come back as they were
	for e := range h.entries {
		if err := enc.Encode(e); err != nil {
			return err
		}
	}
	return zw.Close()
}

// Load reads a saved history. It refuses an incomplete file.
func Load(path string) (*History, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	zr, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	h := &History{}
	dec := json.NewDecoder(zr)
	for {
		var e entry
		switch err := dec.Decode(&e); {
		case errors.Is(err, io.EOF):
			if h.Run.Store == "" {
				return nil, fmt.Errorf("%s: it is not a history", path)
			}
			return h, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		h.add(e)
	}
}

// Recorder collects a History from many goroutines.
type Recorder struct {
	began time.Time

	mu sync.Mutex
	h  History
}

// NewRecorder begins a History. Its clock starts now.
func NewRecorder(run Run) *Recorder {
	r := &Recorder{began: time.Now()}
	run.Began = r.began.UTC()
	r.h.Run = run
	return r
}

// Now is the time since the beginning.
func (r *Recorder) Now() int64 { return time.Since(r.began).Microseconds() }

func (r *Recorder) add(e entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.add(e)
}

// Start records one.
func (r *Recorder) Start(v Start) { r.add(entry{Start: &v}) }

// Exit records one.
func (r *Recorder) Exit(v Exit) { r.add(entry{Exit: &v}) }

// Fault records one.
func (r *Recorder) Fault(v Fault) { r.add(entry{Fault: &v}) }

// Poll records one.
func (r *Recorder) Poll(v Poll) { r.add(entry{Poll: &v}) }

// Write records one.
func (r *Recorder) Write(v Write) { r.add(entry{Write: &v}) }

// Commit records a commit of the final log.
func (r *Recorder) Commit(v Commit) { r.add(entry{Commit: &v}) }

// Stored records the final documents.
func (r *Recorder) Stored(v Stored) { r.add(entry{Stored: &v}) }

// Newest records the revision that every process must reach.
func (r *Recorder) Newest(revision int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Run.Newest = revision
}

// Artifacts records the number of artifacts that were pushed for the source.
func (r *Recorder) Artifacts(pushed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Run.Artifacts = pushed
}

// Survived records the last revision that outlived the fault.
func (r *Recorder) Survived(revision int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Run.Survived = revision
}

// Damaged records that the store is about to be damaged.
func (r *Recorder) Damaged() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Run.Damaged = true
}

// Notef records an observation that no request shows.
func (r *Recorder) Notef(wrong bool, format string, args ...any) {
	r.add(entry{Note: &Note{At: r.Now(), Text: fmt.Sprintf(format, args...), Wrong: wrong}})
}

// Counts returns the progress of the run.
func (r *Recorder) Counts() (acknowledged, polls int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.h.Writes {
		if w.Acknowledged() {
			acknowledged++
		}
	}
	return acknowledged, len(r.h.Polls)
}

// History returns the record. Nothing may be recorded afterwards.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &r.h
}

// Acknowledged reports whether the answer confirmed the change.
func (w Write) Acknowledged() bool { return w.Status >= 200 && w.Status < 300 }

// Unknown reports whether the outcome is unknown to the client: no answer, or outcome_unknown.
func (w Write) Unknown() bool {
	return w.Status == 0 && !w.Unsent || w.Code == "outcome_unknown"
}
