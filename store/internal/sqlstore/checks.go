package sqlstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// checkCommit refuses a commit that cannot follow base, regardless of the store's content.
func checkCommit(base fleet.Head, c fleet.Commit) error {
	if c.Revision != base.Revision+1 {
		return fmt.Errorf("commit: revision %d cannot follow %d", c.Revision, base.Revision)
	}
	type document struct {
		kind fleet.Kind
		id   string
	}
	seen := make(map[document]struct{}, len(c.Changes))
	for _, ch := range c.Changes {
		if ch.Before == nil && ch.After == nil {
			return fmt.Errorf("commit: the change of %s %q has neither before nor after", ch.Kind, ch.ID)
		}
		seen[document{ch.Kind, ch.ID}] = struct{}{}
	}
	if len(seen) != len(c.Changes) {
		return fmt.Errorf("commit: revision %d changes a document more than once", c.Revision)
	}
	return nil
}

// probe is a commit that touches everything a commit may write. It is not meant to last.
func probe(base fleet.Head) fleet.Commit {
	id := uuid.New()
	return fleet.Commit{
		Revision: base.Revision + 1, ID: id, At: time.Unix(0, 0).UTC(), Actor: "probe",
		Changes: []fleet.Change{{Kind: fleet.KindNamespace, ID: id.String(), After: []byte(`{}`)}},
	}
}

// checkHistory refuses a query that History does not answer.
func checkHistory(q store.HistoryQuery) error {
	if q.Limit < 1 || q.Limit > 1000 {
		return fmt.Errorf("history: the limit is %d, and must be from 1 to 1000", q.Limit)
	}
	if q.ID != "" && q.Kind == "" {
		return errors.New("history: an id needs a kind")
	}
	return nil
}

// checkDocumentLog refuses a query that DocumentLog does not answer.
func checkDocumentLog(q fleet.DocumentLogQuery) error {
	if q.Limit < 1 || q.Limit > 1000 {
		return fmt.Errorf("log of documents: the limit is %d, and must be from 1 to 1000", q.Limit)
	}
	return nil
}

// checkLog returns ErrCorrupt unless the commits follow after one by one, up to the head or the limit.
func checkLog(commits []fleet.Commit, after, head fleet.Head, limit int) error {
	last := after
	for _, c := range commits {
		if c.Revision != last.Revision+1 {
			return fmt.Errorf("%w: revision %d follows %d in the log", store.ErrCorrupt, c.Revision, last.Revision)
		}
		last = c.Head()
	}
	if len(commits) < limit && last != head {
		return fmt.Errorf("%w: the head is revision %d, the log ends with %d", store.ErrCorrupt, head.Revision, last.Revision)
	}
	return nil
}

// checkSnapshot returns ErrCorrupt unless the records are as many as the head counts, and none is newer than it.
func checkSnapshot(snap store.Snapshot, documents int64) error {
	if int64(len(snap.Records)) != documents {
		return fmt.Errorf("%w: it holds %d documents and counts %d", store.ErrCorrupt, len(snap.Records), documents)
	}
	for _, r := range snap.Records {
		if r.Revision > snap.Head.Revision {
			return fmt.Errorf("%w: %s %q is of revision %d and the head of %d",
				store.ErrCorrupt, r.Kind, r.ID, r.Revision, snap.Head.Revision)
		}
	}
	return nil
}
