package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

const widgetsCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crdwidgets.crd.example.com}
spec:
  group: crd.example.com
  scope: Namespaced
  names: {kind: CRDWidget, listKind: CRDWidgetList, plural: crdwidgets, singular: crdwidget}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      additionalPrinterColumns: [{name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}]
      schema:
        openAPIV3Schema:
          type: object
          properties:
            apiVersion: {type: string}
            kind: {type: string}
            metadata: {type: object}
            spec:
              type: object
              required: [size]
              properties:
                size: {type: string}
                note: {type: string, nullable: true}
                ports: {type: array, items: {type: object, properties: {name: {type: string}, port: {anyOf: [{type: integer}, {type: string}], x-kubernetes-int-or-string: true}}}}
                values: {type: object, x-kubernetes-preserve-unknown-fields: true}
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// TestTypeOfACRD: a resource type that the CLI makes of a CustomResourceDefinition makes its objects, without the fields that are
// absent, and its receipt waits until their controller has seen the newest generation and says that they are ready.
func TestTypeOfACRD(t *testing.T) {
	t.Parallel()
	const id, api, kind = "crdwidgets", "crd.example.com/v1", "CRDWidget"
	file := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(file, []byte(widgetsCRD), 0o600); err != nil {
		t.Fatal(err)
	}
	define(t, "namespaces", object{"id": "crd-space"})
	c := prepare(t, "crd", object{"namespaces": []object{{"id": "crd-space"}}})
	c.types = []string{id}
	var made struct{ Template string }
	if err := json.Unmarshal([]byte(c.cli("resource-type", "create", id, "--from-crd", file, "-o", "json")), &made); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // others would bootstrap it too
		_ = world(t).API.Do(context.WithoutCancel(t.Context()), "PATCH", "/resource_types/"+id, object{"template": ""}, nil)
	})
	if err := c.w.Apply(t.Context(), widgetsCRD); err != nil {
		t.Fatal(err)
	}
	if err := c.w.JoinChart(t.Context(), c.ns, object{
		"cluster": object{"name": c.id, "dns": c.dns, "environment": "dev"}, "api": object{"url": c.gate.URL, "token": rig.ReadToken},
		"interval": "1s", "customResources": []object{{"type": id, "template": made.Template}},
	}); err != nil {
		t.Fatal(err)
	}
	c.exists("v1", "Namespace", "", "crd-space")
	spec := func(want string) *unstructured.Unstructured {
		t.Helper()
		var found *unstructured.Unstructured
		c.eventually("the spec of the widget", func(ctx context.Context) (err error) {
			if found, err = c.get(ctx, api, kind, "crd-space", "crd.one"); err != nil {
				return err
			}
			if got := canonical(found.Object["spec"]); got != want {
				return fmt.Errorf("it is %s, not %s", got, want)
			}
			return nil
		})
		return found
	}
	ready := func(widget *unstructured.Unstructured) {
		t.Helper()
		c.eventually("the receipt waits", func(ctx context.Context) error {
			sets := &unstructured.UnstructuredList{Object: object{"apiVersion": fluxAPI, "kind": "ResourceSetList"}}
			if err := c.w.Kube.List(ctx, sets, client.InNamespace(c.ns)); err != nil {
				return err
			}
			for i := range sets.Items {
				if status, _ := rig.Condition(&sets.Items[i], "Ready"); status == "False" && strings.HasPrefix(sets.Items[i].GetName(), "receipt-"+id+"-crd-one-") {
					return nil
				}
			}
			return errors.New("none of it waits")
		})
		if c.gate.HasReceipt(c.receipt(id, "crd.one")) {
			t.Error("the receipt came before the object was ready")
		}
		before := client.MergeFrom(widget.DeepCopy())
		widget.Object["status"] = object{"conditions": []any{object{"type": "Ready", "status": "True", "observedGeneration": widget.GetGeneration()}}}
		if err := c.w.Kube.Status().Patch(t.Context(), widget, before); err != nil {
			t.Fatal(err)
		}
		c.confirmed(id, "crd.one")
	}
	c.cli("resource", id, "create", "crd.one", "--set", "namespace=crd-space", "--set", `spec={"size":"1"}`, "--cluster", c.id)
	ready(spec(`{"size":"1"}`))
	c.cli("resource", id, "set", "crd.one", "--set", `spec={"size":"2","ports":[{"port":"http"},{"port":80}],"values":{"a":{"b":[true]}}}`, "--yes")
	ready(spec(`{"ports":[{"port":"http"},{"port":80}],"size":"2","values":{"a":{"b":[true]}}}`))
}
