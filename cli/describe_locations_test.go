package cli

import (
	"errors"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestDescribeLocations: an operation without a name leaves no colon behind, wherever its pointer is in the text.
func TestDescribeLocations(t *testing.T) {
	t.Parallel()
	named := func(op change.Operation) string { name, _ := op["name"].(string); return name }
	ops := []change.Operation{{}, {"name": "component/a"}}
	for detail, want := range map[string]string{
		"/operations/0: cluster is missing":               "cluster is missing",
		"8 problems; the first: /operations/0: cluster x": "8 problems; the first: cluster x",
		"/operations/0/document/id: must be a name":       "/id: must be a name",
		"/operations/1: is missing":                       "component/a: is missing",
		"/operations/1/patch/id: must be a name":          "component/a /id: must be a name",
		"/operations/7: none":                             "/operations/7: none",
	} {
		err := &apiclient.Error{Problem: api.Problem{Detail: detail}}
		described := change.DescribeLocations(ops, err, named)
		if err.Problem.Detail != want || !errors.Is(described, err) {
			t.Errorf("%q became %q, not %q", detail, err.Problem.Detail, want)
		}
	}
}
