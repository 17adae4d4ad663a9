package server

import (
	"encoding/binary"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
	"github.com/flux-resourceset/flux-resourceset/server/internal/poll"
)

const namespace = "flux_resourceset"

// metrics are the metrics of a Server, in a registry of its own.
type metrics struct {
	registry   *prometheus.Registry
	clusters   *prometheus.Registry // metrics with labels that name clusters or other documents
	anonymous  *prometheus.Registry // served without a token instead of clusters: metrics of documents, without their names
	requests   *prometheus.CounterVec
	durations  *prometheus.HistogramVec
	unresolved prometheus.Counter
	panics     prometheus.Counter
	stored     prometheus.Counter
	commits    *prometheus.CounterVec
	work       *prometheus.HistogramVec

	turnedAway     prometheus.Counter
	watchesRefused prometheus.Counter
	scanErrors     *prometheus.CounterVec
	authFailures   *prometheus.CounterVec
	identified     [auth.Methods]prometheus.Counter
	polls          map[fleet.Kind]*series // answered polls
	typedPolls     *series
	receipts       *series
	series         sync.Map // seriesKey -> *series: saves the lookup in the vectors
}

type seriesKey struct {
	route, method string
	status        int
}

type series struct {
	count prometheus.Counter
	took  prometheus.Observer
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

func counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func newMetrics(s *Server) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(), clusters: prometheus.NewRegistry(), anonymous: prometheus.NewRegistry(),
		requests: counterVec("http_requests_total", "Requests by route template, method and status.", "route", "method", "status"),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "http_request_duration_seconds",
			Help: "Time to answer by route template and method.", Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"route", "method"}),
		unresolved: counter("unresolved_references_total", "Polls refused because a stored document refers to a missing one."),
		panics:     counter("panics_total", "Requests and tasks of the server that ended in a panic."),
		stored:     counter("stored_violations_total", "Problems in stored documents that changes found and accepted, because they existed before."),
		commits:    counterVec("commits_total", "Commits by this process, by the kinds of documents that they changed; a commit counts once for each kind.", "kind"),
		work: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "work_duration_seconds",
			Help: "Running time of plans, batches, explanations, pages of the history and questions about the whole fleet, without the wait for their turn.", Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25, 50},
		}, []string{"work"}),
		turnedAway:   counter("anonymous_requests_turned_away_total", "Unauthenticated requests that were answered with a status only, because too many were in progress."),
		authFailures: counterVec("auth_failures_total", "Requests that were refused, by reason: missing, malformed, unknown, expired, no_certificate, forbidden, throttled.", "reason"),
	}
	m.scanErrors = counterVec("version_scan_errors_total", "Scans of registries for versions by this process that failed, by host; empty: the configuration.", "host")
	m.registry.MustRegister(m.scanErrors)
	m.watchesRefused = counter("watches_refused_total", "Watches of revisions that were refused with 429, because too many were open.")
	m.registry.MustRegister(m.watchesRefused, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "watches", Help: "Open watches of revisions: event streams, and long polls that wait.",
	}, func() float64 { return float64(s.queues.Watches()) }))
	identified := counterVec("authenticated_requests_total", "Authenticated requests by kind of credential: a static token, a managed one, a client certificate.", "credential")
	for by := range auth.Methods {
		if (by == auth.IDToken || by == auth.Session) && s.cfg.Issuers == nil {
			continue // no credential uses this method
		}
		m.identified[by] = identified.WithLabelValues(by.String())
	}
	m.registry.MustRegister(identified)
	m.polls = map[fleet.Kind]*series{}
	for _, kind := range fleet.Definitions() {
		m.polls[kind] = m.of(seriesKey{poll.PathTemplate + kind.Endpoint(), http.MethodGet, http.StatusOK})
	}
	m.typedPolls = m.of(seriesKey{poll.PathTemplate + ":type", http.MethodGet, http.StatusOK})
	m.receipts = m.of(seriesKey{poll.PathTemplate + "receipts/:list/:input_id", http.MethodGet, http.StatusOK})
	for _, reason := range auth.Reasons {
		m.authFailures.WithLabelValues(reason) // so that the first increase is visible
	}
	for _, kind := range slices.Concat(fleet.Kinds(), []fleet.Kind{fleet.KindRollout, fleet.KindStrategy, fleet.KindFreeze, fleet.KindToken, fleet.KindAccess, fleet.KindWebhook, fleet.KindSource, fleet.KindPolicy, kindResource}) {
		m.commits.WithLabelValues(string(kind))
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "1, with the version of this process as labels.",
		ConstLabels: prometheus.Labels{"version": s.cfg.Version, "goversion": runtime.Version(), "mode": s.cfg.Mode, "store": s.cfg.StoreName},
	})
	info.Set(1)
	m.clusters.MustRegister(&pollCollector{s}, &documentCollector{server: s, named: true})
	m.anonymous.MustRegister(&documentCollector{server: s})
	m.registry.MustRegister(info, m.commits, m.work, m.requests, m.durations, m.unresolved, m.panics, m.stored, m.turnedAway, m.authFailures, &fleetCollector{server: s}, &stateCollector{server: s},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// kindResource stands for the definitions of all resource types, because users choose their number and names.
const kindResource fleet.Kind = "resource"

// isPartOfOther reports whether changes of a kind are part of other changes.
func isPartOfOther(kind fleet.Kind) bool {
	switch kind { //nolint:exhaustive // resource types add kinds
	case fleet.KindBudget, fleet.KindOrphan, fleet.KindPin, fleet.KindVersionAutomation, fleet.KindSourceState, fleet.KindSourceDocuments:
		return true
	}
	return false
}

// committed counts a commit.
func (m *metrics) committed(changes []fleet.Change) {
	kinds := map[fleet.Kind]bool{}
	for _, ch := range changes {
		kind := ch.Kind
		if isPartOfOther(kind) {
			continue
		}
		if _, typed := strings.CutPrefix(string(kind), string(kindResource)+"/"); typed {
			kind = kindResource
		}
		kinds[kind] = true
	}
	for kind := range kinds {
		m.commits.WithLabelValues(string(kind)).Inc()
	}
}

// fastPoll returns the series of the polls of a kind, or of receipts if it is empty. All resource types share one, by their
// route.
func (m *metrics) fastPoll(kind fleet.Kind) *series {
	if kind == "" {
		return m.receipts
	}
	if own := m.polls[kind]; own != nil {
		return own
	}
	return m.typedPolls
}

func (m *metrics) request(route, method string, status int, took time.Duration) {
	m.of(seriesKey{route, knownMethod(method), status}).observe(took)
}

// watch counts a watch, without its time, which is the time it waited.
func (m *metrics) watch(route, method string, status int) {
	m.requests.WithLabelValues(route, knownMethod(method), strconv.Itoa(status)).Inc()
}

// knownMethod returns the method of a request, or "other" for an unknown one, which a client may choose freely.
func knownMethod(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
		return method
	}
	return "other"
}

func (m *metrics) of(key seriesKey) *series {
	known, ok := m.series.Load(key)
	if !ok {
		known, _ = m.series.LoadOrStore(key, &series{
			count: m.requests.WithLabelValues(key.route, key.method, strconv.Itoa(key.status)),
			took:  m.durations.WithLabelValues(key.route, key.method),
		})
	}
	return known.(*series)
}

func (s *series) observe(took time.Duration) {
	s.count.Inc()
	s.took.Observe(took.Seconds())
}

// fleetCollector collects the metrics of the fleet on each scrape.
type fleetCollector struct {
	server *Server
	size   storeSize
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

var (
	descRevision = desc("fleet_revision", "Revision of the fleet that is served.")
	descContact  = desc("store_last_contact_timestamp_seconds", "When the store last answered.")
	descAge      = desc("fleet_state_age_seconds", "Seconds since the store last confirmed the served fleet; reads are refused above MAX_STALENESS.")
	descClusters = desc("clusters", "Clusters by state.", "state")
	descDocs     = desc("documents", "Documents by kind.", "kind")
	descRefused  = desc("store_content_refused", "1 while the store's content is not served because its history was replaced and no operator has accepted it.")
	descPassive  = desc("passive", "1 while this process takes no automatic actions: its store is a copy that no operator has accepted, or PASSIVE is true.")
	descFromDisk = desc("fleet_from_disk", "1 while the served fleet was read from disk and the store has not confirmed it since the start.")
	descReloads  = desc("store_reloads_total", "Times a replaced history was accepted.")
	descStale    = desc("store_stale_commits_total", "Commits that were retried because another process committed first.")
	descIntact   = desc("history_verified", "1 when the history agrees with its hash chain, up to history_verified_revision; 0 when it was altered.")
	descVerified = desc("history_verified_revision", "Newest revision up to which the history was verified.")
	descHash     = desc("history_verified_hash", "The first 52 bits of the hash of that revision in the hash chain, as a number: the same in every process and at any time.")
	descAltered  = desc("history_altered_total", "Times the history did not match its hash chain or an earlier verification.")
	descLooked   = desc("history_verified_timestamp_seconds", "When the history was last verified.")
	descSize     = desc("store_size_bytes", "Size of the database on disk, with its log and indexes.")
	descConns    = desc("store_connections", "Connections of this process to its database: in_use, idle, and the limit (max).", "state")
	descWaits    = desc("store_connection_waits_total", "Waits for a connection to the database.")
	descWaited   = desc("store_connection_wait_seconds_total", "Seconds of waiting for connections to the database.")
	descPolled   = desc("clusters_polled", "Clusters whose Flux polled within this time.", "within")
	descTokenAge = desc("token_created_timestamp_seconds", "When the oldest valid secret of a managed token was created.", "token", "role")
	descLimit    = desc("limit_usage_ratio", "Share of a limit of the whole fleet that is used.", "limit")
	descLastPoll = desc("cluster_last_poll_timestamp_seconds", "When a cluster's Flux last polled.", "cluster")
)

// Describe implements prometheus.Collector.
func (f *fleetCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descRevision, descContact, descAge, descClusters, descDocs, descRefused, descPassive, descFromDisk, descReloads, descStale, descSize, descPolled, descConns, descWaits, descWaited,
		descIntact, descVerified, descHash, descAltered, descLooked, descRolloutStage, descRolloutWaiting, descLimit, descWebhookDeliveries,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (f *fleetCollector) Collect(ch chan<- prometheus.Metric) {
	s := f.server
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	status := s.cfg.Replica.Status()
	ch <- prometheus.MustNewConstMetric(descReloads, prometheus.CounterValue, float64(status.Reloads))
	ch <- prometheus.MustNewConstMetric(descStale, prometheus.CounterValue, float64(status.Stale))
	gauge(descRefused, flag(status.QuarantineReason != ""))
	gauge(descPassive, flag(status.PassiveReason != ""))
	gauge(descFromDisk, flag(status.FromDisk))
	if !status.LastContact.IsZero() {
		gauge(descContact, float64(status.LastContact.UnixMilli())/1000)
	}
	if status.Loaded {
		gauge(descAge, status.Age.Seconds())
	}
	f.audit(ch, gauge)
	if size, known := f.size.read(s.cfg.StoreSize); known {
		gauge(descSize, float64(size))
	}
	if s.cfg.StorePool != nil {
		if pool, ok := s.cfg.StorePool(); ok {
			gauge(descConns, float64(pool.InUse), "in_use")
			gauge(descConns, float64(pool.Idle), "idle")
			gauge(descConns, float64(pool.Max), "max")
			ch <- prometheus.MustNewConstMetric(descWaits, prometheus.CounterValue, float64(pool.Waits))
			ch <- prometheus.MustNewConstMetric(descWaited, prometheus.CounterValue, pool.Waited.Seconds())
		}
	}
	st := s.cfg.Replica.State()
	if st == nil {
		return
	}
	gauge(descRevision, float64(st.Revision()))
	gauge(descClusters, float64(st.Clusters()), "live")
	gauge(descClusters, float64(st.Count(fleet.KindCluster)-st.Clusters()), "decommissioned")
	for _, kind := range fleet.Kinds() {
		if kind != fleet.KindCluster {
			gauge(descDocs, float64(st.Count(kind)), string(kind))
		}
	}
	resources := 0
	for _, t := range st.All(fleet.KindResourceType) {
		resources += st.Count(fleet.ResourceKind(t.ID))
	}
	gauge(descDocs, float64(resources), string(kindResource))
	gauge(descDocs, float64(st.Count(fleet.KindToken)), string(fleet.KindToken))
	for _, l := range st.Limits(s.cfg.Now()) {
		gauge(descLimit, float64(l.Used)/float64(l.Max), l.Name)
	}
	s.collectRollouts(st, gauge)
	s.countDeliveries(ch)
	var polled [len(pollAges)]int
	now := s.cfg.Now()
	s.eachSeen(st, func(_ string, at time.Time) {
		for i, age := range pollAges {
			if now.Sub(at) <= age.within {
				polled[i]++
			}
		}
	})
	for i, age := range pollAges {
		gauge(descPolled, float64(polled[i]), age.name)
	}
}

// audit reports the verification of the history's hash chain.
func (f *fleetCollector) audit(ch chan<- prometheus.Metric, gauge func(*prometheus.Desc, float64, ...string)) {
	if f.server.cfg.Audit == nil {
		return
	}
	a := f.server.cfg.Audit()
	if !a.Checked {
		return
	}
	gauge(descIntact, flag(a.OK))
	ch <- prometheus.MustNewConstMetric(descAltered, prometheus.CounterValue, float64(a.Altered))
	if a.At.IsZero() {
		return
	}
	gauge(descLooked, float64(a.At.UnixMilli())/1000)
	gauge(descVerified, float64(a.Head.Revision))
	if len(a.Hash) >= 8 {
		gauge(descHash, float64(binary.BigEndian.Uint64(a.Hash)>>12)) // a float64 holds 53 bits
	}
}

// pollAges are the ages for which clusters with a younger poll are counted.
var pollAges = [...]struct {
	name   string
	within time.Duration
}{{"1m", time.Minute}, {"5m", 5 * time.Minute}, {"15m", 15 * time.Minute}, {"1h", time.Hour}, {"6h", 6 * time.Hour}, {"24h", 24 * time.Hour}}

// pollCollector has labels that name clusters and tokens, so only principals that may list clusters get it.
type pollCollector struct{ server *Server }

// Describe implements prometheus.Collector.
func (p *pollCollector) Describe(ch chan<- *prometheus.Desc) { ch <- descLastPoll; ch <- descTokenAge }

// Collect implements prometheus.Collector.
func (p *pollCollector) Collect(ch chan<- prometheus.Metric) {
	st := p.server.cfg.Replica.State()
	if st == nil {
		return
	}
	p.server.eachSeen(st, func(cluster string, at time.Time) {
		ch <- prometheus.MustNewConstMetric(descLastPoll, prometheus.GaugeValue, float64(at.UnixMilli())/1000, cluster)
	})
	st.TokenAges(p.server.cfg.Now(), func(age fleet.TokenAge) {
		ch <- prometheus.MustNewConstMetric(descTokenAge, prometheus.GaugeValue, float64(age.CreatedAt.UnixMilli())/1000, age.Name, age.Role)
	})
}

// eachSeen visits the existing clusters that have polled any process.
func (s *Server) eachSeen(st *fleet.State, visit func(cluster string, at time.Time)) {
	s.tracker.EachSeen(func(id string, at time.Time) {
		if record, ok := st.Record(fleet.KindCluster, id); ok && at.UnixMilli() >= record.CreatedAt.UnixMilli() { // not of a deleted cluster of the same id
			visit(id, at)
		}
	})
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
