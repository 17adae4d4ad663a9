package e2e

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// troublesome are texts that mean something to YAML, to templates, to shells or to Helm.
var troublesome = []string{
	"a,b={c}", `say "yes" \ 'no'`, "first\nsecond\n", "{{ .Values.secret }}", "<< inputs.id >>", "<<- end >>",
	"on", "yes", "~", "1e3", "0x10", "0o7", "1_000", "012", "-", "- item", "? key", "*alias", "&anchor", "!tag", "!!binary aGk=",
	"key: value", "trailing: ", "a # comment", "#", "%directive", "@at", "`tick`", "|", ">-", "---\nkind: Secret\n", "...",
	"[1, 2]", "{a: b}", " leading and trailing ", "\ttab", "ünïcödé ✓ 漢字 🚀", "line\u2028separator",
	"$(whoami)", "${HOME}", "a=b", "=", "2006-01-02", "12:30:45", ".inf", "<script>&amp;</script>", `\u0041`, "%s%d",
}

// TestHostileText: stored text arrives unchanged in its object, whatever it means to YAML, templates or Helm.
func TestHostileText(t *testing.T) {
	t.Parallel()
	annotations, patches, values := map[string]any{}, object{}, object{}
	var subjects []object
	for i, text := range troublesome {
		key := fmt.Sprintf("key%02d", i)
		annotations["example.com/"+key] = text
		patches["text."+key], values[key] = text, text
		// Names of people are on one line and do not begin or end with a space.
		if !strings.ContainsFunc(text, unicode.IsControl) && text == strings.TrimSpace(text) {
			subjects = append(subjects, object{"kind": "User", "name": text, "apiGroup": "rbac.authorization.k8s.io"})
		}
	}
	labels := object{"on": "on", "yes": "no", "1e3": "1e3", "null": "null", "true": "false", "a.b/c": "0x10", "empty": "", "number": "007"}
	// Typed as `helm --set` types them, or as they were given.
	maps.Copy(patches, object{
		"typed.integer": "3", "typed.yes": "true", "typed.quoted": `"3"`, "typed.number": 1.5, "typed.no": false,
		"typed.list": []any{"a", 1.0, "<<x>>"}, "typed.map": object{"a.b": "{{c}}"}, `annotations.example\.com/a`: "dotted", "list[0].name": "first",
	})
	define(t, "namespaces", object{"id": "hostile-space", "labels": labels, "annotations": annotations})
	define(t, "rolebindings", object{"id": "hostile:binding", "role": "view", "subjects": subjects})
	define(t, "platform_components", object{"id": "hostile-web", "component_path": "web", "oci_url": "https://charts.example.com"})
	c := setup(t, "hostile", object{
		"namespaces": []object{{"id": "hostile-space"}}, "rolebindings": []object{{"id": "hostile:binding"}},
		"platform_components": []object{{"id": "hostile-web", "enabled": true}},
		"patches":             object{"hostile-web": patches},
	})

	namespace := c.exists("v1", "Namespace", "", "hostile-space")
	for key, want := range annotations {
		if got, found := namespace.GetAnnotations()[key]; !found || got != want {
			t.Errorf("annotation %s is %q, not %q", key, got, want)
		}
	}
	for key, want := range labels {
		if got, found := namespace.GetLabels()[key]; !found || got != want {
			t.Errorf("label %s is %q, not %q", key, got, want)
		}
	}

	binding := c.exists(rbacAPI, "ClusterRoleBinding", "", "hostile:binding")
	got, _, _ := unstructured.NestedSlice(binding.Object, "subjects")
	if len(got) != len(subjects) {
		t.Errorf("%d subjects are bound, not %d", len(got), len(subjects))
	}
	for i := range min(len(got), len(subjects)) {
		if !reflect.DeepEqual(got[i], any(subjects[i])) {
			t.Errorf("subject %d is %q, not %q", i, got[i], subjects[i])
		}
	}

	c.ready(helmAPI, "HelmRelease", c.ns, "platform-hostile-web")
	c.valuesOf("hostile-web", "hostile-web", object{
		"replicaCount": 1.0, "text": values,
		"typed": object{
			"integer": 3.0, "yes": true, "quoted": "3", "number": 1.5, "no": false,
			"list": []any{"a", 1.0, "<<x>>"}, "map": object{"a.b": "{{c}}"},
		},
		"annotations": object{"example.com/a": "dotted"}, "list": []any{object{"name": "first"}},
	})
	for name, want := range map[string][]string{
		"namespaces":   {"_hostile-space__Namespace"},
		"rolebindings": {"_hostile__binding_rbac.authorization.k8s.io_ClusterRoleBinding"},
		"platform-components": {
			c.ns + "_charts-hostile-web_source.toolkit.fluxcd.io_HelmRepository", c.ns + "_platform-hostile-web_helm.toolkit.fluxcd.io_HelmRelease",
			c.ns + "_values-hostile-web-hostile__ConfigMap",
		},
	} {
		receipt := func(id string) bool { return strings.Contains(id, "_receipt-"+name+"-hostile-") }
		all := c.inventory(name)
		if got := slices.DeleteFunc(slices.Clone(all), receipt); !slices.Equal(got, want) || len(all) != len(want)+1 {
			t.Errorf("%s has applied %q, not %q and a receipt", name, all, want)
		}
	}
}

// TestUnsupportedCharactersRefused: Flux Operator writes answers as YAML and fails at a character that YAML does not allow. One such annotation
// would block all namespaces of a cluster, so the API refuses it.
func TestUnsupportedCharactersRefused(t *testing.T) {
	t.Parallel()
	for i, text := range []string{"\x7f", "\u0080", "\u009f", "\ufffe", "\uffff"} {
		id := fmt.Sprintf("unprintable-%d", i)
		err := world(t).API.Do(t.Context(), "POST", "/namespaces", object{"id": id, "annotations": object{"text": text}}, nil)
		if err == nil || !strings.Contains(err.Error(), "validation_error") {
			t.Errorf("%q is not refused: %v", text, err)
		}
	}
}
