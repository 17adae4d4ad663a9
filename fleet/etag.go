package fleet

import (
	"fmt"
	"strings"
)

// ETag identifies this version of the document: `"<revision>-<8 hex digits of the commit id>"`.
func (d *Document) ETag() string {
	return fmt.Sprintf("\"%d-%x\"", d.Revision, d.CommitID[:4])
}

// Match fails with CodeStale unless ifMatch, the value of an If-Match header, names the document's version. An empty ifMatch
// passes, and so does a missing document, which the edit itself reports.
func (tx *Tx) Match(kind Kind, id, ifMatch string) error {
	doc, ok := tx.base.Get(kind, id)
	if ifMatch == "" || !ok || MatchETag(ifMatch, doc.ETag()) {
		return nil
	}
	return &Error{Code: CodeStale, ETag: doc.ETag(), Detail: fmt.Sprintf("the %s %q has changed: its ETag is now %s", tx.kinds.noun(kind), id, doc.ETag())}
}

// MatchETag reports whether a list of ETags, as in If-Match and If-None-Match, contains the given one. Weak ETags match,
// since a proxy that compresses makes ours weak.
func MatchETag(header, etag string) bool {
	for candidate := range strings.SplitSeq(header, ",") {
		candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
		if candidate == "*" || candidate == etag {
			return true
		}
	}
	return false
}
