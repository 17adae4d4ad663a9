package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Eventually repeats check until it succeeds. If ctx ends first, it returns the last error.
func Eventually(ctx context.Context, check func(context.Context) error) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	var missing error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		// An error caused by the end of ctx is no information on the cluster.
		if ctx.Err() == nil || missing == nil {
			missing = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("still, when time was up: %w", missing)
		case <-ticker.C:
		}
	}
}

// Condition is a condition of an object: its status and message, both empty if it has none.
func Condition(object *unstructured.Unstructured, kind string) (status, message string) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			status, _ = c["status"].(string)
			message, _ = c["message"].(string)
		}
	}
	return status, message
}

// HasCondition answers an error if the condition of an object is another, or is not about its present form.
func HasCondition(object *unstructured.Unstructured, kind, want string) error {
	name := fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName())
	observed, found, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	if found && observed != object.GetGeneration() {
		return fmt.Errorf("%s: generation %d is not observed yet", name, object.GetGeneration())
	}
	if status, message := Condition(object, kind); status != want {
		return fmt.Errorf("%s: %s is %q, not %q: %s", name, kind, status, want, message)
	}
	return nil
}

// Object is an empty object to read one of a kind into.
func Object(apiVersion, kind string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	return object
}

// applyFile applies the objects of a YAML file.
func (cp *controlPlane) applyFile(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return cp.apply(ctx, text)
}

// apply applies the objects of a YAML text, in its order.
func (cp *controlPlane) apply(ctx context.Context, text []byte) error {
	objects, err := decode(text)
	if err != nil {
		return err
	}
	for _, object := range objects {
		configuration := client.ApplyConfigurationFromUnstructured(object)
		if err := cp.client.Apply(ctx, configuration, client.ForceOwnership, client.FieldOwner("e2e")); err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

func decode(text []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
