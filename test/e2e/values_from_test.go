package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// put creates an object of the cluster's own namespace, with the label that makes helm-controller upgrade at once when it
// changes.
func (c *cluster) put(kind, name string, fields object) {
	c.Helper()
	o := rig.Object("v1", kind)
	o.SetNamespace(c.ns)
	o.SetName(name)
	o.SetLabels(map[string]string{"reconcile.fluxcd.io/watch": "Enabled"})
	maps.Copy(o.Object, fields)
	if err := c.w.Kube.Create(c.Context(), o); err != nil {
		c.Fatal(err)
	}
}

// Helm values from objects on the cluster, which the service never reads: the catalog's, then the cluster's, then
// the fleet's own. A changed one reaches the release by itself. With a target path, a key of a Secret is one value.
func TestValuesFrom(t *testing.T) {
	t.Parallel()
	define(t, "platform_components", object{
		"id": "from-web", "component_path": "web", "oci_url": "https://charts.example.com",
		"values_from": []object{
			{"kind": "ConfigMap", "name": "from-defaults", "values_key": "defaults.yaml"},
			{"kind": "Secret", "name": "from-absent", "optional": true},
		},
	})
	c := prepare(t, "from", object{
		"platform_components": []object{{"id": "from-web", "enabled": true, "values_from": []object{
			{"kind": "Secret", "name": "from-secret"},
			{"kind": "Secret", "name": "from-secret", "values_key": "token", "target_path": `auth.keys[0].example\.com/token`},
		}}},
		"patches": object{"from-web": object{"level": "patch"}},
	})
	c.join(rig.Cluster{})
	c.settled()

	// The release waits for the required objects, and reports them.
	c.eventually("the release waits", func(ctx context.Context) error {
		release, err := c.get(ctx, helmAPI, "HelmRelease", c.ns, "platform-from-web")
		if err != nil {
			return err
		}
		status, message := rig.Condition(release, "Ready")
		if status != "False" || !strings.Contains(message, "from-defaults") {
			return fmt.Errorf("Ready is %q: %s", status, message)
		}
		return nil
	})
	c.put("ConfigMap", "from-defaults", object{"data": object{"defaults.yaml": "level: configmap\nplace: configmap\nkept: configmap\nreplicaCount: 2\n"}})
	c.put("Secret", "from-secret", object{"stringData": object{"values.yaml": "level: secret\nplace: secret\nnested: {password: one}\n", "token": `"123"`}})
	token := func(text string) object { return object{"keys": []any{object{"example.com/token": text}}} }
	c.ready(helmAPI, "HelmRelease", c.ns, "platform-from-web")
	c.valuesOf("from-web", "from-web", object{
		"level": "patch", "place": "secret", "kept": "configmap", "replicaCount": 2.0, "nested": object{"password": "one"},
		"auth": token("123"),
	})
	c.field(c.exists("apps/v1", "Deployment", "from-web", "from-web"), int64(2), "spec", "replicas")

	// Flux is not notified: its interval is ten minutes, too long for the test.
	c.patch("v1", "Secret", "from-secret", object{"stringData": object{"values.yaml": "place: rotated\nnested: {password: two}\n", "token": `a\,b`}})
	c.valuesOf("from-web", "from-web", object{
		"level": "patch", "place": "rotated", "kept": "configmap", "replicaCount": 2.0, "nested": object{"password": "two"}, "auth": token("a,b"),
	})
	c.patch("v1", "ConfigMap", "from-defaults", object{"data": object{"defaults.yaml": "replicaCount: 3\n"}})
	c.valuesOf("from-web", "from-web", object{"level": "patch", "place": "rotated", "replicaCount": 3.0, "nested": object{"password": "two"}, "auth": token("a,b")})

	// Taken off: the release goes on without them.
	c.cli("component", "set", "from-web", "--cluster", c.id, "--values-from", "")
	c.valuesOf("from-web", "from-web", object{"level": "patch", "replicaCount": 3.0})
	release := c.exists(helmAPI, "HelmRelease", c.ns, "platform-from-web")
	if sources, _, _ := unstructured.NestedSlice(release.Object, "spec", "valuesFrom"); len(sources) != 2 {
		t.Errorf("the release has values from %v", sources)
	}
}
