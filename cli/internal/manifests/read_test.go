package manifests

import (
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
)

var testKinds = Kinds{
	{Kind: "platform_component", Name: "component", Title: "platform component", List: "platform_components", Aliases: []string{"components"}},
	{Kind: "namespace", Name: "namespace", Title: "namespace", List: "namespaces", Aliases: []string{"ns"}},
	{Kind: "rolebinding", Name: "rolebinding", Title: "role binding", List: "rolebindings", Aliases: []string{"rb"}},
	{Kind: "resource_type", Name: "resource-type", Title: "resource type", List: "resource_types"},
	{Kind: "layer", Name: "layer", Title: "layer", List: "layers", Refers: true},
	{Kind: "cluster", Name: "cluster", Title: "cluster", List: "clusters", Refers: true},
}

// TestTruncatedExportRefused: wherever a file ends, it is applied as a whole or not at all.
func TestTruncatedExportRefused(t *testing.T) {
	t.Parallel()
	export := render.ExportHeader + "\nnamespaces:\n- id: team\n  labels:\n    a: b\nclusters:\n- id: c1\n  platform_components:\n  - id: p\n    enabled: true\n  - id: q\n    enabled: true\n...\n"
	whole, err := testKinds.Read([]byte(export), "fleet.yaml")
	if err != nil || len(whole) != 2 {
		t.Fatalf("%d documents, %v", len(whole), err)
	}
	for end := len(render.ExportHeader) + 1; end < len(export); end++ {
		docs, err := testKinds.Read([]byte(export[:end]), "fleet.yaml")
		if err == nil && (len(docs) != 2 || string(docs[1].Fields["platform_components"]) != string(whole[1].Fields["platform_components"])) {
			t.Errorf("cut after %d of %d bytes: %d documents, %q", end, len(export), len(docs), export[:end])
		}
	}
	for text, want := range map[string]string{
		export + export[:120]:                    "was cut off", // two exports
		strings.ReplaceAll(export, "...\n", ""):  "was cut off",
		export + export:                          "",
		export + "# a remark":                    "",
		strings.TrimSuffix(export, "\n"):         "",
		strings.ReplaceAll(export, "\n", "\r\n"): "",
	} {
		_, err := testKinds.Read([]byte(text), "fleet.yaml")
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
