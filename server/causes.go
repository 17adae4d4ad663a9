package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/fleet/history"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

const (
	// maxShownCauses is the number of listed causes; further ones are one group.
	maxShownCauses = 100
	// maxCauses bounds the memory for causes: clusters may send any text. Failures with further ones count as other causes.
	maxCauses = 20_000
	// maxCauseClusters is the number of clusters of a cause that are named.
	maxCauseClusters = 10
	// otherCauses is the id of the group of all causes beyond maxShownCauses.
	otherCauses = "other"
	// maxCausingTime is the longest time from a revision to a failure that may be its consequence: polls are minutes apart, and Helm
	// waits for minutes.
	maxCausingTime = time.Hour
)

// evaluatedCluster is a cluster and its status.
type evaluatedCluster struct {
	doc    *fleet.Document
	status clusterstatus.Status
}

// causeKey identifies a group of clusters. The last four are empty for clusters that did not fail.
type causeKey struct {
	state        clusterstatus.State
	list, input  string
	version, tag string // of a component
	cause        string
	isOther      bool // the group of other causes
}

// id returns the id of a cause, which is the same in all processes.
func (k causeKey) id() string {
	if k.isOther {
		return otherCauses
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{k.list, k.input, k.version, k.tag, k.cause}, "\x00")))
	return hex.EncodeToString(sum[:6])
}

// causeGroup has the clusters that fail for one reason, or that are in one state.
type causeGroup struct {
	causeKey
	members []causeMember // in the order of the clusters; a cluster is in it once
	causes  int           // of the group of other causes
	since   time.Time
	latest  time.Time
}

type causeMember struct {
	cluster *evaluatedCluster
	input   *clusterstatus.InputStatus // that failed; nil: none
}

func (g *causeGroup) add(m causeMember) {
	first, last := m.times()
	if g.since.IsZero() || !first.IsZero() && first.Before(g.since) {
		g.since = first
	}
	if last.After(g.latest) {
		g.latest = last
	}
	if n := len(g.members); n > 0 && g.members[n-1].cluster == m.cluster {
		return // it has another input in the group of other causes
	}
	g.members = append(g.members, m)
}

// times returns when a cluster failed first and last, or when it was seen last.
func (m causeMember) times() (first, last time.Time) {
	if m.input == nil {
		return m.cluster.status.LastSeen, m.cluster.status.LastSeen
	}
	return m.input.Failure.First(), m.input.Failure.At
}

// groupCauses groups clusters by the causes of their failures, and by their states other than failed. wanted are the states to
// include; empty: all. The groups are sorted by the urgency of their state, then by size. See [mergeRareCauses].
func groupCauses(st *fleet.State, clusters []evaluatedCluster, wanted []clusterstatus.State) []*causeGroup {
	groups, texts := map[causeKey]*causeGroup{}, causeTexts{}
	add := func(key causeKey, m causeMember) {
		g := groups[key]
		if g == nil {
			if len(groups) >= maxCauses && key.state == clusterstatus.Failed {
				key = causeKey{state: clusterstatus.Failed, isOther: true}
			}
			if g = groups[key]; g == nil {
				g = &causeGroup{causeKey: key}
				groups[key] = g
			}
		}
		g.add(m)
	}
	for i := range clusters {
		one := &clusters[i]
		for _, state := range one.status.States() {
			if len(wanted) > 0 && !slices.Contains(wanted, state) {
				continue
			}
			if state != clusterstatus.Failed {
				add(causeKey{state: state}, causeMember{cluster: one})
				continue
			}
			for f := range one.status.Failures {
				in := &one.status.Failures[f]
				add(failureKey(st, one.doc, in, texts), causeMember{one, in})
			}
		}
	}
	return slices.SortedFunc(maps.Values(groups), compareCauses)
}

func compareCauses(a, b *causeGroup) int {
	otherLast := func(g *causeGroup) int {
		if g.isOther {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(urgencyIndex(a.state), urgencyIndex(b.state)), cmp.Compare(otherLast(a), otherLast(b)), cmp.Compare(len(b.members), len(a.members)),
		cmp.Compare(a.list, b.list), cmp.Compare(a.input, b.input), cmp.Compare(a.version, b.version), cmp.Compare(a.tag, b.tag), cmp.Compare(a.cause, b.cause),
	)
}

func failureKey(st *fleet.State, cluster *fleet.Document, in *clusterstatus.InputStatus, texts causeTexts) causeKey {
	key := causeKey{state: clusterstatus.Failed, list: in.List, input: in.ID, cause: texts.of(cluster, in)}
	if in.List == fleet.KindComponent.Endpoint() {
		runs, _ := st.Running(cluster, in.ID)
		key.version, key.tag = runs.ComponentVersion, runs.OCITag
	}
	return key
}

// causeTexts are the causes of messages that do not name their cluster, which most clusters have in common.
type causeTexts map[messageKey]string

type messageKey struct{ message, object, input string }

func (t causeTexts) of(cluster *fleet.Document, in *clusterstatus.InputStatus) string {
	key := messageKey{in.Failure.Message, in.Failure.Object, in.ID}
	if strings.Contains(key.message, cluster.ID) || strings.Contains(key.message, cluster.Cluster().ClusterDNS) {
		return FailureCause(cluster, in.ID, in.Failure)
	}
	cause, known := t[key]
	if !known {
		if cause = FailureCause(cluster, in.ID, in.Failure); len(t) < maxCauses {
			t[key] = cause
		}
	}
	return cause
}

// FailureCause returns the cause of a failure, which is the same for all clusters that fail for this reason.
func FailureCause(cluster *fleet.Document, input string, e *clusterstatus.Event) string {
	names := summarize.FailureNames{Cluster: cluster.ID, ClusterDNS: cluster.Cluster().ClusterDNS, Object: e.Object, Input: input}
	return cmp.Or(summarize.Cause(e.Message, names), e.Reason)
}

// mergeRareCauses makes one group of the causes beyond maxShownCauses. The groups are sorted by state, and failures are first.
func mergeRareCauses(groups []*causeGroup) []*causeGroup {
	failures := slices.IndexFunc(groups, func(g *causeGroup) bool { return g.state != clusterstatus.Failed })
	if failures < 0 {
		failures = len(groups)
	}
	if failures <= maxShownCauses+1 {
		return groups
	}
	other := &causeGroup{causeKey: causeKey{state: clusterstatus.Failed, isOther: true}, causes: failures - maxShownCauses}
	var members []causeMember
	for _, g := range groups[maxShownCauses:failures] {
		members = append(members, g.members...)
	}
	slices.SortStableFunc(members, func(a, b causeMember) int { return cmp.Compare(a.cluster.doc.ID, b.cluster.doc.ID) })
	for _, m := range members {
		other.add(m)
	}
	return slices.Concat(groups[:maxShownCauses], []*causeGroup{other}, groups[failures:])
}

// clustersOfCause returns the clusters of the group of a cause, each with the failure that has this cause.
func clustersOfCause(groups []*causeGroup, id string) []evaluatedCluster {
	out := []evaluatedCluster{}
	for _, g := range groups {
		if g.state != clusterstatus.Failed || g.id() != id {
			continue
		}
		for _, m := range g.members {
			one := *m.cluster
			one.status.Failure, one.status.FailedList, one.status.FailedID = m.input.Failure, m.input.List, m.input.ID
			out = append(out, one)
		}
	}
	return out
}

// causeView returns a group as it is listed.
func (s *Server) causeView(ctx context.Context, st *fleet.State, g *causeGroup) (api.FailureCause, error) {
	out := api.FailureCause{
		State: string(g.state), Cause: g.cause, List: g.list, Input: g.input, ComponentVersion: g.version, OCITag: g.tag, OtherCauses: g.causes,
		Clusters: len(g.members), Environments: map[string]int{}, ClusterIds: []string{}, Since: timePointer(g.since), Latest: timePointer(g.latest),
	}
	oldest := g.members[0]
	for i, m := range g.members {
		out.Environments[m.cluster.doc.Cluster().Environment]++
		if i < maxCauseClusters {
			out.ClusterIds = append(out.ClusterIds, m.cluster.doc.ID)
		}
		if first, _ := m.times(); m.input != nil && first.Before(oldest.input.Failure.First()) {
			oldest = m
		}
	}
	if g.state != clusterstatus.Failed {
		return out, nil
	}
	out.ID = g.id()
	example := failureOf(oldest.input.Failure)
	example.List, example.ID = oldest.input.List, oldest.input.ID
	out.Example, out.ExampleCluster = &example, oldest.cluster.doc.ID
	if out.ID != otherCauses {
		cause, err := s.causingRevision(ctx, st, oldest)
		if err != nil {
			return api.FailureCause{}, err
		}
		out.Revision, out.RevisionAt = cause.revision, timePointer(cause.at)
	}
	return out, nil
}

// revisionAt is a revision and its time; the zero value is none.
type revisionAt struct {
	revision int64
	at       time.Time
}

// failedInput identifies a failure of an input.
type failedInput struct {
	cluster, list, input string
	began                time.Time
}

// causingRevisions are the revisions before failures that were found in the log, where they do not change: open views request the
// causes every few seconds.
type causingRevisions struct {
	mu    sync.Mutex
	known map[failedInput]revisionAt
}

const (
	maxCausingRevisions = 1000 // kept; then all are found again
	maxCausingPages     = 5    // of the history of a cluster, for one failure
)

// causingRevision returns the last revision before a failure that changed the input of the cluster, within maxCausingTime.
func (s *Server) causingRevision(ctx context.Context, st *fleet.State, m causeMember) (revisionAt, error) {
	key := failedInput{m.cluster.doc.ID, m.input.List, m.input.ID, m.input.Failure.First()}
	// A limited caller does not see all documents that the history depends on. Most failures are older than the last changes.
	if st.Limited() || !slices.ContainsFunc(st.InputSources(m.cluster.doc, key.list, key.input), func(d *fleet.Document) bool {
		return key.began.Sub(d.UpdatedAt) <= maxCausingTime
	}) {
		return revisionAt{}, nil
	}
	found := &s.causingRevisions
	found.mu.Lock()
	at, known := found.known[key]
	found.mu.Unlock()
	if known {
		return at, nil
	}
	at, err := s.findCausingRevision(ctx, st, key)
	if err != nil {
		return revisionAt{}, err
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	if found.known == nil || len(found.known) >= maxCausingRevisions {
		found.known = map[failedInput]revisionAt{}
	}
	found.known[key] = at
	return at, nil
}

// findCausingRevision reads the history of what the cluster was served, from the newest revision on.
func (s *Server) findCausingRevision(ctx context.Context, st *fleet.State, key failedInput) (revisionAt, error) {
	of, before := fleet.DocumentName{Kind: fleet.KindCluster, ID: key.cluster}, st.Revision()+1
	for range maxCausingPages {
		page, err := history.Served(ctx, st, of, before, defaultRevisions, &logReader{ctx: ctx, log: s.cfg.History})
		if err != nil {
			return revisionAt{}, err
		}
		page.Revisions = slices.DeleteFunc(page.Revisions, func(r history.ServedRevision) bool { return !hasEffectOn(r.Effect[key.list], key.input) })
		summaries, err := s.summarized(ctx, page.Revisions)
		if err != nil {
			return revisionAt{}, err
		}
		for _, r := range summaries { // the newest first
			if age := key.began.Sub(r.At); age > maxCausingTime {
				return revisionAt{}, nil
			} else if age >= 0 {
				return revisionAt{r.Revision, r.At}, nil
			}
		}
		if before = page.Next; before == 0 {
			break
		}
	}
	return revisionAt{}, nil
}

// hasEffectOn reports whether an effect adds or changes an input.
func hasEffectOn(effect api.EndpointEffect, id string) bool {
	return slices.ContainsFunc(effect.Changed, func(ch api.InputChange) bool { return ch.ID == id }) ||
		slices.ContainsFunc(effect.Added, func(input json.RawMessage) bool {
			var added struct{ ID string }
			return json.Unmarshal(input, &added) == nil && added.ID == id
		})
}
