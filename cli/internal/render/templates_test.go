package render

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestJSONPath: an expression without a match is an error, never empty output with exit code 0; a list can also be read under
// .items, as kubectl prints lists.
func TestJSONPath(t *testing.T) {
	t.Parallel()
	const list = `[{"id":"a","labels":{"x":"1"}},{"id":"b"}]`
	for _, test := range []struct{ document, path, want, problem string }{
		{list, `{.items[0].id}`, "a", ""},
		{list, `{[0].id}`, "a", ""},
		{list, `{.items[*].id}`, "a b", ""},
		{list, `{$.items[1].id}`, "b", ""},
		{list, `{range .items[*]}{.id}{"\t"}{.labels.x}{"\n"}{end}`, "a\t1\nb\t\n", ""},
		{list, `{range [*]}{.id}{"\n"}{end}`, "a\nb\n", ""},
		{list, `{.items[?(@.id=="b")].id}`, "b", ""},
		{list, `{[*].labels.x}`, "1", ""}, // some match
		{list, `{..id}`, "a b", ""},
		{list, `{.items[?(@.id=="c")].id}`, "", "matches nothing"},
		{list, `{.items[0].nothing}`, "", "matches nothing"},
		{list, `{[*].nothing}`, "", "matches nothing"},
		{list, `{.id}`, "", "matches nothing"},
		{list, `id: {.id}{"\n"}`, "", "matches nothing"},
		{list, `{range .nothing[*]}{.id}{"\n"}{end}`, "", "matches nothing"},
		{list, `{range .items[*]}{.nothing}{end}`, "", "matches nothing"},
		{list, `{.items[2].id}`, "", "out of bounds"},
		{list, `only text`, "only text", ""},
		{`{"id":"a"}`, `{.id}{.label}`, "a", ""},
		{`{"id":"a"}`, `{.label}`, "", "matches nothing"},
		{`{"items":[{"id":"a"}]}`, `{.items[0].id}`, "a", ""},
		{`{"id":"a","empty":""}`, `{.empty}`, "", ""},
		// An empty list prints nothing, for scripts that loop over it.
		{`[]`, `{.items[*].id}`, "", ""},
		{`[]`, `{range .items[*]}{.id}{"\n"}{end}`, "", ""},
		{`[]`, `{.items[0].id}`, "", "out of bounds"},
	} {
		var b strings.Builder
		err := Output{Document: json.RawMessage(test.document)}.Write(&b, Style{Format: "jsonpath=" + test.path})
		switch {
		case test.problem == "" && (err != nil || b.String() != test.want):
			t.Errorf("%s of %s: %q, want %q; %v", test.path, test.document, b.String(), test.want, err)
		case test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem) || b.Len() > 0):
			t.Errorf("%s of %s: %q, want an error with %q, got %v", test.path, test.document, b.String(), test.problem, err)
		}
	}
}

// TestGoTemplateItems: go-template can read a list under .items, as kubectl prints lists.
func TestGoTemplateItems(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{{range .items}}{{.id}} {{end}}`: "a b ", `{{range .}}{{.id}} {{end}}`: "a b ", `{{len .items}}`: "2", `{{(index .items 1).id}}`: "b",
	} {
		var b strings.Builder
		err := Output{Document: json.RawMessage(`[{"id":"a"},{"id":"b"}]`)}.Write(&b, Style{Format: "go-template=" + text})
		if err != nil || b.String() != want {
			t.Errorf("%s: %q, want %q; %v", text, b.String(), want, err)
		}
	}
	var b strings.Builder
	if err := (Output{Document: json.RawMessage(`[{"id":"a"}]`)}).Write(&b, Style{Format: "go-template={{.id}}"}); err == nil || b.Len() > 0 {
		t.Errorf("a field of a list: %q, %v", b.String(), err)
	}
}
