package server

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Counting a large fleet by state takes a moment, and after a change of the catalog it computes the answers of all clusters,
// as their next polls would. So scrapes do not wait for the end of a count, and a count leaves the processor to others.
const (
	countEvery = 15 * time.Second       // for which a count is valid
	countAlone = 100                    // clusters that are counted without a pause
	countWait  = 500 * time.Millisecond // for which scrapes wait; then they get the previous count
	countSlice = 10 * time.Millisecond  // after that, counting alternates with pauses
	countPause = 4 * countSlice
)

// stateCollector reports the numbers of clusters and inputs in each state, without naming clusters. It reports none until this
// process has read the observations of the others, because that would raise false alarms.
type stateCollector struct {
	server *Server

	mu      sync.Mutex
	last    *stateCounts  // nil: none yet
	running chan struct{} // closed when scrapes need not wait for the current count; nil: none runs
}

// stateCounts is the result of one count.
type stateCounts struct {
	at               time.Time
	clusters, inputs map[clusterstatus.State]int
	asked            int // desired inputs
	silence          clusterstatus.SilenceDetector
	shared           int // clusters that poll with a shared token
	never            int // clusters without a poll that were created longer than OfflineAfter ago
	names            clusterstatus.NameCache
	details          *detailCounter // for the history; nil: it is not wanted
	unseen           time.Time      // the last poll of the cluster whose last poll is oldest; zero: none has polled
}

var (
	descClusterStates = desc("clusters_by_state", "Live clusters by status.", "state")
	descInputStates   = desc("inputs_by_state", "Inputs of live clusters by status.", "state")
	descConfirmed     = desc("inputs_confirmed_ratio", "Share of the desired inputs of live clusters that are confirmed.")
	descNever         = desc("clusters_never_polled", "Live clusters that have never polled, although they are older than OFFLINE_AFTER.")
	descShared        = desc("clusters_shared_token", "Live clusters whose Flux polled with a token that is not their own within an hour.")
	descAllSilent     = desc("clusters_all_silent", "1 when all live clusters that have ever polled, two or more, are silent: then the cause is likely the address of this service.")
	descUnseen        = desc("clusters_oldest_poll_timestamp_seconds", "When the live cluster whose last poll is oldest polled.")
)

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descClusterStates, descInputStates, descConfirmed, descNever, descShared, descAllSilent, descUnseen} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	n := c.read()
	if n == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, state := range clusterstatus.States() {
		gauge(descClusterStates, float64(n.clusters[state]), string(state))
		if !state.ClustersOnly() {
			gauge(descInputStates, float64(n.inputs[state]), string(state))
		}
	}
	if n.asked > 0 {
		gauge(descConfirmed, float64(n.inputs[clusterstatus.Confirmed])/float64(n.asked))
	}
	gauge(descNever, float64(n.never))
	gauge(descShared, float64(n.shared))
	allSilent := 0.0
	if _, all := n.silence.Since(); all {
		allSilent = 1
	}
	gauge(descAllSilent, allSilent)
	if !n.unseen.IsZero() {
		gauge(descUnseen, float64(n.unseen.UnixMilli())/1000)
	}
}

// read returns the last count; nil while there is none.
func (c *stateCollector) read() *stateCounts {
	if !c.server.tracker.Stats().Complete || c.server.cfg.Replica.State() == nil {
		return nil
	}
	c.mu.Lock()
	last := c.last
	if last != nil && c.server.cfg.Now().Sub(last.at) < countEvery {
		c.mu.Unlock()
		return last
	}
	if c.running == nil {
		waited := make(chan struct{})
		c.running = waited
		go c.run(sync.OnceFunc(func() { close(waited) }))
	}
	running := c.running
	c.mu.Unlock()
	<-running
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// run counts once.
func (c *stateCollector) run(release func()) {
	var n *stateCounts
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if n != nil {
			c.last = n
		}
		release()
		c.running = nil
	}()
	c.server.survive(context.Background(), "counting clusters by state", func() { n = c.count(release, nil) })
}

// count visits all clusters. It calls release when scrapes need not wait any longer.
func (c *stateCollector) count(release func(), details *detailCounter) *stateCounts {
	s := c.server
	n := &stateCounts{details: details, at: s.cfg.Now(), clusters: map[clusterstatus.State]int{}, inputs: map[clusterstatus.State]int{}, names: clusterstatus.NameCache{}}
	clusters, start := s.cfg.Replica.State().All(fleet.KindCluster), time.Now()
	for next := 0; ; {
		if next = n.addBatch(s, clusters, next, start); next == len(clusters) {
			return n
		}
		release()
		time.Sleep(countPause)
	}
}

// addBatch visits clusters from an index on until it is time for a pause, and returns the next index.
func (n *stateCounts) addBatch(s *Server, clusters []*fleet.Document, from int, start time.Time) int {
	st, slice := s.cfg.Replica.State(), time.Now()
	for i := from; i < len(clusters); i++ {
		if cluster, live := st.Get(fleet.KindCluster, clusters[i].ID); live { // its newest version
			n.add(s, st, cluster)
		}
		if now := time.Now(); i >= countAlone && now.Sub(start) > countWait && now.Sub(slice) > countSlice {
			return i + 1
		}
	}
	return len(clusters)
}

func (n *stateCounts) add(s *Server, st *fleet.State, cluster *fleet.Document) {
	q := s.statusQuery(st, cluster, n.names)
	if n.details != nil {
		q.EachInput = n.details.input
	}
	known, err := s.evaluate(st, cluster, q)
	if err != nil { // its polls fail; another metric and an alert report that
		n.clusters[clusterstatus.Unknown]++
		return
	}
	for _, state := range known.States() {
		n.clusters[state]++
	}
	if n.details != nil {
		n.details.add(st, cluster, &known)
	}
	n.silence.Add(&known)
	for state, inputs := range known.Counts.Each {
		n.inputs[state] += inputs
	}
	n.asked += known.Desired
	if known.State == clusterstatus.Never && n.at.Sub(cluster.CreatedAt) > s.cfg.OfflineAfter {
		n.never++
	}
	if known.SharedToken(n.at) {
		n.shared++
	}
	if !known.LastSeen.IsZero() && (n.unseen.IsZero() || known.LastSeen.Before(n.unseen)) {
		n.unseen = known.LastSeen
	}
}
