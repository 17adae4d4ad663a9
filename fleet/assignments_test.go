package fleet

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestNonCanonicalRowIsRefused: a row that was formatted or merged by hand is refused, instead of being changed in one list
// and served from another, which would drop entries.
func TestNonCanonicalRowIsRefused(t *testing.T) {
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
			require.ErrorContains(t, err, "cannot be read: ", "assign %s: %s", id, lists)
			_, err = tx.Unassign("k", KindComponent, id)
			require.ErrorContains(t, err, "cannot be read: ", "unassign %s: %s", id, lists)
			require.Empty(t, tx.edits)
		}
		for _, labels := range []string{`"Labels":{}`, `"labels":{},"labels":{"x":"1"}`} {
			state, err := NewState(testRules, Head{}, time.Time{}, []Record{{Kind: KindCluster, ID: "k", Body: json.RawMessage(`{` + rest + `,"platform_components":[],` + labels + `}`)}})
			require.NoError(t, err)
			_, err = state.Begin().SetLabels("k", []byte(`{"a":"1"}`))
			require.ErrorContains(t, err, "cannot be read: ")
		}
	}
}

// TestEditKeepsOtherFields: fields stored by an older or newer version, or by hand, survive an edit.
func TestEditKeepsOtherFields(t *testing.T) {
	t.Parallel()
	rest := `"a_later_field":{"b": [1.0, {}] , "a":null},"cluster_dns":"k.example.com","cluster_name":"k","deletion_protection":false,"environment":"dev","id":"k","labels":{"z":"1","a":"2"},"namespaces":[],`
	entries := `{"later":1e2 ,"id":"a","enabled":true},{"enabled":true,"id":"\u0062"},{"id":"c"}`
	records := []Record{{Kind: KindCluster, ID: "k", Body: json.RawMessage(`{` + rest + `"patches":{"a":{"x" : 1}},"platform_components":[` + entries + `],"rolebindings":[]}`)}}
	for _, id := range []string{"a", "b", "c", "d"} {
		records = append(records, Record{Kind: KindComponent, ID: id, Body: json.RawMessage(fmt.Sprintf(`{"id":%q}`, id))})
	}
	state, err := NewState(testRules, Head{}, time.Time{}, records)
	require.NoError(t, err)
	for id, want := range map[string]string{
		"a": `[{"enabled":false,"id":"a","later":1e2},{"enabled":true,"id":"b"},{"id":"c"}]`,
		"b": `[{"later":1e2 ,"id":"a","enabled":true},{"enabled":false,"id":"b"},{"id":"c"}]`,
		"d": `[{"later":1e2 ,"id":"a","enabled":true},{"enabled":true,"id":"b"},{"id":"c"},{"enabled":false,"id":"d"}]`,
	} {
		doc, err := state.Begin().Assign("k", KindComponent, id, []byte(`{"enabled":false}`))
		require.NoError(t, err)
		require.Equal(t, `{`+rest+`"patches":{"a":{"x" : 1}},"platform_components":`+want+`,"rolebindings":[]}`, string(doc.Body))
		read, err := NewDocument(doc.Record)
		require.NoError(t, err)
		require.Equal(t, read.value, doc.value)
		require.Equal(t, read.own.bound, doc.own.bound)
		require.Equal(t, read.own.block, doc.own.block)
	}
	doc, err := state.Begin().Unassign("k", KindComponent, "b")
	require.NoError(t, err)
	require.Contains(t, string(doc.Body), `"platform_components":[{"later":1e2 ,"id":"a","enabled":true},{"id":"c"}]`)
}

// TestPatchesWithoutComponentAreRefused even if a later operation of the batch touches the cluster too.
func TestPatchesWithoutComponentAreRefused(t *testing.T) {
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

// TestDuplicateDNSIsRefused even if one of the clusters was stored in capitals and changes too.
func TestDuplicateDNSIsRefused(t *testing.T) {
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
