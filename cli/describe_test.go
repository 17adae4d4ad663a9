package cli

import (
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestDescribedComponentsSteerNoTerminal: whatever the server says of a component is printed without its control characters, and
// the colours are ours.
func TestDescribedComponentsSteerNoTerminal(t *testing.T) {
	t.Parallel()
	const evil = "x\x1b[2J\u009b"
	layer := api.Saying{Kind: layers.kind, ID: evil}
	w := &planWriter{paint: func(_, text string) string { return "<" + text + ">" }}
	w.components([]api.FluxPlatformComponent{{ID: evil, Type: evil, ComponentVersion: evil}}, sayers{
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
