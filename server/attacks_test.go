package server_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAttackTable requires that the tests in test/faults/README.md exist in the named packages.
func TestAttackTable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../test/faults/README.md")
	require.NoError(t, err)
	packages := regexp.MustCompile("`([a-z0-9/-]+)` ((?:[Tt]est|Fuzz)[^;|]*)")
	names := regexp.MustCompile(`\b(?:[Tt]est|Fuzz)[A-Z]\w+`)
	checked := 0
	for _, found := range packages.FindAllStringSubmatch(string(page), -1) {
		files, err := filepath.Glob(filepath.Join("..", found[1], "*.go"))
		require.NoError(t, err)
		var source strings.Builder
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			source.Write(text)
		}
		for _, name := range names.FindAllString(found[2], -1) {
			checked++
			if !strings.Contains(source.String(), "\nfunc "+name+"(") {
				t.Errorf("there is no %s in %s", name, found[1])
			}
		}
	}
	require.Greater(t, checked, 70, "the page is not read as it is written")
}
