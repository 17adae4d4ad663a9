package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

const (
	networkAPI = "networking.k8s.io/v1"
	secretsAPI = "external-secrets.io/v1"
)

// setupTyped lets a cluster join that asks for resource types of the examples. The fleet keeps the types without their
// templates: bootstrap of other cases would include them.
func setupTyped(t *testing.T, id string, document object, types ...string) *cluster {
	t.Helper()
	var custom []object
	for _, name := range types {
		text, err := os.ReadFile(filepath.Join("..", "..", "examples", "resource-types", name, "type.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var of object
		if err := yaml.Unmarshal(text, &of); err != nil {
			t.Fatal(err)
		}
		custom = append(custom, object{"type": name, "template": of["template"]})
		delete(of, "kind")
		delete(of, "template")
		define(t, "resource_types", of)
	}
	c := prepare(t, id, document)
	c.types = types
	if err := c.w.JoinChart(t.Context(), c.ns, object{
		"cluster":  object{"name": id, "dns": c.dns, "environment": "dev"},
		"api":      object{"url": c.gate.URL, "token": rig.ReadToken},
		"interval": "1s", "customResources": custom,
	}); err != nil {
		t.Fatal(err)
	}
	return c
}

// batch makes changes of the fleet in one commit.
func (c *cluster) batch(operations ...object) {
	c.Helper()
	c.api("POST", "/batch", object{"operations": operations, "reason": "e2e"})
}

// setSays waits until a ResourceSet is not ready with a message.
func (c *cluster) setSays(name, why string) {
	c.Helper()
	c.eventually("ResourceSet "+name+" fails", func(ctx context.Context) error {
		set, err := c.get(ctx, fluxAPI, "ResourceSet", c.ns, name)
		if err != nil {
			return err
		}
		if status, message := rig.Condition(set, "Ready"); status != "False" || !strings.Contains(message, why) {
			return fmt.Errorf("ResourceSet %s: Ready is %q: %.300s", name, status, message)
		}
		return nil
	})
}

// The resource types of the examples, from the definition to the object and back.
func TestResourceTypes(t *testing.T) {
	t.Parallel()
	define(t, "namespaces", object{"id": "typed-space"})
	c := setupTyped(t, "typed", object{"namespaces": []object{{"id": "typed-space"}}}, "network-policies", "resource-quotas", "external-secrets")
	c.exists("v1", "Namespace", "", "typed-space")

	// Only by commands, until the object exists on the cluster.
	c.cli("resource", "network-policies", "create", "typed-web", "--set", "namespace=typed-space", "--set", `from_namespaces=["traefik"]`, "--set", "ports=[9898]", "--cluster", c.id)
	policy := c.exists(networkAPI, "NetworkPolicy", "typed-space", "typed-web")
	ports := func(want ...int64) {
		t.Helper()
		c.eventually("the ports of typed-web", func(ctx context.Context) error {
			now, err := c.get(ctx, networkAPI, "NetworkPolicy", "typed-space", "typed-web")
			if err != nil {
				return err
			}
			rules, _, _ := unstructured.NestedSlice(now.Object, "spec", "ingress")
			var got []int64
			for _, rule := range rules {
				list, _, _ := unstructured.NestedSlice(rule.(object), "ports")
				for _, port := range list {
					n, _, _ := unstructured.NestedInt64(port.(object), "port")
					got = append(got, n)
				}
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("the ports are %v, not %v", got, want)
			}
			return nil
		})
	}
	ports(9898)
	c.confirmed("network-policies", "typed-web")
	c.cli("resource", "network-policies", "assign", "typed-web", "--cluster", c.id, "--override", "ports=[1,2]")
	ports(1, 2)
	c.cli("resource", "network-policies", "set", "typed-web", "--set", "note=for all", "--set", "ports=[7]", "--yes")
	c.field(policy, "for all", "metadata", "annotations", "note")
	ports(1, 2)
	c.cli("resource", "network-policies", "assign", "typed-web", "--cluster", c.id, "--reset")
	ports(7)

	// A quota with a limit range, and each of them gone again.
	c.cli("resource", "resource-quotas", "create", "typed-quota", "--set", "namespace=typed-space", "--set", `hard={"pods":"20"}`, "--set", `default_limits={"memory":"64Mi"}`, "--cluster", c.id)
	quota := c.exists("v1", "ResourceQuota", "typed-space", "typed-quota")
	c.confirmed("resource-quotas", "typed-quota")
	c.field(quota, "20", "spec", "hard", "pods")
	c.exists("v1", "LimitRange", "typed-space", "typed-quota")
	c.cli("resource", "resource-quotas", "set", "typed-quota", "-p", "spec: {default_limits: {memory: null}}", "--yes")
	c.gone("v1", "LimitRange", "typed-space", "typed-quota")
	c.cli("resource", "resource-quotas", "unassign", "typed-quota", "--cluster", c.id, "--yes")
	c.gone("v1", "ResourceQuota", "typed-space", "typed-quota")

	// A kind that the cluster does not have yet: the set reports it, and existing objects stay.
	c.cli("resource", "external-secrets", "create", "typed-key", "--set", "namespace=typed-space", "--set", "store=vault", "--set", `keys=[{"key":"a","remote":"teams/a: b"}]`, "--cluster", c.id)
	c.setSays("external-secrets", "ExternalSecret")
	if err := c.w.Apply(t.Context(), customResource("external-secrets.io", "v1", "ExternalSecret", "externalsecrets")); err != nil {
		t.Fatal(err)
	}
	c.reconcile("ResourceSet", "external-secrets") // it would wait longer with each failure
	secret := c.exists(secretsAPI, "ExternalSecret", "typed-space", "typed-key")
	keys, _, _ := unstructured.NestedSlice(secret.Object, "spec", "data")
	if got, want := canonical(keys), `[{"remoteRef":{"key":"teams/a: b"},"secretKey":"a"}]`; got != want {
		t.Errorf("the secret has the keys %s, not %s", got, want)
	}
	c.cli("resource", "external-secrets", "assign", "typed-key", "--cluster", c.id, "--override", "store=other")
	c.field(secret, "other", "spec", "secretStoreRef", "name")
	c.cli("resource", "external-secrets", "unassign", "typed-key", "--cluster", c.id, "--yes")
	c.gone(secretsAPI, "ExternalSecret", "typed-space", "typed-key")

	// A template that fails leaves existing objects.
	before := c.revisions(policy)
	template, _, _ := unstructured.NestedString(c.exists(fluxAPI, "ResourceSet", c.ns, "network-policies").Object, "spec", "resourcesTemplate")
	c.patch(fluxAPI, "ResourceSet", "network-policies", object{"spec": object{"resourcesTemplate": template + "\n<< inputs.nothing >>\n"}})
	c.setSays("network-policies", "nothing")
	c.unchanged("while the template fails", before, policy)
	c.patch(fluxAPI, "ResourceSet", "network-policies", object{"spec": object{"resourcesTemplate": template}})
	c.ready(fluxAPI, "ResourceSet", c.ns, "network-policies")

	// A deleted type is 404: Flux keeps its objects, although the service counts it as removed.
	c.cli("resource-type", "delete", "network-policies", "--cascade", "--yes", "--max-removals", "10")
	c.eventually("the provider says that there is no such type", func(ctx context.Context) error {
		provider, err := c.get(ctx, fluxAPI, "ResourceSetInputProvider", c.ns, "network-policies")
		if err != nil {
			return err
		}
		if status, message := rig.Condition(provider, "Ready"); status != "False" || !strings.Contains(message, "404") {
			return fmt.Errorf("Ready is %q: %s", status, message)
		}
		return nil
	})
	if _, err := c.get(t.Context(), networkAPI, "NetworkPolicy", "typed-space", "typed-web"); err != nil {
		t.Error(err)
	}
}

// TestHostileResources: special characters in every text field arrive unchanged, in more definitions than Flux Operator reads by default.
func TestHostileResources(t *testing.T) {
	t.Parallel()
	const count = 150
	define(t, "resource_types", object{"id": "texts", "schema": object{
		"type": "object", "additionalProperties": false, "required": []string{"text", "list", "map"},
		"properties": object{
			"text": object{"type": "string"}, "list": object{"type": "array", "items": object{"type": "string"}},
			"map": object{"type": "object", "additionalProperties": object{"type": "string"}},
		},
	}})
	define(t, "namespaces", object{"id": "texts-space"})
	var operations []object
	var assigned []object
	for i := range count {
		id, text := fmt.Sprintf("text-%03d", i), troublesome[i%len(troublesome)]
		operations = append(operations, object{"op": "create", "kind": "resource", "type": "texts", "id": id, "document": object{
			"id": id, "spec": object{"text": text, "list": []string{text, "after"}, "map": object{"a key: #" + text: text}},
		}})
		assigned = append(assigned, object{"id": id})
	}
	c := prepare(t, "texts", object{"namespaces": []object{{"id": "texts-space"}}})
	c.batch(operations...)
	c.types = []string{"texts"}
	c.api("PUT", "/clusters/"+c.id, object{"resources": object{"texts": assigned}})
	// Values of one cluster arrive unchanged, too.
	own := troublesome[len(troublesome)-1]
	c.api("PATCH", "/resource_types/texts", object{"overridable": []string{"text"}})
	c.api("PUT", "/clusters/"+c.id+"/resources/texts/text-000", object{"overrides": object{"text": own}})
	// This one is bootstrapped, with the template that the type has as long as that takes: others have no use for it.
	c.api("PATCH", "/resource_types/texts", object{"template": `
apiVersion: v1
kind: ConfigMap
metadata: {name: << inputs.id | quote >>, namespace: texts-space}
data:
  text: << inputs.text | quote >>
  list: << inputs.list | toJson | quote >>
  map: << inputs.map | toJson | quote >>
`})
	c.join(rig.Cluster{})
	c.api("PATCH", "/resource_types/texts", object{"template": ""})
	c.settled()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("v1")
	list.SetKind("ConfigMapList")
	if err := c.w.Kube.List(t.Context(), list, client.InNamespace("texts-space")); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != count {
		t.Fatalf("there are %d objects, not %d", len(list.Items), count)
	}
	for i, o := range list.Items {
		text := troublesome[i%len(troublesome)]
		want := object{"text": text, "list": canonical([]string{text, "after"}), "map": canonical(object{"a key: #" + text: text})}
		if i == 0 {
			want["text"] = own
		}
		if got := canonical(o.Object["data"]); got != canonical(want) {
			t.Errorf("%s holds %s, not %s", o.GetName(), got, canonical(want))
		}
	}
	if got := len(c.inventory("texts")); got != count {
		t.Errorf("the ResourceSet has applied %d objects, not %d", got, count)
	}
}

// customResource is the definition of a kind that accepts any field.
func customResource(group, version, kind, plural string) string {
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[4]s.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: %[3]s, listKind: %[3]sList, plural: %[4]s, singular: %[5]s}
  versions:
    - name: %[2]s
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, group, version, kind, plural, strings.ToLower(kind))
}

// TestDocumentedType: with a minimal definition of the type in docs/resource-types.md, no traffic reaches the pods.
func TestDocumentedType(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "resource-types.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "cat >type.yaml <<'END'\n")
	text, _, found := strings.Cut(rest, "\nEND\n")
	if !found {
		t.Fatal("docs/resource-types.md has no type.yaml")
	}
	// By another name: other cases have one of that name.
	const id = "documented-policies"
	var of object
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, `"network-policies"`, `"`+id+`"`)), &of); err != nil {
		t.Fatal(err)
	}
	template := of["template"]
	delete(of, "kind")
	of["id"] = id
	define(t, "resource_types", of)
	t.Cleanup(func() { // others would bootstrap it too
		_ = world(t).API.Do(context.WithoutCancel(t.Context()), "PATCH", "/resource_types/"+id, object{"template": ""}, nil)
	})
	define(t, "namespaces", object{"id": "documented-space"})
	c := prepare(t, "documented", object{"namespaces": []object{{"id": "documented-space"}}})
	c.types = []string{id}
	if err := c.w.JoinChart(t.Context(), c.ns, object{
		"cluster": object{"name": c.id, "dns": c.dns, "environment": "dev"}, "api": object{"url": c.gate.URL, "token": rig.ReadToken},
		"interval": "1s", "customResources": []object{{"type": id, "template": template}},
	}); err != nil {
		t.Fatal(err)
	}
	c.exists("v1", "Namespace", "", "documented-space")
	for name, spec := range map[string]object{
		"documented-least": {}, "documented-ports": {"ports": []int{80}}, "documented-from": {"from_namespaces": []string{"traefik"}},
		"documented-both": {"from_namespaces": []string{"traefik"}, "ports": []int{80}},
	} {
		spec["namespace"] = "documented-space"
		c.batch(
			object{"op": "create", "kind": "resource", "type": id, "id": name, "document": object{"id": name, "spec": spec}},
			object{"op": "assign_resource", "type": id, "resource_id": name, "cluster_ids": []string{c.id}},
		)
	}
	const from = `"from":[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"traefik"}}}]`
	for name, want := range map[string]string{
		"documented-least": `null`, "documented-ports": `null`, "documented-from": `[{` + from + `}]`,
		"documented-both": `[{` + from + `,"ports":[{"port":80,"protocol":"TCP"}]}]`,
	} {
		policy := c.exists(networkAPI, "NetworkPolicy", "documented-space", name)
		c.confirmed(id, name)
		rules, _, _ := unstructured.NestedSlice(policy.Object, "spec", "ingress")
		types, _, _ := unstructured.NestedStringSlice(policy.Object, "spec", "policyTypes")
		if len(rules) == 0 {
			rules = nil
		}
		if got := canonical(rules); got != want || !slices.Equal(types, []string{"Ingress"}) {
			t.Errorf("%s admits %s (%v), not %s", name, got, types, want)
		}
	}
}
