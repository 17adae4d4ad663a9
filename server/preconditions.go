package server

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

// rejectEmptyIfMatch refuses an empty If-Match, likely an empty variable of a script: it must not disable the condition.
// [fleet.Tx.Match] compares the ETag in the transaction.
func rejectEmptyIfMatch(c echo.Context) error {
	if tags, given := c.Request().Header["If-Match"]; given && strings.TrimSpace(strings.Join(tags, "")) == "" {
		return fleet.Invalid([]fleet.Problem{{Detail: "header parameter If-Match: must not be empty; leave it out, or send an ETag"}})
	}
	return nil
}

// writeUnlessMatch answers with the ETag, and with the value that view returns unless If-None-Match names the ETag.
func writeUnlessMatch(c echo.Context, ifNoneMatch *string, etag string, view func() any) error {
	c.Response().Header().Set(response.HeaderETag, etag)
	if ifNoneMatch != nil && fleet.MatchETag(*ifNoneMatch, etag) {
		return c.NoContent(http.StatusNotModified)
	}
	return response.WriteJSON(c, http.StatusOK, view())
}
