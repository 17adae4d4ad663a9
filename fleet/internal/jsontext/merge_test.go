package jsontext

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func object(t require.TestingT, text string) map[string]any {
	obj, _, err := Decode([]byte(text))
	require.NoError(t, err)
	return obj
}

func TestMerge(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		base, ours, theirs string
		merged             string
		byTheirs           string // where it differs
		conflicts          []string
	}{
		"only theirs":             {`{"a":1}`, `{"a":1}`, `{"a":2}`, `{"a":2}`, "", nil},
		"only ours":               {`{"a":1}`, `{"a":2}`, `{"a":1}`, `{"a":2}`, "", nil},
		"both to the same":        {`{"a":1}`, `{"a":2}`, `{"a":2}`, `{"a":2}`, "", nil},
		"both":                    {`{"a":1,"b":1}`, `{"a":2,"b":2}`, `{"a":3,"b":1}`, `{"a":2,"b":2}`, `{"a":3,"b":2}`, []string{"/a"}},
		"fields of an object":     {`{"o":{"a":1,"b":1}}`, `{"o":{"a":2,"b":1}}`, `{"o":{"a":1,"b":2}}`, `{"o":{"a":2,"b":2}}`, "", nil},
		"gone and changed":        {`{"o":{"a":1}}`, `{"o":{"a":2}}`, `{}`, `{"o":{"a":2}}`, `{}`, []string{"/o"}},
		"changed and gone":        {`{"o":{"a":1}}`, `{}`, `{"o":{"a":2}}`, `{}`, `{"o":{"a":2}}`, []string{"/o"}},
		"both made it":            {`{}`, `{"o":{"a":1}}`, `{"o":{"b":1}}`, `{"o":{"a":1}}`, `{"o":{"b":1}}`, []string{"/o"}},
		"another type":            {`{"a":1}`, `{"a":{}}`, `{"a":[]}`, `{"a":{}}`, `{"a":[]}`, []string{"/a"}},
		"an entry is back":        {`{"l":[{"id":"b"}]}`, `{"l":[{"id":"b"},{"id":"c"}]}`, `{"l":[{"id":"a","x":1},{"id":"b"}]}`, `{"l":[{"id":"a","x":1},{"id":"b"},{"id":"c"}]}`, "", nil},
		"an entry is back behind": {`{"l":[{"id":"b"}]}`, `{"l":[{"id":"c"},{"id":"b"},{"id":"d"}]}`, `{"l":[{"id":"b"},{"id":"a"}]}`, `{"l":[{"id":"c"},{"id":"b"},{"id":"a"},{"id":"d"}]}`, "", nil},
		"an entry goes":           {`{"l":[{"id":"a"},{"id":"b"}]}`, `{"l":[{"id":"c"},{"id":"a"},{"id":"b"}]}`, `{"l":[{"id":"b"}]}`, `{"l":[{"id":"c"},{"id":"b"}]}`, "", nil},
		"fields of an entry":      {`{"l":[{"id":"a","x":1,"y":1}]}`, `{"l":[{"id":"a","x":2,"y":1}]}`, `{"l":[{"id":"a","x":1,"y":2}]}`, `{"l":[{"id":"a","x":2,"y":2}]}`, "", nil},
		"a changed entry goes":    {`{"l":[{"id":"a","x":1}]}`, `{"l":[{"id":"a","x":2}]}`, `{"l":[]}`, `{"l":[{"id":"a","x":2}]}`, `{"l":[]}`, []string{"/l/a"}},
		"order":                   {`{"l":[{"id":"a"},{"id":"b"}]}`, `{"l":[{"id":"a"},{"id":"n"},{"id":"b"}]}`, `{"l":[{"id":"b"},{"id":"a"}]}`, `{"l":[{"id":"b"},{"id":"n"},{"id":"a"}]}`, "", nil},
		"both order":              {`{"l":[{"id":"a"},{"id":"b"},{"id":"c"}]}`, `{"l":[{"id":"b"},{"id":"a"},{"id":"c"}]}`, `{"l":[{"id":"c"},{"id":"a"},{"id":"b"}]}`, `{"l":[{"id":"b"},{"id":"a"},{"id":"c"}]}`, `{"l":[{"id":"c"},{"id":"a"},{"id":"b"}]}`, []string{"/l"}},
		"a set":                   {`{"set":["a","b"]}`, `{"set":["a","b","c"]}`, `{"set":["b"]}`, `{"set":["b","c"]}`, "", nil},
		"a list that is no set":   {`{"l":["a","b"]}`, `{"l":["a","b","c"]}`, `{"l":["b"]}`, `{"l":["a","b","c"]}`, `{"l":["b"]}`, []string{"/l"}},
		"an id twice":             {`{"l":[{"id":"a"},{"id":"a"}]}`, `{"l":[{"id":"a"}]}`, `{"l":[]}`, `{"l":[{"id":"a"}]}`, `{"l":[]}`, []string{"/l"}},
		"an id that is no text":   {`{"l":[{"id":1}]}`, `{"l":[{"id":2}]}`, `{"l":[]}`, `{"l":[{"id":2}]}`, `{"l":[]}`, []string{"/l"}},
		"a name with a slash":     {`{"a/b":{"~":1}}`, `{"a/b":{"~":2}}`, `{"a/b":{"~":3}}`, `{"a/b":{"~":2}}`, `{"a/b":{"~":3}}`, []string{"/a~1b/~0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for prefer, want := range map[Side]string{"": tc.merged, Ours: tc.merged, Theirs: tc.byTheirs} {
				if want == "" {
					want = tc.merged
				}
				m := &Merge{Prefer: prefer, Sets: []string{"/set"}}
				got, err := Canonical(m.Objects(object(t, tc.base), object(t, tc.ours), object(t, tc.theirs)))
				require.NoError(t, err)
				require.Equal(t, want, string(got), "prefer %q", prefer)
				var at []string
				for _, c := range m.Conflicts {
					at = append(at, c.Pointer)
				}
				require.Equal(t, tc.conflicts, at)
			}
		})
	}
}

// leaves collects the values of a document by path, with entries of lists by their ids.
func leaves(at string, v any, out map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			leaves(at+Pointer(k), inner, out)
		}
	case []any:
		for _, entry := range v {
			leaves(at+Pointer(entry.(map[string]any)["id"].(string)), entry, out)
		}
	default:
		out[at] = v
	}
}

// TestMergeTakesEachLeafFromTheChangedSide compares the merge with one that ignores the structure of objects and lists.
func TestMergeTakesEachLeafFromTheChangedSide(t *testing.T) {
	t.Parallel()
	draw := func(rt *rapid.T, what string) map[string]any {
		doc := map[string]any{}
		for _, k := range []string{"a", "b", "c"} {
			if n := rapid.IntRange(0, 2).Draw(rt, what+k); n > 0 {
				doc[k] = json.Number(string(rune('0' + n)))
			}
		}
		list := []any{}
		for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 3, rapid.ID).Draw(rt, what+"list") {
			list = append(list, map[string]any{"id": id, "n": json.Number(rapid.SampledFrom([]string{"1", "2"}).Draw(rt, what+id))})
		}
		doc["list"] = list
		return doc
	}
	rapid.Check(t, func(rt *rapid.T) {
		base, ours, theirs := draw(rt, "base"), draw(rt, "ours"), draw(rt, "theirs")
		m := &Merge{}
		merged := m.Objects(base, ours, theirs)
		order := slices.ContainsFunc(m.Conflicts, func(c MergeConflict) bool { return c.Pointer == "/list" })
		if len(m.Conflicts) > 1 || len(m.Conflicts) == 1 && !order {
			return
		}
		b, o, th, got := map[string]any{}, map[string]any{}, map[string]any{}, map[string]any{}
		leaves("", base, b)
		leaves("", ours, o)
		leaves("", theirs, th)
		leaves("", merged, got)
		want := map[string]any{}
		all := maps.Clone(b)
		maps.Copy(all, o)
		maps.Copy(all, th)
		for at := range all {
			from := th
			if b[at] == th[at] {
				from = o
			}
			if v, ok := from[at]; ok {
				want[at] = v
			}
		}
		require.Equal(rt, want, got)
		// And a part that one side has not touched is the other side's, byte for byte.
		again := (&Merge{}).Objects(base, base, theirs)
		require.Equal(rt, theirs, again)
		require.Equal(rt, ours, (&Merge{}).Objects(base, ours, base))
	})
}
