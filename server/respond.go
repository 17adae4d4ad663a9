package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// Headers of this API.
const (
	headerRevision     = "X-Fleet-Revision"
	headerAge          = "Age"
	headerTotalCount   = "X-Total-Count"
	headerChangeReason = "X-Change-Reason"
	headerChangeAuthor = "X-Change-Author"
	headerRemovesFrom  = "X-Fleet-Removes-From"
	headerETag         = "Etag" // as net/http spells it
	headerIfNoneMatch  = "If-None-Match"
	headerMinRevision  = "X-Fleet-Min-Revision"

	headerVary            = echo.HeaderVary
	headerContentType     = echo.HeaderContentType
	headerContentLength   = echo.HeaderContentLength
	headerContentEncoding = echo.HeaderContentEncoding
)

// formatAge gives an age in whole seconds, as the header wants it.
func formatAge(age time.Duration) string { return strconv.FormatInt(int64(age/time.Second), 10) }

func writeJSON(c echo.Context, status int, v any) error {
	h := c.Response().Header()
	if h.Get(echo.HeaderContentType) == "" {
		h.Set(echo.HeaderContentType, "application/json")
	}
	c.Response().Status = status // and not written yet: what cannot be encoded is no 200
	enc := json.NewEncoder(c.Response())
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// page cuts a list and says where the rest is.
func page[T any](c echo.Context, items []T, limit, offset *int) []T {
	total, from := len(items), 0
	c.Response().Header().Set(headerTotalCount, strconv.Itoa(total))
	if offset != nil {
		from = min(*offset, total)
	}
	to := total
	if limit != nil && *limit < total-from {
		to = from + *limit
		linkNext(c, url.Values{"limit": {strconv.Itoa(*limit)}, "offset": {strconv.Itoa(to)}})
	}
	return items[from:to]
}

// linkNext points to the next page: this request with some query parameters changed.
func linkNext(c echo.Context, change url.Values) {
	query := c.Request().URL.Query()
	maps.Copy(query, change)
	c.Response().Header().Set("Link", fmt.Sprintf("<%s?%s>; rel=\"next\"", c.Request().URL.EscapedPath(), query.Encode()))
}

const (
	maxWarnings     = 15
	maxWarningBytes = 250
)

// warn adds advice to a response, as the Kubernetes API does.
func warn(c echo.Context, warnings []string) {
	if extra := len(warnings) - maxWarnings; extra > 0 {
		// Headers have limits of their own, on the way as well: a change must not look failed for good advice.
		warnings = append(warnings[:maxWarnings:maxWarnings], fmt.Sprintf("and %d more", extra))
	}
	for _, w := range warnings {
		if len(w) > maxWarningBytes {
			w = w[:maxWarningBytes] + "..."
		}
		w = strings.Map(func(r rune) rune {
			if r < ' ' || r > '~' {
				return '?'
			}
			return r
		}, w)
		c.Response().Header().Add("Warning", "299 - "+strconv.Quote(w))
	}
}
