package response_test

import (
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

// An answer that cannot be encoded becomes an error, not an empty 200.
func TestUnencodableNotAnswered(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	c := echo.New().NewContext(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), w)
	require.Error(t, response.WriteJSON(c, http.StatusOK, math.Inf(1)))
	require.False(t, c.Response().Committed)
	require.NoError(t, response.WriteJSON(c, http.StatusAccepted, "well"))
	require.Equal(t, http.StatusAccepted, w.Code)
}
