package overlay_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/overlay"
)

type entry struct {
	ID  string `json:"id"`
	Tag string `json:"tag"`
}

var rules = overlay.Rules[entry]{
	ID: func(e *entry) string { return e.ID },
	Apply: func(below, above overlay.Entry[entry]) overlay.Entry[entry] {
		if above.Value.Tag == "" {
			above.Value.Tag = below.Value.Tag
		}
		return above
	},
}

// TestOver: for any layers and any cluster, each entry occurs once, unless it is excluded and not listed by the cluster;
// entries are in the order of first occurrence; and the highest one that sets a field wins.
func TestOver(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id, tag := rapid.SampledFrom([]string{"a", "b", "c", "d"}), rapid.SampledFrom([]string{"", "1", "2"})
		list := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) entry { return entry{id.Draw(t, "id"), tag.Draw(t, "tag")} }), 0, 4, func(e entry) string { return e.ID })
		var layers []overlay.Layer[entry]
		var order []string
		tags := map[string]string{}
		say := func(e entry) {
			if e.Tag != "" {
				tags[e.ID] = e.Tag
			}
		}
		for range rapid.IntRange(0, 3).Draw(t, "layers") {
			l := overlay.Layer[entry]{Defaults: map[string]overlay.Entry[entry]{}}
			for _, e := range list.Draw(t, "layer") {
				l.Entries = append(l.Entries, overlay.Entry[entry]{Value: e})
				if say(e); !slices.Contains(order, e.ID) {
					order = append(order, e.ID)
				}
			}
			for _, e := range list.Draw(t, "apart") {
				if !slices.ContainsFunc(l.Entries, func(s overlay.Entry[entry]) bool { return s.Value.ID == e.ID }) {
					l.Defaults[e.ID] = overlay.Entry[entry]{Value: e}
					say(e)
				}
			}
			layers = append(layers, l)
		}
		own, excluded := list.Draw(t, "own"), rapid.SliceOf(id).Draw(t, "excluded")
		order = slices.DeleteFunc(order, func(id string) bool {
			return slices.Contains(excluded, id) && !slices.ContainsFunc(own, func(e entry) bool { return e.ID == id })
		})
		for _, e := range own {
			if say(e); !slices.Contains(order, e.ID) {
				order = append(order, e.ID)
			}
		}
		want := []entry{}
		for _, id := range order {
			want = append(want, entry{id, tags[id]})
		}
		merged := rules.Merge(layers)
		final := slices.Clone(merged.Final())
		got := rules.Over(merged, own, excluded)
		require.Equal(t, want, append([]entry{}, got...))
		require.Equal(t, final, merged.Final(), "the shared list must not change")
	})
}

func TestRead(t *testing.T) {
	t.Parallel()
	entries, err := overlay.Read[entry](json.RawMessage(`[{"id":"a"},{"id":"b","enabled":false},{"id":"c","enabled":null}]`))
	require.NoError(t, err)
	require.Equal(t, []bool{true, false, true}, []bool{entries[0].EnabledUnset, entries[1].EnabledUnset, entries[2].EnabledUnset})
	none, err := overlay.Read[entry](nil)
	require.NoError(t, err)
	require.Nil(t, none)
	for _, wrong := range []string{`{}`, `[1]`, `[{"id":1}]`, `[{"enabled":"no"}]`} {
		_, err := overlay.Read[entry](json.RawMessage(wrong))
		require.Error(t, err, wrong)
	}
}
