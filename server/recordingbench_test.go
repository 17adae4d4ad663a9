package server_test

import (
	"bufio"
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkRecording: the processor time that recording adds to a poll, and to a receipt for every twelfth poll, in the handler: the
// traffic of 10,000 clusters with 30 components, and in turns the same with a User-Agent that is not recorded.
// On a busy machine runs differ by a third: compare two versions in turns, several times.
func BenchmarkRecording(b *testing.B) {
	handler, replica, _ := confirmedFleet(b, 10_000, 30, nil, time.Now)
	recorded, unnoted := listening(b, replica, true)
	parse := func(texts [][]byte) (out []*http.Request) {
		for _, text := range texts {
			req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
			require.NoError(b, err)
			out = append(out, req)
		}
		return out
	}
	w := &discard{header: http.Header{}}
	send := func(requests []*http.Request) time.Duration {
		before := used(b)
		for _, req := range requests {
			clear(w.header)
			handler.ServeHTTP(w, req)
		}
		return used(b) - before
	}
	with, without := parse(recorded), parse(unnoted)
	send(with)
	send(without)
	var own, base time.Duration
	n := 0
	for b.Loop() {
		n += len(with)
		own += send(with)
		base += send(without)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(own.Nanoseconds())/float64(n), "cpu-ns")
	b.ReportMetric(float64((own-base).Nanoseconds())/float64(n), "recording-cpu-ns")
}
