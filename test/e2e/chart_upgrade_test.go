package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// lastRelease is the folder with the cluster chart and the resource types of the last release; its README.md names them.
var lastRelease = filepath.Join("testdata", "last-release")

// resourceType reads a resource type and renames it, because the fleet is shared with tests that define it under its own name.
func (c *cluster) resourceType(file, name string) (definition object, template string) {
	c.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		c.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &definition); err != nil {
		c.Fatal(err)
	}
	template, _ = definition["template"].(string)
	template = strings.ReplaceAll(template, fmt.Sprintf("%q", definition["id"]), fmt.Sprintf("%q", name))
	definition["id"] = name
	// The fleet keeps the type without its template: bootstrap would print it for the clusters of other tests too.
	delete(definition, "kind")
	delete(definition, "template")
	return definition, template
}

// chartValues are the values of the cluster chart for this cluster. templates are those of its resource types, by type.
func (c *cluster) chartValues(templates map[string]string) object {
	custom := []object{}
	for _, name := range slices.Sorted(maps.Keys(templates)) {
		custom = append(custom, object{"type": name, "template": templates[name]})
	}
	return object{
		"cluster":  object{"name": c.id, "dns": c.dns, "environment": "dev"},
		"api":      object{"url": c.gate.URL, "token": rig.ReadToken},
		"interval": "1s", "customResources": custom,
	}
}

// listObjects lists the objects of a kind in a namespace.
func (c *cluster) listObjects(apiVersion, kind, namespace string) []unstructured.Unstructured {
	c.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(apiVersion)
	list.SetKind(kind + "List")
	if err := c.w.Kube.List(c.Context(), list, client.InNamespace(namespace)); err != nil {
		c.Fatal(err)
	}
	return list.Items
}

// identity is the part of an object that changes when it is created again, installed again or restarted: its uid, whether it
// is being deleted, and by kind its content.
func identity(o *unstructured.Unstructured) string {
	status := func(fields ...string) any {
		value, _, _ := unstructured.NestedFieldNoCopy(o.Object, append([]string{"status"}, fields...)...)
		return value
	}
	parts := []any{o.GetUID(), o.GetDeletionTimestamp()}
	switch o.GetKind() {
	case "HelmRelease":
		// Each install, upgrade and rollback adds an entry.
		parts = append(parts, canonical(status("history")))
	case "Kustomization":
		parts = append(parts, status("lastAppliedRevision"), canonical(status("inventory")))
	case "HelmRepository", "OCIRepository", "HelmChart":
		parts = append(parts, status("artifact", "revision"))
	case "Deployment", "NetworkPolicy":
		parts = append(parts, o.GetGeneration())
	}
	return fmt.Sprint(parts...)
}

// identities lists every object of the cluster: Flux's in its own namespace, all in the namespaces of its workloads, and
// others by name.
func (c *cluster) identities(namespaces []string, others ...*unstructured.Unstructured) (flux, workloads map[string]string) {
	c.Helper()
	flux, workloads = map[string]string{}, map[string]string{}
	note := func(in map[string]string, o *unstructured.Unstructured, more ...any) {
		in[fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())] = identity(o) + " " + fmt.Sprint(more...)
	}
	for _, kind := range []string{
		fluxAPI + " ResourceSet", fluxAPI + " ResourceSetInputProvider", helmAPI + " HelmRelease", kustomizeAPI + " Kustomization",
		sourceAPI + " HelmRepository", sourceAPI + " OCIRepository", sourceAPI + " HelmChart", "v1 Secret", "v1 ConfigMap",
	} {
		apiVersion, kind, _ := strings.Cut(kind, " ")
		for _, o := range c.listObjects(apiVersion, kind, c.ns) {
			note(flux, &o)
		}
	}
	for _, namespace := range namespaces {
		others = append(others, c.exists("v1", "Namespace", "", namespace))
		for _, kind := range []string{"v1 Pod", "apps/v1 Deployment", "apps/v1 ReplicaSet", networkAPI + " NetworkPolicy"} {
			apiVersion, kind, _ := strings.Cut(kind, " ")
			for _, o := range c.listObjects(apiVersion, kind, namespace) {
				note(workloads, &o)
			}
		}
		// The Secrets are Helm's: each install, upgrade and rollback makes one.
		for _, kind := range []string{"Secret", "ConfigMap"} {
			for _, o := range c.listObjects("v1", kind, namespace) {
				note(workloads, &o, o.GetResourceVersion())
			}
		}
	}
	for _, o := range others {
		now, err := c.get(c.Context(), o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName())
		if err != nil {
			c.Fatal(err)
		}
		note(workloads, now, canonical(now.GetLabels()), canonical(now.Object["data"]))
	}
	return flux, workloads
}

// upgraded waits until Flux Operator, helm-controller and kustomize-controller have applied the present chart.
func (c *cluster) upgraded() {
	c.Helper()
	c.settled()
	for _, name := range c.lists() {
		c.reconcile("ResourceSetInputProvider", name)
		c.eventually("provider "+name+" has the values of the chart", func(ctx context.Context) error {
			provider, err := c.get(ctx, fluxAPI, "ResourceSetInputProvider", c.ns, name)
			if err != nil {
				return err
			}
			inputs, _, _ := unstructured.NestedSlice(provider.Object, "status", "exportedInputs")
			for _, input := range inputs {
				if dns, _, _ := unstructured.NestedString(input.(object), "settings", "clusterDNS"); dns != c.dns {
					return fmt.Errorf("settings.clusterDNS is %q", dns)
				}
			}
			return rig.HasCondition(provider, "Ready", "True")
		})
	}
	c.reapplied()
	for _, kind := range []string{helmAPI + " HelmRelease", kustomizeAPI + " Kustomization", fluxAPI + " ResourceSet"} {
		apiVersion, kind, _ := strings.Cut(kind, " ")
		for _, o := range c.listObjects(apiVersion, kind, c.ns) {
			c.ready(apiVersion, kind, c.ns, o.GetName())
		}
	}
}

// receiptHash matches the end of a receipt's name, which depends on the input.
var receiptHash = regexp.MustCompile(`(/receipt-.*)-[0-9a-f]{10}$`)

// kept reports each object that is missing, new or different. Additions are the names of new objects that are expected, of
// receipts without the hash.
func (c *cluster) kept(before, now map[string]string, additions ...string) {
	c.Helper()
	for name, was := range before {
		if is, found := now[name]; !found {
			c.Errorf("%s was deleted", name)
		} else if is != was {
			c.Errorf("%s was\n%s, and is\n%s", name, was, is)
		}
	}
	var added []string
	for name := range now {
		if _, found := before[name]; !found {
			added = append(added, receiptHash.ReplaceAllString(name, "$1"))
		}
	}
	slices.Sort(added)
	slices.Sort(additions)
	if !slices.Equal(added, additions) {
		c.Errorf("the new objects are\n%s, not\n%s", strings.Join(added, "\n"), strings.Join(additions, "\n"))
	}
}

// A cluster with every kind of object upgrades the cluster chart from the last release, and then the templates of its
// resource types: no object is deleted, recreated, reinstalled or restarted.
func TestClusterChartUpgrade(t *testing.T) {
	t.Parallel()
	const charts, images, trees = "https://charts.example.com", "oci://registry.example.com/charts", "oci://registry.example.com/trees/"
	define(t, "namespaces", object{"id": "rel-space"}, object{"id": "rel-kept", "deletion_policy": "orphan", "labels": object{"a": "b"}},
		object{"id": "rel-adopted", "deletion_policy": "orphan", "labels": object{"rel": "ours"}},
		object{"id": "kube-system", "deletion_policy": "orphan", "labels": object{"rel": "ours"}})
	define(t, "rolebindings", object{"id": "rel-readers", "role": "view", "subjects": []object{{"kind": "Group", "name": "rel"}}})
	define(t, "platform_components",
		object{"id": "rel-tree", "component_path": "apps/rel-tree", "oci_url": trees + "rel-tree", "oci_tag": "v1"},
		object{"id": "rel-http", "component_path": "web", "oci_url": charts, "component_version": "1.0.0"},
		object{"id": "rel-oci", "component_path": "web", "oci_url": images, "type": "helm", "oci_tag": "1.1.0"},
		object{"id": "rel-gated", "component_path": "web", "oci_url": charts, "depends_on": []string{"rel-tree"}},
		object{"id": "rel-gated-oci", "component_path": "web", "oci_url": images, "type": "helm", "oci_tag": "1.0.0", "depends_on": []string{"rel-tree"}},
		object{"id": "rel-gated-tree", "component_path": "apps/rel-gated-tree", "oci_url": trees + "rel-gated-tree", "oci_tag": "v1", "depends_on": []string{"rel-http"}},
	)
	var components, namespaces []object
	for _, id := range []string{"rel-tree", "rel-http", "rel-oci", "rel-gated", "rel-gated-oci", "rel-gated-tree"} {
		components = append(components, object{"id": id, "enabled": true})
	}
	for _, id := range []string{"rel-space", "rel-kept", "rel-adopted", "kube-system"} {
		namespaces = append(namespaces, object{"id": id})
	}
	c := prepare(t, "rel", object{
		"namespaces": namespaces, "rolebindings": []object{{"id": "rel-readers"}}, "platform_components": components,
		"patches": object{"rel-http": object{"replicaCount": 2}},
	})
	adopted := c.made("terraform", "v1", "Namespace", "", "rel-adopted", object{})
	shared := c.made("terraform", "v1", "ConfigMap", "rel-adopted", "rel-shared", object{"data": object{"theirs": "1"}})

	// Two resource types: one whose objects Flux deletes, one whose objects it leaves.
	last, present := map[string]string{}, map[string]string{}
	for example, name := range map[string]string{"network-policies": "rel-policies", "object-patches": "rel-patches"} {
		_, last[name] = c.resourceType(filepath.Join(lastRelease, example+".yaml"), name)
		var definition object
		definition, present[name] = c.resourceType(filepath.Join("..", "..", "examples", "resource-types", example, "type.yaml"), name)
		define(t, "resource_types", definition)
		c.types = append(c.types, name)
	}
	for _, resource := range []object{
		{"type": "rel-policies", "id": "rel-deny", "spec": object{"namespace": "rel-space"}},
		{"type": "rel-patches", "id": "rel-patch", "spec": object{"manifest": manifest("v1", "ConfigMap", "rel-adopted", "rel-shared", object{"data": object{"ours": "2"}})}},
		{"type": "rel-patches", "id": "rel-made", "spec": object{"mode": "ensure", "manifest": manifest("v1", "ConfigMap", "rel-adopted", "rel-made", object{"data": object{"ours": "2"}})}},
	} {
		c.batch(
			object{"op": "create", "kind": "resource", "type": resource["type"], "id": resource["id"], "document": object{"id": resource["id"], "spec": resource["spec"]}},
			object{"op": "assign_resource", "type": resource["type"], "resource_id": resource["id"], "cluster_ids": []string{c.id}},
		)
	}

	// The last release runs everything and has sent its receipts.
	chart, err := filepath.Abs(filepath.Join(lastRelease, "flux-resourceset-cluster-0.1.0.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.w.InstallChart(t.Context(), chart, c.ns, c.chartValues(last)); err != nil {
		t.Fatal(err)
	}
	c.settled()
	releases := []string{"rel-http", "rel-oci", "rel-gated", "rel-gated-oci"}
	for _, id := range releases {
		c.ready(helmAPI, "HelmRelease", c.ns, "platform-"+id)
	}
	for _, id := range []string{"rel-tree", "rel-gated-tree"} {
		c.ready(kustomizeAPI, "Kustomization", c.ns, "platform-"+id)
	}
	for _, component := range components {
		c.confirmed("platform-components", component["id"].(string))
	}
	for _, namespace := range namespaces {
		c.confirmed("namespaces", namespace["id"].(string))
	}
	c.confirmed("rolebindings", "rel-readers")
	c.field(shared, "2", "data", "ours")
	c.field(adopted, "ours", "metadata", "labels", "rel")
	others := []*unstructured.Unstructured{
		shared, c.exists("v1", "ConfigMap", "rel-adopted", "rel-made"), c.exists("v1", "ConfigMap", "default", "rel-tree"),
		c.exists("v1", "ConfigMap", "default", "rel-gated-tree"), c.exists(rbacAPI, "ClusterRoleBinding", "", "rel-readers"),
		c.exists("v1", "Namespace", "", "kube-system"),
	}
	c.exists(networkAPI, "NetworkPolicy", "rel-space", "rel-deny")
	spaces := append([]string{"rel-space", "rel-kept", "rel-adopted"}, releases...)
	for _, id := range releases {
		// The controllers of Kubernetes are done with it.
		c.eventually("Deployment "+id+" is available", func(ctx context.Context) error {
			deployment, err := c.get(ctx, "apps/v1", "Deployment", id, id)
			if err != nil {
				return err
			}
			want, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
			if ready, _, _ := unstructured.NestedInt64(deployment.Object, "status", "readyReplicas"); ready != want {
				return errors.New("its pods are not ready")
			}
			return nil
		})
	}
	flux, workloads := c.identities(spaces, others...)
	inventories := map[string][]string{}
	for _, name := range c.lists() {
		inventories[name] = c.inventory(name)
	}

	// The chart alone; then the types' templates, which send receipts now.
	var additions []string
	for _, name := range []string{"HelmRepository %s/charts-rel-gated", "OCIRepository %s/charts-rel-gated-oci", "OCIRepository %s/charts-rel-gated-tree"} {
		additions = append(additions, fmt.Sprintf(name, c.ns))
	}
	step := func(templates map[string]string) {
		t.Helper()
		if err := c.w.JoinChart(t.Context(), c.ns, c.chartValues(templates)); err != nil {
			t.Fatal(err)
		}
		c.upgraded()
		fluxNow, workloadsNow := c.identities(spaces, others...)
		c.kept(flux, fluxNow, additions...)
		c.kept(workloads, workloadsNow)
		for name, before := range inventories {
			now := c.inventory(name)
			for _, entry := range before {
				if !slices.Contains(now, entry) {
					t.Errorf("ResourceSet %s no longer has %s", name, entry)
				}
			}
		}
	}
	step(last)
	for _, name := range []string{"rel-policies-rel-deny", "rel-patches-rel-patch", "rel-patches-rel-made"} {
		additions = append(additions, "ResourceSet "+c.ns+"/receipt-"+name, "ResourceSetInputProvider "+c.ns+"/receipt-"+name)
	}
	step(present)
	c.allConfirmed(len(components) + len(namespaces) + 4)
}
