package cli

import (
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
)

// TestTruncatedExportRefused: wherever a file ends, it is applied as a whole or not at all.
func TestTruncatedExportRefused(t *testing.T) {
	t.Parallel()
	export := render.ExportHeader + "\nnamespaces:\n- id: team\n  labels:\n    a: b\nclusters:\n- id: c1\n  platform_components:\n  - id: p\n    enabled: true\n  - id: q\n    enabled: true\n...\n"
	whole, err := documentsIn([]byte(export), "fleet.yaml")
	if err != nil || len(whole) != 2 {
		t.Fatalf("%d documents, %v", len(whole), err)
	}
	for end := len(render.ExportHeader) + 1; end < len(export); end++ {
		docs, err := documentsIn([]byte(export[:end]), "fleet.yaml")
		if err == nil && (len(docs) != 2 || string(docs[1].fields["platform_components"]) != string(whole[1].fields["platform_components"])) {
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
		_, err := documentsIn([]byte(text), "fleet.yaml")
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
