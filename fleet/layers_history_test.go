package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOperationsOnLayersInHistory: the log names the layers.
func TestOperationsOnLayersInHistory(t *testing.T) {
	t.Parallel()
	w := tiers(t, `{"id":"base","priority":10,"all":true}`, `{"id":"prod","priority":20,"selector":"tier=prod"}`)
	for ops, want := range map[string]string{
		`{"op":"assign_namespace","layers":["base","prod"],"namespace_id":"kept"}`:       "assigned namespace/kept to layer/base, layer/prod",
		`{"op":"patch_values","layers":["prod"],"component_id":"loki","values":{"a":1}}`: "set a of component/loki on layer/prod",
	} {
		commit := w.must(batch(ops)).Commit
		require.Equal(t, want, commit.Summary(nil, 0))
		made, _, _ := commit.Requested()
		require.NotEmpty(t, made[0].Layers)
		require.Zero(t, made[0].Clusters)
	}
}
