package fleet

import "encoding/json"

// Documents are bodies of documents by kind and id; nil: the document does not exist.
type Documents map[Kind]map[string]json.RawMessage

// PastQuery selects documents as of a revision: all that changed after it up to another revision, or some of them.
type PastQuery struct {
	At, UpTo  Revision
	Kind      Kind // with ID: only this document
	ID        string
	Documents []DocumentName // if not empty: only these
}

// History reads former versions of documents. That is I/O, so the caller provides it.
type History interface {
	// Past returns the documents that a PastQuery selects.
	Past(q PastQuery) (Documents, error)
	// Changes returns all changes of one revision.
	Changes(rev Revision) ([]Change, error)
	// Commit returns the commit of one revision without its changes; the zero Commit if the log does not have it.
	Commit(rev Revision) (Commit, error)
}

// DocumentName names a document of the log. Without an ID it stands for every document of the kind, deleted ones included.
type DocumentName struct {
	Kind Kind
	ID   string
}

// DocumentLogQuery selects the changes of some documents, newest first.
type DocumentLogQuery struct {
	Documents []DocumentName
	Before    Revision // changes of smaller revisions: where the previous page ended
	Limit     int      // at most this many revisions; 1 to 1000
}

// DocumentLog is a page of the changes of some documents.
type DocumentLog struct {
	// Changes are ordered by descending revision. The page has every change of the queried documents in each of its
	// revisions. It is empty only if the log has no earlier changes of them.
	Changes []DocumentChange
	// Oldest is the oldest revision of which the log still has all changes.
	Oldest Revision
}

// DocumentChange is the change of one document in one revision.
type DocumentChange struct {
	Revision Revision
	Change
}

// DocumentHistory reads the log by document. That is I/O, so the caller provides it. Errors are those of the store.
type DocumentHistory interface {
	DocumentLog(q DocumentLogQuery) (DocumentLog, error)
	Past(q PastQuery) (Documents, error)
}

// Set sets the body of a document.
func (d Documents) Set(kind Kind, id string, body json.RawMessage) {
	if d[kind] == nil {
		d[kind] = map[string]json.RawMessage{}
	}
	d[kind][id] = body
}
