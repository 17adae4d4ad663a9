package history

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/explain"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// blamePage is the number of revisions that are read from the log at once.
const blamePage = 250

// Blame adds to an explanation the revision that set each value: the last one that changed the value in its document, not
// the last one that changed the document. If that is older than the log, SetBefore is the oldest available revision.
// Defaults, which no revision set, have neither. Values of a pinned cluster have the revision of its pin. Blame reads the
// changes of the documents back to the oldest of these revisions, and ends with ctx.
func Blame(ctx context.Context, st *fleet.State, ex *api.Explanation, log fleet.DocumentHistory) error {
	sources := map[fleet.DocumentName][]*api.ValueSource{}
	for i := range ex.Inputs {
		for j := range ex.Inputs[i].Values {
			v := &ex.Inputs[i].Values[j]
			for _, source := range Sources(v) {
				if ex.Pinned {
					pin, _ := st.Record(fleet.KindPin, ex.Cluster)
					source.Revision = int64(pin.Revision)
				} else if source.Rollout != "" {
					if d, ok := st.Get(fleet.KindRollout, source.Rollout); ok { // otherwise it is not visible
						source.Revision = int64(d.Revision)
					}
				} else if source.Pointer != "" { // otherwise it is a default
					name := fleet.DocumentName{Kind: fleet.Kind(source.Kind), ID: source.ID}
					sources[name] = append(sources[name], source)
				}
			}
		}
	}
	found := make(map[fleet.DocumentName]*explain.Blame, len(sources))
	for name, of := range sources {
		var values []string
		for _, source := range of {
			values = append(values, settingPointers(source)...)
		}
		doc, err := st.Find(name.Kind, name.ID)
		if err != nil {
			return err
		}
		blame, err := explain.NewBlame(doc.Body, values)
		if err != nil {
			return doc.Unreadable(err)
		}
		found[name] = blame
	}
	oldest, err := findRevisions(ctx, st, found, log)
	if err != nil {
		return err
	}
	for name, of := range sources {
		for _, source := range of {
			for _, pointer := range settingPointers(source) {
				source.Revision = max(source.Revision, found[name].Revision(pointer))
			}
			if source.Revision == 0 {
				source.SetBefore = int64(oldest)
			}
		}
	}
	return nil
}

// findRevisions reads the log back until all revisions are known, or to its end. It returns the oldest revision of the log.
func findRevisions(ctx context.Context, st *fleet.State, found map[fleet.DocumentName]*explain.Blame, from fleet.DocumentHistory) (oldest fleet.Revision, err error) {
	before := st.Revision() + 1
	for {
		q := fleet.DocumentLogQuery{Before: before, Limit: blamePage}
		for name, blame := range found {
			if !blame.Done() {
				q.Documents = append(q.Documents, name)
			}
		}
		if len(q.Documents) == 0 {
			return oldest, nil
		}
		slices.SortFunc(q.Documents, func(a, b fleet.DocumentName) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID)) })
		log, err := from.DocumentLog(q)
		if err != nil || len(log.Changes) == 0 {
			return log.Oldest, err
		}
		for _, ch := range log.Changes {
			runtime.Gosched() // polls go first
			if err := context.Cause(ctx); err != nil {
				return 0, err
			}
			blame, was := found[fleet.DocumentName{Kind: ch.Kind, ID: ch.ID}], ch.Before
			if blame.Done() {
				continue
			}
			if !ch.Existed() { // a decommissioned cluster of the same id is another one
				was = nil
			}
			if err := blame.Step(int64(ch.Revision), was); err != nil {
				return 0, fmt.Errorf("%s %q before revision %d: %w", ch.Kind, ch.ID, ch.Revision, err)
			}
		}
		before, oldest = log.Changes[len(log.Changes)-1].Revision, log.Oldest
	}
}

// settingPointers returns the places in a document whose last change set the value of a source. An entry that is enabled by
// default is set by the revision that added the entry, or that removed enabled.
func settingPointers(source *api.ValueSource) []string {
	if source.Value.IsSpecified() {
		return []string{source.Pointer}
	}
	return []string{source.Pointer + "/id", source.Pointer + "/enabled"}
}

// Sources returns the sources of an explained value, and those of its references.
func Sources(v *api.ExplainedValue) []*api.ValueSource {
	out := []*api.ValueSource{&v.SetBy}
	for i := range v.InsteadOf {
		out = append(out, &v.InsteadOf[i])
	}
	for i := range v.References {
		out = append(out, &v.References[i].SetBy)
	}
	return out
}
