package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/exclusions"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestDescribeEscapesControlCharacters: server text is printed without control characters; only the program adds colors.
func TestDescribeEscapesControlCharacters(t *testing.T) {
	t.Parallel()
	const evil = "x\x1b[2J\u009b"
	layer := api.ValueSource{Kind: layers.kind, ID: evil}
	w := &describer{paint: func(_, text string) string { return "<" + text + ">" }}
	w.components([]api.FluxPlatformComponent{{ID: evil, Type: evil, ComponentVersion: evil}}, valueOrigins{
		components.inputs.name + "/" + evil: {"/id": layer, "/component_version": layer, "/patches/a": layer},
	})
	got := w.b.String()
	if strings.TrimSuffix(got, "\n") != render.Printable(strings.TrimSuffix(got, "\n")) {
		t.Errorf("control characters: %q", got)
	}
	for _, want := range []string{"<disabled>", "from layer/x?[2J?", "patches: 1 layer/x?[2J?", "x?[2J?   x?[2J?"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
}

// TestKindsAddedInCode: a new kind is excluded and described like all others, without a line in either command.
func TestKindsAddedInCode(t *testing.T) {
	t.Parallel()
	classes := documentKind{kind: "priorityclass", name: "priorityclass", plural: "priority classes", list: "priorityclasses", assignable: &assignable{inputs: inputType{name: "priority-classes"}}}
	kinds := append(definitions(), classes)

	x, err := exclusions.Parse(fileKindsOf(kinds), []string{"priorityclass/high", "namespace/podinfo"})
	if err != nil {
		t.Fatal(err)
	}
	own := json.RawMessage(`{"id":"c-1","excludes":{"priorityclasses":["low"],"resources":{"quotas":["small"]}}}`)
	was, err := exclusions.Read(own)
	if err != nil {
		t.Fatal(err)
	}
	for off, want := range map[bool]string{
		false: `{"namespaces":["podinfo"],"priorityclasses":["low","high"]}`,
		true:  `{"namespaces":null,"priorityclasses":["low"]}`,
	} {
		got, err := json.Marshal(x.Patch(was, off))
		if err != nil || string(got) != want {
			t.Errorf("off=%t: %s, %v, want %s", off, got, err, want)
		}
	}
	if _, err := exclusions.Parse(fileKindsOf(kinds), []string{"priorityclass"}); err == nil || !strings.Contains(err.Error(), "is not namespace/ID, rolebinding/ID, priorityclass/ID or resource/TYPE/ID") {
		t.Error(err)
	}

	w := &describer{paint: func(_, text string) string { return text }}
	effective := json.RawMessage(`{"id":"c-1","priorityclasses":[{"id":"high"},{"id":"mid"}]}`)
	by := valueOrigins{"priority-classes/high": {"/id": api.ValueSource{Kind: layers.kind, ID: "base"}}}
	if err := w.cluster(kinds, own, effective, nil, by); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Priority classes: high from layer/base, mid\n", "Excludes:      low, small\n"} {
		if !strings.Contains(w.b.String(), want) {
			t.Errorf("no %q in %s", want, w.b.String())
		}
	}
}
