package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Labels determine which documents apply to a cluster. An identity with limits may write only the label keys that its access document
// names. With them, it can neither make a document apply to a cluster that it could not read before, nor remove a cluster from a document
// outside its limits. A refusal because of an invisible document depends only on the keys: it is the same for each value of them, so
// attempts with other values do not reveal the document's selector.

// clusterSelection is one selector of clusters in a stored document.
type clusterSelection struct {
	doc      *Document
	selector *Selector // nil: it selects ids only
	matches  func(*api.Cluster) bool
}

// clusterSelections has a function for each stored kind with selectors of clusters. It returns the selectors that are in effect at a time,
// without those that select all clusters, which do not depend on labels.
var clusterSelections = map[Kind]func(d *Document, at time.Time) []clusterSelection{
	KindLayer: func(d *Document, _ time.Time) []clusterSelection {
		if l := d.layer(); !l.All && l.Selector != "" && l.selectorErr == nil {
			return []clusterSelection{{d, &l.selector, l.matches}}
		}
		return nil
	},
	KindFreeze: func(d *Document, at time.Time) []clusterSelection {
		if f := d.freeze(); !f.All && f.Selector != "" && f.phase(at) != freezeEnded {
			return []clusterSelection{{d, &f.selector, f.matches}}
		}
		return nil
	},
	KindWebhook: func(d *Document, _ time.Time) []clusterSelection { // a change of labels could withhold events from its receiver
		if w := d.Webhook(); w.Selector != "" {
			return []clusterSelection{{d, &w.selector, w.SelectsCluster}}
		}
		return nil
	},
	KindPolicy: func(d *Document, _ time.Time) []clusterSelection { // a change of labels could take a cluster out of its rule
		if p := d.Policy(); p.Match != nil && !p.Suspended {
			return []clusterSelection{{d, &p.selector, p.Matches}}
		}
		return nil
	},
	KindRollout: func(d *Document, _ time.Time) (out []clusterSelection) {
		if !d.rollout().open() {
			return nil
		}
		for _, ch := range d.rollout().Changes { // it may change the selector of a layer, whose document still has the one before
			var l layer
			if ch.Kind != KindLayer || json.Unmarshal(ch.After, &l) != nil || l.All {
				continue
			}
			if selector, err := ParseSelector(l.Selector); err == nil && l.Selector != "" {
				out = append(out, clusterSelection{d, &selector, selector.Matches})
			}
		}
		for i := range d.rollout().Stages {
			s := &d.rollout().Stages[i]
			switch {
			case s.All:
			case s.Selector != "":
				out = append(out, clusterSelection{d, &s.selector, s.matches})
			default:
				out = append(out, clusterSelection{d, nil, s.matches})
			}
		}
		return out
	},
	KindAccess: func(d *Document, at time.Time) []clusterSelection {
		if a := d.access(); a.On != nil && a.On.Selector != "" && !a.expired(at) {
			return []clusterSelection{{d, &a.selector, a.selector.Matches}}
		}
		return nil
	},
}

// labelEdit is a cluster whose labels a commit changes.
type labelEdit struct {
	before *api.Cluster // nil: it is new
	after  *api.Cluster
	keys   []string // sorted; also environment
}

// labelEdits returns the clusters whose labels or environment a commit changes, and new ones. A deleted cluster leaves every document.
func (tx *Tx) labelEdits(edits []edit) (out []labelEdit) {
	for _, e := range edits {
		if e.kind != KindCluster || e.doc == nil || e.doc.Deleted() {
			continue
		}
		l := labelEdit{after: e.doc.Cluster()}
		keys := map[string]bool{"environment": true}
		if was := tx.base.docs[KindCluster][e.id]; was != nil && !was.Deleted() {
			l.before = was.Cluster()
			keys["environment"] = l.before.Environment != l.after.Environment
			for key := range l.before.Labels {
				keys[key] = true
			}
		}
		for key := range l.after.Labels {
			keys[key] = true
		}
		for _, key := range sortedKeys(keys) {
			if l.before == nil && keys[key] || l.before != nil && labelDiffers(l.before, l.after, key) {
				l.keys = append(l.keys, key)
			}
		}
		if l.before == nil || len(l.keys) > 0 {
			out = append(out, l)
		}
	}
	return out
}

// labelDiffers reports whether a label of two versions of a cluster differs.
func labelDiffers(a, b *api.Cluster, key string) bool {
	was, had := Label(a, key)
	is, has := Label(b, key)
	return had != has || was != is
}

// checkLabelsInScope enforces the rules at the top of this file.
func (tx *Tx) checkLabelsInScope(edits []edit, at time.Time) error {
	if tx.scope == nil || tx.scope.rights.Everywhere(RightRead) && !slices.ContainsFunc(tx.scope.grants, func(g grant) bool { return g.On != nil }) {
		return nil
	}
	changed := tx.labelEdits(edits)
	if len(changed) == 0 {
		return nil
	}
	limits := tx.newLabelLimits(at)
	reasons := make([]string, len(changed))
	return tx.scope.narrow(len(changed), func(g grant, i int) bool {
		reason := limits.refusal(g, changed[i])
		if reason != "" && reasons[i] == "" {
			reasons[i] = reason
		}
		return reason == ""
	}, func(i int) Problem {
		return Problem{Kind: KindCluster, ID: changed[i].after.ID, Pointer: "/labels", Detail: reasons[i]}
	})
}

// labelLimits are the documents that changes of labels may concern.
type labelLimits struct {
	tx         *Tx
	visible    *State
	selections []clusterSelection
}

func (tx *Tx) newLabelLimits(at time.Time) labelLimits {
	l := labelLimits{tx: tx, visible: tx.visibleBase()}
	for kind, selections := range clusterSelections {
		for _, d := range tx.base.docs[kind] {
			l.selections = append(l.selections, selections(d, at)...)
		}
	}
	return l
}

// refusal returns the reason why a grant does not permit a change of labels; empty: it does.
func (l labelLimits) refusal(g grant, e labelEdit) string {
	if g.On == nil && l.tx.ReadsEverything() {
		return ""
	}
	if e.before == nil && l.anyOwn(g, func(c *api.Cluster) bool { return c.Environment == e.after.Environment }) {
		e.keys = slices.DeleteFunc(slices.Clone(e.keys), func(key string) bool { return key == "environment" }) // its own clusters show which documents that selects
	}
	for _, key := range e.keys {
		if !g.namesLabel(key) && (e.before != nil || !g.limitsClusters() || !g.selector.requires(key)) { // the selector must match a new cluster
			return fmt.Sprintf("on.labels of the access documents that permit the rest of the change does not contain the label key %q", key)
		}
	}
	left := ""
	for _, s := range l.selections {
		was, is := e.before != nil && s.matches(e.before), s.matches(e.after)
		switch {
		case (was != is || s.couldMatch(g, e)) && !l.isKnown(g, s, e.before == nil):
			return "documents that you may not read select clusters by a label key that the change writes"
		case was && !is && (s.doc.Kind == KindAccess || g.On != nil && !(scopeCheck{tx: l.tx}).covers(g, s.doc)):
			if name := fmt.Sprintf("%s %q", l.tx.kinds.noun(s.doc.Kind), s.doc.ID); left == "" || name < left {
				left = name
			}
		}
	}
	if left != "" {
		return fmt.Sprintf("the change would remove the cluster from the %s, which is outside your limits", left)
	}
	return ""
}

// isKnown reports whether a document may begin to apply to a cluster, because it was visible before the change. An access document counts
// as visible if it grants rights to the same identity. A new cluster may also be selected by documents that select another cluster
// within the limits.
func (l labelLimits) isKnown(g grant, s clusterSelection, isNew bool) bool {
	if s.doc.Kind == KindAccess {
		if slices.Contains(l.tx.scope.rights.grants, s.doc.access()) {
			return true
		}
	} else if l.visible.docs[s.doc.Kind][s.doc.ID] != nil && !l.visible.ReachesOthers(s.doc) {
		return true
	}
	return isNew && l.anyOwn(g, s.matches)
}

// anyOwn reports whether a condition holds for one of the visible clusters within the limits of a grant.
func (l labelLimits) anyOwn(g grant, condition func(*api.Cluster) bool) bool {
	for _, d := range l.visible.docs[KindCluster] {
		if c := d.Cluster(); !d.Deleted() && condition(c) && (!g.limitsClusters() || g.selector.Matches(c)) {
			return true
		}
	}
	return false
}

// namesLabel reports whether the access document permits writes of a label key.
func (a *access) namesLabel(key string) bool {
	return a.On == nil || len(a.On.Labels) > 0 && matchesAny(a.On.Labels, key)
}

// couldMatch reports whether the selection depends on a key that the change writes, and selects the cluster for some values of the keys
// that the grant permits to write.
func (s clusterSelection) couldMatch(g grant, e labelEdit) bool {
	if s.selector == nil {
		return false
	}
	requirements, _ := s.selector.selector.Requirements()
	writes := func(r labels.Requirement) bool { return g.namesLabel(r.Key()) && slices.Contains(e.keys, r.Key()) }
	return slices.ContainsFunc(requirements, writes) && !slices.ContainsFunc(requirements, func(r labels.Requirement) bool {
		return (r.Key() == "id" || !g.namesLabel(r.Key())) && !r.Matches(clusterLabels{e.after})
	})
}

// requires reports whether the selector has a requirement on a label key.
func (s Selector) requires(key string) bool {
	requirements, _ := s.selector.Requirements()
	return slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return r.Key() == key })
}
