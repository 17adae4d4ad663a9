package fleetview

import (
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestDescribeEscapesControlCharacters: server text is printed without control characters; only the program adds colors.
func TestDescribeEscapesControlCharacters(t *testing.T) {
	t.Parallel()
	const evil = "x\x1b[2J\u009b"
	layer := api.ValueSource{Kind: "layer", ID: evil}
	w := &describer{paint: func(_, text string) string { return "<" + text + ">" }}
	w.components([]api.FluxPlatformComponent{{ID: evil, Type: evil, ComponentVersion: evil}}, Origins{
		listComponents + "/" + evil: {"/id": layer, "/component_version": layer, "/patches/a": layer},
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
