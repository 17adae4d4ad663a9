package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
)

// TestCommandsOfOtherTests: the tests with Flux, which run in a module of their own, use commands that exist.
func TestCommandsOfOtherTests(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../test/e2e/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	call := regexp.MustCompile(`\.(?:cli\(|refuses\("[^"]*", )("[a-z-]+"(?:, "[a-z-]+")*)`)
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range call.FindAllStringSubmatch(string(text), -1) {
			found++
			line := strings.Split(strings.Trim(match[1], `"`), `", "`)
			if _, err := args.Arrange(testSession().app(), append(line, "--help")); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d commands", found)
	}
}
