package fleet

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// sharedFleet is a fleet of clusters with equal settings, from a number of layers, or from each cluster document.
func sharedFleet(t testing.TB, clusters, layers int) []Record {
	t.Helper()
	empty, err := NewState(Rules{MaxRemovals: 1000}, Head{}, time.Time{}, nil)
	require.NoError(t, err)
	tx := empty.Begin()
	add := func(kind Kind, body string) {
		_, err := tx.Create(kind, []byte(body))
		require.NoError(t, err)
	}
	refs := func(letter string, from, to int) string {
		var out []string
		for i := from; i < to; i++ {
			out = append(out, fmt.Sprintf(`{"id":"%s%d"}`, letter, i))
		}
		return strings.Join(out, ",")
	}
	lists := func(part, of int) string {
		return fmt.Sprintf(`"platform_components":[%s],"namespaces":[%s],"rolebindings":[%s]`,
			refs("c", 30*part/of, 30*(part+1)/of), refs("n", 10*part/of, 10*(part+1)/of), refs("b", 5*part/of, 5*(part+1)/of))
	}
	var patches []string
	for i := range 30 {
		add(KindComponent, fmt.Sprintf(`{"id":"c%d","component_path":"charts/c%d","oci_url":"https://charts.example.com","component_version":"1.%d","patches":{"a.b":"1","c":true}}`, i, i, i))
		if i%6 == 0 {
			patches = append(patches, fmt.Sprintf(`"c%d":{"replicaCount":"2","resources.limits.memory":"128Mi","config.region":"eu"}`, i))
		}
	}
	for i := range 10 {
		add(KindNamespace, fmt.Sprintf(`{"id":"n%d","labels":{"team":"t%d"}}`, i, i))
	}
	for i := range 5 {
		add(KindRoleBinding, fmt.Sprintf(`{"id":"b%d","role":"view","subjects":[{"kind":"Group","name":"g%d"}]}`, i, i))
	}
	for i := range layers {
		add(KindLayer, fmt.Sprintf(`{"id":"l%d","priority":%d,"selector":"fleet=all,tier notin (none)",%s,"patches":{%s}}`,
			i, i, lists(i, layers), strings.Join(patches[5*i/layers:5*(i+1)/layers], ",")))
	}
	own := ""
	if layers == 0 {
		own = "," + lists(0, 1) + `,"patches":{` + strings.Join(patches, ",") + "}"
	}
	for i := range clusters {
		add(KindCluster, fmt.Sprintf(`{"id":"k%05d","cluster_dns":"k%05d.k8s.example.com","environment":%q,"labels":{"fleet":"all","tier":"t%d"}%s}`, i, i, []string{"dev", "prod"}[i%2], i%4, own))
	}
	res, err := tx.Finish(Commit{ID: uuid.New(), At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Actor: "test"})
	require.NoError(t, err)
	return slices.Collect(res.State.Records())
}

func loadShared(t testing.TB, records []Record) *State {
	t.Helper()
	s, err := NewState(Rules{MaxRemovals: 1000}, Head{Revision: 1}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), records)
	require.NoError(t, err)
	return s
}

// TestSameFleetOnLayers answers each poll with the same bytes.
func TestSameFleetOnLayers(t *testing.T) {
	t.Parallel()
	plain, layered := sharedFleet(t, 100, 0), sharedFleet(t, 100, 5)
	require.Equal(t, polls(t, loadShared(t, plain)), polls(t, loadShared(t, layered)))
	size := func(records []Record) (n int) {
		for _, r := range records {
			n += len(r.Body)
		}
		return n
	}
	require.Less(t, size(layered)*4, size(plain))
}

// TestAdoptionChangesNoPoll: common settings move into layers, in one commit with an empty plan.
func TestAdoptionChangesNoPoll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.state = loadShared(t, sharedFleet(t, 40, 0))
	target := loadShared(t, sharedFleet(t, 40, 5))
	adopt := func(tx *Tx) error {
		for _, d := range target.All(KindLayer) {
			if _, err := tx.Create(KindLayer, d.Body); err != nil {
				return err
			}
		}
		for _, d := range tx.Base().All(KindCluster) {
			if _, err := tx.Patch(KindCluster, d.ID, []byte(`{"platform_components":[],"namespaces":[],"rolebindings":[],"patches":null}`)); err != nil {
				return err
			}
		}
		return nil
	}
	before := polls(t, w.state)
	plan := w.plan(adopt)
	require.Empty(t, plan.Groups)
	require.Zero(t, plan.Totals.Removals)
	require.False(t, plan.ConfirmationRequired)
	w.must(adopt)
	require.Equal(t, before, polls(t, w.state))
}

// BenchmarkLayers compares 10,000 clusters on five layers, without settings of their own, with the same fleet without
// layers: polls of both alternately, and the memory and time of each. Then changes of a layer that affect all of them.
func BenchmarkLayers(b *testing.B) {
	const clusters = 10_000
	type measured struct {
		state       *State
		load, polls time.Duration
		heap        uint64
		bytes       int
	}
	var sides [3]measured // without, with five, with fifty
	for i := range sides {
		records := sharedFleet(b, clusters, []int{0, 5, 50}[i])
		for _, r := range records {
			sides[i].bytes += len(r.Body)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		sides[i].state = loadShared(b, records)
		sides[i].load = time.Since(start)
		pollAll(b, sides[i].state)
		runtime.GC()
		runtime.ReadMemStats(&after)
		sides[i].heap = after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc)
	}
	for b.Loop() {
		for i := range sides { // the fastest of each: other load makes some runs slower
			if took := pollAll(b, sides[i].state); sides[i].polls == 0 || took < sides[i].polls {
				sides[i].polls = took
			}
		}
	}
	without, with := sides[0], sides[1]
	b.ReportMetric(float64(without.polls)/float64(with.polls), "polls-ratio")
	b.ReportMetric(float64(with.polls)/float64(sides[2].polls), "fifty-polls-ratio")
	b.ReportMetric(float64(sides[2].heap)/(1<<20), "fifty-heap-MiB")
	b.ReportMetric(sides[2].load.Seconds()*1000, "fifty-load-ms")
	b.ReportMetric(float64(with.load)/float64(without.load), "load-ratio")
	b.ReportMetric(with.load.Seconds()*1000, "load-ms")
	b.ReportMetric(float64(with.heap)/float64(without.heap), "heap-ratio")
	b.ReportMetric(float64(with.heap)/(1<<20), "heap-MiB")
	b.ReportMetric(float64(with.bytes)/float64(without.bytes), "bytes-ratio")
	edits := map[string]func(*Tx) error{
		"value": patch(KindLayer, "l0", `{"patches":{"c0":{"replicaCount":"3"}}}`),
		"entry": patch(KindLayer, "l1", `{"namespaces":[{"id":"n2"},{"id":"n3"},{"id":"n0"}],"platform_components":[{"id":"c6"}]}`),
		"gone":  remove(KindLayer, "l4", DeleteOptions{}),
	}
	for _, name := range sortedKeys(edits) {
		tx := with.state.Begin()
		tx.Guard(Guard{Off: true})
		start := time.Now()
		require.NoError(b, edits[name](tx))
		res, err := tx.Finish(Commit{ID: uuid.New(), At: start, Actor: "test"})
		require.NoError(b, err)
		b.ReportMetric(time.Since(start).Seconds()*1000, name+"-commit-ms")
		start = time.Now()
		_, err = with.state.Apply(res.Commit)
		require.NoError(b, err)
		b.ReportMetric(time.Since(start).Seconds()*1000, name+"-follow-ms")
		start = time.Now()
		_, err = res.Plan()
		require.NoError(b, err)
		b.ReportMetric(time.Since(start).Seconds()*1000, name+"-plan-ms")
	}
}

func pollAll(t testing.TB, s *State) time.Duration {
	t.Helper()
	start := time.Now()
	for dns := range s.byDNS {
		cluster, _ := s.ByDNS(dns)
		for _, kind := range Definitions() {
			if _, err := s.Answer(cluster, kind); err != nil {
				t.Fatal(err)
			}
		}
	}
	return time.Since(start)
}
