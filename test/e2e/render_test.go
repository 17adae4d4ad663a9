package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
	"sigs.k8s.io/yaml"
)

// renderers render a ResourceSet without a cluster: the operator's program, and the code of POST /render. The operator's is under the
// AGPL: it runs as a program of its own, and none of its code is linked.
type renderers struct {
	operator string
}

func buildRenderers(t *testing.T) renderers {
	t.Helper()
	tools := exec.CommandContext(t.Context(), "../../scripts/e2e-tools", "flux-operator")
	tools.Stderr = os.Stderr
	dir, err := tools.Output()
	if err != nil {
		t.Fatal(err)
	}
	return renderers{operator: filepath.Join(strings.TrimSpace(string(dir)), "cli")}
}

// render returns the objects of both for a ResourceSet (a file, relative to this folder) and a list of inputs.
func (r renderers) render(t *testing.T, set, kind string, inputs []object) (operator, ours []any, operatorErr, oursErr error) {
	t.Helper()
	list, err := json.Marshal(inputs)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "inputs.json")
	if err := os.WriteFile(file, list, 0o600); err != nil {
		t.Fatal(err)
	}
	operator, operatorErr = documentsOf(t, exec.CommandContext(t.Context(), r.operator, "build", "rset", "-f", set, "--inputs-from", file))
	ours, oursErr = rendered(t, set, kind, list)
	return operator, ours, operatorErr, oursErr
}

// rendered renders a file as POST /render does.
func rendered(t *testing.T, file, kind string, list []byte) ([]any, error) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sets, err := resourceset.Read(string(text))
	if err != nil {
		return nil, err
	}
	var docs []any
	for _, set := range sets {
		objects, err := set.Render(func(source string) (inputs []resourceset.Input, err error) {
			if source == kind {
				err = json.Unmarshal(list, &inputs)
			}
			return inputs, err
		}, &resourceset.Budget{Units: 1 << 30, Bytes: 1 << 30})
		if err != nil {
			return nil, err
		}
		for _, obj := range objects {
			var doc any
			if err := json.Unmarshal(obj.JSON, &doc); err != nil {
				t.Fatal(err)
			}
			docs = append(docs, doc)
		}
	}
	return docs, nil
}

func documentsOf(t *testing.T, cmd *exec.Cmd) ([]any, error) {
	t.Helper()
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr.String())
	}
	var docs []any
	// The newline before a separator belongs to the text of the document, which may end in a block.
	for text := range strings.SplitSeq(strings.ReplaceAll("\n"+stdout.String(), "\n---\n", "\n\x00"), "\x00") {
		var doc any
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatalf("%s: %v\n%s", cmd.Path, err, text)
		}
		if doc != nil {
			docs = append(docs, doc)
		}
	}
	return docs, nil
}

// TestRenderOwnTemplates does the same with templates as people write them.
func TestRenderOwnTemplates(t *testing.T) {
	t.Parallel()
	r := buildRenderers(t)
	const head = "apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: own, namespace: apps}\nspec:\n  inputsFrom: [{name: namespaces}]\n"
	configMap := func(value string) string {
		return head + "  resourcesTemplate: |\n    ---\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: << inputs.id >>, namespace: a}\n    data:\n      v: " + value + "\n"
	}
	for name, set := range map[string]string{
		"slugify":         configMap("<< inputs.name | slugify | quote >>"),
		"toYaml":          configMap("|\n        << inputs.annotations | toYaml | nindent 8 >>"),
		"numbers":         configMap(`"<< inputs.number >> << inputs.float >> << inputs.big >> << kindOf inputs.big >>"`),
		"sprig":           configMap(`"<< inputs.name | upper | trunc 5 | b64enc >> << sha256sum inputs.id | trunc 8 >> << list 1 2 | join "-" >>"`),
		"same name":       strings.Replace(configMap("x"), "<< inputs.id >>", "same", 1),
		"switched off":    strings.Replace(configMap("x"), "namespace: a", `namespace: a, annotations: {fluxcd.controlplane.io/reconcile: << ternary "disabled" "enabled" (hasSuffix "1" inputs.id) >>}`, 1),
		"common metadata": configMap("x") + "  commonMetadata:\n    labels: {team: a}\n    annotations: {owner: b}\n",
		"resources":       head + "  resources:\n    - apiVersion: v1\n      kind: ServiceAccount\n      metadata: {name: << inputs.id >>, namespace: a}\n",
		"both":            configMap("x") + "  resources:\n    - apiVersion: v1\n      kind: ConfigMap\n      metadata: {name: << inputs.id >>, namespace: a}\n      data: {v: wins}\n",
		"steps":           head + "  steps:\n    - name: one\n      resources: [{apiVersion: v1, kind: Secret, metadata: {name: << inputs.id >>}}]\n    - name: two\n      resources: [{apiVersion: v1, kind: ConfigMap, metadata: {name: << inputs.id >>}}]\n",
		"list":            head + "  resourcesTemplate: |\n    apiVersion: v1\n    kind: ConfigMapList\n    items:\n    - {apiVersion: v1, kind: ConfigMap, metadata: {name: << inputs.id >>-a}}\n    - {apiVersion: v1, kind: ConfigMap, metadata: {name: << inputs.id >>-b}}\n",
		"comments":        head + "  resourcesTemplate: |\n    --- # first\n    # only a comment\n    ---\n    {apiVersion: v1, kind: ConfigMap, metadata: {name: << inputs.id >>}}\n    ---\n",
		"missing field":   configMap("<< inputs.missing >>"),
		"no such thing":   configMap("<< env \"HOME\" >>"),
		"broken YAML":     configMap("a: b: c"),
		"no kind":         head + "  resourcesTemplate: |\n    a: b\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "set.yaml")
			if err := os.WriteFile(file, []byte(set), 0o600); err != nil {
				t.Fatal(err)
			}
			random := rand.New(rand.NewPCG(1, 2))
			inputs := make([]object, 12)
			for i := range inputs {
				inputs[i] = generatedNamespace(random, i)
				inputs[i]["number"], inputs[i]["float"], inputs[i]["big"] = random.IntN(1e9), random.Float64(), 1<<53-random.IntN(100)
				inputs[i]["name"] = pick(random, clusterNames...)
			}
			operator, ours, operatorErr, oursErr := r.render(t, file, "namespaces", inputs)
			if (operatorErr == nil) != (oursErr == nil) {
				t.Fatalf("operator: %v\nours: %v", operatorErr, oursErr)
			}
			sameObjects(t, operator, ours)
		})
	}
}

func sameObjects(t *testing.T, operator, ours []any) {
	t.Helper()
	if len(operator) != len(ours) {
		t.Errorf("the operator makes %d objects, we %d", len(operator), len(ours))
	}
	for i := range min(len(operator), len(ours)) {
		if !reflect.DeepEqual(operator[i], ours[i]) {
			t.Fatalf("object %d differs\noperator: %s\nours:     %s", i, jsonOf(operator[i]), jsonOf(ours[i]))
		}
	}
}

func jsonOf(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return []byte(err.Error())
	}
	return text
}
