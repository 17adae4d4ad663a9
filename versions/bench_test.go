package versions

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// podinfoIndex returns an index of a size, with a share of the versions in the chart podinfo and the others in 50 charts.
func podinfoIndex(size, everyNth int) []byte {
	var out bytes.Buffer
	out.WriteString("apiVersion: v1\nentries:\n")
	version := func(name string, i int) {
		fmt.Fprintf(&out, `  - apiVersion: v1
    appVersion: 6.%[2]d.%[3]d
    created: "2026-03-04T05:06:07.123456789Z"
    description: Podinfo Helm chart for Kubernetes
    digest: %064[2]x
    home: https://github.com/stefanprodan/podinfo
    kubeVersion: '>=1.23.0-0'
    maintainers:
    - email: stefanprodan@users.noreply.github.com
      name: stefanprodan
    name: %[1]s
    sources:
    - https://github.com/stefanprodan/podinfo
    urls:
    - https://stefanprodan.github.io/podinfo/%[1]s-6.%[2]d.%[3]d.tgz
    version: 6.%[2]d.%[3]d
`, name, i/10, i%10)
	}
	for n := 0; out.Len() < size; n++ {
		name := fmt.Sprintf("chart-%d", n)
		if n == 0 {
			name = "podinfo"
		}
		fmt.Fprintf(&out, "  %s:\n", name)
		for i := range everyNth {
			if version(name, i); out.Len() >= size {
				break
			}
		}
	}
	out.WriteString("generated: \"2026-03-04T05:06:07Z\"\n")
	return out.Bytes()
}

// heap returns the bytes of objects and stacks.
func heap() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64() + sample[1].Value.Uint64())
}

// heapReader notes the largest heap while it is read.
type heapReader struct {
	io.Reader

	reads, collect int // a collection before each collect-th measurement; 0: none
	most           int64
}

func (h *heapReader) Read(p []byte) (int, error) {
	if h.reads++; h.collect > 0 && h.reads%h.collect == 0 {
		runtime.GC()
		h.most = max(h.most, heap())
	} else if h.collect == 0 {
		h.most = max(h.most, heap())
	}
	return h.Reader.Read(p)
}

// TestIndexMemory: an index of 40 MB, in YAML and in JSON, with all its versions in the wanted chart, needs at most 32 MiB.
func TestIndexMemory(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	text := podinfoIndex(40<<20, 1<<30)
	asJSON := jsonIndexOf(text)
	for name, text := range map[string][]byte{"YAML": text, "JSON": asJSON} {
		runtime.GC()
		before := heap()
		r := &heapReader{Reader: bytes.NewReader(text), collect: 60} // what the garbage collector would free depends on the rest of the process
		n := &newest{keep: 100, wants: every}
		one := &chart{add: func(e *entry) bool {
			n.add(Version{Version: e.Version})
			return true
		}}
		require.NoError(t, readIndex(r, map[string]*chart{"podinfo": one}))
		require.Greater(t, n.listed, 50_000)
		require.Less(t, r.most-before, int64(32<<20), name)
		t.Logf("%s: %d versions, %.1f MiB", name, n.listed, float64(r.most-before)/(1<<20))
	}
}

// jsonIndexOf converts an index of podinfoIndex, without the fields of lists.
func jsonIndexOf(text []byte) []byte {
	var out bytes.Buffer
	out.WriteString(`{"apiVersion":"v1","entries":{"podinfo":[`)
	first := true
	for block := range strings.SplitSeq(string(text), "  - apiVersion: v1\n") {
		fields := map[string]string{}
		for line := range strings.SplitSeq(block, "\n") {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && strings.HasPrefix(line, "    ") {
				fields[key] = strings.Trim(value, `"'`)
			}
		}
		if fields["version"] == "" {
			continue
		}
		fields["padding"] = strings.Repeat("x", 300)
		if !first {
			out.WriteByte(',')
		}
		first = false
		one, _ := json.Marshal(fields)
		out.Write(one)
	}
	out.WriteString(`]}}`)
	return out.Bytes()
}

// BenchmarkReadIndex reads an index of 40 MB; the baseline is the library, which Helm uses too.
func BenchmarkReadIndex(b *testing.B) {
	for name, perChart := range map[string]int{"1%": 600, "all": 1 << 30} {
		text := podinfoIndex(40<<20, perChart)
		b.Run("wanted="+name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			most := int64(0)
			for b.Loop() {
				runtime.GC()
				before, r := heap(), &heapReader{Reader: bytes.NewReader(text)}
				one := &chart{add: func(*entry) bool { return true }}
				if err := readIndex(r, map[string]*chart{"podinfo": one}); err != nil {
					b.Fatal(err)
				}
				most = max(most, r.most-before)
			}
			b.ReportMetric(float64(most)/(1<<20), "heap-MiB")
		})
	}
	b.Run("baseline=library", func(b *testing.B) {
		text := podinfoIndex(40<<20, 600)
		b.ReportAllocs()
		b.SetBytes(int64(len(text)))
		most := int64(0)
		for b.Loop() {
			runtime.GC()
			before := heap()
			var all struct{ Entries map[string][]entry }
			if err := yaml.Unmarshal(text, &all); err != nil {
				b.Fatal(err)
			}
			most = max(most, heap()-before)
		}
		b.ReportMetric(float64(most)/(1<<20), "heap-MiB")
	})
}

// BenchmarkScan scans 1,000 components in 200 repositories once: 100 Helm repositories with an index of 1 MB and five charts each, and
// 100 repositories of images with 100 tags and five components each, each repository on a host of its own. The processor time includes that of the servers and of
// TLS. "percent-hourly" is the share of one core if the scan runs once an hour.
func BenchmarkScan(b *testing.B) {
	index := podinfoIndex(1<<20, 200)
	pool := x509.NewCertPool()
	var sources []Source
	start := func(handler http.HandlerFunc) *server {
		s := newServer(b, handler)
		pool.AddCert(s.Certificate())
		return s
	}
	var tags strings.Builder
	for i := range 100 {
		fmt.Fprintf(&tags, `,"6.%d.%d"`, i/10, i%10)
	}
	for range 100 {
		helm := start(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"1"`)
			if r.Header.Get("If-None-Match") == `"1"` {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			_, _ = w.Write(index)
		})
		images := start(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/tags/list") {
				_, _ = io.WriteString(w, `{"tags":[`+tags.String()[1:]+`]}`)
				return
			}
			_, _ = io.WriteString(w, `{"config":{"digest":"x"},"annotations":{"`+createdAnnotation+`":"2026-03-04T05:06:07Z"}}`)
		})
		for i := range 5 {
			name := fmt.Sprintf("chart-%d", i)
			sources = append(sources, Source{Kind: Index, URL: helm.URL, Path: name, Wants: every}, Source{Kind: Image, URL: images.host() + "/app", Wants: every, Track: []string{"6.9.9"}})
		}
	}
	for i := range sources {
		if sources[i].Path == "chart-0" {
			sources[i].Path = "podinfo"
		}
	}
	scan := func(b *testing.B, steady bool) {
		b.ReportAllocs()
		s := New(Config{AllowPrivate: true, TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12, ServerName: "example.com"}})
		run := func() {
			if err := s.Scan(context.Background(), sources, func(i int, r Result) {
				if r.Err != nil {
					b.Error(r.Err)
				}
				if sources[i].Validator = r.Validator; !r.NotModified {
					sources[i].Known = r.Versions
				}
			}); err != nil {
				b.Fatal(err)
			}
		}
		forget := func() {
			for i := range sources {
				sources[i].Known, sources[i].Validator = nil, ""
			}
		}
		forget()
		if steady {
			run()
		}
		most, used := int64(0), time.Duration(0)
		for b.Loop() {
			if !steady {
				forget()
			}
			runtime.GC()
			before, cpu := heap(), processorTime()
			peak := watchHeap()
			run()
			most, used = max(most, peak()-before), used+processorTime()-cpu
		}
		b.ReportMetric(float64(most)/(1<<20), "heap-MiB")
		b.ReportMetric(used.Seconds()/float64(b.N), "cpu-s")
		b.ReportMetric(100*used.Seconds()/float64(b.N)/3600, "percent-hourly")
	}
	b.Run("first", func(b *testing.B) { scan(b, false) })
	b.Run("unchanged", func(b *testing.B) { scan(b, true) })
}

// processorTime returns that of the process.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// watchHeap measures the largest heap until its result is called.
func watchHeap() func() int64 {
	var most int64
	end := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, heap())
			select {
			case <-tick.C:
			case <-end:
				return
			}
		}
	})
	return func() int64 {
		close(end)
		running.Wait()
		return most
	}
}
