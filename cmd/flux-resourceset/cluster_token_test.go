package main

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestClusterTokenSetting: only with REQUIRE_CLUSTER_TOKEN, a poll with the shared token does not count. It is answered alike.
func TestClusterTokenSetting(t *testing.T) {
	t.Parallel()
	var answers []string
	for setting, state := range map[string]string{"false": "unknown", "true": "never"} {
		p := start(t, "API_MODE=crud", "DATABASE_URL=sqlite::memory:", "SEED_FILE="+demoSeed, "REQUIRE_CLUSTER_TOKEN="+setting)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.Base+demoPolls+"platform-components", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+readToken)
		req.Header.Set("User-Agent", "flux-operator/v0.58.0")
		rsp, err := new(http.Client).Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(rsp.Body)
		require.NoError(t, err)
		require.NoError(t, rsp.Body.Close())
		require.Equal(t, 200, rsp.StatusCode)
		answers = append(answers, string(body))
		var known struct{ State string }
		require.NoError(t, json.Unmarshal([]byte(p.get("/clusters/demo-cluster-01/status")), &known))
		require.Equal(t, state, known.State, "REQUIRE_CLUSTER_TOKEN=%s", setting)
	}
	require.Equal(t, answers[0], answers[1])
}
