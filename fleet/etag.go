package fleet

import (
	"fmt"
	"strconv"
	"strings"
)

// ETag identifies this version of the document: `"<revision>-<8 hex digits of the commit id>"`.
func (d *Document) ETag() string {
	return fmt.Sprintf("\"%d-%x\"", d.Revision, d.CommitID[:4])
}

// Match fails with CodeStale unless ifMatch, the value of an If-Match header, names the document's version, or a revision of the
// fleet since which the document has not changed. An empty ifMatch passes, and so does a missing document, which the edit itself
// reports.
func (tx *Tx) Match(kind Kind, id, ifMatch string) error {
	doc, ok := tx.base.Get(kind, id)
	if ifMatch == "" || !ok || MatchETag(ifMatch, doc.ETag()) {
		return nil
	}
	at, err := strconv.ParseInt(opaqueTag(ifMatch), 10, 64)
	if read := Revision(at); err == nil && read >= doc.Revision && read <= tx.base.Revision() {
		return nil
	}
	return &Error{Code: CodeStale, ETag: doc.ETag(), Detail: fmt.Sprintf("the %s %q has changed: its ETag is now %s", tx.kinds.noun(kind), id, doc.ETag())}
}

// MatchETag reports whether a list of ETags, as in If-Match and If-None-Match, contains the given one. Weak ETags match, since a
// proxy that compresses makes ours weak, and so do those with the name of a compression, which Apache appends, and those without
// quotes, which a shell removes.
func MatchETag(header, etag string) bool {
	for candidate := range strings.SplitSeq(header, ",") {
		if tag := strings.TrimSpace(candidate); tag == "*" || tag == etag || opaqueTag(tag) == strings.Trim(etag, `"`) {
			return true
		}
	}
	return false
}

// opaqueTag returns an ETag without the weakness, the quotes and the name of a compression.
func opaqueTag(tag string) string {
	tag = strings.Trim(strings.TrimPrefix(strings.TrimSpace(tag), "W/"), `"`)
	for _, compression := range []string{"gzip", "br", "zstd", "deflate"} {
		if plain, ok := strings.CutSuffix(tag, compression); ok {
			return strings.TrimRight(plain, "-;")
		}
	}
	return tag
}
