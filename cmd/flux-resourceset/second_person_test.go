package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSecondPersonSetting: only with REQUIRE_SECOND_PERSON, the author of a rollout cannot approve its stages.
func TestSecondPersonSetting(t *testing.T) {
	t.Parallel()
	for setting, status := range map[string]int{"false": 200, "true": 409} {
		p := start(t, "API_MODE=crud", "DATABASE_URL=sqlite::memory:", "SEED_FILE="+demoSeed, "REQUIRE_SECOND_PERSON="+setting)
		require.Equal(t, 201, p.send("POST", "/rollouts", `{"id":"r","operations":[{"op":"patch","kind":"namespace","id":"podinfo","patch":{"labels":{"a":"b"}}}],"stages":[{"name":"all","all":true,"approval":true}]}`).status)
		require.Equal(t, 409, p.send("POST", "/rollouts/r/start", "").status)
		got := p.send("POST", "/rollouts/r/approve", "")
		require.Equal(t, status, got.status, "%s: %s", setting, got.body)
	}
}
