package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// made creates an object as another field manager.
func (c *cluster) made(by, apiVersion, kind, namespace, name string, fields object) *unstructured.Unstructured {
	c.Helper()
	o := rig.Object(apiVersion, kind)
	maps.Copy(o.Object, fields)
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(map[string]string{"theirs": "stays"})
	if err := c.w.Kube.Create(c.Context(), o, client.FieldOwner(by)); err != nil {
		c.Fatal(err)
	}
	return o
}

// patched assigns a patch of an object to the cluster.
func (c *cluster) patched(id string, spec object) {
	c.Helper()
	c.batch(
		object{"op": "create", "kind": "resource", "type": "object-patches", "id": id, "document": object{"id": id, "spec": spec}},
		object{"op": "assign_resource", "type": "object-patches", "resource_id": id, "cluster_ids": []string{c.id}},
	)
}

func manifest(apiVersion, kind, namespace, name string, fields object) object {
	metadata := object{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	out := object{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}
	for field, value := range fields {
		if field == "labels" || field == "annotations" {
			metadata[field] = value
			continue
		}
		out[field] = value
	}
	return out
}

// Fields of objects that others have made: merged where that does no harm, left alone where it would; and given up so
// that fields of others stay. The cases are those of the RFC that the example follows.
func TestObjectPatches(t *testing.T) {
	t.Parallel()
	c := setupTyped(t, "live", object{}, "object-patches")
	space := "live-space"
	c.made("terraform", "v1", "Namespace", "", space, object{})
	if err := c.w.Apply(t.Context(), customResource("live.example.com", "v1", "ClientConfig", "clientconfigs")); err != nil {
		t.Fatal(err)
	}
	team := c.made("terraform", "v1", "Namespace", "", "live-team", object{})
	shared := c.made("argocd-controller", "v1", "ConfigMap", space, "live-shared", object{"data": object{"theirs": "1"}})
	typed := c.made("terraform", "v1", "ConfigMap", space, "live-typed", object{"data": object{"theirs": "1"}})
	byHand := c.made("kubectl-create", "v1", "ConfigMap", space, "live-by-hand", object{"data": object{"theirs": "1"}})
	contested := c.made("terraform", "v1", "ConfigMap", space, "live-contested", object{"data": object{"foo": "theirs"}})
	var settings *unstructured.Unstructured
	c.eventually("the custom resource", func(ctx context.Context) error {
		o := rig.Object("live.example.com/v1", "ClientConfig")
		o.SetNamespace(space)
		o.SetName("live-client")
		o.Object["spec"] = object{"theirs": "1", "authentication": object{"kept": "yes"}}
		settings = o
		return client.IgnoreAlreadyExists(c.w.Kube.Create(ctx, o, client.FieldOwner("terraform")))
	})

	// A label and an annotation, a key, a setting deep in a custom resource; text that means something elsewhere.
	hostile := strings.Join(troublesome, "|") + " << inputs.id >> <<- range >>"
	c.patched("live-team", object{"manifest": manifest("v1", "Namespace", "", "live-team", object{"labels": object{"foo": "bar"}, "annotations": object{"team": hostile}})})
	c.patched("live-shared", object{"manifest": manifest("v1", "ConfigMap", space, "live-shared", object{"data": object{"foo": "bar"}})})
	c.patched("live-client", object{"manifest": manifest("live.example.com/v1", "ClientConfig", space, "live-client", object{
		"spec": object{"authentication": object{"oidc": object{"clientID": "example", "scopes": []string{"a", "b"}}}},
	})})
	c.patched("live-by-hand", object{"manifest": manifest("v1", "ConfigMap", space, "live-by-hand", object{"data": object{"foo": "bar"}})})
	c.patched("live-contested", object{"manifest": manifest("v1", "ConfigMap", space, "live-contested", object{"data": object{"foo": "ours"}})})
	c.patched("live-nowhere", object{"manifest": manifest("v1", "ConfigMap", space, "live-nowhere", object{"data": object{"foo": "bar"}})})
	c.patched("live-typed", object{"manifest": manifest("v1", "ConfigMap", space, "live-typed", object{"data": object{"foo": "bar"}})})
	c.patched("live-upsert", object{"mode": "ensure", "manifest": manifest("v1", "ConfigMap", space, "live-upsert", object{"data": object{"foo": "bar"}})})
	c.patched("live-gp2", object{"mode": "ensure", "manifest": manifest("storage.k8s.io/v1", "StorageClass", "", "live-gp2", object{
		"annotations": object{"storageclass.kubernetes.io/is-default-class": "true"},
		"provisioner": "kubernetes.io/aws-ebs", "parameters": object{"type": "gp2", "fsType": "ext4"},
	})})
	c.field(team, "bar", "metadata", "labels", "foo")
	c.field(team, hostile, "metadata", "annotations", "team")
	c.field(shared, "bar", "data", "foo")
	c.field(settings, "example", "spec", "authentication", "oidc", "clientID")
	c.field(c.exists("v1", "ConfigMap", space, "live-upsert"), "bar", "data", "foo")
	c.field(c.exists("storage.k8s.io/v1", "StorageClass", "", "live-gp2"), "gp2", "parameters", "type")
	theirs := func(when string) {
		t.Helper()
		for o, path := range map[*unstructured.Unstructured][]string{
			team: {"metadata", "labels", "theirs"}, shared: {"data", "theirs"}, settings: {"spec", "authentication", "kept"}, byHand: {"data", "theirs"},
		} {
			now, err := c.get(t.Context(), o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName())
			if err != nil {
				t.Errorf("%s: %v", when, err)
				continue
			}
			if value, _, _ := unstructured.NestedString(now.Object, path...); value == "" {
				t.Errorf("%s: %s %s has lost %v", when, o.GetKind(), o.GetName(), path)
			}
			if now.GetDeletionTimestamp() != nil {
				t.Errorf("%s: %s %s is being deleted", when, o.GetKind(), o.GetName())
			}
		}
	}
	theirs("after the merge")
	c.confirmed("object-patches", "live-shared")
	c.confirmed("object-patches", "live-team")

	// Objects that were created by hand, have another value or do not exist are each left unchanged.
	untouched := c.revisions(byHand, contested)
	for _, name := range []string{"live-by-hand", "live-contested", "live-nowhere"} {
		c.setSays("object-"+name, "")
		if unwanted := c.receipt("object-patches", name); c.gate.HasReceipt(unwanted) {
			t.Errorf("the cluster confirmed what it left alone: %v", unwanted)
		}
	}
	c.unchanged("while the guard holds", untouched, byHand, contested)
	if _, err := c.get(t.Context(), "v1", "ConfigMap", space, "live-nowhere"); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("an object that was not there: %v", err)
	}
	c.cli("resource", "object-patches", "assign", "live-contested", "--cluster", c.id, "--override", "force=true")
	c.field(contested, "ours", "data", "foo")

	// An object that is changed by hand later is left unchanged from then on.
	c.ready(fluxAPI, "ResourceSet", c.ns, "object-live-typed")
	edited := typed.DeepCopy()
	if err := c.w.Kube.Patch(t.Context(), edited, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"foo":"typed"}}`)), client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
	c.reconcile("ResourceSet", "object-live-typed")
	c.setSays("object-live-typed", "")
	c.field(typed, "typed", "data", "foo")

	// The fields are given up, and then the patch is removed: fields of others stay.
	given := map[*unstructured.Unstructured][]string{
		team: {"metadata", "labels", "foo"}, shared: {"data", "foo"}, settings: {"spec", "authentication", "oidc", "clientID"},
	}
	for o := range given {
		c.cli("resource", "object-patches", "assign", o.GetName(), "--cluster", c.id, "--override", "state=absent")
	}
	for o, path := range given {
		c.eventually(o.GetName()+" is given up", func(ctx context.Context) error {
			now, err := c.get(ctx, o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName())
			if err != nil {
				return err
			}
			if value, found, _ := unstructured.NestedFieldNoCopy(now.Object, path...); found {
				return fmt.Errorf("it still has %v: %v", path, value)
			}
			return nil
		})
	}
	theirs("after the fields were given up")
	names := []string{"live-team", "live-shared", "live-client", "live-by-hand", "live-contested", "live-nowhere", "live-typed", "live-upsert", "live-gp2"}
	for _, name := range names {
		c.cli("resource", "object-patches", "unassign", name, "--cluster", c.id, "--yes")
	}
	for _, name := range names {
		c.gone(fluxAPI, "ResourceSet", c.ns, "object-"+name)
	}
	c.settled()
	theirs("after the patches were removed")
	// Without giving up first, the fields stay too, and the object is not deleted.
	c.field(contested, "ours", "data", "foo")
	c.field(c.exists("v1", "ConfigMap", space, "live-upsert"), "bar", "data", "foo")
	c.field(c.exists("storage.k8s.io/v1", "StorageClass", "", "live-gp2"), "gp2", "parameters", "type")

	// Replicas of a Deployment of others: Flux cannot apply a part of one, so the type does not take it.
	err := c.w.API.Do(t.Context(), "POST", "/resources/object-patches", object{"id": "live-replicas", "spec": object{
		"force": true, "manifest": manifest("apps/v1", "Deployment", space, "nginx", object{"spec": object{"replicas": 3}}),
	}}, nil)
	if err == nil || !strings.Contains(err.Error(), "/spec/manifest/kind") {
		t.Errorf("a patch of a Deployment: %v", err)
	}
}
