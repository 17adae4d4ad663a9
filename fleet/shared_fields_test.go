package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestSharedFields: documents that are decoded together are those that are decoded one by one, and equal lists are one list.
func TestSharedFields(t *testing.T) {
	t.Parallel()
	stored := demo(t).state.docs[KindCluster]["demo-cluster-01"].Record
	rapid.Check(t, func(rt *rapid.T) {
		shared := newSharedFields()
		first := map[string]*Document{}
		for i := range rapid.IntRange(1, 8).Draw(rt, "clusters") {
			var fields map[string]any
			require.NoError(rt, json.Unmarshal(stored.Body, &fields))
			fields["id"] = fmt.Sprintf("cluster-%d", i)
			for _, list := range []string{"platform_components", "namespaces"} {
				entries := []any{}
				for n := range rapid.IntRange(0, 3).Draw(rt, list) {
					entries = append(entries, map[string]any{"id": fmt.Sprintf("a-definition-with-a-long-name-%d", n), "enabled": n%2 == 0})
				}
				fields[list] = entries
			}
			fields["patches"] = map[string]any{"podinfo": map[string]any{"a.path.of.a.value": strings.Repeat("v", rapid.IntRange(1, 3).Draw(rt, "patch"))}}
			rec := stored
			rec.ID = fmt.Sprint(fields["id"])
			rec.Body, _ = json.Marshal(fields)
			want, err := compiledIn.document(rec)
			require.NoError(rt, err)
			got, err := shared.document(compiledIn, rec)
			require.NoError(rt, err)
			require.Equal(rt, want.value, got.value)
			require.Equal(rt, want.bound, got.bound)
			require.Equal(rt, want.Body, got.Body)
			text, _ := json.Marshal(fields["platform_components"])
			before := first[string(text)]
			if before == nil {
				first[string(text)] = got
			} else if len(text) >= minSharedField {
				require.Same(rt, &before.Cluster().PlatformComponents[0], &got.Cluster().PlatformComponents[0])
			}
		}
	})
}

// TestSharedFieldsErrors: a document that cannot be read has the same error as if it was decoded alone.
func TestSharedFieldsErrors(t *testing.T) {
	t.Parallel()
	stored := demo(t).state.docs[KindCluster]["demo-cluster-01"].Record
	good := string(stored.Body)
	for name, body := range map[string]string{
		"empty": "", "not JSON": good[:len(good)-1], "null": "null", "list": "[]", "text": `"a"`,
		"wrong type":                              strings.Replace(good, `"enabled":true`, `"enabled":"yes"`, 1),
		"wrong type of a list":                    strings.Replace(good, `"namespaces":[`, `"namespaces":7,"other":[`, 1),
		"a list is missing":                       strings.Replace(good, `"namespaces":`, `"other":`, 1),
		"a field appears twice":                   strings.Replace(good, `{`, `{"id":"another",`, 1),
		"a field that this version does not know": strings.Replace(good, `{`, `{"later":{"a":"0123456789012345678901234567890123456789012345678901234567890123456789"},`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := stored
			rec.Body = []byte(body)
			want, wanted := compiledIn.document(rec)
			shared := newSharedFields()
			for range 2 { // the second one finds fields of the first
				got, err := shared.document(compiledIn, rec)
				if wanted != nil {
					require.EqualError(t, err, wanted.Error())
					continue
				}
				require.NoError(t, err)
				require.Equal(t, want.value, got.value)
			}
		})
	}
}

// TestSeedSharesFields: the clusters of a seed share equal lists, as they do after a restart.
func TestSeedSharesFields(t *testing.T) {
	t.Parallel()
	seed, err := ParseSeed([]byte(`{"platform_components":[{"id":"the-ingress-controller-of-the-platform","component_path":"a","component_version":"1.0.0","oci_url":"https://a","oci_tag":"1"}],
"clusters":[
 {"id":"a","cluster_name":"a","cluster_dns":"a.example.com","environment":"dev","platform_components":[{"id":"the-ingress-controller-of-the-platform","oci_tag":"2"}]},
 {"id":"b","cluster_name":"b","cluster_dns":"b.example.com","environment":"dev","platform_components":[{"id":"the-ingress-controller-of-the-platform","oci_tag":"2"}]}]}`))
	require.NoError(t, err)
	st, err := NewState(Rules{Environments: []string{"dev"}}, Head{}, time.Time{}, nil)
	require.NoError(t, err)
	tx := st.Begin()
	require.NoError(t, seed.Create(tx))
	result, err := tx.Finish(Commit{})
	require.NoError(t, err)
	a, b := result.State.docs[KindCluster]["a"].Cluster(), result.State.docs[KindCluster]["b"].Cluster()
	require.Same(t, &a.PlatformComponents[0], &b.PlatformComponents[0])
}

// TestBatchSharesFields: clusters that a batch changes alike share the changed list.
func TestBatchSharesFields(t *testing.T) {
	t.Parallel()
	docs := []string{string(KindComponent), `{"id":"the-ingress-controller-of-the-platform","component_path":"a","oci_url":"https://charts.example.com"}`}
	for _, id := range []string{"a", "b"} {
		docs = append(docs, string(KindCluster), fmt.Sprintf(`{"id":%q,"cluster_dns":"%s.example.com","environment":"dev","platform_components":[{"id":"the-ingress-controller-of-the-platform"}]}`, id, id))
	}
	w := newWorld(t, docs...)
	w.must(batch(`{"op":"set_component","all":true,"component_id":"the-ingress-controller-of-the-platform","component_version":"2.0.0"}`))
	a, b := w.state.docs[KindCluster]["a"].Cluster(), w.state.docs[KindCluster]["b"].Cluster()
	require.Equal(t, "2.0.0", a.PlatformComponents[0].ComponentVersion)
	require.Same(t, &a.PlatformComponents[0], &b.PlatformComponents[0])
}

// TestSharedFieldsAreLimited: a batch may write thousands of large versions of one cluster.
func TestSharedFieldsAreLimited(t *testing.T) {
	t.Parallel()
	shared := newSharedFields()
	for i := range uint64(10) {
		shared.add(map[sharedField][]byte{{"patches", i}: make([]byte, maxSharedText/2)}, nil)
		require.LessOrEqual(t, len(shared.from), 2)
	}
}
