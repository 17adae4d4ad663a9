package cli

import (
	"reflect"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestFieldsExist compares the flags with the schema, to detect a renamed field.
func TestFieldsExist(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what   string
		fields []kinds.Field
		models []any
	}{
		{"cluster", kinds.Clusters.Fields, []any{api.ClusterCreate{}, api.ClusterUpdate{}}},
		{"namespace", kinds.Namespaces.Fields, []any{api.NamespaceCreate{}, api.NamespaceUpdate{}}},
		{"component", kinds.Components.Fields, []any{api.PlatformComponentCreate{}, api.PlatformComponentUpdate{}}},
		{"rolebinding", kinds.RoleBindings.Fields, []any{api.RoleBindingCreate{}, api.RoleBindingUpdate{}}},
		{"assignment", kinds.AssignmentSettings, []any{api.AssignmentSettings{}}},
	} {
		for _, model := range test.models {
			known := jsonNames(model)
			for _, f := range test.fields {
				if !known[f.Name] {
					t.Errorf("%s: --%s sets %q, which %T does not have", test.what, f.Flag, f.Name, model)
				}
			}
		}
	}
	// Fields without a flag, on purpose.
	noFlag := map[string]bool{
		"id": true, "patches": true, "revision": true, "created_at": true, "updated_at": true, "deleted_at": true, "patch_owners": true, "resources": true, "excludes": true, "layers": true, "pinned": true,
		"reconcile_requested_at": true, "version_policies": true, "image_policies": true,
	}
	for _, test := range []struct {
		fields []kinds.Field
		model  any
	}{
		{kinds.Clusters.Fields, api.ClusterUpdate{}},
		{kinds.Namespaces.Fields, api.NamespaceUpdate{}},
		{kinds.Components.Fields, api.PlatformComponentUpdate{}},
		{kinds.RoleBindings.Fields, api.RoleBindingUpdate{}},
		{kinds.AssignmentSettings, api.AssignmentSettings{}},
	} {
		set := map[string]bool{}
		for _, f := range test.fields {
			set[f.Name] = true
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
