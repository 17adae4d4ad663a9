package e2e

import (
	"testing"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// TestVariables: one line in a layer becomes two values on two clusters, in the values of their releases and in the objects of these.
// After a change of a label or a variable the objects follow, on that cluster only.
func TestVariables(t *testing.T) {
	t.Parallel()
	define(t, "platform_components",
		object{"id": "hosts-eu", "component_path": "web", "oci_url": "https://charts.example.com"},
		object{"id": "hosts-us", "component_path": "web", "oci_url": "https://charts.example.com"})
	values := object{"host": "grafana.${vars.domain}", "replicaCount": "${vars.replicas}", "cluster": "${cluster.id}"}
	define(t, "layers", object{
		"id": "hosts", "priority": 720, "selector": "hosts",
		"variables": object{"domain": "${cluster.labels.hosts}.example.com", "replicas": 1},
		"patches":   object{"hosts-eu": values, "hosts-us": values},
	})
	// Two clusters have the same control plane here: each has a component of its own, whose objects have other names.
	join := func(region string, variables object) *cluster {
		c := prepare(t, "hosts-"+region, object{
			"labels": object{"hosts": region}, "variables": variables,
			"platform_components": []object{{"id": "hosts-" + region, "enabled": true}},
		})
		c.join(rig.Cluster{})
		return c
	}
	eu, us := join("eu", object{}), join("us", object{"replicas": 2})
	eu.valuesOf("hosts-eu", "hosts-eu", object{"host": "grafana.eu.example.com", "replicaCount": 1.0, "cluster": "hosts-eu"})
	us.valuesOf("hosts-us", "hosts-us", object{"host": "grafana.us.example.com", "replicaCount": 2.0, "cluster": "hosts-us"})
	eu.field(eu.exists("apps/v1", "Deployment", "hosts-eu", "hosts-eu"), int64(1), "spec", "replicas")
	deployment := us.exists("apps/v1", "Deployment", "hosts-us", "hosts-us")
	us.field(deployment, int64(2), "spec", "replicas")

	us.cli("cluster", "label", "hosts-us", "hosts=us-2")
	us.valuesOf("hosts-us", "hosts-us", object{"host": "grafana.us-2.example.com", "replicaCount": 2.0, "cluster": "hosts-us"})
	us.cli("cluster", "set", "hosts-us", "--var", "replicas=3")
	us.field(deployment, int64(3), "spec", "replicas")
	us.confirmed("platform-components", "hosts-us")
	eu.valuesOf("hosts-eu", "hosts-eu", object{"host": "grafana.eu.example.com", "replicaCount": 1.0, "cluster": "hosts-eu"})

	// A label that a reference needs stays.
	if err := us.w.API.Do(t.Context(), "PATCH", "/clusters/hosts-us", object{"labels": object{"hosts": nil}, "patches": object{"hosts-us": object{"host": "${cluster.labels.hosts}"}}}, nil); err == nil {
		t.Error("a label that a reference needs was removed")
	}
}
