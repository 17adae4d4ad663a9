package objectidentity

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAliases: a name that is written as a YAML alias is an identity like any other.
func TestAliases(t *testing.T) {
	t.Parallel()
	for _, metadata := range []string{"{name: x, namespace: *n}", "*m"} {
		of := Of("apiVersion: v1\nkind: ConfigMap\ndata: {m: &m {namespace: &n << inputs.namespace >>}}\nmetadata: " + metadata + "\n")
		require.True(t, Covers(of.Fields, "namespace"), metadata)
	}
}
