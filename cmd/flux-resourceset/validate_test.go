package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestValidate: files are held against the schema, the references and the rules of the server, without one.
func TestValidate(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := invoke(t, "validate", "-f", "../../examples/fleet")
	require.Zero(t, code, stderr)
	require.Equal(t, "../../examples/fleet: valid\n", stdout)

	for name, test := range map[string]struct {
		text string
		code int
		want []string
	}{
		"schema":      {"kind: cluster\nid: a\ncluster_dns: a.example.com\nenvironment: dev\nlabels: [a]\n", 1, []string{"labels"}},
		"reference":   {"kind: cluster\nid: a\ncluster_dns: a.example.com\nenvironment: dev\nnamespaces: [{id: missing}]\n", 1, []string{`there is no namespace "missing"`}},
		"rule":        {"kind: cluster\nid: a\ncluster_dns: a.example.com\nenvironment: moon\n", 1, []string{`"moon" is not an environment here`}},
		"two of them": {"kind: cluster\nid: a\ncluster_dns: a.example.com\nenvironment: dev\n---\nkind: cluster\nid: b\ncluster_dns: a.example.com\nenvironment: dev\n", 1, []string{"a.example.com"}},
		"kind":        {"kind: nonsense\nid: a\n", 2, []string{"nonsense"}},
		"not YAML":    {"kind: [\n", 2, nil},
		"valid":       {"kind: cluster\nid: a\ncluster_dns: a.example.com\nenvironment: dev\n", 0, nil},
	} {
		file := filepath.Join(t.TempDir(), "fleet.yaml")
		require.NoError(t, os.WriteFile(file, []byte(test.text), 0o600))
		code, _, stderr := invoke(t, "validate", "-f", file)
		require.Equal(t, test.code, code, "%s: %s", name, stderr)
		for _, want := range test.want {
			require.Contains(t, stderr, want, name)
		}
	}
	code, _, stderr = invoke(t, "validate", "--environments", "moon", "-f", "../../examples/fleet")
	require.Equal(t, 1, code, stderr)
	code, _, _ = invoke(t, "validate")
	require.Equal(t, 2, code)
	code, _, stderr = invoke(t, "validate", "-f", "no-such-directory")
	require.Equal(t, 2, code, stderr)
}
