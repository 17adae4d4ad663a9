package offline_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/offline"
)

var kinds = []string{"namespace", "layer", "cluster"}

// TestFleet: documents are merged and rendered as the server does it, and common settings move into layers.
func TestFleet(t *testing.T) {
	t.Parallel()
	fleet := new(offline.Fleet)
	err := fleet.Create(kinds, map[string][]json.RawMessage{
		"cluster": {
			json.RawMessage(`{"id":"a","cluster_dns":"a.example.com","environment":"any","namespaces":[{"id":"shop"}]}`),
			json.RawMessage(`{"id":"b","cluster_dns":"b.example.com","environment":"any","namespaces":[{"id":"shop"}]}`),
		},
		"namespace": {json.RawMessage(`{"id":"shop","labels":{"team":"x"}}`)},
		"layer":     {json.RawMessage(`{"id":"all","priority":1,"all":true}`)},
	}, func(string, int, string, string) { t.Error("refused") })
	require.NoError(t, err)
	require.NoError(t, fleet.Adopt([]string{"all"}))
	require.Contains(t, string(fleet.Documents("layer")[0]), `"namespaces":[{"id":"shop"}]`)
	require.NotContains(t, string(fleet.Documents("cluster")[0]), "shop")
	objects, err := fleet.Render("b")
	require.NoError(t, err)
	var namespace struct {
		Kind     string
		Metadata struct {
			Name   string
			Labels map[string]string
		}
	}
	require.NoError(t, json.Unmarshal(objects[0], &namespace))
	require.Equal(t, "Namespace shop x", namespace.Kind+" "+namespace.Metadata.Name+" "+namespace.Metadata.Labels["team"])
	_, err = fleet.Render("missing")
	require.ErrorContains(t, err, "missing")
}

// TestRefused: each problem is reported with its document and place, and nothing is created.
func TestRefused(t *testing.T) {
	t.Parallel()
	fleet := new(offline.Fleet)
	var got []string
	err := fleet.Create(kinds, map[string][]json.RawMessage{
		"namespace": {json.RawMessage(`{"id":"a"}`), json.RawMessage(`{"id":"B"}`), json.RawMessage(`{"id":"c","labels":{"x":"y z"}}`)},
	}, func(kind string, index int, pointer, detail string) {
		require.NotEmpty(t, detail)
		got = append(got, kind+"/"+string(rune('0'+index))+pointer)
	})
	require.Error(t, err)
	require.Equal(t, []string{"namespace/1/id", "namespace/2/labels/x"}, got)
	err = fleet.Create(kinds, map[string][]json.RawMessage{
		"namespace": {json.RawMessage(`{"id":"a"}`), json.RawMessage(`{"id":"a","labels":` + strings.Repeat(`{"a":`, 100) + `1` + strings.Repeat(`}`, 100) + `}`)},
	}, func(kind string, index int, pointer, detail string) {
		require.Equal(t, []any{"namespace", 1, ""}, []any{kind, index, pointer}, "a problem of the whole document")
		require.Contains(t, detail, "nested deeper")
		got = nil
	})
	require.Error(t, err)
	require.Nil(t, got)
	require.Empty(t, fleet.Documents("namespace"))
	require.Contains(t, fleet.FluxProblems("helm", map[string]any{"timeout": "10m", "nonsense": 1})["/nonsense"], "unknown setting")
	require.Empty(t, fleet.FluxProblems("helm", map[string]any{"timeout": "10m"}))
}
