// Package backend holds the checks that all backends share and that no database can make: which commits and queries are
// well-formed, and the meaning of an unexpected schema or log.
package backend

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// CheckCommit refuses a commit that cannot follow base, regardless of the store's content.
func CheckCommit(base fleet.Head, c fleet.Commit) error {
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

// Probe is a commit that touches everything a commit may write. It is not meant to last.
func Probe(base fleet.Head) fleet.Commit {
	id := uuid.New()
	return fleet.Commit{
		Revision: base.Revision + 1, ID: id, At: time.Unix(0, 0).UTC(), Actor: "probe",
		Changes: []fleet.Change{{Kind: fleet.KindNamespace, ID: id.String(), After: []byte(`{}`)}},
	}
}

// Operations converts the column operations of the table commits.
func Operations(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

// CheckHistory refuses a query that History does not answer.
func CheckHistory(q store.HistoryQuery) error {
	if q.Limit < 1 || q.Limit > 1000 {
		return fmt.Errorf("history: the limit is %d, and must be from 1 to 1000", q.Limit)
	}
	if q.ID != "" && q.Kind == "" {
		return errors.New("history: an id needs a kind")
	}
	return nil
}

// CheckDocumentLog refuses a query that DocumentLog does not answer.
func CheckDocumentLog(q fleet.DocumentLogQuery) error {
	if q.Limit < 1 || q.Limit > 1000 {
		return fmt.Errorf("log of documents: the limit is %d, and must be from 1 to 1000", q.Limit)
	}
	return nil
}

// CheckLog returns ErrCorrupt unless the commits follow after one by one, up to the head or the limit.
func CheckLog(commits []fleet.Commit, after, head fleet.Head, limit int) error {
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

// PageBytes limits the bytes of documents that Since returns, unless the first commit alone has more: a commit may change a
// whole fleet, and a hundred of them in memory would exhaust it.
const PageBytes = 16 << 20

// FirstPage returns the first commits with documents of at most PageBytes in total; at least one.
func FirstPage(commits []fleet.Commit, sizes map[fleet.Revision]int64) []fleet.Commit {
	var total int64
	for i, c := range commits {
		if total += sizes[c.Revision]; total > PageBytes && i > 0 {
			return commits[:i]
		}
	}
	return commits
}

// SelectLatest are the documents of kind $1 that commits after revision $2 changed, as they are now.
const SelectLatest = `SELECT c.id, d.body FROM (SELECT DISTINCT id FROM changes WHERE kind = $1 AND revision > $2) AS c
	LEFT JOIN documents d ON d.kind = $1 AND d.id = c.id`

// Latest is a row of SelectLatest.
type Latest struct {
	ID   string
	Body []byte // nil: it is gone
}

// ByID are the bodies of rows of SelectLatest.
func ByID(rows []Latest) map[string]json.RawMessage {
	docs := make(map[string]json.RawMessage, len(rows))
	for _, r := range rows {
		docs[r.ID] = r.Body
	}
	return docs
}

// Queries for each of some documents, by the index of a document's changes; $1 and $2 are its kind and id.
const (
	// SelectRevisions are the newest revisions before $3, from $4 on and at most $5, that changed the document, with the size of
	// the change in bytes.
	SelectRevisions = `SELECT c.kind, c.id, c.revision, coalesce(c.bytes, coalesce(octet_length(c.before), 0) + coalesce(octet_length(c.after), 0))
		FROM changes c WHERE c.kind = $1 AND c.id = $2 AND c.revision < $3 AND c.revision >= $4 ORDER BY c.revision DESC LIMIT $5`
	// SelectRun are the changes of the document from revision $3 on and before $4, the newest first.
	SelectRun = `SELECT ` + RowColumns + ` FROM ` + RowTables + ` WHERE c.kind = $1 AND c.id = $2 AND c.revision >= $3 AND c.revision < $4
		ORDER BY c.revision DESC`
)

// SelectRevisionRange are the changes of all documents from revision $1 on and before $2, newest first, as in SelectRevisions.
const SelectRevisionRange = `SELECT c.kind, c.id, c.revision, coalesce(c.bytes, coalesce(octet_length(c.before), 0) + coalesce(octet_length(c.after), 0))
	FROM changes c WHERE c.revision >= $1 AND c.revision < $2 ORDER BY c.revision DESC`

// SelectIDs are the ids of the documents of kind $1 that the log has changes of. It goes from one id to the next by the index,
// however many changes there are.
const SelectIDs = `WITH RECURSIVE ids(id) AS (
		SELECT min(id) FROM changes WHERE kind = $1
		UNION ALL SELECT (SELECT min(c.id) FROM changes c WHERE c.kind = $1 AND c.id > ids.id) FROM ids WHERE ids.id IS NOT NULL)
	SELECT id FROM ids WHERE id IS NOT NULL`

// SelectChanges are the changes of revision $1 from $2 on, at most $3. The cast is for Postgres, which would take $2 for
// an integer like seq, and refuse a larger one.
const SelectChanges = `SELECT ` + RowColumns + ` FROM ` + RowTables + `
	WHERE c.revision = $1 AND c.seq >= CAST($2 AS bigint) ORDER BY c.seq LIMIT $3`

// ChangePage collects changes until they are as large as a page may be.
type ChangePage struct {
	Rows  []Row
	bytes int64
}

// Add adds a change to the page, and reports whether more may follow.
func (p *ChangePage) Add(r Row) bool {
	if p.bytes += r.Bytes; p.bytes > PageBytes && len(p.Rows) > 0 {
		return false
	}
	p.Rows = append(p.Rows, r)
	return true
}

// SelectPast selects the documents at revision $1 that changed after it, up to $2: the state before the first of these changes.
const SelectPast = `SELECT ` + RowColumns + ` FROM ` + RowTables + ` WHERE c.revision > $1 AND c.revision <= $2
	AND NOT EXISTS (SELECT 1 FROM changes e WHERE e.kind = c.kind AND e.id = c.id AND e.revision > $1 AND e.revision < c.revision)`

// SelectPastOf is SelectPast for one document, with kind $1 and id $2, and the revisions $3 and $4. It uses the document's
// index, so its cost does not depend on other changes.
const SelectPastOf = `SELECT ` + RowColumns + ` FROM ` + RowTables + ` WHERE c.kind = $1 AND c.id = $2 AND c.revision > $3 AND c.revision <= $4
	ORDER BY c.revision LIMIT 1`

// CheckSnapshot returns ErrCorrupt unless the records are as many as the head counts, and none is newer than it.
func CheckSnapshot(snap store.Snapshot, documents int64) error {
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

// Schema is the version of the schema that a database has; 0: none.
type Schema struct {
	Version int
	Dirty   bool // a migration was interrupted
}

// Fits returns nil if the schema is the one of this binary, else ErrNotInitialised, or ErrSchema with both versions. name is
// the database in messages.
func (s Schema) Fits(newest int, name string) error {
	switch {
	case s.Dirty:
		return fmt.Errorf("%w: a migration of %s was interrupted on its way to version %d, and this binary needs version %d: "+
			"run `flux-resourceset migrate up`", store.ErrSchema, name, s.Version, newest)
	case s.Version <= 0:
		return fmt.Errorf("%w: %s has no schema", store.ErrNotInitialised, name)
	case s.Version > newest:
		return fmt.Errorf("%w: %s has version %d, this binary knows only versions up to %d: use a newer binary",
			store.ErrSchema, name, s.Version, newest)
	case s.Version < newest:
		return fmt.Errorf("%w: %s has version %d, this binary needs version %d: run `flux-resourceset migrate up`",
			store.ErrSchema, name, s.Version, newest)
	}
	return nil
}

// CheckDown refuses a migration of the named database down to a version that is above the present one or is none. Version 0
// drops every document and the whole log, so it is refused, with ErrNotEmpty, once anything has been committed.
func CheckDown(name string, version, to int, revision int64) error {
	switch {
	case to < 0:
		return fmt.Errorf("there is no schema version %d", to)
	case version < to:
		return fmt.Errorf("%s has schema version %d, which is below %d: `migrate down` goes no higher, `migrate up` does", name, version, to)
	case to == 0 && revision > 0:
		return fmt.Errorf("%w: version 0 drops every document and the whole history of %s, which is at revision %d: "+
			"to start over, use a new database", store.ErrNotEmpty, name, revision)
	}
	return nil
}

// NewestVersion is the highest number among the migrations in a directory of embedded files. It panics when one has no
// number: only a broken build gets there.
func NewestVersion(files fs.ReadDirFS, dir string) int {
	entries, err := files.ReadDir(dir)
	if err != nil {
		panic(err)
	}
	newest := 0
	for _, f := range entries {
		number, _, _ := strings.Cut(f.Name(), "_")
		n, err := strconv.Atoi(number)
		if err != nil {
			panic(fmt.Errorf("migration %s: %w", f.Name(), err))
		}
		newest = max(newest, n)
	}
	return newest
}

// WholeLog yields the commits of a log, and an error if it lacks a commit between the first, or the oldest, and the imported
// head, or if one is malformed. Before the oldest any commits may be missing.
func WholeLog(log iter.Seq2[store.Entry, error], of store.Snapshot) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		var last fleet.Head
		for c, err := range log {
			if err == nil {
				base := last
				if c.Revision > last.Revision && c.Revision < of.Oldest {
					base.Revision = c.Revision - 1
				} else if c.Revision == of.Oldest {
					base.Revision = of.Oldest - 1
				}
				err = CheckCommit(base, c.Commit)
			}
			if !yield(c, err) || err != nil {
				return
			}
			last = c.Head()
		}
		if last != of.Head {
			yield(store.Entry{}, fmt.Errorf("the log ends with revision %d, and the documents are of revision %d", last.Revision, of.Head.Revision))
		}
	}
}

// Compacted is store.ErrCompacted for a log that starts at a revision.
func Compacted(oldest fleet.Revision) error {
	return fmt.Errorf("%w: it starts at revision %d", store.ErrCompacted, oldest)
}

// CompactAtOnce is about how many changes one transaction of Compact looks at.
const CompactAtOnce = 2000

// The changes that Compact removes between the revisions $1 and $2 (excluded) from a log that will start at $3. It keeps two
// changes of every document that exists at $3: its creation and its last change up to $3.
const (
	CompactChanges = `DELETE FROM changes AS c WHERE revision >= $1 AND revision < $2
		AND (action = 'delete' OR EXISTS (SELECT 1 FROM changes l WHERE l.kind = c.kind AND l.id = c.id AND l.revision > c.revision AND l.revision <= $3))
		AND NOT (action = 'create' AND NOT EXISTS (SELECT 1 FROM changes l WHERE l.kind = c.kind AND l.id = c.id
			AND l.revision > c.revision AND l.revision <= $3 AND l.action <> 'update'))`
	CompactCommits = `DELETE FROM commits WHERE revision >= $1 AND revision < $2
		AND NOT EXISTS (SELECT 1 FROM changes WHERE changes.revision = commits.revision)`
)
