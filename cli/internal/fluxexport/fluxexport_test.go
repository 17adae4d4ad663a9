package fluxexport

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
)

func set(name string, objects ...string) Rendered {
	r := Rendered{Name: name}
	for _, obj := range objects {
		r.Objects = append(r.Objects, json.RawMessage(obj))
	}
	return r
}

// nested is a ResourceSet that applies an object when another one is ready.
func nested(name, dependsOn, object string) string {
	template, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return `{"apiVersion":"fluxcd.controlplane.io/v1","kind":"ResourceSet","metadata":{"name":"` + name + `","namespace":"flux-system"},"spec":{"dependsOn":[` + dependsOn + `],"resourcesTemplate":` + string(template) + `}}`
}

const configMap = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n"}}`

// TestRefused: what only Flux Operator can do, and objects that two ResourceSets render.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sets []Rendered
		want string
	}{
		"the same object":  {[]Rendered{set("one", configMap), set("two", configMap)}, `ResourceSet "two": it renders ConfigMap n/a, and so does ResourceSet "one"`},
		"nested and plain": {[]Rendered{set("one", configMap, nested("b", "", configMap))}, "ConfigMap n/a"},
		"a FluxInstance":   {[]Rendered{set("one", `{"apiVersion":"fluxcd.controlplane.io/v1","kind":"FluxInstance","metadata":{"name":"flux"}}`)}, "only Flux Operator can use FluxInstance flux"},
		"inputs":           {[]Rendered{set("one", `{"apiVersion":"fluxcd.controlplane.io/v1","kind":"ResourceSet","metadata":{"name":"r"},"spec":{"inputs":[{"id":"a"}]}}`)}, "which has inputs"},
		"a copied Secret":  {[]Rendered{set("one", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","annotations":{"fluxcd.controlplane.io/copyFrom":"x/y"}}}`)}, "copyFrom"},
		"a provider":       {[]Rendered{set("one", nested("mine", "", `{"apiVersion":"fluxcd.controlplane.io/v1","kind":"ResourceSetInputProvider","metadata":{"name":"p"}}`))}, "only Flux Operator can use ResourceSetInputProvider p"},
	} {
		if got, err := New(test.sets); err == nil || !strings.Contains(err.Error(), test.want) || len(got.Lists) > 0 {
			t.Errorf("%s: %v, %v; want %q", name, got, err, test.want)
		}
	}
}

// TestMissing: what plain Flux lacks is named, and receipts are left out.
func TestMissing(t *testing.T) {
	t.Parallel()
	got, err := New([]Rendered{set("one",
		nested("receipt-x", "", `{"apiVersion":"fluxcd.controlplane.io/v1","kind":"ResourceSetInputProvider","metadata":{"name":"p"}}`),
		nested("object-a", `{"apiVersion":"v1","kind":"ConfigMap","name":"a","namespace":"n"}`, configMap),
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","labels":{"resourceset.fluxcd.controlplane.io/name":"one"},"annotations":{"fluxcd.controlplane.io/recreateOnFailure":"enabled"}}}`,
	), set("two")})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"the annotation fluxcd.controlplane.io/recreateOnFailure of ConfigMap b"}; !reflect.DeepEqual(got.Missing, want) {
		t.Errorf("missing: %q, not %q", got.Missing, want)
	}
	if len(got.Lists) != 1 || len(got.Lists[0].Objects) != 2 {
		t.Fatalf("the lists are %v", got.Lists)
	}
	if b := got.Lists[0].Objects[0]; !reflect.DeepEqual(b["metadata"], resourceset.Object{"name": "b"}) {
		t.Errorf("the metadata of b is %v", b["metadata"])
	}
	if a := got.Lists[0].Objects[1]; resourceset.Text(a, "metadata", "annotations", "kustomize.toolkit.fluxcd.io/ssa") != "Merge" {
		t.Errorf("fields of other programs would be lost: %v", a)
	}
}

// TestCharacters: characters that YAML refuses or folds, and keys that it merges, reach the files as they are.
func TestCharacters(t *testing.T) {
	t.Parallel()
	data := map[string]any{"a": "x\u0085y\x7f\u2028z\ufeff", "<<": "a", "b": map[string]any{"<<": map[string]any{"c": "d"}}}
	raw, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": data})
	if err != nil {
		t.Fatal(err)
	}
	for name, object := range map[string]string{"plain": string(raw), "nested": nested("b", "", string(render.EscapeForYAML(raw)))} {
		e, err := New([]Rendered{set("one", object)})
		if err != nil {
			t.Fatal(err)
		}
		files, err := e.files()
		if err != nil {
			t.Fatal(err)
		}
		got, err := resourceset.ParseObjects(string(files["one/objects.yaml"]))
		if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0]["data"], data) {
			t.Errorf("%s: %v, %q", name, err, got)
		}
	}
}

// TestWrite: a folder appears complete or not at all, and is read back as it was.
func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const hostile = "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"},\"data\":{\"x\":\"\\u0085\\u2028\\n---\\n${A} << b >> \",\"on\":\"1e3\",\"e\":\"\\n\\n\"}}"
	e, err := New([]Rendered{set("one", hostile)})
	if err != nil {
		t.Fatal(err)
	}
	want := e.Lists[0].Objects
	if err := e.Write(dir, "c"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "c", "one", "objects.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := resourceset.ParseObjects(string(text)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: read back as\n%v, not\n%v", err, got, want)
	}
	if err := e.Write(dir, "c"); !errors.Is(err, ErrExists) {
		t.Errorf("a second export: %v", err)
	}
	e.Lists = append(e.Lists, List{Name: "../x", Objects: want})
	if err := e.Write(dir, "d"); err == nil {
		t.Error("a ResourceSet wrote outside of its folder")
	}
	e.Lists = e.Lists[:1]
	for _, cluster := range []string{"", ".", "..", "../d", "d/../../d", `d\e`, "/d", ".d"} {
		if err := e.Write(filepath.Join(dir, "c"), cluster); err == nil || errors.Is(err, ErrExists) {
			t.Errorf("cluster %q: %v", cluster, err)
		}
	}
	for _, name := range []string{"a: b", "a\n- /etc/passwd", "#a", "{a}"} {
		e.Lists[0].Name = name
		if err := e.Write(dir, "d"); err == nil {
			t.Errorf("ResourceSet %q has a folder", name)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
}
