package bench_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
	"github.com/flux-resourceset/flux-resourceset/test/bench"
)

// bareOf is the environment variable that makes the test binary a bare server: the address of the server whose answers it
// fetches and then serves, the number of clusters, and whether it sets all headers of that server.
const bareOf = "FLUX_RESOURCESET_BENCH_BARE"

func TestMain(m *testing.M) {
	of := os.Getenv(bareOf)
	if of == "" {
		os.Exit(m.Run())
	}
	if err := serveBare(of); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serveBare serves polls as cheaply as net/http allows: it compares one token, looks up one body in a map, and sets three headers, or
// as many as the service.
func serveBare(of string) error {
	var base string
	var clusters int
	var allHeaders bool
	if _, err := fmt.Sscanf(of, "%s %d %t", &base, &clusters, &allHeaders); err != nil {
		return err
	}
	zipped, plain := map[string][]byte{}, map[string][]byte{}
	for n := range clusters {
		path := poll(n, lists[0])
		req, err := http.NewRequest(http.MethodGet, base+path, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Accept-Encoding", "gzip")
		resp, err := (&http.Client{Timeout: time.Minute, Transport: bareTransport}).Do(req)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		if err := resp.Body.Close(); err != nil {
			return err
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s: %w", path, resp.Status, err)
		}
		zr, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return err
		}
		if plain[path], err = io.ReadAll(zr); err != nil {
			return err
		}
		zipped[path] = body
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h, bodies := w.Header(), plain
		if r.Header.Get("Accept-Encoding") == "gzip" {
			h["Content-Encoding"], bodies = []string{"gzip"}, zipped
		}
		body := bodies[r.URL.Path]
		h["Content-Type"], h["Content-Length"] = []string{"application/json"}, []string{strconv.Itoa(len(body))}
		if allHeaders {
			h["Cache-Control"], h["X-Content-Type-Options"] = []string{"no-store"}, []string{"nosniff"}
			h["X-Fleet-Revision"], h["Etag"], h["Age"] = []string{"1"}, []string{`"0123456789abcdef01234567"`}, []string{"0"}
		}
		_, _ = w.Write(body)
	})}
	return server.Serve(ln)
}

var bareTransport = &http.Transport{DisableCompression: true}

// startBare starts a bare server with the answers of another one, and with all of its headers if so wanted.
func startBare(b *testing.B, of *process, clusters int, allHeaders bool) *process {
	b.Helper()
	self, err := os.Executable()
	require.NoError(b, err)
	listening := make(chan string, 1)
	var once sync.Once
	bare, err := testrig.Run(testrig.Program{Path: self, Env: append(os.Environ(), fmt.Sprintf("%s=%s %d %t", bareOf, of.base, clusters, allHeaders)), OnLine: func(line []byte) {
		once.Do(func() { listening <- string(bytes.TrimSpace(line)) })
	}})
	require.NoError(b, err)
	b.Cleanup(bare.Kill)
	select {
	case addr := <-listening:
		return &process{b: b, server: &testrig.Server{Process: bare, Base: "http://" + addr}, base: "http://" + addr, client: newClient()}
	case <-time.After(5 * time.Minute):
		b.Fatal("the bare server did not start")
	case <-b.Context().Done():
	}
	return nil
}

// BenchmarkCompare measures this checkout against another build of the server, BENCH_BASE (by default itself), and against two bare net/http servers
// with the same answers: bare sets three headers, bareH all headers of the service. All take turns, so that a drift of the machine
// affects all. It reports the processor time of each, and ratios as the median of all rounds with the smallest and the largest one;
// above 1 this checkout needs less.
//
//	make bench-compare BASE=v1.2.3
func BenchmarkCompare(b *testing.B) {
	head, err := binary()
	require.NoError(b, err)
	base := cmp.Or(os.Getenv("BENCH_BASE"), head)
	for _, fleet := range []bench.Fleet{{Clusters: 1, Components: 12}, bench.Realistic(fleetSize(b))} {
		b.Run(fmt.Sprintf("%dx%d", fleet.Clusters, fleet.Components), func(b *testing.B) { compareFleet(b, base, head, fleet) })
	}
}

func compareFleet(b *testing.B, base, head string, fleet bench.Fleet) {
	b.Helper()
	seed := filepath.Join(b.TempDir(), "seed.json")
	f, err := os.Create(seed)
	require.NoError(b, err)
	require.NoError(b, fleet.WriteSeed(f))
	require.NoError(b, f.Close())
	run := func(path string) *process {
		return startProgram(b, path, "DATABASE_URL=sqlite://"+filepath.Join(b.TempDir(), "fleet.db"), "API_MODE=crud", "SEED_FILE="+seed, "SEED_ACCEPT=true")
	}
	subjects := []*process{run(base), run(head)}
	b.Logf("first start: base %v, head %v of processor time", subjects[0].cpu(), subjects[1].cpu())
	subjects = append(subjects, startBare(b, subjects[1], fleet.Clusters, false), startBare(b, subjects[1], fleet.Clusters, true))
	for _, load := range []pollLoad{{"kept-gzip", "gzip", true}, {"new-gzip", "gzip", false}, {"kept-plain", "identity", true}} {
		b.Run(load.name, func(b *testing.B) {
			took := make([][]time.Duration, len(subjects))
			for _, s := range subjects {
				load.cost(b, s, fleet.Clusters) // encodes each answer
			}
			for b.Loop() {
				for i, s := range subjects {
					took[i] = append(took[i], load.cost(b, s, fleet.Clusters))
				}
			}
			for i, name := range []string{"base", "head", "bare", "bareH"} {
				slices.Sort(took[i])
				b.ReportMetric(float64(took[i][len(took[i])/2].Nanoseconds())/polls/1000, name+"-us")
			}
			reportRatio(b, "of-base", took[0], took[1])
			reportRatio(b, "of-bare", took[2], took[1])
			reportRatio(b, "of-bareH", took[3], took[1])
			b.ReportMetric(0, "ns/op")
		})
	}
	b.Logf("memory after all polls: base %.0f, head %.0f, bare %.0f MiB", subjects[0].rss(), subjects[1].rss(), subjects[2].rss())
}

// reportRatio reports the ratios of the rounds: their median, and the spread.
func reportRatio(b *testing.B, name string, baseline, measured []time.Duration) {
	b.Helper()
	ratios := make([]float64, len(baseline))
	for i := range ratios {
		ratios[i] = baseline[i].Seconds() / measured[i].Seconds()
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], name)
	b.ReportMetric(ratios[0], name+"-min")
	b.ReportMetric(ratios[len(ratios)-1], name+"-max")
}

// polls is the number of polls in a round.
const polls = 20_000

// pollLoad is a kind of polls.
type pollLoad struct {
	name, encoding string
	keepAlive      bool
}

// cost returns the processor time that a server uses for polls of a fleet.
func (l pollLoad) cost(b *testing.B, p *process, clusters int) time.Duration {
	b.Helper()
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: !l.keepAlive, DisableCompression: true, MaxIdleConnsPerHost: 8}}
	defer client.CloseIdleConnections()
	before := p.cpu()
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for n := worker; n < polls; n += 8 {
				if err := l.send(b, client, p.base+poll(n%clusters, lists[0])); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return p.cpu() - before
}

func (l pollLoad) send(b *testing.B, client *http.Client, url string) error {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header = http.Header{"Authorization": {"Bearer " + token}, "Accept-Encoding": {l.encoding}, "User-Agent": {"flux-operator/v0.58.1"}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", strings.TrimPrefix(url, "http://"), resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
