package cli

import (
	"slices"
	"strings"
	"testing"
)

func TestYAMLDocuments(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"a: 1\n":                       {"a: 1\n"},
		"---\na: 1\n---\nb: 2\n":       {"", "\na: 1\n", "\nb: 2\n"},
		"a: |\n  ---\n  x\n---":        {"a: |\n  ---\n  x\n", ""},
		"--- # first\na: 1\n---\tb: 2": {"", " # first\na: 1\n", "\tb: 2"},
		"a: 1\r\n---\r\nb: 2\r\n":      {"a: 1\r\n", "\r\nb: 2\r\n"},
		"---x: 1\n----\n":              {"---x: 1\n----\n"},
	} {
		if got := yamlDocuments([]byte(text)); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	// The time must be linear: string concatenation took minutes for a fleet of 10,000 clusters.
	large := strings.Repeat("- {id: some-cluster, environment: dev}\n", 500_000)
	if got := yamlDocuments([]byte(large)); len(got) != 1 || len(got[0]) != len(large) {
		t.Errorf("a large document became %d", len(got))
	}
}
