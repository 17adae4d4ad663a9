package fluximport

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUnusualCustomKinds: a kind whose names, depth or size the fleet cannot have does not stop the import of the rest. The report has the
// reason for each of its objects.
func TestUnusualCustomKinds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ old, fresh, reason string }{
		"no plural":           {"plural: things", `plural: ""`, "its CustomResourceDefinition has no plural"},
		"plural of a folder":  {"plural: things", "plural: ../../things", "the resource type is refused: a lowercase RFC 1123 label"},
		"object of a folder":  {"name: web", "name: ../../web", "/id: a lowercase RFC 1123 subdomain"},
		"kind of a template":  {"kind: Thing", `kind: "Thing << fail >>"`, `"Thing << fail >>" is not a name of Kubernetes`},
		"field of a template": {"a: {type: string}}}}", "a: {type: string}}}, \"b >><< fail\": {type: string}}, required: [\"b >><< fail\"]", `a template cannot have the field "b >><< fail"`},
		"deep":                {"a: {type: string}", "a: " + strings.Repeat("{type: object, properties: {a: ", 90) + "{type: string}" + strings.Repeat("}}", 90), "nested deeper than 64"},
		"large":               {"a: {type: string}", "a: {type: string, description: " + strings.Repeat("x", 2<<20) + "}", "at most 1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := helmRepository + fmt.Sprintf(otherRelease, "") + strings.ReplaceAll(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: string}}}}}}}]
---
apiVersion: example.com/v1
kind: Thing
metadata: {name: web, namespace: apps}
spec: {a: b}
`, test.old, test.fresh)
			file := filepath.Join(t.TempDir(), "berlin.yaml")
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			result, _ := imported(t, Options{}, file)
			require.Empty(t, result.Documents["resource_type"])
			require.Len(t, result.Documents["platform_component"], 1)
			require.Regexp(t, "the object is not taken: .*"+regexp.QuoteMeta(test.reason), result.Report.Markdown())
		})
	}
}
