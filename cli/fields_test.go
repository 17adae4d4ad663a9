package cli

import (
	"reflect"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestFieldsExist compares the flags with the schema, to detect a renamed field.
func TestFieldsExist(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what   string
		fields []field
		models []any
	}{
		{"cluster", clusters.fields, []any{api.ClusterCreate{}, api.ClusterUpdate{}}},
		{"namespace", namespaces.fields, []any{api.NamespaceCreate{}, api.NamespaceUpdate{}}},
		{"component", components.fields, []any{api.PlatformComponentCreate{}, api.PlatformComponentUpdate{}}},
		{"rolebinding", roleBindings.fields, []any{api.RoleBindingCreate{}, api.RoleBindingUpdate{}}},
		{"assignment", assignmentSettings, []any{api.AssignmentSettings{}}},
	} {
		for _, model := range test.models {
			known := jsonNames(model)
			for _, f := range test.fields {
				if !known[f.name] {
					t.Errorf("%s: --%s sets %q, which %T does not have", test.what, f.flag, f.name, model)
				}
			}
		}
	}
	// Fields without a flag, on purpose.
	noFlag := map[string]bool{"id": true, "patches": true, "revision": true, "created_at": true, "updated_at": true, "deleted_at": true, "patch_owners": true, "resources": true, "excludes": true, "layers": true}
	for _, test := range []struct {
		fields []field
		model  any
	}{
		{clusters.fields, api.ClusterUpdate{}},
		{namespaces.fields, api.NamespaceUpdate{}},
		{components.fields, api.PlatformComponentUpdate{}},
		{roleBindings.fields, api.RoleBindingUpdate{}},
		{assignmentSettings, api.AssignmentSettings{}},
	} {
		set := map[string]bool{}
		for _, f := range test.fields {
			set[f.name] = true
		}
		for name := range jsonNames(test.model) {
			if !set[name] && !noFlag[name] {
				t.Errorf("%T has the field %q, for which there is no flag", test.model, name)
			}
		}
	}
}

func jsonNames(model any) map[string]bool {
	names := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(model)) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names[name] = true
	}
	return names
}

func TestLiteral(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "plain": "plain", "3": `"3"`, "-3": `"-3"`, "+3": `"+3"`, "0x1f": `"0x1f"`, "true": `"true"`, "NULL": `"NULL"`,
		"False": `"False"`, "truer": "truer", `"x"`: `""x""`, "'x'": `"'x'"`, "a,b={c}": "a,b={c}", "1.5": `"1.5"`, "#fff": "#fff",
	} {
		if got := literal(in); got != want {
			t.Errorf("literal(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestFlatten(t *testing.T) {
	t.Parallel()
	values := map[string]any{}
	err := flatten(values, []byte(`
a.b: {c=d: 1, "e,f": two}
list: [x, {yy: 3}, [4]]
"back\\slash": "true"
"odd[0]": 1
none: {}
`), "test")
	if err != nil {
		t.Fatal(err)
	}
	got, err := render.Encode(values)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"a\\.b.c\\=d":1,"a\\.b.e\\,f":"two","back\\\\slash":"\"true\"","list[0]":"x","list[1].yy":3,"list[2][0]":4,"none":{},"odd\\[0]":1}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, source := range []string{"[1]", "a: [", "a: null", "a: {b: [null]}", "text"} {
		if err := flatten(map[string]any{}, []byte(source), "test"); err == nil {
			t.Errorf("%q was accepted", source)
		}
	}
	for _, source := range []string{"{}", "# nothing but a comment\n{}"} {
		if err := flatten(values, []byte(source), "test"); err != nil {
			t.Errorf("%q: %v", source, err)
		}
	}
}
