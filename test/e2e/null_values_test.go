package e2e

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// A field of values that is null reaches the HelmRelease, through inputs from which Flux Operator removes such fields, and Helm removes
// the default of the chart, as with a null in a values file; without a default the template sees the null. A value in its place arrives,
// and so does a null in place of that.
func TestNullValues(t *testing.T) {
	t.Parallel()
	define(t, "platform_components", object{
		"id": "null-web", "component_path": "web", "oci_url": "https://charts.example.com",
		"values_from": []object{{"kind": "ConfigMap", "name": "null-defaults", "optional": true}},
		"patches":     object{"from.catalog": "catalog", "kept": "catalog"},
	})
	c := prepare(t, "null", object{
		"platform_components": []object{{"id": "null-web", "enabled": true}},
		"patches":             object{"null-web": object{"replicaCount": "null", "from.catalog": "null", "nested": object{"here": nil, "there": 1}, "list": []any{nil, object{"x": 1}}}},
	})
	c.join(rig.Cluster{})
	c.ready(helmAPI, "HelmRelease", c.ns, "platform-null-web")
	c.put("ConfigMap", "null-defaults", object{"data": object{"values.yaml": "nested: {here: 2, there: 3, else: 4}\n"}})
	c.valuesOf("null-web", "null-web", object{"from": object{"catalog": nil}, "kept": "catalog", "nested": object{"here": nil, "there": 1.0, "else": 4.0}, "list": []any{nil, object{"x": 1.0}}})
	release := c.exists(helmAPI, "HelmRelease", c.ns, "platform-null-web")
	got, _, _ := unstructured.NestedMap(release.Object, "spec", "values")
	want := object{"replicaCount": nil, "from": object{"catalog": nil}, "kept": "catalog", "nested": object{"here": nil, "there": int64(1)}, "list": []any{nil, object{"x": int64(1)}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the release has the values %s, not %s", canonical(got), canonical(want))
	}

	c.cli("component", "set", "null-web", "--cluster", c.id, "--set", "replicaCount=2", "--unset", "from.catalog", "--unset", "nested")
	c.valuesOf("null-web", "null-web", object{"replicaCount": 2.0, "from": object{"catalog": "catalog"}, "kept": "catalog", "nested": object{"here": 2.0, "there": 3.0, "else": 4.0}, "list": []any{nil, object{"x": 1.0}}})
	c.cli("component", "set", "null-web", "--cluster", c.id, "--set-json", "replicaCount=null", "--set", "kept=null", "--unset", "list")
	c.valuesOf("null-web", "null-web", object{"from": object{"catalog": "catalog"}, "kept": nil, "nested": object{"here": 2.0, "there": 3.0, "else": 4.0}})
}
