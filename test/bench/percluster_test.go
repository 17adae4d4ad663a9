package bench_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/test/bench"
)

// BenchmarkPerCluster measures what must grow with the fleet no more than its clusters do: for BENCH_CLUSTERS standard clusters, and for
// five times as many, the memory, and the processor time of starts, changes, plans, reads and a backup. It reports both, and for each the
// cost per cluster of the larger fleet relative to the smaller one (-growth).
func BenchmarkPerCluster(b *testing.B) {
	clusters := fleetSize(b)
	for b.Loop() {
		small, large := costs(b, clusters), costs(b, 5*clusters)
		for i, cost := range small {
			b.ReportMetric(cost.value, cost.name)
			b.ReportMetric(large[i].value, fmt.Sprintf("%s-5x", cost.name))
			b.ReportMetric(large[i].value/cost.value/5, cost.name+"-growth")
		}
	}
	b.ReportMetric(0, "ns/op")
}

type cost struct {
	name  string
	value float64 // milliseconds of processor time, or MiB
}

// costs measures one fleet.
func costs(b *testing.B, clusters int) (all []cost) {
	b.Helper()
	settings := []string{"DATABASE_URL=sqlite://" + filepath.Join(b.TempDir(), "fleet.db"), "API_MODE=crud"}
	add := func(name string, value float64) { all = append(all, cost{name, value}) }
	milliseconds := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	p := start(b, append(settings, "SEED_FILE="+seedOf(b, bench.Realistic(clusters)), "SEED_ACCEPT=true")...)
	add("first-start-ms", milliseconds(p.cpu()))
	require.NoError(b, p.server.Stop())
	p = start(b, settings...)
	add("restart-ms", milliseconds(p.cpu()))
	add("loaded-MiB", p.rss())
	pollAll(p, clusters)
	add("polled-MiB", p.rss())
	request := func(name, method, path, body string, times int) {
		p.settle()
		used := p.cpu()
		for i := range times {
			sent := body
			if strings.Contains(sent, "%d") {
				sent = fmt.Sprintf(body, i)
			}
			a := p.send(method, path, sent, 0)
			require.Equal(b, http.StatusOK, a.status, "%s %s: %.500s", method, path, a.body)
		}
		add(name+"-ms", milliseconds(p.cpu()-used)/float64(times))
	}
	component := "/platform_components/" + bench.ComponentID(0)
	request("commit-cluster", http.MethodPatch, "/clusters/"+bench.ClusterID(7), `{"labels":{"bench":"%d"}}`, 100)
	request("plan-catalog", http.MethodPost, "/plan", fmt.Sprintf(`{"operations":[{"op":"patch","kind":"platform_component","id":%q,"patch":{"oci_tag":"v9"}}]}`, bench.ComponentID(0)), 5)
	require.Equal(b, http.StatusOK, p.send(http.MethodGet, "/status", "", 0).status) // evaluates all clusters, unless the process has done so already
	request("status", http.MethodGet, "/status", "", 10)
	p.signIn()
	request("page-overview", http.MethodGet, "/ui/", "", 10)
	request("page-clusters", http.MethodGet, "/ui/clusters", "", 10)
	request("page-components", http.MethodGet, "/ui/components", "", 10)
	request("page-matrix", http.MethodGet, "/ui/matrix", "", 10)
	request("commit-catalog", http.MethodPatch, component, `{"oci_tag":"v8.%d"}`, 5)
	request("status-after-catalog", http.MethodGet, "/status", "", 1)
	request("backup", http.MethodGet, "/backup", "", 1)
	request("batch-all", http.MethodPost, "/batch", fmt.Sprintf(`{"operations":[{"op":"set_component","all":true,"component_id":%q,"oci_tag":"v10"}]}`, bench.ComponentID(1)), 1)
	require.NoError(b, p.server.Stop())
	return all
}

// settle waits until the process is idle: it writes observations and changes in the background.
func (p *process) settle() {
	p.b.Helper()
	const interval, idle = time.Second, 60 * time.Millisecond
	deadline := time.Now().Add(10 * time.Minute)
	for used := p.cpu(); ; {
		if time.Now().After(deadline) {
			p.b.Fatal("the process does not become idle")
		}
		time.Sleep(interval)
		now := p.cpu()
		if now-used < idle {
			return
		}
		used = now
	}
}

// signIn gets a session of the fleet page, whose cookie the client then sends.
func (p *process) signIn() {
	p.b.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(p.b, err)
	p.client.Jar = jar
	resp, err := p.client.PostForm(p.base+"/ui/sign-in", url.Values{"token": {token}})
	require.NoError(p.b, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(p.b, err)
	require.Equal(p.b, http.StatusOK, resp.StatusCode)
	require.False(p.b, bytes.Contains(body, []byte(`name="token"`)), "the sign-in was refused")
}
