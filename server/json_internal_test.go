package server

import (
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
)

// What cannot be encoded is answered by whoever handles errors, and not with 200 and nothing.
func TestUnencodableNotAnswered(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	c := echo.New().NewContext(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), w)
	require.Error(t, writeJSON(c, http.StatusOK, math.Inf(1)))
	require.False(t, c.Response().Committed)
	require.NoError(t, writeJSON(c, http.StatusAccepted, "well"))
	require.Equal(t, http.StatusAccepted, w.Code)
}
