package fleettest

import (
	"slices"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Log is the history of a [World].
type Log struct {
	Commits []fleet.Commit
	Oldest  fleet.Revision // of the commits that DocumentLog reads; zero: the first
}

var (
	_ fleet.History         = (*Log)(nil)
	_ fleet.DocumentHistory = (*Log)(nil)
)

// Past implements [fleet.History].
func (l *Log) Past(q fleet.PastQuery) (fleet.Documents, error) {
	docs := fleet.Documents{}
	for _, c := range slices.Backward(l.Commits) {
		if c.Revision <= q.At || c.Revision > q.UpTo {
			continue
		}
		for _, ch := range c.Changes {
			if len(q.Documents) == 0 || names(q.Documents, ch) {
				docs.Set(ch.Kind, ch.ID, ch.Before)
			}
		}
	}
	return docs, nil
}

// Changes implements [fleet.History].
func (l *Log) Changes(rev fleet.Revision) ([]fleet.Change, error) {
	for _, c := range l.Commits {
		if c.Revision == rev {
			return c.Changes, nil
		}
	}
	return nil, nil
}

// Commit implements [fleet.History].
func (l *Log) Commit(rev fleet.Revision) (fleet.Commit, error) {
	for _, c := range l.Commits {
		if c.Revision == rev {
			return c, nil
		}
	}
	return fleet.Commit{}, nil
}

// DocumentLog implements [fleet.DocumentHistory].
func (l *Log) DocumentLog(q fleet.DocumentLogQuery) (fleet.DocumentLog, error) {
	out, revisions := fleet.DocumentLog{Oldest: max(l.Oldest, 1)}, 0
	for _, c := range slices.Backward(l.Commits) {
		if c.Revision >= q.Before || c.Revision < l.Oldest {
			continue
		}
		had := len(out.Changes)
		for _, ch := range c.Changes {
			if names(q.Documents, ch) {
				out.Changes = append(out.Changes, fleet.DocumentChange{Revision: c.Revision, Change: ch})
			}
		}
		if len(out.Changes) > had {
			revisions++
		}
		if revisions == q.Limit {
			break
		}
	}
	return out, nil
}

func names(documents []fleet.DocumentName, ch fleet.Change) bool {
	return slices.Contains(documents, fleet.DocumentName{Kind: ch.Kind, ID: ch.ID}) || slices.Contains(documents, fleet.DocumentName{Kind: ch.Kind})
}
