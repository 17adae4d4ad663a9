package client

import (
	"encoding/json"
	"fmt"

	"github.com/oapi-codegen/nullable"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// SetValues returns the body of a PatchCluster call that sets values of one component, by Helm value path ("ui.color",
// "hosts[0].name", `nodeSelector.kubernetes\.io/os`), and removes the values that are nil. Other values stay. The server
// types a string as `helm --set` does ("3" is a number), unless it is quoted ("\"3\""); other Go values keep their type.
// It fails only if a value cannot be encoded as JSON.
func SetValues(component string, values map[string]any) (api.ClusterPatch, error) {
	raw, err := json.Marshal(values)
	if err != nil {
		return api.ClusterPatch{}, fmt.Errorf("values of %s: %w", component, err)
	}
	message := json.RawMessage(raw)
	return api.ClusterPatch{Patches: nullable.NewNullableWithValue(api.MergePatches{component: &message})}, nil
}
