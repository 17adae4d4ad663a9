package bench_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/test/bench"
)

// BenchmarkAdopt moves the common content of all clusters of a realistic fleet into one layer, and compares every poll
// over HTTP with the answer before the change. Then it compares a server of that fleet with one of the original fleet:
// memory, and polls in turn.
func BenchmarkAdopt(b *testing.B) {
	clusters := fleetSize(b)
	for range b.N {
		seed := seedOf(b, bench.Realistic(clusters))
		plainURL, layeredURL := "sqlite://"+filepath.Join(b.TempDir(), "plain.db"), "sqlite://"+filepath.Join(b.TempDir(), "layered.db")
		for _, url := range []string{plainURL, layeredURL} {
			start(b, "DATABASE_URL="+url, "API_MODE=crud", "SEED_FILE="+seed, "SEED_ACCEPT=true").server.Kill()
		}
		crud := start(b, "DATABASE_URL="+layeredURL, "API_MODE=crud")
		before := bodies(crud, clusters)
		documents := documentBytes(crud)
		crud.must(http.MethodPost, "/layers", `{"id":"base","priority":100,"all":true}`)
		const adopt = `{"operations":[{"op":"adopt","layers":["base"]}]}`
		_, planned := crud.must(http.MethodPost, "/plan", adopt)
		_, made := crud.must(http.MethodPost, "/batch", adopt)
		after := bodies(crud, clusters)
		require.Len(b, after, len(lists)*clusters)
		require.True(b, maps.Equal(before, after), "a poll is not what it was")
		b.ReportMetric(float64(len(after)), "equal-polls")
		b.ReportMetric(float64(documents)/1024, "before-KiB")
		b.ReportMetric(float64(documentBytes(crud))/1024, "after-KiB")
		b.ReportMetric(planned.Seconds()*1000, "plan-ms")
		b.ReportMetric(made.Seconds()*1000, "adopt-ms")
		crud.server.Kill()

		plain, layered := start(b, "DATABASE_URL="+plainURL), start(b, "DATABASE_URL="+layeredURL)
		var used [2]float64
		for range 3 {
			for i, p := range []*process{plain, layered} {
				cpu := p.cpu()
				pollAll(p, clusters)
				used[i] += (p.cpu() - cpu).Seconds()
			}
		}
		b.ReportMetric(plain.rss(), "plain-polled-MiB")
		b.ReportMetric(layered.rss(), "layered-polled-MiB")
		b.ReportMetric(used[0]/used[1], "polls-cpu-ratio")
	}
	b.ReportMetric(0, "ns/op")
}

// bodies returns the answers to all polls.
func bodies(p *process, clusters int) map[string]string {
	p.b.Helper()
	out := make(map[string]string, len(lists)*clusters)
	for n := range clusters {
		for _, list := range lists {
			a := p.send(http.MethodGet, poll(n, list), "", 0)
			require.Equal(p.b, http.StatusOK, a.status)
			out[bench.ClusterID(n)+"/"+list] = a.etag + string(a.body)
		}
	}
	return out
}

func unzipped(b *testing.B, body []byte) []byte {
	b.Helper()
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return body
	}
	all, err := io.ReadAll(r)
	require.NoError(b, err)
	return all
}

// documentBytes returns the size of the documents of clusters and layers as JSON without spaces.
func documentBytes(p *process) (n int) {
	p.b.Helper()
	for _, list := range []string{"/clusters", "/layers"} {
		a := p.send(http.MethodGet, list, "", 0)
		require.Equal(p.b, http.StatusOK, a.status)
		var docs []json.RawMessage
		require.NoError(p.b, json.Unmarshal(unzipped(p.b, a.body), &docs))
		for _, doc := range docs {
			n += len(doc)
		}
	}
	return n
}
