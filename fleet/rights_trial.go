package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// RightsTrial is a change of one document that is made to find out whether a right permits it. It is not committed.
type RightsTrial struct {
	Right   Right
	At      time.Time
	Filters ClusterFilters
	// Unread: the clusters that the change affects need not be readable.
	Unread bool
}

// OnKind returns the ids of the access documents that grant a right on some documents of a kind; an empty kind means any.
func (r Rights) OnKind(right Right, kind Kind) (ids []string) {
	for _, a := range r.grants {
		if a.mayOnKind(right, kind) {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// mayOnKind reports whether the document grants a right on some documents of a kind; empty: of any kind.
func (a *access) mayOnKind(right Right, kind Kind) bool {
	switch {
	case !a.may(right) || slices.Contains(overrideRights, right) && !a.permitsChanges():
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

// With returns the rights of the access documents that permit changes, each with a further right.
func (r Rights) With(right Right) Rights {
	out := Rights{subject: r.subject}
	for _, a := range r.grants {
		if extended := *a; a.permitsChanges() {
			extended.May = append(slices.Clone(a.May), right)
			out.grants = append(out.grants, &extended)
		}
	}
	return out
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

// Try makes the checks of [Tx.Finish] that concern rights, for a change after which the document is the given one, and which needs only
// the right of the trial. An approval changes the document itself. It returns the ids of the access documents that permit the change.
func (r Rights) Try(ctx context.Context, base *State, doc *Document, q RightsTrial) ([]string, error) {
	if q.Right == RightApprove && doc.Kind == KindRollout {
		doc = approved(doc)
	}
	tx := base.Begin()
	tx.UseContext(ctx)
	tx.LimitTo(r, q.Right == RightPlan)
	var grants []grant
	for _, g := range tx.scope.grants {
		if g.planned != (q.Right == RightPlan) || !g.may(q.Right) {
			continue
		}
		if !slices.Contains(overrideRights, q.Right) { // which needs another right of the same access document
			only := *g.access
			only.May, g.access = []Right{q.Right}, &only
		}
		grants = append(grants, g)
	}
	tx.scope.grants = grants
	if op := map[Right]string{RightRevert: "revert", RightApprove: RolloutApprove}[q.Right]; op != "" {
		tx.recordOperation(api.RevisionOperation{Op: op})
	}
	tx.edits[docKey{doc.Kind, doc.ID}] = doc
	edits := []edit{{doc.Kind, doc.ID, doc}}
	change := Change{Kind: doc.Kind, ID: doc.ID, After: doc.Body}
	if before := base.docs[doc.Kind][doc.ID]; before != nil {
		change.Before = before.Body
	}
	if err := tx.checkDocumentsInScope(edits); err != nil {
		return nil, err
	}
	if err := tx.checkLabelsInScope(edits, q.At); err != nil {
		return nil, err
	}
	commit := Commit{Revision: base.Revision() + 1, At: q.At, Changes: []Change{change}}
	next, err := base.with(commit, edits, false)
	if err != nil {
		return nil, err
	}
	res := Result{Commit: commit, State: next, base: base, layerChanges: next.servedChanges(base, edits), filters: q.Filters, work: tx.work}
	if err := tx.checkClustersInScope(&res); err != nil {
		return nil, err
	}
	if !q.Unread {
		err = tx.checkReadable(edits, &res)
	}
	return tx.permittedBy(), err
}

// PermittedBy returns the ids of the access documents that permit the whole change, after [Tx.Finish]; none if the Tx has no limits.
func (tx *Tx) PermittedBy() []string {
	if tx.scope == nil {
		return nil
	}
	return tx.permittedBy()
}

func (tx *Tx) permittedBy() (ids []string) {
	for _, g := range tx.scope.grants {
		ids = append(ids, g.ID)
	}
	return ids
}

// maxNewDocuments limits the contents that are tried for a new document.
const maxNewDocuments = 20

// NewDocuments returns documents of a kind with contents that the limits of the rights may permit. selector is that of a new layer or
// freeze; empty: any.
func (r Rights) NewDocuments(base *State, kind Kind, id, selector string, at time.Time) (docs []*Document, err error) {
	var bodies []map[string]any
	switch kind {
	case KindCluster:
		bodies = r.newClusters(base)
	case KindLayer, KindFreeze:
		bodies = r.newSelections(selector)
	default:
		bodies = []map[string]any{{}}
	}
	rules := base.kinds.byName[kind]
	if rules == nil {
		return nil, errorf(CodeNotFound, "there is no kind %q", kind)
	}
	known := map[string]bool{}
	for _, body := range bodies {
		body["id"] = id
		if kind == KindCluster {
			body["cluster_dns"] = id + ".invalid"
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
		doc, err := base.kinds.document(Record{Kind: kind, ID: id, Body: text, CreatedAt: at, UpdatedAt: at})
		if err != nil {
			return nil, fmt.Errorf("try a new document: %w", err)
		}
		docs = append(docs, doc)
	}
	return docs, nil
}

// newSelections returns the contents of layers or freezes: the limits of a right to read, and those of another right, or a selector.
func (r Rights) newSelections(selector string) (bodies []map[string]any) {
	if selector != "" {
		return []map[string]any{{"selector": selector}}
	}
	limits := map[bool][]string{} // by whether the right is to read
	for _, a := range r.grants {
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
func (r Rights) newClusters(base *State) (bodies []map[string]any) {
	for _, a := range r.grants {
		required := map[string]bool{}
		if a.limitsClusters() {
			requirements, _ := a.selector.selector.Requirements()
			for _, one := range requirements {
				required[one.Key()] = true
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
