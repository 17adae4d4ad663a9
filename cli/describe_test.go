package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/exclusions"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/fleetview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestKindsAddedInCode: a new kind is excluded and described like all others, without a line in either command.
func TestKindsAddedInCode(t *testing.T) {
	t.Parallel()
	classes := kinds.Kind{API: "priorityclass", Name: "priorityclass", Plural: "priority classes", List: "priorityclasses", Assignable: &kinds.Assignable{Inputs: kinds.InputType{Name: "priority-classes"}}}
	all := append(kinds.Definitions(), classes)

	x, err := exclusions.Parse(kinds.ForFilesOf(all), []string{"priorityclass/high", "namespace/podinfo"})
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
	if _, err := exclusions.Parse(kinds.ForFilesOf(all), []string{"priorityclass"}); err == nil || !strings.Contains(err.Error(), "is not namespace/ID, rolebinding/ID, priorityclass/ID or resource/TYPE/ID") {
		t.Error(err)
	}

	effective := json.RawMessage(`{"id":"c-1","priorityclasses":[{"id":"high"},{"id":"mid"}]}`)
	by := fleetview.Origins{"priority-classes/high": {"/id": api.ValueSource{Kind: kinds.Layers.API, ID: "base"}}}
	text, err := describe(all, own, effective, fleetview.Description{Origins: by})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Priority classes: high from layer/base, mid\n", "Excludes:      low, small\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
}
