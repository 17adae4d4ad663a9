package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestSetFieldsIsWhatDecodingAndEncodingWouldDo, in the form that is stored and in one that somebody formatted.
func TestSetFieldsIsWhatDecodingAndEncodingWouldDo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		object := rapid.MapOf(randomKey(), randomJSON(3)).Draw(rt, "object")
		change := rapid.MapOfN(randomKey(), randomJSON(2), 0, 3).Draw(rt, "change")
		text, err := canonical(object)
		require.NoError(rt, err)
		fields := map[string]json.RawMessage{}
		for k, v := range change {
			if v == nil {
				fields[k] = nil
				delete(object, k)
				continue
			}
			fields[k], err = canonical(v)
			require.NoError(rt, err)
			object[k] = v
		}
		want, err := canonical(object)
		require.NoError(rt, err)
		got, err := setFieldsOf(text, fields)
		require.NoError(rt, err)
		require.Equal(rt, string(want), string(got))

		var formatted bytes.Buffer
		require.NoError(rt, json.Indent(&formatted, text, " ", "\t"))
		got, err = setFieldsOf(formatted.Bytes(), fields)
		require.NoError(rt, err)
		require.JSONEq(rt, string(want), string(got))
	})
}

func setFieldsOf(text []byte, fields map[string]json.RawMessage) (json.RawMessage, error) {
	all, err := members(text)
	if err != nil {
		return nil, err
	}
	return setFields(all, fields)
}

func TestElementsAreTheEntriesOfAList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		items := rapid.SliceOf(randomJSON(3)).Draw(rt, "list")
		text, err := canonical(append([]any{}, items...))
		require.NoError(rt, err)
		cut := elements(text)
		require.Len(rt, cut, len(items))
		for i, item := range items {
			want, err := canonical(item)
			require.NoError(rt, err)
			require.Equal(rt, string(want), string(cut[i]))
		}
		require.Equal(rt, string(text), string(listOf(cut)))
	})
}

// TestSplicingTextThatIsNoObject must not panic, whatever somebody wrote into the database.
func TestSplicingTextThatIsNoObject(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " ", "null", `"`, `"a`, `{`, `{"a`, `{"a"`, `{"a":`, `[1]`, `{1:2}`, `{"a":1`, `{,}`, `{"\`, `}`, `{"\ud800x":1}`} {
		_, _ = setFieldsOf([]byte(text), map[string]json.RawMessage{"b": json.RawMessage("1")})
		_ = elements([]byte(text))
	}
}

// TestARowThatIsNotAsWeWriteItIsRefused rather than revised in one list and served from another: who formatted or merged
// rows by hand must not find that a cluster has lost what the other list had.
func TestARowThatIsNotAsWeWriteItIsRefused(t *testing.T) {
	t.Parallel()
	rest := `"cluster_dns":"k.example.com","cluster_name":"k","environment":"dev","id":"k","namespaces":[],"rolebindings":[]`
	both := `[{"id":"a","enabled":true},{"id":"b","enabled":true}]`
	for _, lists := range []string{
		`"platform_components":[],"platform_components":` + both,
		`"platform_components":` + both + `,"Platform_Components":[]`,
		`"Platform_Components":` + both,
		`"platform_components":[],"labels":{},"PLATFORM_COMPONENTS":` + both,
	} {
		records := []Record{{Kind: KindCluster, ID: "k", Body: json.RawMessage(`{` + rest + `,` + lists + `}`)}}
		for _, id := range []string{"a", "b", "c"} {
			records = append(records, Record{Kind: KindComponent, ID: id, Body: json.RawMessage(fmt.Sprintf(`{"id":%q}`, id))})
		}
		state, err := NewState(testRules, Head{}, time.Time{}, records)
		if err != nil {
			continue // an empty list came last, and another is missing
		}
		for _, id := range []string{"a", "b", "c"} {
			tx := state.Begin()
			_, err = tx.Assign("k", KindComponent, id, nil)
			require.ErrorContains(t, err, "twice, or in another case", "assign %s: %s", id, lists)
			_, err = tx.Unassign("k", KindComponent, id)
			require.ErrorContains(t, err, "twice, or in another case", "unassign %s: %s", id, lists)
			require.Empty(t, tx.edits)
		}
		for _, labels := range []string{`"Labels":{}`, `"labels":{},"labels":{"x":"1"}`} {
			state, err := NewState(testRules, Head{}, time.Time{}, []Record{{Kind: KindCluster, ID: "k", Body: json.RawMessage(`{` + rest + `,"platform_components":[],` + labels + `}`)}})
			require.NoError(t, err)
			_, err = state.Begin().SetLabels("k", []byte(`{"a":"1"}`))
			require.ErrorContains(t, err, "twice, or in another case")
		}
	}
}

// TestPatchesForNothingAreRefused although another operation of the batch touches the cluster after them.
func TestPatchesForNothingAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t,
		string(KindComponent), `{"id":"ghost","component_path":"p","oci_url":"https://charts.example.com"}`,
		string(KindCluster), `{"id":"k","cluster_dns":"k.example.com","environment":"dev"}`)
	_, err := w.try(func(tx *Tx) error {
		if _, err := tx.Patch(KindCluster, "k", []byte(`{"patches":{"ghost":{"a":"1"}}}`)); err != nil {
			return err
		}
		_, err := tx.SetLabels("k", []byte(`{"x":"1"}`))
		return err
	})
	var refused *Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "/patches/ghost", refused.Problems[0].Pointer)
}

// TestOneNameForTwoClusters is refused although one of them, written by hand, has it in capitals and changes as well.
func TestOneNameForTwoClusters(t *testing.T) {
	t.Parallel()
	state, err := NewState(testRules, Head{}, time.Time{}, []Record{{Kind: KindCluster, ID: "k", Body: json.RawMessage(
		`{"cluster_dns":"K.Example.com","cluster_name":"k","environment":"dev","id":"k","namespaces":[],"platform_components":[],"rolebindings":[]}`)}})
	require.NoError(t, err)
	w := &world{t: t, state: state}
	_, err = w.try(func(tx *Tx) error {
		if _, err := tx.SetLabels("k", []byte(`{"x":"1"}`)); err != nil {
			return err
		}
		_, err := tx.Create(KindCluster, []byte(`{"id":"k2","cluster_dns":"k.example.com","environment":"dev"}`))
		return err
	})
	var refused *Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "/cluster_dns", refused.Problems[0].Pointer)
	require.Contains(t, refused.Problems[0].Detail, `cluster_dns of cluster "k"`)
}

func TestLabelsAreReportedWhereTheyAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t, string(KindCluster), `{"id":"k","cluster_dns":"k.example.com","environment":"dev"}`)
	for _, labels := range []string{`{"a":"1","a":"2"}`, `{"a":3}`, `"x"`} {
		_, err := w.state.Begin().SetLabels("k", []byte(labels))
		var refused *Error
		require.ErrorAs(t, err, &refused, labels)
		require.Regexp(t, "^/labels", refused.Problems[0].Pointer, labels)
	}
}

func randomKey() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"a", "b", "ab", "a.b", `q"q`, `b\s`, "ü", "z{", "[", ",", " s", "", "\u2028", "<&>"})
}

func randomJSON(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kinds := 5
		if depth > 0 {
			kinds = 7
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "type") {
		case 0:
			return rapid.Bool().Draw(t, "bool")
		case 1:
			return json.Number(fmt.Sprint(rapid.IntRange(-9, 1e9).Draw(t, "number")))
		case 2, 3:
			return rapid.SampledFrom([]string{"", "x", `{"a":[`, `\`, `\"`, `"`, "]},", "ü\u2028", "a,b"}).Draw(t, "string")
		case 4:
			return nil
		case 5:
			return append([]any{}, rapid.SliceOfN(randomJSON(depth-1), 0, 4).Draw(t, "list")...)
		default:
			return rapid.MapOfN(randomKey(), randomJSON(depth-1), 0, 4).Draw(t, "object")
		}
	})
}
