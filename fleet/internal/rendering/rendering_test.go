package rendering

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExecute: objects of documents, lists and nested ResourceSets, and how Flux treats them when the input is removed.
func TestExecute(t *testing.T) {
	t.Parallel()
	const set = "apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: s, namespace: flux-system}\nspec:\n"
	configMap := Object{Kind: "ConfigMap", Namespace: "ns", Name: "a"}
	resourceSet := Object{Group: FluxGroup, Kind: KindResourceSet, Namespace: FluxNamespace, Name: "s"}
	for name, c := range map[string]struct {
		template      string
		made, deleted []Object
		problem       string
	}{
		"document": {
			template: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: << inputs.id >>, namespace: ns}\n",
			made:     []Object{configMap}, deleted: []Object{configMap},
		},
		"list": {
			template: "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ns}}\n",
			made:     []Object{configMap}, deleted: []Object{configMap},
		},
		"kept": {
			template: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: ns, annotations: {fluxcd.controlplane.io/prune: disabled}}\n",
			made:     []Object{configMap},
		},
		"nested": {
			template: set + "  resources:\n  - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ns}}\n",
			made:     []Object{configMap, resourceSet}, deleted: []Object{configMap},
		},
		"nested with unknown inputs": {
			template: set + "  inputs: [{id: x}]\n  resources:\n  - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ns}}\n",
			made:     []Object{resourceSet}, deleted: []Object{resourceSet},
		},
		"null in a list": {
			template: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: ns}\nspec: [null]\n",
			made:     []Object{configMap}, deleted: []Object{configMap}, problem: "null in a list",
		},
		"no name": {template: "apiVersion: v1\nkind: ConfigMap\n", problem: "metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template, err := Parse(c.template)
			require.NoError(t, err)
			made := Execute(template, map[string]any{"id": "a"})
			require.Equal(t, c.made, made.Objects)
			require.ElementsMatch(t, c.deleted, made.Deleted())
			if c.problem == "" {
				require.Empty(t, made.Problem())
			}
			require.Contains(t, made.Problem(), c.problem)
		})
	}
}
