package unstructured_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// TestOpen: an opened and unchanged object is written byte for byte as before.
func TestOpen(t *testing.T) {
	t.Parallel()
	const text = `{"a":{"b":[1,{"id":"x"}]},"n":12345678901234567890,"z":null}`
	obj, err := unstructured.Open([]byte(text))
	require.NoError(t, err)
	require.IsType(t, jsontext.Text(nil), obj["a"])
	inner, err := unstructured.OpenField(obj, "a")
	require.NoError(t, err)
	require.IsType(t, map[string]any{}, inner)
	again, err := unstructured.OpenField(obj, "a")
	require.NoError(t, err)
	require.Equal(t, inner, again, "it is open already")
	missing, err := unstructured.OpenField(obj, "none")
	require.NoError(t, err)
	require.Nil(t, missing)
	written, err := jsontext.Canonical(obj)
	require.NoError(t, err)
	require.Equal(t, text, string(written))
}

// TestForeign: an edit of an object of unknown origin keeps the parts that its typed value does not show.
func TestForeign(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a field twice":           `{"id":"a","id":"b"}`,
		"a field in another case": `{"id":"a","Id":"b"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := unstructured.Open([]byte(text))
			require.Error(t, err)
			_, err = unstructured.DecodeStrict([]byte(text))
			require.Error(t, err)
			_, err = unstructured.Decode([]byte(text))
			require.NoError(t, err)
		})
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	obj, err := unstructured.FromValue(struct {
		Null  *int           `json:"null"`
		Empty string         `json:"empty"`
		List  []any          `json:"list"`
		In    map[string]any `json:"in"`
		Said  json.Number    `json:"said"`
	}{List: []any{}, In: map[string]any{"k": "v"}, Said: "0"})
	require.NoError(t, err)
	unstructured.SetDefault(obj, "null", 1)
	unstructured.SetDefault(obj, "empty", "not this")
	require.Equal(t, map[string]any{"null": 1, "empty": "", "list": []any{}, "in": map[string]any{"k": "v"}, "said": json.Number("0")}, obj)
	unstructured.DropEmpty(obj, "empty", "said", "none")
	unstructured.DropEmptyList(obj, "list")
	unstructured.DropEmptyList(obj, "said")
	require.Equal(t, map[string]any{"null": 1, "in": map[string]any{"k": "v"}, "said": json.Number("0")}, obj)
	unstructured.SetNestedKey(obj, "in", "k", nil, 0)
	unstructured.SetNestedKey(obj, "other", "k", "v", 1)
	require.Equal(t, map[string]any{}, unstructured.NestedObject(obj, "in"))
	require.Equal(t, map[string]any{"k": "v"}, unstructured.NestedObject(obj, "other"))
	require.Equal(t, map[string]any{}, unstructured.NestedObject(obj, "said"), "it is no object")
}

func TestEntries(t *testing.T) {
	t.Parallel()
	is := unstructured.HasID("a")
	require.True(t, is(map[string]any{"id": "a"}))
	for _, other := range []any{map[string]any{"id": "b"}, map[string]any{"id": 1}, map[string]any{}, "a", nil} {
		require.False(t, is(other))
	}
	_, _, ok := unstructured.Entry(map[string]any{"id": json.Number("1")})
	require.False(t, ok)
}
