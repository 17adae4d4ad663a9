// Package response writes answers: their headers, JSON, lists whose items are computed while they are written, and buffered
// answers compressed with gzip.
//
//	handler --> WriteJSON                    one document
//	        --> Page, Write(List)            a list, streamed
//	        --> Compress --> Compressed      a whole answer that is sent after its computation has ended
package response

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Headers of this API.
const (
	HeaderRevision       = "X-Fleet-Revision"
	HeaderAge            = "Age"
	HeaderTotalCount     = "X-Total-Count"
	HeaderChangeReason   = "X-Change-Reason"
	HeaderChangeAuthor   = "X-Change-Author"
	HeaderOverrideFreeze = "X-Fleet-Override-Freeze"
	HeaderOverrideSource = "X-Fleet-Override-Source"
	HeaderOverridePolicy = "X-Fleet-Override-Policy"
	HeaderManagedBy      = "X-Fleet-Managed-By"
	HeaderRemovesFrom    = "X-Fleet-Removes-From"
	HeaderETag           = "Etag" // the spelling of net/http
	HeaderIfNoneMatch    = "If-None-Match"
	HeaderMinRevision    = "X-Fleet-Min-Revision"

	HeaderVary            = echo.HeaderVary
	HeaderContentType     = echo.HeaderContentType
	HeaderContentLength   = echo.HeaderContentLength
	HeaderContentEncoding = echo.HeaderContentEncoding
)

// FormatRevision returns a revision for a header.
func FormatRevision(r fleet.Revision) string { return strconv.FormatInt(int64(r), 10) }

// FormatAge returns an age in whole seconds, for the Age header.
func FormatAge(age time.Duration) string { return strconv.FormatInt(int64(age/time.Second), 10) }

// Header values shared by all answers; net/http only reads them.
var (
	VaryEncoding = []string{"Accept-Encoding"}
	ContentJSON  = []string{"application/json"}
	ContentGzip  = []string{"gzip"}
	NoStore      = []string{"no-store"}
	NoSniff      = []string{"nosniff"}
)

// AcceptsGzip reports whether the client accepts an answer compressed with gzip.
func AcceptsGzip(r *http.Request) bool {
	for _, line := range r.Header["Accept-Encoding"] {
		if line == "gzip" {
			return true
		}
		for part := range strings.SplitSeq(line, ",") {
			coding, params, _ := strings.Cut(strings.TrimSpace(part), ";")
			if strings.EqualFold(strings.TrimSpace(coding), "gzip") && !zeroQuality(params) {
				return true
			}
		}
	}
	return false
}

func zeroQuality(params string) bool {
	q, ok := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
	if !ok {
		return false
	}
	f, err := strconv.ParseFloat(q, 64)
	return err == nil && f == 0
}
