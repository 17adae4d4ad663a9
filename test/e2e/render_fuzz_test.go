package e2e

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestRenderMatchesOperator holds the objects of POST /render against the operator's own offline build, on inputs of
// every shape that the API can answer: the same objects, in the same order, none missing and none besides.
// RENDER_INPUTS is the number of inputs of each resource type, RENDER_SEED the seed.
func TestRenderMatchesOperator(t *testing.T) {
	t.Parallel()
	const batch = 60 // inputs of one ResourceSet
	count, seed := numberFrom(t, "RENDER_INPUTS", 300), numberFrom(t, "RENDER_SEED", 0)
	r := buildRenderers(t)
	for kind, generate := range map[string]func(*rand.Rand, int) object{
		"platform-components": generatedComponent, "namespaces": generatedNamespace, "rolebindings": generatedRoleBinding,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, uint64(len(kind))))
			objects := 0
			for from := uint64(0); from < count && !t.Failed(); from += batch {
				inputs := make([]object, min(batch, count-from))
				for i := range inputs {
					inputs[i] = generate(random, i)
				}
				operator, ours, operatorErr, oursErr := r.render(t, "../../charts/flux-resourceset-cluster/files/"+kind+".yaml", kind, inputs)
				if operatorErr != nil || oursErr != nil {
					t.Fatalf("RENDER_SEED=%d, inputs %d and on\noperator: %v\nours: %v\ninputs: %s", seed, from, operatorErr, oursErr, jsonOf(inputs))
				}
				sameObjects(t, operator, ours)
				expectObjects(t, expected[kind](inputs), operator)
				if t.Failed() {
					t.Logf("RENDER_SEED=%d, inputs %d and on: %s", seed, from, jsonOf(inputs))
				}
				objects += len(operator)
			}
			t.Logf("%d inputs of seed %d made %d objects", count, seed, objects)
		})
	}
}

func numberFrom(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// wanted is an expected object: its identity, and the texts of inputs at their paths.
type wanted struct {
	kind, namespace, name string
	path                  []string // to the text, none: there is none
	content               any
}

// expected returns the objects for a list of inputs, computed without a template.
var expected = map[string]func([]object) []wanted{
	"namespaces": func(inputs []object) (out []wanted) {
		for _, in := range inputs {
			annotations := maps.Clone(in["annotations"].(object))
			if receipt, ok := in["receipt"]; ok {
				annotations["event.toolkit.fluxcd.io/input"] = receipt
			}
			if in["deletion_policy"] == "orphan" {
				annotations["fluxcd.controlplane.io/prune"] = "disabled"
			}
			out = append(out, wanted{"Namespace", "", in["id"].(string), []string{"metadata", "annotations"}, annotations})
			out = append(out, wantedReceipt("namespaces", in)...)
		}
		return out
	},
	"rolebindings": func(inputs []object) (out []wanted) {
		for _, in := range inputs {
			var subjects []any
			for _, subject := range in["subjects"].([]object) {
				subject = maps.Clone(subject)
				maps.DeleteFunc(subject, func(_ string, value any) bool { return value == "" })
				subjects = append(subjects, subject)
			}
			out = append(out, wanted{"ClusterRoleBinding", "", in["id"].(string), []string{"subjects"}, subjects})
			out = append(out, wantedReceipt("rolebindings", in)...)
		}
		return out
	},
	"platform-components": func(inputs []object) (out []wanted) {
		for _, in := range inputs {
			if !in["enabled"].(bool) {
				continue
			}
			id := strings.ReplaceAll(in["id"].(string), "--", "-")
			source := "HelmRepository"
			if url := in["source"].(object)["oci_url"].(string); strings.HasPrefix(url, "oci://") {
				source = "OCIRepository"
			} else if strings.HasPrefix(url, "git+") {
				source = "GitRepository"
			}
			name := "charts-" + id
			if slices.ContainsFunc(in["dependencies"].([]object), func(d object) bool { return d["type"] != in["type"] }) {
				name = "gated-" + id
				out = append(out, wanted{kind: "ResourceSet", namespace: "flux-system", name: "gate-" + id})
				// The source under its other name, which the component has used if the dependency is new.
				out = append(out, wanted{source, "flux-system", "charts-" + id, []string{"spec", "suspend"}, true})
			}
			out = append(out, wanted{kind: source, namespace: "flux-system", name: name})
			out = append(out, wantedReceipt("platform-components", in)...)
			patches := in["patches"].(object)
			if in["type"] == "kustomize" {
				one := wanted{kind: "Kustomization", namespace: "flux-system", name: "platform-" + id}
				if len(patches) > 0 {
					one.path, one.content = []string{"spec", "postBuild", "substitute"}, patches
				}
				out = append(out, one)
				continue
			}
			release := wanted{kind: "HelmRelease", namespace: "flux-system", name: "platform-" + id}
			if len(patches) > 0 {
				release.path, release.content = []string{"spec", "values"}, in["values"]
			}
			out = append(out, release)
			if len(patches) > 0 {
				out = append(out, wanted{"ConfigMap", "flux-system", "values-" + id, []string{"data", "values.yaml"}, in["values"]})
			}
		}
		return out
	},
}

// wantedReceipt is the ResourceSet that an input gets beside its objects, and the provider in it; none for an input without.
func wantedReceipt(list string, in object) []wanted {
	receipt, ok := in["receipt"]
	if _, on := in["settings"]; !ok || !on {
		return nil
	}
	id := in["id"].(string)
	subject := list + "/" + id
	words := strings.Trim(regexp.MustCompile("[^a-z0-9]+").ReplaceAllString(strings.ToLower(subject), "-"), "-")
	words = strings.TrimSuffix(words[:min(len(words), 40)], "-")
	name := fmt.Sprintf("receipt-%s-%.5x", words, sha256.Sum256([]byte(fmt.Sprint(subject, " ", receipt))))
	address := fmt.Sprintf("https://api.example.com/receipts/%s/%s?input=%s", list, strings.ReplaceAll(url.QueryEscape(id), "+", "%20"), receipt)
	return []wanted{
		{kind: "ResourceSet", namespace: "flux-system", name: name},
		{"ResourceSetInputProvider", "flux-system", name, []string{"spec", "url"}, address},
	}
}

// expectObjects requires exactly these objects, and in each of them the text as it was given.
func expectObjects(t *testing.T, want []wanted, got []any) {
	t.Helper()
	wants := map[string]wanted{}
	for _, w := range want {
		wants[w.kind+" "+w.namespace+"/"+w.name] = w
	}
	if len(wants) != len(want) {
		t.Fatalf("two inputs of one name: the generator is wrong")
	}
	for _, g := range slices.Concat(got, heldBack(t, got)) {
		doc, _ := g.(map[string]any)
		metadata, _ := doc["metadata"].(map[string]any)
		name, _ := metadata["name"].(string)
		namespace, _ := metadata["namespace"].(string)
		kind, _ := doc["kind"].(string)
		if kind == "ConfigMap" { // values-ID-CLUSTER
			name = name[:longest(name, wants)]
		}
		key := kind + " " + namespace + "/" + name
		w, ok := wants[key]
		if !ok {
			t.Errorf("an object too many: %s", jsonOf(g))
			continue
		}
		delete(wants, key)
		if w.path != nil {
			sameContent(t, key, w.content, at(doc, w.path))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(wants)) {
		t.Errorf("an object is missing: %s", key)
	}
}

// heldBack are the sources, and the providers of receipts, that sets of their own make later. Their template is the object itself, without template expressions.
func heldBack(t *testing.T, objects []any) (sources []any) {
	t.Helper()
	for _, o := range objects {
		text, _ := at(o.(map[string]any), []string{"spec", "resourcesTemplate"}).(string)
		if text == "" {
			continue
		}
		var source any
		if err := json.Unmarshal([]byte(text), &source); err != nil || strings.Contains(text, "<<") {
			t.Errorf("not an object as it is: %v: %s", err, text)
		}
		sources = append(sources, source)
	}
	return sources
}

// longest is how much of a ConfigMap's name is that of the component it belongs to.
func longest(name string, wants map[string]wanted) int {
	best := 0
	for _, w := range wants {
		if w.kind == "ConfigMap" && strings.HasPrefix(name, w.name+"-") {
			best = max(best, len(w.name))
		}
	}
	return cmp.Or(best, len(name))
}

func at(doc map[string]any, path []string) any {
	var value any = doc
	for _, key := range path {
		m, _ := value.(map[string]any)
		value = m[key]
	}
	return value
}

// sameContent compares the input with the content of the object, which may be text that a program parses.
func sameContent(t *testing.T, key string, want, got any) {
	t.Helper()
	if text, ok := got.(string); ok {
		got = nil
		if err := yaml.Unmarshal([]byte(text), &got); err != nil {
			t.Errorf("%s: %v: %q", key, err, text)
		}
	}
	var given any
	if err := json.Unmarshal(jsonOf(want), &given); err != nil {
		t.Fatal(err)
	}
	if m, ok := given.(map[string]any); ok && len(m) == 0 && got == nil {
		return
	}
	if !reflect.DeepEqual(given, got) {
		t.Errorf("%s: the inputs have\n%s\nthe object has\n%s", key, jsonOf(want), jsonOf(got))
	}
}
