package planview

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/resourceset"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/oapi-codegen/nullable"
)

// TestFieldChangeWithoutParent: a change of a field that the input does not have is an error, and is not attributed to another
// client's change of the fleet.
func TestFieldChangeWithoutParent(t *testing.T) {
	t.Parallel()
	in := func() resourceset.Input {
		return resourceset.Input{"id": json.RawMessage(`"podinfo"`), "list": json.RawMessage(`[{"a":1}]`), "patches": json.RawMessage(`{"a/b":1}`)}
	}
	change := func(pointer string) []api.FieldChange {
		return []api.FieldChange{{Pointer: pointer, After: nullable.NewNullableWithValue(json.RawMessage("2"))}}
	}
	for _, pointer := range []string{"/list/0/a", "/missing/a", "/id/a"} {
		_, err := applyFieldChanges(in(), change(pointer))
		if err == nil || errors.Is(err, ErrFleetChanged) || !strings.Contains(err.Error(), `input "podinfo"`) || !strings.Contains(err.Error(), pointer) {
			t.Errorf("%s: %v", pointer, err)
		}
	}
	out, err := applyFieldChanges(in(), change("/patches/a~1b"))
	if err != nil || string(out["patches"]) != `{"a/b":2}` {
		t.Errorf("%s, %v", out["patches"], err)
	}
}
