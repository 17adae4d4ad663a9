package auditlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func open(t *testing.T, output string, w io.Writer) *Log {
	t.Helper()
	l, err := Open(Config{Output: output, Stdout: w, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return l
}

// result returns the number of events with a result.
func (l *Log) result(t *testing.T, result string) int {
	t.Helper()
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(l.Collector())
	families, err := metrics.Gather()
	require.NoError(t, err)
	for _, m := range families[0].GetMetric() {
		if m.GetLabel()[0].GetValue() == result {
			return int(m.GetCounter().GetValue())
		}
	}
	t.Fatal(result)
	return 0
}

func parse(t *testing.T, text string) (out []Event) {
	t.Helper()
	for line := range strings.Lines(text) {
		var e Event
		if strings.TrimSpace(line) != "" && json.Unmarshal([]byte(line), &e) == nil {
			out = append(out, e)
		}
	}
	return out
}

func change(i int) Event { return Event{Time: now, Type: "change", Decision: Allowed, Objects: i} }

func refusal(sender string, at time.Time) Event {
	return Event{Time: at, Type: "refused", Decision: Refused, Sender: sender}
}

// stuck is an output that accepts nothing until it is released.
type stuck struct {
	released chan struct{}
	bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) { <-s.released; return s.Buffer.Write(p) }

// TestOutputStuck: an output that accepts nothing delays no sender and not the end of the process; refusals leave room for changes;
// dropped events are counted in the metric and in the next line.
func TestOutputStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &stuck{released: make(chan struct{})}
		l := open(t, "stdout", out)
		l.Emit(change(0))
		synctest.Wait() // it is being written
		for i := range 3 * queueLength {
			l.Emit(refusal(fmt.Sprint(i%maxSenders), now.Add(time.Duration(i/maxSenders)*time.Hour)))
		}
		require.Len(t, l.queue, maxRefusals)
		for i := range queueLength {
			l.Emit(change(i))
		}
		require.Equal(t, 3*queueLength, l.result(t, "dropped"))
		began := time.Now()
		l.Close()
		require.LessOrEqual(t, time.Since(began), 2*closeTimeout)
		l.Emit(change(1))
		close(out.released)
		synctest.Wait()
		events := parse(t, out.String())
		require.Len(t, events, 1+queueLength)
		require.EqualValues(t, 3*queueLength, events[1].Dropped)
		l.queue <- Event{} // ends the goroutine
	})
}

// TestRefusalsLimited: one sender, or many, cannot fill the log, and do not displace the refusals of others and changes.
func TestRefusalsLimited(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := open(t, "stdout", &out)
	for range 1000 {
		l.Emit(refusal("flood", now))
	}
	l.Emit(refusal("ann", now))
	for i := range 3000 {
		failed := refusal(fmt.Sprint("address", i), now)
		failed.Actor = &Actor{Issuer: "corp"} // of a failed sign-in: it names nobody
		l.admit(failed)
	}
	require.Len(t, l.senders[0], maxSenders+1)
	known := refusal("token:ci (1)", now)
	known.Actor = &Actor{Name: known.Sender}
	l.Emit(known)               // unknown senders do not hide it
	l.Emit(refusal("new", now)) // shares the limit of all further senders
	l.Emit(refusal("ann", now))
	l.Emit(change(1))
	l.Emit(refusal("flood", now.Add(refusalWindow)))
	l.Close()
	require.Len(t, parse(t, out.String()), perSender+1+1+1+1+1)
	require.Equal(t, 1000-perSender+1, l.result(t, "limited"))
	require.Equal(t, perSender+5, l.result(t, "written"))
}

// failing returns errors, and accepts a part of a line, like a full disk.
type failing struct {
	bytes.Buffer
	accepts []int // bytes of each write; -1: all
}

func (f *failing) Write(p []byte) (int, error) {
	n := -1
	if len(f.accepts) > 0 {
		n, f.accepts = f.accepts[0], f.accepts[1:]
	}
	if n < 0 {
		return f.Buffer.Write(p)
	}
	f.Buffer.Write(p[:n])
	return n, errors.New("no space left on device")
}

// TestOutputFails: after an incomplete line the next one is readable, and has the number of lost events.
func TestOutputFails(t *testing.T) {
	t.Parallel()
	out := &failing{accepts: []int{-1, 10, 0}}
	l := open(t, "stdout", out)
	for i := range 4 {
		l.Emit(change(i + 1))
	}
	l.Close()
	events := parse(t, out.String())
	require.Len(t, events, 2)
	require.Equal(t, []int{1, 4}, []int{events[0].Objects, events[1].Objects})
	require.EqualValues(t, 2, events[1].Dropped)
	require.Equal(t, 2, l.result(t, "failed"))
}

// TestExport: events that wait are exported together, and those of a failed export are counted in the next one.
func TestExport(t *testing.T) {
	t.Parallel()
	var exported [][]Event
	began, result := make(chan struct{}), make(chan error)
	l, err := Open(Config{Logger: slog.New(slog.DiscardHandler), Export: func(_ context.Context, events []Event) error {
		exported = append(exported, slices.Clone(events))
		began <- struct{}{}
		return <-result
	}})
	require.NoError(t, err)
	l.Emit(change(0))
	<-began
	for i := range maxExported + 10 { // no sender waits for the export
		l.Emit(change(i + 1))
	}
	for _, err := range []error{errors.New("there is no collector"), nil} {
		result <- err
		<-began
	}
	result <- nil
	l.Close()
	require.Equal(t, []int{1, maxExported, 10}, []int{len(exported[0]), len(exported[1]), len(exported[2])})
	require.EqualValues(t, 1, exported[1][0].Dropped)
	require.Equal(t, []int{1, maxExported + 10}, []int{l.result(t, "failed"), l.result(t, "written")})
}

// TestFileMoved: a file has mode 0600, is continued, and is created again when another program moves it.
func TestFileMoved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	for i := range 2 {
		l := open(t, path, nil)
		l.Emit(change(i))
		l.Close()
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	l := open(t, path, nil)
	l.Close()
	require.NoError(t, os.Rename(path, path+".1"))
	require.NoError(t, l.write(change(3)))
	l.checked = time.Time{}
	require.NoError(t, os.Remove(path))
	require.NoError(t, l.write(change(4)))
	for name, want := range map[string]int{path: 1, path + ".1": 2} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Len(t, parse(t, string(text)), want, name)
	}
	_, err = Open(Config{Output: t.TempDir()})
	require.Error(t, err)
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	_, err = Open(Config{Output: pipe})
	require.ErrorContains(t, err, "not a regular file")

	cut := filepath.Join(t.TempDir(), "cut.jsonl") // by a process that was killed
	require.NoError(t, os.WriteFile(cut, []byte("{}\n{\"time\":"), 0o600))
	l = open(t, cut, nil)
	l.Emit(change(5))
	l.Close()
	text, err := os.ReadFile(cut)
	require.NoError(t, err)
	require.Regexp(t, "^{}\n{\"time\":\n{.+}\n$", string(text))
	var none *Log
	none.Emit(change(1))
	none.Close()
}
