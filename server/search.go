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
	find.documents(s.mayAdminister(requestOf(c)))
	clusters := st.All(fleet.KindCluster)
	find.clusters(clusters, strings.TrimSpace(p.Q))
	if strings.ContainsAny(find.text, "0123456789") {
		find.versions(clusters)
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

// clusters finds clusters by id, DNS name and declared image, and labels by key=value. Tags of images have cases.
func (f *search) clusters(docs []*fleet.Document, image string) {
	type label struct{ key, value string }
	labels := map[label]int{}
	for _, doc := range docs {
		c := doc.Cluster()
		r := min(f.rankOf(doc.ID), f.rankOf(fleet.NormalDNS(c.ClusterDNS)))
		if r == rankNone && strings.ContainsAny(image, "/:@") && f.st.DeclaresImage(doc, image) {
			r = rankText
		}
		if r != rankNone {
			f.found = append(f.found, searchMatch{r, api.SearchResult{Kind: string(fleet.KindCluster), ID: doc.ID, Exact: r == rankEqual}, doc})
		}
		for key, value := range c.Labels {
			labels[label{key, value}]++
		}
	}
	for _, l := range slices.SortedFunc(maps.Keys(labels), func(a, b label) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.value, b.value))
	}) {
		term := l.key + "=" + l.value
		f.add(min(f.rankOf(strings.ToLower(l.value)), f.rankOf(strings.ToLower(term))), api.SearchResult{Kind: resultLabel, ID: term, Clusters: labels[l]})
	}
}

// versions finds versions of components that clusters and layers set.
func (f *search) versions(clusters []*fleet.Document) {
	type version struct{ component, version, tag string }
	found := map[version]rank{}
	addVersion := func(v version) {
		if r := min(f.rankOf(strings.ToLower(v.version)), f.rankOf(strings.ToLower(v.tag))); r != rankNone && v.version+v.tag != "" {
			found[v] = max(r, rankPrefix) // its name is that of the component
		}
	}
	for _, doc := range clusters {
		entries := doc.Cluster().PlatformComponents
		for i := range entries {
			addVersion(version{entries[i].ID, entries[i].ComponentVersion, entries[i].OCITag})
		}
	}
	for _, doc := range f.st.All(fleet.KindLayer) {
		layer := doc.View().(*api.Layer)
		for _, e := range layer.PlatformComponents {
			addVersion(version{e.ID, e.ComponentVersion, e.OCITag})
		}
		for id, e := range layer.Overrides {
			addVersion(version{id, e.ComponentVersion, e.OCITag})
		}
	}
	for _, v := range slices.SortedFunc(maps.Keys(found), func(a, b version) int {
		return cmp.Or(cmp.Compare(a.component, b.component), cmp.Compare(a.version, b.version), cmp.Compare(a.tag, b.tag))
	}) {
		f.add(found[v], api.SearchResult{Kind: resultVersion, ID: v.component, ComponentVersion: v.version, OCITag: v.tag})
	}
}

// revisions finds revisions by number, and the newest by their texts.
func (f *search) revisions(r *request) error {
	newest, err := f.server.newestRevisions(r)
	if err != nil {
		return err
	}
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

// searchCache keeps the newest revisions as principals may read them, so that only the first keystroke after a commit reads them
// from the store. The keys are rights to read: see [fleet.Rights.ReadGrants].
type searchCache struct {
	mu    sync.Mutex
	head  fleet.Head
	known map[string][]api.RevisionSummary
}

// newestRevisions returns the newest revisions. They must not be changed. The store is read without the lock, so that a slow read delays
// no other search.
func (s *Server) newestRevisions(r *request) ([]api.RevisionSummary, error) {
	key, head, k := "", r.state.Head(), &s.searchCache
	if subject := r.principal.Subject; subject != nil {
		key = r.state.Rights(subject, s.cfg.Now()).ReadGrants()
	}
	if known, ok := k.of(head, key); ok {
		return known, nil
	}
	revisions, err := s.visibleRevisions(r.job.Context(), r.state, store.HistoryQuery{Before: r.state.Revision() + 1, Limit: maxSearchedRevisions})
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil || k.head != head || len(k.known) >= maxVisibleStates {
		k.head, k.known = head, map[string][]api.RevisionSummary{}
	}
	k.known[key] = revisions
	return revisions, nil
}

// of returns the revisions that are known for a head.
func (k *searchCache) of(head fleet.Head, key string) (known []api.RevisionSummary, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.head != head {
		return nil, false
	}
	known, ok = k.known[key]
	return known, ok
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
