package client_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestConstantsMatchTheSpec: each list of constants equals the values in the spec and in the error reference.
func TestConstantsMatchTheSpec(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	source, spec, page := read("constants.go"), read("../openapi/openapi.yaml"), read("../docs/api.md")
	enum := func(pattern string) []string {
		m := regexp.MustCompile(pattern).FindStringSubmatch(spec)
		if m == nil {
			t.Fatalf("the contract has no %s", pattern)
		}
		return strings.Split(m[1], ", ")
	}
	var codes []string
	for _, m := range regexp.MustCompile("(?m)^\\| [45]\\d\\d \\| `([a-z_]+)` \\|").FindAllStringSubmatch(page, -1) {
		codes = append(codes, m[1])
	}
	for prefix, want := range map[string][]string{
		"Kind": enum(`(?m)^        kind: \{x-order: 2, type: string, enum: \[([a-z_, ]+)\]`),
		"Op":   enum(`(?m)^        op: \{x-order: 1, type: string, enum: \[([a-z_, ]+)\]`),
		"Role": enum(`TokenRole: \{type: string, enum: \[([a-z_, ]+)\]`),
		"Code": codes,
	} {
		var got []string
		for _, m := range regexp.MustCompile(`(?m)^\t`+prefix+`[A-Z]\w* += "([a-z_]+)"$`).FindAllStringSubmatch(source, -1) {
			got = append(got, m[1])
		}
		slices.Sort(got)
		want = slices.Compact(slices.Sorted(slices.Values(want)))
		if !slices.Equal(got, want) {
			t.Errorf("%s…\ngot  %q\nwant %q", prefix, got, want)
		}
	}
}
