package cli_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/flux-resourceset/flux-resourceset/charts"
	"github.com/flux-resourceset/flux-resourceset/cli"
	model "github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
)

// answers is a server that renders a fixed list of inputs for each type; none for others. It replaces only the network.
func answers(t *testing.T, bodies map[string]string) map[string]string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body := `{"inputs":[]}`
		switch {
		case r.URL.Path == "/render":
			body = rendered(t, r, bodies)
			if strings.HasPrefix(body, `{"error"`) {
				w.WriteHeader(http.StatusBadRequest)
			}
		case r.URL.Path == "/resource_types":
			body = `[]`
		case strings.HasPrefix(r.URL.Path, "/resource_types/"):
			w.WriteHeader(http.StatusNotFound)
			body = `{"error":"not_found","detail":"there is none"}`
		}
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(srv.Close)
	return map[string]string{"FLUX_API_URL": srv.URL}
}

// rendered answers a request as the server does, with these responses to polls.
func rendered(t *testing.T, r *http.Request, bodies map[string]string) string {
	t.Helper()
	var req model.RenderRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		t.Error(err)
	}
	text := req.ResourceSets
	if text == "" {
		for _, list := range []string{"platform-components", "namespaces", "rolebindings"} {
			text += "\n---\n" + charts.ResourceSet(list)
		}
	}
	sets, err := resourceset.Read(text)
	if err != nil {
		return fmt.Sprintf(`{"error":"validation_error","detail":%q}`, err)
	}
	var out model.Rendering
	for _, set := range sets {
		if req.Type != "" && !slices.Contains(set.Sources(), req.Type) {
			continue
		}
		made, err := set.Render(func(list string) ([]resourceset.Input, error) {
			var answer struct{ Inputs []resourceset.Input }
			err := json.Unmarshal([]byte(cmp.Or(bodies[list], "{}")), &answer)
			return answer.Inputs, err
		}, &resourceset.Budget{Units: 1e9, Bytes: 1 << 30})
		one := model.RenderedResourceSet{Name: set.Metadata.Name}
		if err != nil {
			one.Error = err.Error()
		}
		for _, obj := range made {
			one.Objects = append(one.Objects, obj.JSON)
		}
		out.ResourceSets = append(out.ResourceSets, one)
	}
	body, err := json.Marshal(out)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

// TestRenderShipped renders every shape of input with the shipped templates. scripts/check-charts validates the golden files
// against the schemas of Kubernetes and Flux.
func TestRenderShipped(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"platform-components", "namespaces", "rolebindings"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join("testdata", "render", name)
			body, err := os.ReadFile(file + ".json")
			if err != nil {
				t.Fatal(err)
			}
			got := run(t, cli.Env{}, answers(t, map[string]string{name: string(body)}), "render", "c1.example.com", "--type", name)
			if got.code != 0 {
				t.Fatal(got.stderr)
			}
			if *update {
				if err := os.WriteFile(file+".golden.yaml", []byte(got.stdout), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file + ".golden.yaml")
			if err != nil {
				t.Fatal(err)
			}
			if got.stdout != string(want) {
				t.Errorf("render differs from %s.golden.yaml; run go test ./cli -run TestRenderShipped -update and look at the change:\n%s", file, got.stdout)
			}
		})
	}
}

// TestRenderRefusesAnotherCluster: templates of a provider with a cluster's name reject inputs of another cluster, and of none. DNS
// names are compared without case and without a dot at the end.
func TestRenderRefusesAnotherCluster(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"platform-components", "namespaces", "rolebindings"} {
		body, err := os.ReadFile(filepath.Join("testdata", "render", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Inputs []map[string]any `json:"inputs"`
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			t.Fatal(err)
		}
		input := answer.Inputs[0]
		for dns, refused := range map[string]bool{"c1.example.com": false, "C1.example.COM.": false, "c2.example.com": true, "": true} {
			input["cluster"].(map[string]any)["dns"] = dns
			input["settings"] = map[string]any{"clusterDNS": "c1.example.com"}
			text, err := json.Marshal(map[string]any{"inputs": []any{input}})
			if err != nil {
				t.Fatal(err)
			}
			got := run(t, cli.Env{}, answers(t, map[string]string{name: string(text)}), "render", "c1.example.com", "--type", name)
			want := fmt.Sprintf("this answer is for cluster %q, not %q", dns, "c1.example.com")
			if (got.code != 0) != refused || refused && !strings.Contains(got.stderr, want) {
				t.Errorf("%s for %q: exit %d, %s", name, dns, got.code, got.stderr)
			}
		}
	}
}

// TestRenderExactly: any text in an input appears unchanged in the objects, and creates no other object.
func TestRenderExactly(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{}
	variables := answers(t, bodies)
	rapid.Check(t, func(r *rapid.T) {
		text := hostileText()
		message, annotation, subject := text.Draw(r, "message"), text.Draw(r, "annotation"), text.Draw(r, "subject")
		where := map[string]any{"name": "c1", "dns": "c1.example.com", "environment": "dev"}
		values := map[string]any{"ui": map[string]any{"message": message}, "list": []any{message, true, 1048576.0, 0.5}}
		bodies["platform-components"] = inputs(r, map[string]any{
			"id": "p", "enabled": true, "component_path": "podinfo", "component_version": "latest",
			"source": map[string]any{"oci_url": "https://charts.example.com", "oci_tag": "latest"}, "cluster_env_enabled": false,
			"depends_on": []any{}, "dependencies": []any{}, "type": "helm", "release_name": "p", "target_namespace": "p", "secret_ref": "",
			"patches": map[string]any{"ui.message": message, "list": values["list"]}, "values": values, "cluster": where,
		})
		bodies["namespaces"] = inputs(r, map[string]any{
			"id": "n", "labels": map[string]any{"a": "yes"}, "annotations": map[string]any{"a": annotation, "b": message},
			"deletion_policy": "delete", "cluster": where,
		})
		bodies["rolebindings"] = inputs(r, map[string]any{
			"id": "b", "role": "view", "cluster": where,
			"subjects": []any{map[string]any{"kind": "User", "name": subject, "namespace": "", "apiGroup": "rbac.authorization.k8s.io"}},
		})
		got := run(t, cli.Env{}, variables, "render", "c1.example.com", "-o", "json")
		if got.code != 0 {
			r.Fatal(got.stderr)
		}
		var list struct {
			Items []struct {
				Kind     string
				Metadata struct{ Annotations map[string]string }
				Data     map[string]string
				Spec     struct{ Values map[string]any }
				Subjects []struct{ Name string }
			}
		}
		if err := json.Unmarshal([]byte(got.stdout), &list); err != nil {
			r.Fatal(err)
		}
		var kinds []string
		for _, obj := range list.Items {
			kinds = append(kinds, obj.Kind)
		}
		if fmt.Sprint(kinds) != "[HelmRepository ConfigMap HelmRelease Namespace ClusterRoleBinding]" {
			r.Fatal(kinds)
		}
		data, ns, binding := list.Items[1].Data, list.Items[3].Metadata.Annotations, list.Items[4].Subjects
		var read map[string]any
		if err := yaml.Unmarshal([]byte(data["values.yaml"]), &read); err != nil {
			r.Fatal(err)
		}
		if !reflect.DeepEqual(read, values) || data["ui.message"] != message {
			r.Errorf("values %q, key %q; want %q", data["values.yaml"], data["ui.message"], message)
		}
		if got := list.Items[2].Spec.Values; !reflect.DeepEqual(got, values) {
			r.Errorf("the release has the values %q, not %q", got, values)
		}
		if ns["a"] != annotation || ns["b"] != message || binding[0].Name != subject {
			r.Errorf("annotations %q, subject %q; want %q, %q and %q", ns, binding[0].Name, annotation, message, subject)
		}
		// The same objects as documents.
		got = run(t, cli.Env{}, variables, "render", "c1.example.com")
		if n := strings.Count("\n"+got.stdout, "\n---\n"); got.code != 0 || n != len(kinds) {
			r.Errorf("%d documents, %s", n, got.stderr)
		}
	})
}

// hostileText generates text with a meaning in YAML, in templates or for line readers, beside ordinary text.
func hostileText() *rapid.Generator[string] {
	pieces := rapid.SampledFrom([]string{
		",", "{", "}", "[", "]", "'", `"`, `\`, "\n", "\r", "\t", "\n---\n", ": ", " #", "{{", "}}", "<<", ">>", "<< inputs.id >>",
		"*a", "&a", "!a", "!!int", "|", ">", "%", "@", "`", "?", "- ", "on", "yes", "null", "~", "1e3", "0x1f", "1_000", "=", "$", "${X}",
		"\u0007", "\u001b", "\u007f", "\u0080", "\u0085", "\u009f", "\u00a0", "\u00ad", "\u2028", "\u2029", "\ufeff", "\ufffd", "\ufffe", "\uffff",
		"ü", "漢", "😀", " ", "  ", "a", "kind: Secret",
	})
	return rapid.OneOf(
		rapid.Map(rapid.SliceOfN(pieces, 0, 12), func(p []string) string { return strings.Join(p, "") }),
		rapid.Map(rapid.String(), func(s string) string { return strings.ReplaceAll(s, "\x00", "") }),
	)
}

func inputs(r *rapid.T, input any) string {
	body, err := json.Marshal(map[string]any{"inputs": []any{input}})
	if err != nil {
		r.Fatal(err)
	}
	return string(body)
}

// TestRenderOwn renders ResourceSets of users, with features that Flux Operator documents.
func TestRenderOwn(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: own}\nspec:\n"
	const from = head + "  inputsFrom: [{name: namespaces}]\n"
	const configMap = "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {v: "
	variables := answers(t, map[string]string{"namespaces": `{"inputs":[{"id":"a","n":12345678,"f":1e3},{"id":"b","n":1,"f":0.5}]}`})
	for _, test := range []struct {
		name, set, want string
		code            int
	}{
		{"once without inputs", head + "  resources: [" + configMap + "1}}]\n", `"v": 1`, 0},
		{"inline inputs", head + "  inputs: [{a: x1}]\n  resourcesTemplate: |\n    " + configMap + "<< inputs.a >>-<< inputs.provider.kind >>}}\n", "x1-ResourceSet", 0},
		{"a name of each", from + "  resources: [{apiVersion: v1, kind: ConfigMap, metadata: {name: << inputs.id >>}}]\n", `"name": "b"`, 0},
		{"numbers", from + "  resourcesTemplate: |\n    " + configMap + "\"<< inputs.n >> << inputs.f >>\"}}\n", "12345678 1000", 0},
		{"provider", from + "  resourcesTemplate: |\n    " + configMap + "<< inputs.provider.name >>}}\n", `"v": "namespaces"`, 0},
		{"slugs", from + "  resourcesTemplate: |\n    " + configMap + "<< \"A b_ç!\" | slugify >>}}\n", `"v": "a-b_c"`, 0},
		{"defaults", from + "  resourcesTemplate: |\n    " + configMap + "<< inputs.extra >>}}\n---\nkind: ResourceSetInputProvider\napiVersion: fluxcd.controlplane.io/v1\nmetadata: {name: namespaces}\nspec: {defaultValues: {extra: yes-it-is, id: never}}\n", "yes-it-is", 0},
		{"common metadata", head + "  commonMetadata: {labels: {l: a}, annotations: {note: b}}\n  resources: [" + configMap + "1}}]\n", `"note": "b"`, 0},
		{"switched off", head + "  resources: [{apiVersion: v1, kind: ConfigMap, metadata: {name: x, annotations: {fluxcd.controlplane.io/reconcile: disabled}}}]\n", `"items": []`, 0},
		{"steps", head + "  steps: [{name: s, resources: [" + configMap + "2}}]}]\n", `"v": 2`, 0},
		{"missing field", from + "  resourcesTemplate: << inputs.missing >>\n", `input "a": `, 1},
		{"unknown function", from + "  resourcesTemplate: << env \"HOME\" >>\n", `function "env" not defined`, 1},
		{"not YAML", from + "  resourcesTemplate: |\n    a: b: c\n", "a: b: c", 1},
		{"no kind", from + "  resourcesTemplate: |\n    a: b\n", "without kind", 1},
		{"selector", head + "  inputsFrom: [{selector: {matchLabels: {a: b}}}]\n  resourcesTemplate: x\n", "selector", 1},
		{"permute", head + "  inputStrategy: {name: Permute}\n  resourcesTemplate: x\n", "Permute", 1},
		{"nothing", "kind: ConfigMap\napiVersion: v1\n", "no ResourceSet", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, cli.Env{Stdin: strings.NewReader(test.set)}, variables, "render", "c1.example.com", "-f", "-", "-o", "json")
			if got.code != test.code || !strings.Contains(got.stdout+got.stderr, test.want) {
				t.Errorf("exit %d, want %d with %s:\n%s%s", got.code, test.code, test.want, got.stdout, got.stderr)
			}
			if test.name == "numbers" && strings.Count(got.stdout, `"kind": "ConfigMap"`) != 1 {
				t.Errorf("two objects of one name:\n%s", got.stdout)
			}
		})
	}
}
