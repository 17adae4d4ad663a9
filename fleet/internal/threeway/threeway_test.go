package threeway_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/threeway"
)

// TestMerge: b is assigned by the reverted revision.
func TestMerge(t *testing.T) {
	t.Parallel()
	const (
		before = `{"platform_components":[{"id":"a"}]}`
		made   = `{"platform_components":[{"id":"a"},{"id":"b"}]}`
	)
	none := func(map[string]any) map[string]bool { return nil }
	all := func(map[string]any) map[string]bool { return map[string]bool{"a": true, "b": true} }
	tests := map[string]struct {
		made, now, before string
		opt               threeway.Options
		merged            string   // empty: the merge fails
		conflicts         []string // pointers
	}{
		"it goes": {made, made, before, threeway.Options{Given: none}, before, nil},
		"later changes stay": {
			made, `{"labels":{"x":"1"},"platform_components":[{"id":"a","enabled":true},{"id":"b"}]}`, before,
			threeway.Options{Given: none},
			`{"labels":{"x":"1"},"platform_components":[{"enabled":true,"id":"a"}]}`, nil,
		},
		"it does not go from under patches": {
			made, `{"patches":{"b":{"x":"1"}},"platform_components":[{"id":"a"},{"id":"b"}]}`, before, threeway.Options{Given: none}, "", []string{"/patches/b"},
		},
		"but for those who prefer that, with them": {
			made, `{"patches":{"b":{"x":"1"}},"platform_components":[{"id":"a"},{"id":"b"}]}`, before,
			threeway.Options{Given: none, Prefer: jsontext.Theirs},
			`{"patches":{},"platform_components":[{"id":"a"}]}`, nil,
		},
		"or stays with them": {
			made, `{"patches":{"b":{"x":"1"}},"platform_components":[{"id":"a"},{"id":"b"}]}`, before,
			threeway.Options{Given: none, Prefer: jsontext.Ours},
			`{"patches":{"b":{"x":"1"}},"platform_components":[{"id":"a"},{"id":"b"}]}`, nil,
		},
		"unless a layer gives it": {
			made, `{"patches":{"b":{"x":"1"}},"platform_components":[{"id":"a"},{"id":"b"}]}`, before,
			threeway.Options{Given: all},
			`{"patches":{"b":{"x":"1"}},"platform_components":[{"id":"a"}]}`, nil,
		},
		"a layer may say something of what it does not list": {
			made, `{"patches":{"b":{"x":"1"}},"platform_components":[{"id":"a"},{"id":"b"}]}`, before,
			threeway.Options{},
			`{"patches":{"b":{"x":"1"}},"platform_components":[{"id":"a"}]}`, nil,
		},
		"a value that somebody has taken over is changed, though it reads the same": {
			`{"patches":{"a":{"x":"2"}},"platform_components":[]}`,
			`{"patch_owners":{"a":{"ci":["x"]}},"patches":{"a":{"x":"2"}},"platform_components":[]}`,
			`{"patches":{"a":{"x":"1"}},"platform_components":[]}`,
			threeway.Options{Given: all},
			"",
			[]string{"/patches/a/x"},
		},
		"its managers come back with a value": {
			`{"patches":{"a":{"x":"2"}},"platform_components":[]}`,
			`{"patches":{"a":{"x":"2","y":"1"}},"platform_components":[]}`,
			`{"patch_owners":{"a":{"ci":["x"]}},"patches":{"a":{"x":"1"}},"platform_components":[]}`,
			threeway.Options{Given: all},
			`{"patch_owners":{"a":{"ci":["x"]}},"patches":{"a":{"x":"1","y":"1"}},"platform_components":[]}`, nil,
		},
		"other documents are merged field by field": {
			`{"depends_on":["a","b"],"oci_tag":"2"}`, `{"depends_on":["a","b","c"],"oci_tag":"2"}`, `{"depends_on":["a"],"oci_tag":"1"}`,
			threeway.Options{},
			`{"depends_on":["a","c"],"oci_tag":"1"}`, nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			merged, conflicts, err := threeway.Merge(threeway.Versions{Made: []byte(test.made), Now: []byte(test.now), Before: []byte(test.before)}, test.opt)
			require.NoError(t, err)
			var at []string
			for _, c := range conflicts {
				at = append(at, c.Pointer)
			}
			require.Equal(t, test.conflicts, at)
			if test.merged == "" {
				require.Nil(t, merged)
				return
			}
			text, err := jsontext.Canonical(merged)
			require.NoError(t, err)
			require.JSONEq(t, test.merged, string(text))
		})
	}
}

func TestMergeOfWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	_, _, err := threeway.Merge(threeway.Versions{Made: []byte(`{}`), Now: []byte(`{"id":"a","ID":"b"}`), Before: []byte(`{}`)}, threeway.Options{})
	require.ErrorContains(t, err, "another case")
}
