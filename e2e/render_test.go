package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// renderers are the two programs that render a ResourceSet without a cluster. The operator's is under the AGPL: it
// runs as a program of its own, and nothing of it is linked.
type renderers struct {
	operator, ours string
}

func buildRenderers(t *testing.T) renderers {
	t.Helper()
	tools := exec.CommandContext(t.Context(), "../scripts/e2e-tools", "flux-operator")
	tools.Stderr = os.Stderr
	dir, err := tools.Output()
	if err != nil {
		t.Fatal(err)
	}
	ours := filepath.Join(t.TempDir(), "flux-resourceset-cli")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", ours, "./cmd/flux-resourceset-cli")
	build.Dir, build.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return renderers{operator: filepath.Join(strings.TrimSpace(string(dir)), "cli"), ours: ours}
}

// render answers what each program makes of a ResourceSet (a file, relative to this folder) and a list of inputs.
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
	// The API, for one poll.
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if path.Base(req.URL.Path) != kind {
			_, _ = w.Write([]byte(`{"inputs":[]}`))
			return
		}
		_, _ = fmt.Fprintf(w, `{"inputs":%s}`, list)
	}))
	defer api.Close()
	operator, operatorErr = documentsOf(t, exec.CommandContext(t.Context(), r.operator, "build", "rset", "-f", set, "--inputs-from", file))
	cmd := exec.CommandContext(t.Context(), r.ours, "render", "c.example.com", "--type", kind, "-f", set, "--api-url", api.URL)
	ours, oursErr = documentsOf(t, cmd)
	return operator, ours, operatorErr, oursErr
}

func documentsOf(t *testing.T, cmd *exec.Cmd) ([]any, error) {
	t.Helper()
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr.String())
	}
	var docs []any
	for text := range strings.SplitSeq("\n"+stdout.String(), "\n---\n") {
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

// TestRenderAsTheOperator holds flux-resourceset-cli render against the operator's own offline build, on inputs of
// every shape that the API can answer: the same objects, in the same order.
func TestRenderAsTheOperator(t *testing.T) {
	t.Parallel()
	r := buildRenderers(t)
	for kind, generate := range map[string]func(*rand.Rand, int) object{
		"platform-components": generatedComponent, "namespaces": generatedNamespace, "rolebindings": generatedRoleBinding,
	} {
		for seed := range uint64(5) {
			t.Run(fmt.Sprintf("%s/%d", kind, seed), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(seed, uint64(len(kind))))
				inputs := make([]object, 60)
				for i := range inputs {
					inputs[i] = generate(random, i)
				}
				operator, ours, operatorErr, oursErr := r.render(t, "../charts/flux-resourceset-cluster/files/"+kind+".yaml", kind, inputs)
				if operatorErr != nil || oursErr != nil {
					t.Fatalf("operator: %v\nours: %v", operatorErr, oursErr)
				}
				if len(ours) < len(inputs)/2 {
					t.Fatalf("only %d objects of %d inputs", len(ours), len(inputs))
				}
				sameObjects(t, operator, ours)
			})
		}
	}
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

var (
	clusterNames = []string{"c1", "C One", "Zürich (prod)", "a--b", "under_score", "漢字 cluster", strings.Repeat("long name ", 6)}
	hostileTexts = []string{
		"", "plain", "a,b{c}=d", `"quoted"`, "it's", "two\nlines", "\n---\nkind: Secret\n", "a: b # c", "{{ .Values.x }}", "<< inputs.id >>",
		"*alias", "&anchor", "!tag", "!!int 3", "|", ">-", "%d", "@", "`", "? k", "- item", "on", "Yes", "null", "~", "1e3", "0x1f", "007",
		"1_000", "3", "true", "$HOME ${X} $$", "\ttab", " space ", "trailing\n", "\r\n", "üñí 漢字 😀", "\u00a0\u00ad\u2028\u2029", "\u0007\u001b",
		`back\slash`, "[1,2]", "{\"a\":1}", "#", "---", "...", "=", "<&>",
	}
)

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

func identifier(random *rand.Rand, i int) string {
	return fmt.Sprintf("%s-%d", pick(random, "podinfo", "cert-manager", "a--b", "x", strings.Repeat("n", 45)), i)
}

func clusterBlock(random *rand.Rand) object {
	return object{"name": pick(random, clusterNames...), "dns": "c.example.com", "environment": pick(random, "dev", "prod")}
}

func generatedComponent(random *rand.Rand, i int) object {
	kustomize := random.IntN(3) == 0
	kind, url := "helm", pick(random, "https://charts.example.com", "https://charts.example.com/x/", "http://charts.example.com", "oci://registry.example.com/charts", "oci://registry.example.com/charts/")
	if kustomize {
		kind, url = "kustomize", pick(random, "oci://registry.example.com/platform", "oci://registry.example.com/platform/")
	}
	patches, values := object{}, object{}
	for n := range random.IntN(5) {
		value := pick[any](random, pick(random, hostileTexts...), random.IntN(1e6), random.Float64(), true, 1e3, []any{pick(random, hostileTexts...), 1}, object{"k": pick(random, hostileTexts...)})
		name := fmt.Sprintf("%s%d", pick(random, "ui.color", "hosts[0].name", `a\.b`, "ünicode", "values.yaml", "x-", "_"), n)
		if kustomize {
			name, value = fmt.Sprintf("VAR_%d", n), pick(random, "3", "on", "1e3", "text with spaces", "a/b", "")
		}
		patches[name], values[fmt.Sprintf("key%d", n)] = value, value
	}
	var dependencies []object
	for n := range random.IntN(3) {
		dependencies = append(dependencies, object{"id": fmt.Sprintf("dep--%d", n), "type": pick(random, "helm", "kustomize")})
	}
	return object{
		"id": identifier(random, i), "enabled": random.IntN(8) > 0, "type": kind,
		"component_path":      pick(random, "podinfo", "core/cert-manager/1.14.0", "a/b/", "/leading"),
		"component_version":   pick(random, "latest", "1.2.3", "v1.2.3", "1.2", "1", "1.2.x", "~1.2", ">=1.0.0 <2.0.0", "*", "1.2.3+build.5", "1.2.3-rc.1", "stable"),
		"source":              object{"oci_url": url, "oci_tag": pick(random, "latest", "v1.0.0", "v1.0.0-1", "1.0")},
		"cluster_env_enabled": random.IntN(2) == 0, "depends_on": []string{}, "dependencies": append([]object{}, dependencies...),
		"patches": patches, "values": values, "release_name": identifier(random, i), "target_namespace": pick(random, "apps", "podinfo"),
		"secret_ref": pick(random, "", "pull"), "cluster": clusterBlock(random),
	}
}

func generatedNamespace(random *rand.Rand, i int) object {
	labels, annotations := object{}, object{}
	for n := range random.IntN(4) {
		labels[fmt.Sprintf("example.com/l%d", n)] = pick(random, "", "yes", "on", "1e3", "007", "null", "true", "a.b-c_d")
		annotations[pick(random, "example.com/", "", "fluxcd.controlplane.io/prune")+fmt.Sprintf("a%d", n)] = pick(random, hostileTexts...)
	}
	if random.IntN(5) == 0 {
		annotations["fluxcd.controlplane.io/prune"] = pick(random, "enabled", "disabled")
	}
	return object{
		"id": identifier(random, i), "labels": labels, "annotations": annotations,
		"deletion_policy": pick(random, "delete", "orphan"), "cluster": clusterBlock(random),
	}
}

func generatedRoleBinding(random *rand.Rand, i int) object {
	subjects := []object{}
	for range random.IntN(4) {
		subject := object{"kind": "Group", "name": pick(random, hostileTexts[1:]...), "namespace": "", "apiGroup": "rbac.authorization.k8s.io"}
		if random.IntN(3) == 0 {
			subject = object{"kind": "ServiceAccount", "name": "robot", "namespace": "ci", "apiGroup": ""}
		}
		subjects = append(subjects, subject)
	}
	return object{"id": identifier(random, i), "role": pick(random, "view", "edit", "team:admin"), "subjects": subjects, "cluster": clusterBlock(random)}
}
