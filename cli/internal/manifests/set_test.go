package manifests

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/internal/documents"
)

var testKinds = documents.Kinds{
	{Kind: "platform_component", Name: "component", Title: "platform component", List: "platform_components", Aliases: []string{"components"}},
	{Kind: "namespace", Name: "namespace", Title: "namespace", List: "namespaces", Aliases: []string{"ns"}},
	{Kind: "rolebinding", Name: "rolebinding", Title: "role binding", List: "rolebindings", Aliases: []string{"rb"}},
	{Kind: "resource_type", Name: "resource-type", Title: "resource type", List: "resource_types"},
	{Kind: "layer", Name: "layer", Title: "layer", List: "layers", Refers: true},
	{Kind: "cluster", Name: "cluster", Title: "cluster", List: "clusters", Refers: true},
}

func readAll(t *testing.T, data []byte) []documents.Document {
	t.Helper()
	r := documents.Reader{Kinds: testKinds}
	r.Add(data, "file")
	docs, err := r.Documents()
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

// stored is a fleet of documents by kind and id. Of those in differing, a plan finds a difference that reading does not show.
type stored struct {
	documents map[string]map[string]string
	differing []Name
	plans     int
}

func (f *stored) Get(k documents.Kind, id string) (json.RawMessage, error) {
	if doc, ok := f.documents[k.Kind][id]; ok {
		return json.RawMessage(doc), nil
	}
	return nil, nil
}

func (f *stored) List(k documents.Kind) ([]json.RawMessage, error) {
	var docs []json.RawMessage
	for _, doc := range f.documents[k.Kind] {
		docs = append(docs, json.RawMessage(doc))
	}
	return docs, nil
}

func (f *stored) ResourceTypes() ([]string, error) { return []string{"quotas"}, nil }

func (f *stored) Differing([]Operation) ([]Name, error) {
	f.plans++
	return f.differing, nil
}

func operationsOf(t *testing.T, set *Set, fleet Fleet) []string {
	t.Helper()
	ops, err := set.Operations(fleet)
	if err != nil {
		t.Fatal(err)
	}
	texts := make([]string, len(ops))
	for i, op := range ops {
		texts[i] = op.Op + " " + op.Kind.Name + "/" + op.ID
	}
	return texts
}

// TestOperationsOrder: definitions come before the documents that refer to them, and are deleted after them.
func TestOperationsOrder(t *testing.T) {
	t.Parallel()
	docs := readAll(t, []byte(`{"clusters":[{"id":"c"}],"resources":[{"type":"quotas","id":"q"}],"namespaces":[{"id":"n"}]}`))
	clusters, _ := testKinds.Find("cluster")
	fleet := &stored{documents: map[string]map[string]string{
		"cluster": {"c": `{"id":"c"}`, "old": `{"id":"old"}`}, "resource/quotas": {"gone": `{"id":"gone"}`},
	}}
	set := &Set{Kinds: testKinds, Documents: docs, Prune: []documents.Kind{clusters}, PruneResources: true}
	want := []string{
		"put namespace/n", "put resource/quotas/q", "put cluster/c", "delete cluster/old", "delete resource/quotas/gone",
	}
	if got := operationsOf(t, set, fleet); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestLargeSetLeavesOutConfirmed: of a large set, only documents that a plan has confirmed to be unchanged are left out.
func TestLargeSetLeavesOutConfirmed(t *testing.T) {
	t.Parallel()
	fleet := &stored{documents: map[string]map[string]string{"cluster": {}}, differing: []Name{{"cluster", "c7"}}}
	set := &Set{Kinds: testKinds}
	clusters, _ := testKinds.Find("cluster")
	for i := range 2*sentDocuments + 1 {
		id := fmt.Sprint("c", i)
		fields := map[string]json.RawMessage{"id": json.RawMessage(fmt.Sprintf("%q", id))}
		fleet.documents["cluster"][id] = fmt.Sprintf(`{"id":%q,"revision":1}`, id)
		set.Documents = append(set.Documents, documents.Document{Kind: clusters, ID: id, Fields: fields})
	}
	fleet.documents["cluster"]["c9"] = `{"id":"other"}`
	delete(fleet.documents["cluster"], "c8")
	if got, want := operationsOf(t, set, fleet), []string{"put cluster/c7", "put cluster/c8", "put cluster/c9"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if fleet.plans != 2 {
		t.Errorf("%d plans", fleet.plans)
	}
}
