package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// object is the JSON of one.
type object = map[string]any

// patience is how long a change may take to arrive; reached only when something is wrong, or the machine is very busy.
const patience = 4 * time.Minute

const (
	fluxAPI = "fluxcd.controlplane.io/v1"
	rbacAPI = "rbac.authorization.k8s.io/v1"
	helmAPI = "helm.toolkit.fluxcd.io/v2"
)

// world is the control plane.
func world(t *testing.T) *rig.Env {
	t.Helper()
	started = true
	w, err := shared()
	if err != nil {
		t.Fatalf("the rig does not start: %v", err)
	}
	return w
}

// cluster is one case's cluster: its own document, its own namespace in place of flux-system, its own way to the API.
// Its objects must have names that no other case uses.
type cluster struct {
	*testing.T
	w       *rig.Env
	id, dns string
	ns      string
	gate    *rig.Gate
	types   []string // resource types that it asks for besides
}

// lists are the names of the cluster's providers and ResourceSets.
func (c *cluster) lists() []string { return slices.Concat(rig.Resources, c.types) }

// setup creates a cluster and lets it join the fleet. document holds the differences from an empty cluster.
func setup(t *testing.T, id string, document object) *cluster {
	t.Helper()
	c := prepare(t, id, document)
	c.join(rig.Cluster{})
	c.settled()
	return c
}

// prepare creates a cluster that has not joined yet.
func prepare(t *testing.T, id string, document object) *cluster {
	t.Helper()
	w := world(t)
	c := &cluster{T: t, w: w, id: id, dns: id + ".k8s.example.com", ns: "flux-" + id}
	body := object{"id": id, "cluster_dns": c.dns, "environment": "dev"}
	maps.Copy(body, document)
	c.api("POST", "/clusters", body)
	gate, err := w.NewGate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.gate = gate
	t.Cleanup(c.dumpIfFailed)
	return c
}

// join installs the cluster chart; fields of how that are empty follow from the cluster.
func (c *cluster) join(how rig.Cluster) {
	c.Helper()
	how.ID, how.Namespace = c.id, c.ns
	if how.URL == "" {
		how.URL = c.gate.URL
	}
	if err := c.w.Join(c.Context(), how); err != nil {
		c.Fatal(err)
	}
}

// api changes the fleet.
func (c *cluster) api(method, path string, body any) object {
	c.Helper()
	var answer object
	if err := c.w.API.Do(c.Context(), method, path, body, &answer); err != nil {
		c.Fatal(err)
	}
	return answer
}

// define creates definitions that the case's cluster refers to.
func define(t *testing.T, kind string, documents ...object) {
	t.Helper()
	for _, document := range documents {
		if err := world(t).API.Do(t.Context(), "POST", "/"+kind, document, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// cli runs the command line and returns its output.
func (c *cluster) cli(args ...string) string {
	c.Helper()
	out, err := c.w.CLI(c.Context(), args...)
	if err != nil {
		c.Fatal(err)
	}
	return out
}

// eventually waits until check succeeds.
func (c *cluster) eventually(what string, check func(context.Context) error) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	if err := rig.Eventually(ctx, check); err != nil {
		c.Fatalf("%s: %v", what, err)
	}
}

// get reads an object; its namespace is "" for the cluster's own.
func (c *cluster) get(ctx context.Context, apiVersion, kind, namespace, name string) (*unstructured.Unstructured, error) {
	o := rig.Object(apiVersion, kind)
	err := c.w.Kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
	return o, err
}

// exists waits for an object and answers it.
func (c *cluster) exists(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	c.Helper()
	var found *unstructured.Unstructured
	c.eventually(kind+" "+name, func(ctx context.Context) (err error) {
		found, err = c.get(ctx, apiVersion, kind, namespace, name)
		return err
	})
	return found
}

// ready waits until an object is ready, and returns it.
func (c *cluster) ready(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	c.Helper()
	var found *unstructured.Unstructured
	c.eventually(kind+" "+name, func(ctx context.Context) (err error) {
		if found, err = c.get(ctx, apiVersion, kind, namespace, name); err != nil {
			return err
		}
		return rig.HasCondition(found, "Ready", "True")
	})
	return found
}

// valuesOf waits until our chart was installed with these values, the chart's own included.
func (c *cluster) valuesOf(namespace, release string, want object) {
	c.Helper()
	c.eventually("values of "+release, func(ctx context.Context) error {
		found, err := c.get(ctx, "v1", "ConfigMap", namespace, release+"-values")
		if err != nil {
			return err
		}
		text, _, _ := unstructured.NestedString(found.Object, "data", "values")
		var got object
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			return err
		}
		delete(got, "global")
		if !reflect.DeepEqual(got, want) {
			return fmt.Errorf("the chart got %s, not %s", canonical(got), canonical(want))
		}
		return nil
	})
}

// gone waits until an object is no longer there, or is on its way out.
func (c *cluster) gone(apiVersion, kind, namespace, name string) {
	c.Helper()
	c.eventually(kind+" "+name+" is removed", func(ctx context.Context) error {
		found, err := c.get(ctx, apiVersion, kind, namespace, name)
		if err == nil && found.GetDeletionTimestamp() == nil {
			return fmt.Errorf("%s %s is still there", kind, name)
		}
		return client.IgnoreNotFound(err)
	})
}

// field waits until a field of an object has a value.
func (c *cluster) field(o *unstructured.Unstructured, want any, path ...string) {
	c.Helper()
	c.eventually(o.GetKind()+" "+o.GetName(), func(ctx context.Context) error {
		now, err := c.get(ctx, o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName())
		if err != nil {
			return err
		}
		got, _, err := unstructured.NestedFieldNoCopy(now.Object, path...)
		if err != nil || got != want {
			return fmt.Errorf("%s is %#v, not %#v", strings.Join(path, "."), got, want)
		}
		return nil
	})
}

// settled waits until the cluster runs its desired state: every provider exports exactly the inputs that the API
// answers now, and every ResourceSet is ready with them.
func (c *cluster) settled() {
	c.Helper()
	for _, name := range c.lists() {
		want := c.inputs(name)
		c.eventually(name+" settles", func(ctx context.Context) error {
			provider, err := c.get(ctx, fluxAPI, "ResourceSetInputProvider", c.ns, name)
			if err != nil {
				return err
			}
			if err := rig.HasCondition(provider, "Ready", "True"); err != nil {
				return err
			}
			if got := exported(provider); !slices.Equal(got, want) {
				return fmt.Errorf("provider %s exports %.300v, not %.300v", name, got, want)
			}
			return c.applied(ctx, name)
		})
	}
}

// applied reports whether a ResourceSet is ready and has applied an object.
func (c *cluster) applied(ctx context.Context, name string) error {
	set, err := c.get(ctx, fluxAPI, "ResourceSet", c.ns, name)
	if err != nil {
		return err
	}
	if err := rig.HasCondition(set, "Ready", "True"); err != nil {
		return err
	}
	if revision, _, _ := unstructured.NestedString(set.Object, "status", "lastAppliedRevision"); revision == "" {
		return fmt.Errorf("ResourceSet %s has applied nothing yet", name)
	}
	return nil
}

// inputs returns the inputs in the answers of the API as JSON texts, as the operator would export them.
func (c *cluster) inputs(name string) []string {
	c.Helper()
	answer := c.api("GET", "/api/v2/flux/clusters/"+c.dns+"/"+name, nil)
	list, ok := answer["inputs"].([]any)
	if !ok {
		c.Fatalf("%s: no inputs in %v", name, answer)
	}
	texts := []string{}
	for _, input := range list {
		texts = append(texts, canonical(input))
	}
	return texts
}

func exported(provider *unstructured.Unstructured) []string {
	list, _, _ := unstructured.NestedSlice(provider.Object, "status", "exportedInputs")
	texts := []string{}
	for _, input := range list {
		if input, ok := input.(object); ok {
			// Fields that the chart adds for the templates.
			delete(input, "settings")
			texts = append(texts, canonical(input))
		}
	}
	return texts
}

func canonical(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// revisions returns the resource versions of objects, which every write changes.
func (c *cluster) revisions(objects ...*unstructured.Unstructured) map[string]string {
	c.Helper()
	found := map[string]string{}
	for _, o := range objects {
		now, err := c.get(c.Context(), o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName())
		if err != nil {
			c.Fatal(err)
		}
		found[o.GetKind()+" "+o.GetName()] = string(now.GetUID()) + " " + now.GetResourceVersion()
	}
	return found
}

// unchanged fails if objects were written since revisions were read.
func (c *cluster) unchanged(when string, before map[string]string, objects ...*unstructured.Unstructured) {
	c.Helper()
	for name, now := range c.revisions(objects...) {
		if now != before[name] {
			c.Errorf("%s: %s was changed: %s, then %s", when, name, before[name], now)
		}
	}
}

// reconcile requests a reconciliation as documented, and returns the request.
func (c *cluster) reconcile(kind, name string) string {
	c.Helper()
	request := time.Now().Format(time.RFC3339Nano)
	c.patch(fluxAPI, kind, name, annotation("reconcile.fluxcd.io/requestedAt", request))
	return request
}

// reapplied makes every ResourceSet apply its objects again, as its drift correction does, and waits for it.
func (c *cluster) reapplied() {
	c.Helper()
	for _, name := range c.lists() {
		request := c.reconcile("ResourceSet", name)
		c.eventually("ResourceSet "+name+" applies", func(ctx context.Context) error {
			set, err := c.get(ctx, fluxAPI, "ResourceSet", c.ns, name)
			if err != nil {
				return err
			}
			if handled, _, _ := unstructured.NestedString(set.Object, "status", "lastHandledReconcileAt"); handled != request {
				return fmt.Errorf("it has handled the request of %q", handled)
			}
			return rig.HasCondition(set, "Ready", "True")
		})
	}
}

// failing waits until every provider reports a failure with its reason.
func (c *cluster) failing(why string) {
	c.Helper()
	for _, name := range rig.Resources {
		// Now, and not when the operator has waited for as long as it does after failures.
		c.reconcile("ResourceSetInputProvider", name)
	}
	for _, name := range rig.Resources {
		c.eventually("provider "+name+" fails", func(ctx context.Context) error {
			provider, err := c.get(ctx, fluxAPI, "ResourceSetInputProvider", c.ns, name)
			if err != nil {
				return err
			}
			status, message := rig.Condition(provider, "Ready")
			if status != "False" || !strings.Contains(message, why) {
				return fmt.Errorf("provider %s: Ready is %q: %s", name, status, message)
			}
			return nil
		})
	}
}

func annotation(key, value string) object {
	return object{"metadata": object{"annotations": object{key: value}}}
}

// patch merges fields into an object in the cluster's own namespace.
func (c *cluster) patch(apiVersion, kind, name string, fields object) {
	c.Helper()
	o := rig.Object(apiVersion, kind)
	o.SetNamespace(c.ns)
	o.SetName(name)
	if err := c.w.Kube.Patch(c.Context(), o, client.RawPatch("application/merge-patch+json", []byte(canonical(fields)))); err != nil {
		c.Fatal(err)
	}
}

// delete deletes an object in the cluster's own namespace and waits until it is gone for good.
func (c *cluster) delete(apiVersion, kind, name string) {
	c.Helper()
	o := rig.Object(apiVersion, kind)
	o.SetNamespace(c.ns)
	o.SetName(name)
	if err := c.w.Kube.Delete(c.Context(), o); err != nil {
		c.Fatal(err)
	}
	c.eventually(kind+" "+name+" is gone for good", func(ctx context.Context) error {
		_, err := c.get(ctx, apiVersion, kind, c.ns, name)
		if err == nil {
			return errors.New("it is still there")
		}
		return client.IgnoreNotFound(err)
	})
}

// dumpIfFailed logs the Flux objects of a failed case.
func (c *cluster) dumpIfFailed() {
	if !c.Failed() {
		return
	}
	// The test's own context is over by now.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, kind := range []string{fluxAPI + " ResourceSetInputProvider", fluxAPI + " ResourceSet", helmAPI + " HelmRelease", "kustomize.toolkit.fluxcd.io/v1 Kustomization"} {
		apiVersion, name, _ := strings.Cut(kind, " ")
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(apiVersion)
		list.SetKind(name + "List")
		if err := c.w.Kube.List(ctx, list, client.InNamespace(c.ns)); err != nil {
			c.Logf("%s: %v", name, err)
		}
		for _, o := range list.Items {
			status, message := rig.Condition(&o, "Ready")
			c.Logf("%s %s: Ready is %q: %.600s", name, o.GetName(), status, message)
		}
	}
}

// inventory returns the objects that a ResourceSet has applied, as NAMESPACE_NAME_GROUP_KIND.
func (c *cluster) inventory(name string) []string {
	c.Helper()
	set, err := c.get(c.Context(), fluxAPI, "ResourceSet", c.ns, name)
	if err != nil {
		c.Fatal(err)
	}
	entries, _, _ := unstructured.NestedSlice(set.Object, "status", "inventory", "entries")
	var ids []string
	for _, entry := range entries {
		if entry, ok := entry.(object); ok {
			id, _ := entry["id"].(string)
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
