package server

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
)

const (
	defaultResults       = 10  // of a kind
	maxSearchedRevisions = 500 // the newest
	resultLabel          = "label"
	resultVersion        = "version"
	resultRevision       = "revision"
)

// rank orders the results of a search, the best first.
type rank int

const (
	rankEqual rank = iota
	rankPrefix
	rankContains
	rankText // another text than the name contains it
	rankNone // no result
)

// search is one search. text is in lower case.
type search struct {
	server *Server
	st     *fleet.State
	index  *searchIndex
	text   string
	found  []searchMatch

	interrupted func() error // by the client, which aborts a search at the next keystroke, or by the deadline
}

// searchMatch is a result. Clusters are evaluated when it is known that they are listed.
type searchMatch struct {
	rank    rank
	result  api.SearchResult
	cluster *fleet.Document
}

// Search finds documents and revisions. It reads every cluster, but evaluates only those that it lists, because the page searches at every keystroke.
func (s *Server) Search(c echo.Context, p api.SearchParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	if p.Limit == nil {
		p.Limit = new(defaultResults)
	}
	find := &search{server: s, st: st, text: strings.ToLower(strings.TrimSpace(p.Q)), interrupted: requestOf(c).job.Interrupted}
	if find.text == "" {
		return response.WriteJSON(c, http.StatusOK, api.SearchResults{Results: []api.SearchResult{}})
	}
	if find.index, err = s.searchIndex(requestOf(c)); err != nil {
		return err
	}
	find.documents(s.mayAdminister(requestOf(c)))
	clusters := st.All(fleet.KindCluster)
	find.clusters(clusters, strings.TrimSpace(p.Q))
	find.labels()
	if strings.ContainsAny(find.text, "0123456789") {
		find.versions()
	}
	if err := find.revisions(requestOf(c)); err != nil {
		return err
	}
	out := api.SearchResults{Results: []api.SearchResult{}}
	if out.Results, out.More, err = find.results(clusters, *p.Limit); err != nil {
		return err
	}
	requestOf(c).job.Leave()
	return response.WriteJSON(c, http.StatusOK, out)
}

// mayAdminister reports whether the sender may read documents of administrators, such as tokens.
func (s *Server) mayAdminister(r *request) bool {
	if subject := r.principal.Subject; subject != nil {
		return slices.Contains(r.state.Rights(subject, s.cfg.Now()).Names(), fleet.RightAdmin)
	}
	return r.principal.Role >= auth.Admin
}

// rankOf returns the rank of a name that is in lower case.
func (f *search) rankOf(name string) rank {
	switch at := strings.Index(name, f.text); {
	case at < 0:
		return rankNone
	case at > 0:
		return rankContains
	case len(name) > len(f.text):
		return rankPrefix
	}
	return rankEqual
}

// rankOfTexts returns the rank of other texts, in any case.
func (f *search) rankOfTexts(texts ...string) rank {
	for _, text := range texts {
		if len(text) >= len(f.text) && strings.Contains(strings.ToLower(text), f.text) {
			return rankText
		}
	}
	return rankNone
}

func (f *search) add(r rank, result api.SearchResult) {
	if r == rankNone {
		return
	}
	result.Exact = r == rankEqual
	f.found = append(f.found, searchMatch{rank: r, result: result})
}

// documents finds documents other than clusters by name, and components by version.
func (f *search) documents(admin bool) {
	kinds := append(fleet.Definitions(), fleet.KindLayer, fleet.KindResourceType)
	for _, doc := range f.st.All(fleet.KindResourceType) {
		kinds = append(kinds, fleet.ResourceKind(doc.ID))
	}
	kinds = append(kinds, fleet.KindRollout, fleet.KindFreeze, fleet.KindStrategy, fleet.KindPolicy)
	if admin {
		kinds = append(kinds, fleet.KindAccess, fleet.KindWebhook, fleet.KindSource)
	}
	for _, kind := range kinds {
		for _, doc := range f.st.All(kind) {
			result, r := api.SearchResult{Kind: string(kind), ID: doc.ID}, f.rankOf(strings.ToLower(doc.ID))
			switch kind { //nolint:exhaustive // the other kinds are found by name only
			case fleet.KindComponent:
				c := doc.Component()
				result.ComponentVersion, result.OCITag = c.ComponentVersion, c.OCITag
				r = min(r, f.rankOfTexts(c.ComponentVersion, c.OCITag))
			case fleet.KindLayer:
				r = min(r, f.rankOfTexts(doc.View().(*api.Layer).Description))
			case fleet.KindFreeze:
				r = min(r, f.rankOfTexts(doc.View().(*api.Freeze).Reason))
			}
			f.add(r, result)
		}
	}
	if !admin {
		return
	}
	for _, doc := range f.st.Tokens(func(name, _ string, _ *time.Time) bool { return f.rankOf(strings.ToLower(name)) != rankNone }) {
		name := doc.View().(*api.Token).Name
		f.add(f.rankOf(strings.ToLower(name)), api.SearchResult{Kind: string(fleet.KindToken), ID: doc.ID, Name: name})
	}
}

// clusters finds clusters by id, DNS name and declared image. Tags of images have cases.
func (f *search) clusters(docs []*fleet.Document, image string) {
	isImage := strings.ContainsAny(image, "/:@")
	for _, doc := range docs {
		r := min(f.rankOf(doc.ID), f.rankOf(fleet.NormalDNS(doc.Cluster().ClusterDNS)))
		if r == rankNone && isImage && f.st.DeclaresImage(doc, image) {
			r = rankText
		}
		if r != rankNone {
			f.found = append(f.found, searchMatch{r, api.SearchResult{Kind: string(fleet.KindCluster), ID: doc.ID, Exact: r == rankEqual}, doc})
		}
	}
}

// labels finds labels of clusters by key=value.
func (f *search) labels() {
	for _, l := range f.index.labels {
		term := l.key + "=" + l.value
		f.add(min(f.rankOf(strings.ToLower(l.value)), f.rankOf(strings.ToLower(term))), api.SearchResult{Kind: resultLabel, ID: term, Clusters: l.clusters})
	}
}

// versions finds versions of components that clusters and layers set.
func (f *search) versions() {
	for _, v := range f.index.versions {
		if r := min(f.rankOf(strings.ToLower(v.version)), f.rankOf(strings.ToLower(v.tag))); r != rankNone {
			f.add(max(r, rankPrefix), api.SearchResult{Kind: resultVersion, ID: v.component, ComponentVersion: v.version, OCITag: v.tag}) // its name is that of the component
		}
	}
}

// revisions finds revisions by number, and the newest by their texts.
func (f *search) revisions(r *request) error {
	newest := f.index.revisions
	for i := range newest {
		one := &newest[i]
		number := strconv.FormatInt(one.Revision, 10)
		matched := f.rankOfTexts(one.Summary, one.Reason, cmp.Or(one.Author, one.Actor), one.RequestID)
		if number == f.text {
			matched = rankEqual
		}
		f.add(matched, api.SearchResult{Kind: resultRevision, ID: number, Revision: one})
	}
	number, err := strconv.ParseInt(f.text, 10, 64)
	if err != nil || number < 1 || len(newest) == 0 || number >= newest[len(newest)-1].Revision {
		return nil //nolint:nilerr // the text is no number of an older revision
	}
	older, err := f.server.visibleRevisions(r.job.Context(), f.st, store.HistoryQuery{Before: fleet.Revision(number) + 1, Limit: 1})
	if err != nil {
		return err
	}
	for i := range older {
		if older[i].Revision == number {
			f.add(rankEqual, api.SearchResult{Kind: resultRevision, ID: f.text, Revision: &older[i]})
		}
	}
	return nil
}

// visibleRevisions returns revisions as a State permits to read them: fewer than requested if that takes too much work.
func (s *Server) visibleRevisions(ctx context.Context, st *fleet.State, q store.HistoryQuery) ([]api.RevisionSummary, error) {
	summaries, err := s.cfg.History.Summaries(ctx, q, 1+summaryChanges)
	if err != nil {
		return nil, err
	}
	out := make([]api.RevisionSummary, len(summaries))
	examined := 0
	for i, sum := range summaries {
		if !st.Limited() {
			out[i] = revisionSummary(sum)
			continue
		}
		visible, v, err := s.visibleSummary(ctx, st, sum)
		if err != nil {
			return nil, err
		}
		out[i] = visible
		if examined += v.examined; examined > maxExaminedInPage {
			return out[:i+1], nil
		}
	}
	return out, nil
}

// searchIndex has what searches find in all clusters of a State, and its newest revisions. It must not be changed.
type searchIndex struct {
	revisions []api.RevisionSummary
	labels    []labelClusters
	versions  []setVersion
}

// labelClusters is a label with the number of clusters that have it.
type labelClusters struct {
	key, value string
	clusters   int
}

// setVersion is a version of a component that a cluster or a layer sets.
type setVersion struct{ component, version, tag string }

// indexClusters sets the labels and the versions, sorted.
func (x *searchIndex) indexClusters(st *fleet.State) {
	type label struct{ key, value string }
	labels, versions := map[label]int{}, map[setVersion]bool{}
	for _, doc := range st.All(fleet.KindCluster) {
		c := doc.Cluster()
		for key, value := range c.Labels {
			labels[label{key, value}]++
		}
		for i := range c.PlatformComponents {
			e := &c.PlatformComponents[i]
			versions[setVersion{e.ID, e.ComponentVersion, e.OCITag}] = true
		}
	}
	for _, doc := range st.All(fleet.KindLayer) {
		layer := doc.View().(*api.Layer)
		for _, e := range layer.PlatformComponents {
			versions[setVersion{e.ID, e.ComponentVersion, e.OCITag}] = true
		}
		for id, e := range layer.Overrides {
			versions[setVersion{id, e.ComponentVersion, e.OCITag}] = true
		}
	}
	for l, clusters := range labels {
		x.labels = append(x.labels, labelClusters{l.key, l.value, clusters})
	}
	slices.SortFunc(x.labels, func(a, b labelClusters) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.value, b.value)) })
	x.versions = slices.SortedFunc(maps.Keys(versions), func(a, b setVersion) int {
		return cmp.Or(cmp.Compare(a.component, b.component), cmp.Compare(a.version, b.version), cmp.Compare(a.tag, b.tag))
	})
}

// searchCache keeps the indexes of the newest revision as principals may read it, so that only the first keystroke after a commit reads all
// clusters and the store. The keys are those of [fleet.State.ReadGrants].
type searchCache struct {
	mu    sync.Mutex
	head  fleet.Head
	known map[string]*searchIndex
}

// searchIndex returns the index for the sender of a request. The store is read without the lock, so that a slow read delays no other search.
func (s *Server) searchIndex(r *request) (*searchIndex, error) {
	key, head, k := r.state.ReadGrants(), r.state.Head(), &s.searchCache
	if known := k.of(head, key); known != nil {
		return known, nil
	}
	var made searchIndex
	var err error
	if made.revisions, err = s.visibleRevisions(r.job.Context(), r.state, store.HistoryQuery{Before: r.state.Revision() + 1, Limit: maxSearchedRevisions}); err != nil {
		return nil, err
	}
	made.indexClusters(r.state)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil || k.head != head || len(k.known) >= maxVisibleStates {
		k.head, k.known = head, map[string]*searchIndex{}
	}
	k.known[key] = &made
	return &made, nil
}

// of returns the index that is known for a head; nil: none is.
func (k *searchCache) of(head fleet.Head, key string) *searchIndex {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.head != head {
		return nil
	}
	return k.known[key]
}

// results returns the best results of each kind, at most limit, and whether there are more. Clusters that fail with the text are after
// those with the text in their name; they are evaluated one by one, until there are enough.
func (f *search) results(clusters []*fleet.Document, limit int) (out []api.SearchResult, more bool, err error) {
	slices.SortStableFunc(f.found, func(a, b searchMatch) int { return cmp.Compare(a.rank, b.rank) })
	counts, listed := map[string]int{}, map[string]bool{}
	kept := f.found[:0]
	for _, one := range f.found {
		kind := one.result.Kind
		if counts[kind]++; counts[kind] > limit {
			more = true
			continue
		}
		if one.cluster != nil {
			listed[one.result.ID] = true
			status, err := f.server.statusOf(f.st, one.cluster, inputName{}, false, nil)
			if err != nil {
				return nil, false, err
			}
			one.result.Cluster = new(summaryOf(one.cluster, status))
		}
		kept = append(kept, one)
	}
	failing, moreFailing, err := f.failing(clusters, listed, max(0, limit-counts[string(fleet.KindCluster)]))
	if err != nil {
		return nil, false, err
	}
	kept = append(failing, kept...) // before others that only mention the text
	slices.SortStableFunc(kept, func(a, b searchMatch) int { return cmp.Compare(a.rank, b.rank) })
	out = make([]api.SearchResult, len(kept))
	for i := range kept {
		out[i] = kept[i].result
	}
	return out, more || moreFailing, nil
}

// failing finds clusters that fail with the text, up to a limit.
func (f *search) failing(clusters []*fleet.Document, listed map[string]bool, limit int) (found []searchMatch, more bool, err error) {
	matches := func(e *clusterstatus.Event) bool { return f.rankOfTexts(e.Message, e.Reason, e.Object) != rankNone }
	for _, doc := range clusters {
		if err := f.interrupted(); err != nil {
			return nil, false, err
		}
		yieldToPolls()
		if listed[doc.ID] || !f.server.tracker.HasFailure(doc.ID, matches) {
			continue
		}
		if len(found) == limit {
			return found, true, nil
		}
		status, err := f.server.statusOf(f.st, doc, inputName{}, false, nil)
		if err != nil {
			return nil, false, err
		}
		for i := range status.Failures {
			in := &status.Failures[i]
			if !matches(in.Failure) {
				continue
			}
			status.Failure, status.FailedList, status.FailedID = in.Failure, in.List, in.ID
			found = append(found, searchMatch{rankText, api.SearchResult{Kind: string(fleet.KindCluster), ID: doc.ID, Cluster: new(summaryOf(doc, status))}, doc})
			break
		}
	}
	return found, false, nil
}
