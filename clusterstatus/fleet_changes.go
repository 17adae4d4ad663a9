package clusterstatus

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Types of a FleetChange.
const (
	ClustersFailing   = "clusters.failing"
	ClustersRecovered = "clusters.recovered"
)

const (
	failingSubject = "failing" // the subject of the one row with the announced failing clusters
	// fleetChangeInterval is the shortest time between two changes, so that flapping clusters cause one a minute at most.
	fleetChangeInterval = time.Minute
	// replacedFailureLifetime is how long a cluster counts as before after the input that it failed at was replaced or removed: the next
	// receipt or failure of the new input decides it, and none follows a removal.
	replacedFailureLifetime = 15 * time.Minute

	changeClusters = 10 // clusters named in a change
	changeCauses   = 10 // causes described in a change
)

// FleetChange is the change of the set of failing clusters since the change that was announced last.
type FleetChange struct {
	ID   string // the same in every process that finds this change from the same baseline
	Type string // ClustersFailing if any cluster began to fail, otherwise ClustersRecovered
	At   time.Time
	// Failing is how many clusters fail now.
	Failing int
	// Began and Recovered are how many clusters began to fail, and how many no longer do. The clusters are the first ten, by id.
	Began, Recovered                 int
	BeganClusters, RecoveredClusters []string
	// Causes are those of the clusters that began to fail, most clusters first; MoreCauses is how many are left out.
	Causes     []FailingCause
	MoreCauses int

	baseline           map[clusterDigest]struct{}
	failing, recovered []string
	began              []newFailure
}

// newFailure is the first failure of a cluster that began to fail.
type newFailure struct {
	cluster string
	cause   FailingCause // without numbers
}

// FailingCause is one reason for which clusters began to fail.
type FailingCause struct {
	List, Input string
	Cause       string
	Clusters    int
	Cluster     string // the first of them
	Example     Event  // its failure; the text is untrusted
}

// FleetChangeQuery is the input of [Tracker.FleetChange]. All fields are required.
type FleetChangeQuery struct {
	Clusters []*fleet.Document // all clusters of the fleet, sorted by id
	Now      time.Time
	// Cause returns what failures of different clusters at one input have in common, and is empty for no failure.
	Cause func(cluster *fleet.Document, input string, e *Event) string
}

// clusterDigest identifies a cluster in the stored row, which has to be short for thousands of clusters.
type clusterDigest [6]byte

func digestOf(id string) clusterDigest {
	sum := sha256.Sum256([]byte(id))
	return clusterDigest(sum[:6])
}

// fleetChanges holds the failing clusters that were announced. They are in one row of the Store: a restart, or another process, announces
// only what changed since, and a process whose Store lost the row writes it again.
type fleetChanges struct {
	mu          sync.Mutex
	announced   map[clusterDigest]struct{} // nil: not known
	at          time.Time                  // of the announcement
	stored      time.Time                  // time of the row in the Store; zero: it has none
	evaluatedAt time.Time
}

// lastTime returns when changes were announced or evaluated last.
func (f *fleetChanges) lastTime() time.Time {
	if f.evaluatedAt.After(f.at) {
		return f.evaluatedAt
	}
	return f.at
}

// FleetChange returns how the set of failing clusters changed since the change that was passed to [Tracker.Announce]; not ok if it did not,
// if the last announcement or evaluation was less than a minute ago, or while the Store was not read. A thousand failures are one change.
// Until it is announced, later calls return it again, with what happened since.
//
// It is evaluated from reports only: no answer of a cluster is computed. A cluster fails if it reported a failure at an input that it was
// served last, and sent no receipt of this input's id since. The first evaluation of a service announces nothing.
func (t *Tracker) FleetChange(q FleetChangeQuery) (change FleetChange, ok bool) {
	if !t.complete.Load() {
		return change, false
	}
	f := &t.fleetChanges
	f.mu.Lock()
	defer f.mu.Unlock()
	if passed := q.Now.Sub(f.lastTime()); passed >= 0 && passed < fleetChangeInterval {
		return change, false
	}
	f.evaluatedAt = q.Now
	change = FleetChange{At: q.Now, baseline: map[clusterDigest]struct{}{}}
	gone := len(f.announced)
	for _, doc := range q.Clusters {
		id := digestOf(doc.ID)
		_, was := f.announced[id]
		if was {
			gone--
		}
		failure, is := t.failure(doc, q.Now, was)
		switch {
		case is && !was:
			change.began = append(change.began, newFailureOf(doc, failure, q.Cause))
		case was && !is:
			change.recovered = append(change.recovered, doc.ID)
		}
		if is {
			change.baseline[id] = struct{}{}
			change.failing = append(change.failing, doc.ID)
		}
	}
	change, changed := change.Filter(func(string) bool { return true })
	if f.announced == nil || !changed {
		if f.announced == nil || gone > 0 { // deleted clusters are no news
			f.set(change.baseline, q.Now)
		}
		return FleetChange{}, false
	}
	change.ID = f.changeID(change.baseline)
	return change, true
}

// Filter returns the change of the clusters that a function selects, with the ID of the whole change. ok is false if none of them began
// to fail or recovered.
func (c FleetChange) Filter(selects func(cluster string) bool) (part FleetChange, ok bool) {
	part = c
	part.Failing, part.Began, part.Recovered, part.BeganClusters, part.RecoveredClusters = 0, 0, 0, nil, nil
	for _, id := range c.failing {
		if selects(id) {
			part.Failing++
		}
	}
	for _, id := range c.recovered {
		if selects(id) {
			part.Recovered++
			part.RecoveredClusters = appendFirst(part.RecoveredClusters, id)
		}
	}
	causes := map[FailingCause]*FailingCause{}
	for _, one := range c.began {
		if selects(one.cluster) {
			part.Began++
			part.BeganClusters = appendFirst(part.BeganClusters, one.cluster)
			addCause(causes, one)
		}
	}
	part.Type = ClustersRecovered
	if part.Began > 0 {
		part.Type = ClustersFailing
	}
	part.Causes = slices.SortedFunc(func(yield func(FailingCause) bool) {
		for _, one := range causes {
			if !yield(*one) {
				return
			}
		}
	}, func(a, b FailingCause) int {
		return cmp.Or(cmp.Compare(b.Clusters, a.Clusters), cmp.Compare(a.List, b.List), cmp.Compare(a.Input, b.Input), cmp.Compare(a.Cause, b.Cause))
	})
	if part.MoreCauses = max(0, len(part.Causes)-changeCauses); part.MoreCauses > 0 {
		part.Causes = part.Causes[:changeCauses]
	}
	return part, part.Began+part.Recovered > 0
}

// Announce records that a change was sent, or stored to be sent: the next one is relative to it.
func (t *Tracker) Announce(change FleetChange) {
	f := &t.fleetChanges
	f.mu.Lock()
	defer f.mu.Unlock()
	if change.baseline != nil && !change.At.Before(f.at) {
		f.set(change.baseline, change.At)
	}
}

func appendFirst(ids []string, id string) []string {
	if len(ids) < changeClusters {
		ids = append(ids, id)
	}
	return ids
}

func newFailureOf(doc *fleet.Document, failure inputFailure, causeOf func(*fleet.Document, string, *Event) string) newFailure {
	cause := FailingCause{List: failure.key.list.Value(), Input: failure.key.id.Value(), Cluster: doc.ID}
	if failure.event != nil {
		cause.Cause, cause.Example = causeOf(doc, cause.Input, failure.event), *failure.event
	}
	return newFailure{doc.ID, cause}
}

func addCause(causes map[FailingCause]*FailingCause, of newFailure) {
	key := FailingCause{List: of.cause.List, Input: of.cause.Input, Cause: of.cause.Cause}
	if causes[key] == nil {
		cause := of.cause
		causes[key] = &cause
	}
	causes[key].Clusters++
}

type inputFailure struct {
	key   inputKey
	event *Event
}

// failure returns the first failure of a cluster, and whether the cluster fails. was: it did at the last announcement.
func (t *Tracker) failure(doc *fleet.Document, now time.Time, was bool) (first inputFailure, fails bool) {
	if t.lookup(doc.ID) == nil && t.lookup(WithSharedToken(doc.ID)) == nil {
		return first, false
	}
	c, _ := t.lock(&Query{Cluster: doc.ID, CreatedAt: doc.CreatedAt, Now: now, OfflineAfter: OfflineAfter})
	defer c.mu.Unlock()
	for key, e := range c.events {
		current, replaced := c.failsAt(key, e, now)
		if !current && (!replaced || !was) {
			continue
		}
		if fails = true; first.event == nil || e.At.Before(first.event.At) || e.At.Equal(first.event.At) && e.Input < first.event.Input {
			first = inputFailure{key, e}
		}
	}
	return first, fails
}

// failsAt reports whether an event is a failure at an input that the cluster was served last, or at one that was replaced or removed a short
// time ago, and no receipt of the input's id followed.
func (c *cluster) failsAt(key inputKey, e *Event, now time.Time) (current, replaced bool) {
	input, ok := fleet.ParseReceipt(e.Input)
	if !e.isFailure() || !ok || key.list.Value() == "" || c.receipts[key].at >= e.At.UnixMilli() {
		return false, false
	}
	p := c.poll(key.list.Value())
	if p == nil || !p.served.known {
		return false, true
	}
	if slices.Contains(p.served.receipts, input) {
		return true, false
	}
	return false, now.Sub(time.UnixMilli(p.since)) < replacedFailureLifetime
}

func (f *fleetChanges) set(baseline map[clusterDigest]struct{}, at time.Time) {
	f.announced = baseline
	if at = at.Truncate(time.Microsecond); !at.After(f.at) {
		at = f.at.Add(time.Microsecond) // the Store keeps the row of the later time
	}
	f.at = at
}

func (f *fleetChanges) changeID(baseline map[clusterDigest]struct{}) string {
	sum := sha256.New()
	_, _ = sum.Write([]byte(f.at.UTC().Format(time.RFC3339Nano) + "/"))
	_, _ = sum.Write(packDigests(baseline))
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

func packDigests(set map[clusterDigest]struct{}) []byte {
	out := make([]byte, 0, len(set)*len(clusterDigest{}))
	for _, d := range slices.SortedFunc(maps.Keys(set), func(a, b clusterDigest) int { return slices.Compare(a[:], b[:]) }) {
		out = append(out, d[:]...)
	}
	return out
}

// failingBody is the JSON body of the row.
type failingBody struct {
	Clusters string `json:"clusters"` // the digests of their ids, in base64
}

// merge takes over an announcement that another process made, or this one before a restart. An unreadable row is ignored.
func (f *fleetChanges) merge(r Row, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stored = r.ObservedAt
	var body failingBody
	if f.announced != nil && !r.ObservedAt.After(f.at) || json.Unmarshal([]byte(r.Body), &body) != nil {
		return
	}
	raw, err := base64.RawStdEncoding.DecodeString(body.Clusters)
	const size = len(clusterDigest{})
	if err != nil || len(raw)%size != 0 {
		return
	}
	f.announced = make(map[clusterDigest]struct{}, len(raw)/size)
	for chunk := range slices.Chunk(raw, size) {
		f.announced[clusterDigest(chunk)] = struct{}{}
	}
	f.at = r.ObservedAt
	if f.at.After(now) { // by a clock that is ahead
		f.at = now
	}
}

// forgetStored is called before a read: the Store may have lost the row.
func (f *fleetChanges) forgetStored() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stored = time.Time{}
}

// encode returns the row to be stored; not ok when the Store has it already.
func (f *fleetChanges) encode() (Row, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.announced == nil || !f.at.After(f.stored) {
		return Row{}, false
	}
	body, err := json.Marshal(failingBody{base64.RawStdEncoding.EncodeToString(packDigests(f.announced))})
	return Row{Cluster: storeID, Subject: failingSubject, Body: string(body), ObservedAt: f.at}, err == nil
}

func (f *fleetChanges) markWritten(r Row) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stored = r.ObservedAt
}
