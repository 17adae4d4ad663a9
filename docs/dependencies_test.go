package docs_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDependenciesAreExplained: docs/dependencies.md has a row for each module that go.mod requires directly, the one with the oldest
// release first.
func TestDependenciesAreExplained(t *testing.T) {
	t.Parallel()
	var required, listed, dates []string
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(read(t, filepath.Join(root, "go.mod")), -1) {
		required = append(required, m[1])
	}
	for _, m := range regexp.MustCompile("(?m)^\\| (\\d{4}-\\d\\d-\\d\\d) \\| `([^`]+)` \\| [^|]+ \\|$").FindAllStringSubmatch(read(t, "dependencies.md"), -1) {
		dates, listed = append(dates, m[1]), append(listed, m[2])
	}
	require.NotEmpty(t, required)
	require.ElementsMatch(t, required, listed)
	require.True(t, slices.IsSorted(dates), "the oldest first")
}
