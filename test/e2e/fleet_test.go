package e2e

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// TestDemoFleet: a cluster with the chart and the demo fleet runs its desired state, down to the replicas of a Deployment.
func TestDemoFleet(t *testing.T) {
	t.Parallel()
	w := world(t)
	gate, err := w.NewGate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t, w: w, id: "demo-cluster-01", dns: "demo-cluster-01.k8s.example.com", ns: "flux-system", gate: gate}
	t.Cleanup(c.dumpIfFailed)
	if err := w.JoinChart(t.Context(), "", object{
		"cluster":  object{"name": c.id, "dns": c.dns, "environment": "dev"},
		"api":      object{"url": gate.URL, "token": rig.ReadToken},
		"interval": "1s",
	}); err != nil {
		t.Fatal(err)
	}
	c.settled()

	identity := c.exists("v1", "ConfigMap", c.ns, "cluster-identity")
	c.field(identity, c.dns, "data", "CLUSTER_DNS")

	namespace := c.exists("v1", "Namespace", "", "podinfo")
	if label := namespace.GetLabels()["team"]; label != "platform" {
		t.Errorf("namespace podinfo has label team=%q", label)
	}
	if annotation := namespace.GetAnnotations()["owner"]; annotation != "platform" {
		t.Errorf("namespace podinfo has annotation owner=%q", annotation)
	}
	c.exists("v1", "Namespace", "", "cert-manager")
	c.exists("v1", "Namespace", "", "traefik")

	admins := c.exists(rbacAPI, "ClusterRoleBinding", "", "platform-admins")
	c.field(admins, "cluster-admin", "roleRef", "name")
	subjects, _, _ := unstructured.NestedSlice(admins.Object, "subjects")
	if want := []any{object{"kind": "Group", "name": "platform-team", "apiGroup": "rbac.authorization.k8s.io"}}; !reflect.DeepEqual(subjects, want) {
		t.Errorf("platform-admins binds %v", subjects)
	}
	c.field(c.exists(rbacAPI, "ClusterRoleBinding", "", "dev-readers"), "view", "roleRef", "name")

	values := c.exists("v1", "ConfigMap", c.ns, "values-podinfo-demo-cluster-01")
	c.field(values, "2", "data", "replicaCount")
	c.field(values, "#2f855a", "data", "ui.color")

	// traefik waits for cert-manager, podinfo for traefik.
	for _, name := range []string{"cert-manager", "traefik", "podinfo"} {
		c.ready(helmAPI, "HelmRelease", c.ns, "platform-"+name)
	}
	c.field(c.exists("apps/v1", "Deployment", "podinfo", "podinfo"), int64(2), "status", "readyReplicas")
	c.valuesOf("podinfo", "podinfo", object{
		"replicaCount": 2.0, "ui": object{"color": "#2f855a", "message": "Hello from flux-resourceset"},
	})
	c.valuesOf("cert-manager", "cert-manager", object{
		"replicaCount": 1.0, "crds": object{"enabled": true}, "startupapicheck": object{"timeout": "5m"},
	})

	// The demo script, twice, since it claims to be repeatable.
	for range 2 {
		if _, err := w.DemoScript(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.field(c.exists("v1", "Namespace", "", "team-sandbox"), "sandbox", "metadata", "labels", "team")
	c.field(c.exists("apps/v1", "Deployment", "podinfo", "podinfo"), int64(3), "status", "readyReplicas")
	c.settled()

	// Every read-only server has answered polls, as they would behind a Service.
	for _, url := range w.ReadURLs {
		text, err := w.Metrics(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range rig.Resources {
			if !strings.Contains(text, fmt.Sprintf(`/%s",status="200"}`, name)) {
				t.Errorf("the server at %s has answered no poll of %s", url, name)
			}
		}
	}
}
