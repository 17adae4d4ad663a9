package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// RightQuery is the question whether a subject has a right.
type RightQuery struct {
	Right Right
	Kind  Kind   // empty: on any
	ID    string // of the document; empty: on any of the kind
	// Create: the document is new. It has some content within the limits, and this selector if there is one.
	Create   bool
	Selector string
	// announces: of versions, which changes no document, so the clusters that use the component need not be readable.
	announces bool
}

// Right checks a right. For one document, the checks of commits decide about a change of it that may affect every cluster that uses it.
func (c AccessCheck) Right(base CheckedState, q RightQuery) (Permission, error) {
	switch {
	case c.Rights == nil:
		return Permission{Allowed: true}, nil
	case q.ID == "" || q.Right == RightAdmin:
		return c.onKind(base.shown(), q), nil
	case q.Right == RightRead:
		if doc := base.whole.VisibleTo(*c.Rights).docs[q.Kind][q.ID]; doc == nil || doc.Deleted() {
			return c.refused(errNoSuchDocument(base.shown(), q))
		}
		return Permission{Allowed: true, Access: strings.Fields(c.Rights.ReadGrants())}, nil
	case q.Right == RightRevert && !c.Rights.Everywhere(RightRead):
		return c.refused(errorf(CodeOutOfScope, "a revert needs the right read without limits"))
	}
	return base.each(func(s *State) (Permission, error) { return c.tryRight(s, q) })
}

// MayAnnounce reports whether the subject may announce versions of a component.
func (c AccessCheck) MayAnnounce(base *State, component string) (bool, error) {
	for _, right := range []Right{RightPushVersion, RightWrite} {
		p, err := c.tryRight(base, RightQuery{Right: right, Kind: KindComponent, ID: component, announces: true})
		if err != nil || p.Allowed {
			return p.Allowed, err
		}
	}
	return false, nil
}

func errNoSuchDocument(s *State, q RightQuery) error {
	return errorf(CodeNotFound, "there is no %s %q", s.kinds.noun(q.Kind), q.ID)
}

// onKind checks whether a right applies to some documents of a kind.
func (c AccessCheck) onKind(base *State, q RightQuery) (p Permission) {
	for _, a := range c.Rights.grants {
		if a.mayOnKind(q.Right, q.Kind) {
			p.Access = append(p.Access, a.ID)
		}
	}
	switch p.Allowed = len(p.Access) > 0; {
	case p.Allowed:
	case q.Kind == "":
		p.Err = errorf(CodeOutOfScope, "no access document of the subject grants %s", q.Right)
	default:
		p.Err = errorf(CodeOutOfScope, "no access document of the subject grants %s on %s", q.Right, base.kinds.noun(q.Kind))
	}
	return p
}

// mayOnKind reports whether the document grants a right on some documents of a kind; empty: of any kind.
func (a *access) mayOnKind(right Right, kind Kind) bool {
	switch {
	case !a.may(right) || right == RightOverrideFreeze && !a.permitsChanges():
		return false
	case kind == "":
		return true
	case right == RightRead && kind != KindCluster: // with limits, it shows what determines the inputs of the clusters within them
		return true
	case right == RightApprove && kind != KindRollout:
		return false
	case a.On != nil && (!a.coversKind(kind) || kind == KindRollout && len(a.On.Kinds) == 1): // a rollout changes further kinds
		return false
	case right == RightPushVersion:
		return a.coversVersionsOf(kind) || kind == KindRollout && slices.ContainsFunc([]Kind{KindComponent, KindCluster, KindLayer}, a.coversVersionsOf)
	case kind == KindStrategy || kind == KindResourceType:
		return right == RightRead || !a.limitsClusters()
	}
	return true
}

// tryRight checks a right on one document in a State.
func (c AccessCheck) tryRight(base *State, q RightQuery) (p Permission, err error) {
	doc := base.docs[q.Kind][q.ID]
	if doc != nil && doc.Deleted() {
		doc = nil
	}
	candidates := []*Document{doc}
	switch {
	case q.Create:
		candidates, err = c.newDocuments(base, q)
	case doc == nil:
		err = errNoSuchDocument(base, q)
	case q.Right == RightApprove && q.Kind == KindRollout:
		candidates = []*Document{approved(doc)}
	}
	for i := 0; err == nil && i < len(candidates) && !p.Allowed; i++ {
		var refused Permission
		grants, failed := c.tryDocument(base, q, candidates[i])
		if failed != nil {
			if refused, err = c.refused(failed); i == 0 {
				p = refused
			}
			continue
		}
		p = Permission{Allowed: true}
		for _, g := range grants {
			p.Access = append(p.Access, g.ID)
		}
	}
	if err == nil && p.Allowed && q.Create && doc != nil {
		err = errorf(CodeConflict, "%s %q already exists", base.kinds.noun(q.Kind), q.ID)
	}
	if err != nil {
		return c.refused(err)
	}
	return p, nil
}

// approved returns a rollout after an approval of its first stage.
func approved(d *Document) *Document {
	r, doc := *d.rollout(), *d
	if len(r.Stages) > 0 {
		r.Stages = slices.Clone(r.Stages)
		r.Stages[0].Approved = &stageApproval{By: "check"}
	}
	doc.value = &r
	return &doc
}

// tryDocument makes the checks of Finish that concern rights, for a change of one document that permits only the right of the query. It
// returns the access documents that permit it.
func (c AccessCheck) tryDocument(base *State, q RightQuery, doc *Document) ([]grant, error) {
	tx := base.Begin()
	tx.UseContext(c.Context)
	tx.LimitTo(*c.Rights, q.Right == RightPlan)
	var grants []grant
	for _, g := range tx.scope.grants {
		if g.planned != (q.Right == RightPlan) || !g.may(q.Right) {
			continue
		}
		if q.Right != RightOverrideFreeze { // which needs another right of the same access document
			only := *g.access
			only.May, g.access = []Right{q.Right}, &only
		}
		grants = append(grants, g)
	}
	tx.scope.grants = grants
	if op := map[Right]string{RightRevert: "revert", RightApprove: RolloutApprove}[q.Right]; op != "" {
		tx.recordOperation(api.RevisionOperation{Op: op})
	}
	tx.edits[docKey{q.Kind, q.ID}] = doc
	edits := []edit{{q.Kind, q.ID, doc}}
	change := Change{Kind: q.Kind, ID: q.ID, After: doc.Body}
	if before := base.docs[q.Kind][q.ID]; before != nil {
		change.Before = before.Body
	}
	if err := tx.checkDocumentsInScope(edits); err != nil {
		return nil, err
	}
	if err := tx.checkLabelsInScope(edits, c.At); err != nil {
		return nil, err
	}
	commit := Commit{Revision: base.Revision() + 1, At: c.At, Changes: []Change{change}}
	next, err := base.with(commit, edits, false)
	if err != nil {
		return nil, err
	}
	res := Result{Commit: commit, State: next, base: base, layerChanges: next.servedChanges(base, edits), filters: c.Filters, work: tx.work}
	if err := tx.checkClustersInScope(&res); err != nil {
		return nil, err
	}
	if !q.announces {
		err = tx.checkReadable(edits, &res)
	}
	return tx.scope.grants, err
}

// maxNewDocuments limits the contents that are tried for a new document.
const maxNewDocuments = 20

// newDocuments returns documents with contents that the limits may permit.
func (c AccessCheck) newDocuments(base *State, q RightQuery) (docs []*Document, err error) {
	var bodies []map[string]any
	switch q.Kind {
	case KindCluster:
		bodies = c.newClusters(base)
	case KindLayer, KindFreeze:
		bodies = c.newSelections(q.Selector)
	default:
		bodies = []map[string]any{{}}
	}
	rules := base.kinds.byName[q.Kind]
	if rules == nil {
		return nil, errorf(CodeNotFound, "there is no kind %q", q.Kind)
	}
	known := map[string]bool{}
	for _, body := range bodies {
		body["id"] = q.ID
		if q.Kind == KindCluster {
			body["cluster_dns"] = q.ID + ".invalid"
		}
		rules.normalize(body)
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		if known[string(text)] || len(docs) == maxNewDocuments {
			continue
		}
		known[string(text)] = true
		doc, err := base.kinds.document(Record{Kind: q.Kind, ID: q.ID, Body: text, CreatedAt: c.At, UpdatedAt: c.At})
		if err != nil {
			return nil, fmt.Errorf("try a new document: %w", err)
		}
		docs = append(docs, doc)
	}
	return docs, nil
}

// newSelections returns the contents of layers or freezes: the limits of a right to read, and those of another right, or a selector.
func (c AccessCheck) newSelections(selector string) (bodies []map[string]any) {
	if selector != "" {
		return []map[string]any{{"selector": selector}}
	}
	limits := map[bool][]string{} // by whether the right is to read
	for _, a := range c.Rights.grants {
		of := ""
		if a.limitsClusters() {
			of = a.On.Selector
		}
		if a.may(RightRead) {
			limits[true] = append(limits[true], of)
		}
		if len(a.May) > 1 || !a.may(RightRead) {
			limits[false] = append(limits[false], of)
		}
	}
	for _, changes := range limits[false] {
		for _, reads := range limits[true] {
			body := map[string]any{"selector": strings.Trim(changes+","+reads, ",")}
			if body["selector"] == "" {
				body = map[string]any{"all": true}
			}
			bodies = append(bodies, body)
		}
	}
	return bodies
}

// newClusters returns the contents of clusters: the environment and the required labels of the clusters within limits, since a new one may
// have these.
func (c AccessCheck) newClusters(base *State) (bodies []map[string]any) {
	for _, a := range c.Rights.grants {
		required := map[string]bool{}
		if a.limitsClusters() {
			requirements, _ := a.selector.selector.Requirements()
			for _, r := range requirements {
				required[r.Key()] = true
			}
		}
		for _, d := range base.sorted(KindCluster, func(d *Document) bool {
			return !d.Deleted() && (!a.limitsClusters() || a.selector.Matches(d.Cluster()))
		}) {
			labels := maps.Clone(d.Cluster().Labels)
			maps.DeleteFunc(labels, func(key, _ string) bool { return !required[key] })
			bodies = append(bodies, map[string]any{"environment": d.Cluster().Environment, "labels": labels})
		}
	}
	return append(bodies, map[string]any{})
}
