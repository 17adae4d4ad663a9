package main

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// otlp is a collector that records the received spans.
type otlp struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*spans.Span
	raw   strings.Builder
}

func newOTLP(t *testing.T) *otlp {
	t.Helper()
	o := &otlp{}
	o.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var got collector.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &got) != nil {
			t.Errorf("not an export of traces: %s, %v", r.URL, err)
			return
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.raw.Write(body)
		for _, resource := range got.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				o.spans = append(o.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(o.Close)
	return o
}

// of are the spans of one trace.
func (o *otlp) of(trace string) (out []*spans.Span) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.spans {
		if hexOf(s.TraceId) == trace {
			out = append(out, s)
		}
	}
	return out
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	var out []byte
	for _, c := range b {
		out = append(out, digits[c>>4], digits[c&15])
	}
	return string(out)
}

const (
	traceID     = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentID    = "00f067aa0ba902b7"
	traceparent = "00-" + traceID + "-" + parentID + "-01"
)

// TestTraces: a request is a span of its client's trace, with its Postgres queries as child spans, without the SQL text. The log names the
// trace. Polls and background queries are not traced.
func TestTraces(t *testing.T) {
	t.Parallel()
	o := newOTLP(t)
	database := pgtest.URL(t)
	p := start(t, "API_MODE=crud", "DATABASE_URL="+database, "SEED_FILE="+demoSeed, "OTEL_EXPORTER_OTLP_ENDPOINT="+o.URL,
		"OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_EXPORTER_OTLP_TIMEOUT=5000", "LOG_FORMAT=json")
	require.Equal(t, 200, p.send("PATCH", "/clusters/demo-cluster-01", `{"patches":{"podinfo":{"ui.message":"only-for-the-fleet"}}}`, "Traceparent", traceparent).status)
	for range 20 {
		p.get(demoPolls + "namespaces")
	}
	p.get("/namespaces")
	var request *spans.Span
	require.Eventually(t, func() bool {
		for _, s := range o.of(traceID) {
			if s.Kind == spans.Span_SPAN_KIND_SERVER {
				request = s
			}
		}
		return request != nil
	}, waitFor, tick)
	require.Equal(t, "PATCH /clusters/:id", request.Name)
	require.Equal(t, parentID, hexOf(request.ParentSpanId))
	require.Equal(t, 200, p.send("DELETE", "/clusters/demo-cluster-01", "").status)
	pgtest.Exec(t, database, `ALTER TABLE head RENAME TO elsewhere`)
	require.Equal(t, 5, p.send("POST", "/namespaces", `{"id":"refused"}`).status/100)
	p.terminate() // what is left is sent at the end

	o.mu.Lock()
	defer o.mu.Unlock()
	ids, names := map[string]bool{}, map[string]int{}
	for _, s := range o.spans {
		ids[hexOf(s.SpanId)] = true
		for _, a := range s.Attributes {
			require.NotContains(t, []string{"db.query.text", "db.statement"}, a.Key, "%s: a statement has its values in it", s.Name)
		}
		names[s.Name]++
	}
	for _, s := range o.spans {
		if s.Kind != spans.Span_SPAN_KIND_SERVER {
			require.True(t, ids[hexOf(s.ParentSpanId)], "%s is nobody's", s.Name)
		}
	}
	require.Positive(t, names["BEGIN"], "%v", slices.Sorted(maps.Keys(names)))
	require.Equal(t, 1, names["GET /namespaces"])
	require.Equal(t, 1, names["DELETE /clusters/:id"])
	require.NotContains(t, strings.Join(slices.Collect(maps.Keys(names)), "\n"), "flux")
	require.Contains(t, o.raw.String(), "SQLSTATE 42P01")
	for _, secret := range []string{"only-for-the-fleet", writeToken, "does not exist"} { // what Postgres says may quote values
		require.NotContains(t, o.raw.String(), secret)
	}
	require.Contains(t, p.Log(), `"trace_id":"`+traceID+`"`)
}

// TestNoCollector: without a collector the log still names the trace, and an unreachable collector delays no request.
func TestNoCollector(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-gone }))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(gone) })
	for name, settings := range map[string][]string{
		"off":           nil,
		"silent":        {"OTEL_EXPORTER_OTLP_ENDPOINT=" + silent.URL, "OTEL_BSP_SCHEDULE_DELAY=10"},
		"not reachable": {"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_BSP_SCHEDULE_DELAY=10", "OTEL_EXPORTER_OTLP_HEADERS=a=b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, append([]string{"API_MODE=crud", "DATABASE_URL=sqlite://" + filepath.Join(t.TempDir(), "fleet.db"), "SEED_FILE=" + demoSeed, "LOG_FORMAT=json"}, settings...)...)
			for _, header := range []string{traceparent, "nonsense", "00-" + strings.Repeat("0", 32) + "-" + parentID + "-01", `00-"` + traceID[1:] + "-" + parentID + "-01"} {
				require.Equal(t, 200, p.send("GET", "/namespaces", "", "Traceparent", header).status)
			}
			require.Equal(t, 200, p.send("PATCH", "/clusters/demo-cluster-01", `{"labels":{"a":"b"}}`).status)
			p.terminate()
			require.Contains(t, p.Log(), `"trace_id":"`+traceID+`"`)
			if settings == nil {
				require.Equal(t, 1, strings.Count(p.Log(), "trace_id"))
			}
		})
	}
	code, _, stderr := invoke(t, "serve", "--auth-token", strings.Repeat("a", 16), "--otlp-endpoint", "collector:4318")
	require.NotZero(t, code)
	require.Contains(t, stderr, "OTEL_EXPORTER_OTLP_ENDPOINT")
}
