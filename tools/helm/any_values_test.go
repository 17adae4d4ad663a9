package helm_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// texts are tried wherever the schema of a text allows them: what YAML reads otherwise, limits of lengths, and forms that patterns ask for.
var texts = append(
	strings.Split(`|x|prod|dev|A|a-b|1.0.0|10|0123|true|no|null|~|1e3|500m|1Gi|50%|15m|24h|90d|17 2 * * *|@daily|/fleet|/a/b.json|a/|a.example.com|*.example.com|https://a.example.com|https://a.example.com:8443/x|postgres://u:p%40@h/d?sslmode=require|with space|say "x"|it's|{{ x }}|#c|a: b|- c|&d|*e|0123456789abcdef-token|é`, "|"),
	"a\nb", "sha256:"+strings.Repeat("0", 64), strings.Repeat("n", 40), strings.Repeat("n", 58), strings.Repeat("n", 63), strings.Repeat("n", 200), strings.Repeat("n", 253),
)

// wholes are values of Kubernetes' own types, which the schema leaves to Kubernetes, by the end of their path.
var wholes = map[string]string{
	"nodeAffinity":       `{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}`,
	"podAffinity":        `{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {a: b}}}]}`,
	"podAntiAffinity":    `{preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: zone}}]}`,
	"podSecurityContext": `{runAsUser: 1000660000, runAsNonRoot: true}`,
	"securityContext":    `{runAsUser: 1000660000, capabilities: {drop: [ALL]}}`,
	"volume":             `{emptyDir: {medium: Memory, sizeLimit: 1Gi}}`,
	"valueFrom":          `{secretKeyRef: {name: a, key: b}}`,
	"ipBlock":            `{cidr: 10.0.0.0/8}`,
	"podSelector":        `{matchLabels: {a: "1"}}`,
	"namespaceSelector":  `{}`,
	"claims":             `{name: gpu}`,
	"ports":              `{port: 5000, protocol: TCP}`,
	"extraObjects":       `{apiVersion: v1, kind: ConfigMap, metadata: {name: more}, data: {a: "{{ .Release.Name }}"}}`,
	"initContainers":     `{name: first, image: a, args: ["1e6"]}`,
	"extraContainers":    `{name: beside, image: a, env: [{name: A, value: "1"}]}`,
	"extraVolumes":       `{name: more, emptyDir: {}}`,
	"extraVolumeMounts":  `{name: more, mountPath: /more}`,
	"template":           `"apiVersion: v1\nkind: ConfigMap\n"`,
	"global":             `{a: 1}`,
}

// generator makes random values that a schema of values allows.
type generator struct {
	t           *testing.T
	definitions map[string]any
	random      *rand.Rand
	leaves      map[string]func() any // what makes a value of each key
}

func (g *generator) resolve(schema map[string]any) map[string]any {
	if ref, is := schema["$ref"].(string); is {
		return g.definitions[strings.TrimPrefix(ref, "#/definitions/")].(map[string]any)
	}
	return schema
}

func (g *generator) one(of []any) any { return of[g.random.IntN(len(of))] }

// below are the values below a path that are set as a whole: all but objects with named properties.
func (g *generator) below(path []string, schema map[string]any) map[string]func() any {
	schema = g.resolve(schema)
	found := map[string]func() any{}
	properties, named := schema["properties"].(map[string]any)
	if !named {
		found[strings.Join(path, ".")] = func() any { return g.value(path, schema) }
		return found
	}
	for name, property := range properties {
		if property, is := property.(map[string]any); is { // true: a key that the chart refuses
			maps.Copy(found, g.below(append(slices.Clone(path), name), property))
		}
	}
	return found
}

func (g *generator) value(path []string, schema map[string]any) any {
	schema = g.resolve(schema)
	if whole, is := wholes[path[len(path)-1]]; is && schema["type"] != "array" {
		var value any
		if err := yaml.Unmarshal([]byte(whole), &value); err != nil {
			g.t.Fatal(err)
		}
		return value
	}
	if options, is := schema["enum"].([]any); is {
		return g.one(options)
	}
	if options, is := schema["anyOf"].([]any); is {
		return g.value(path, g.one(options).(map[string]any))
	}
	if value, is := schema["const"]; is {
		return value
	}
	kind, _ := schema["type"].(string)
	if kinds, is := schema["type"].([]any); is {
		kind = g.one(kinds).(string)
	}
	switch kind {
	case "null":
		return nil
	case "boolean":
		return g.random.IntN(2) == 0
	case "integer", "number":
		return g.number(schema)
	case "string":
		return g.text(path, schema)
	case "array":
		list := []any{g.value(path, schema["items"].(map[string]any))}
		if item := g.value(path, schema["items"].(map[string]any)); g.random.IntN(2) == 0 && !reflect.DeepEqual(item, list[0]) {
			list = append(list, item)
		}
		return list
	case "object":
		return g.object(path, schema)
	}
	g.t.Fatalf("%v: what is %v?", path, schema)
	return nil
}

func (g *generator) number(schema map[string]any) any {
	lowest, _ := schema["minimum"].(float64)
	highest, limited := schema["maximum"].(float64)
	options := []any{lowest, lowest + 1}
	for _, n := range []float64{2, 1000000, 2500000, 3000000000} {
		if n >= lowest && (!limited || n <= highest) {
			options = append(options, n)
		}
	}
	if limited {
		options = append(options, highest)
	}
	return g.one(options)
}

func (g *generator) text(path []string, schema map[string]any) any {
	pattern, _ := schema["pattern"].(string)
	shortest, _ := schema["minLength"].(float64)
	longest, limited := schema["maxLength"].(float64)
	form := regexp.MustCompile(pattern)
	var options []any
	for _, text := range texts {
		if length := len([]rune(text)); form.MatchString(text) && length >= int(shortest) && (!limited || length <= int(longest)) {
			options = append(options, text)
		}
	}
	if len(options) == 0 {
		g.t.Fatalf("%v: none of texts fits %s", path, pattern)
	}
	return g.one(options)
}

func (g *generator) object(path []string, schema map[string]any) any {
	made := map[string]any{}
	required, _ := schema["required"].([]any)
	properties, named := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) { // so that a seed gives the same values each time
		property := properties[name]
		if slices.Contains(required, any(name)) || g.random.IntN(2) == 0 {
			made[name] = g.value(append(slices.Clone(path), name), property.(map[string]any))
		}
	}
	if more, is := schema["additionalProperties"].(map[string]any); is {
		names, _ := schema["propertyNames"].(map[string]any)
		for range g.random.IntN(3) {
			name := "cpu"
			if names != nil {
				name = g.text(path, g.resolve(names)).(string)
			}
			made[name] = g.value(append(slices.Clone(path), name), more)
		}
	} else if !named {
		g.t.Fatalf("%v: wholes needs a value for it, or the schema its properties", path)
	}
	return made
}

var exponent = regexp.MustCompile(`"-?[0-9](\.[0-9]+)?e\+[0-9]+"`)

// Whatever values the schema allows, a chart renders objects that an API server accepts, or says why it does not render
// them. RENDER_VALUES is how many values of each key are rendered, RENDER_SEED the seed; into RENDER_DIR go some of the
// objects for kubectl-validate, which knows the custom resources.
func TestAnyValues(t *testing.T) {
	t.Parallel()
	for chart, variants := range map[string][]string{service: {"sqlite", "postgres", "postgres-url", "tokenless", "mtls"}, cluster: {"demo", "custom", "events", "mtls"}} {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			seed, wanted := numberFrom(t, "RENDER_SEED", 1), numberFrom(t, "RENDER_VALUES", 1)
			g := newGenerator(t, chart, uint64(seed))
			g.leaves = g.below(nil, g.definitions["values"].(map[string]any))
			for i, name := range slices.Sorted(maps.Keys(g.leaves)) {
				var refused error
				tries, rendered := 0, 0
				for ; rendered < wanted && tries < 20*wanted; tries++ {
					values, set := g.values(chart, variants[(i+tries)%len(variants)], name)
					var found map[string]object
					if found, refused = objects(t, chart, values); refused == nil {
						rendered++
						check(t, found, fmt.Sprintf("RENDER_SEED=%d, %v of\n%s", seed, set, values))
					} else if !strings.Contains(refused.Error(), "\n  - ") {
						t.Errorf("RENDER_SEED=%d, %v: %v of\n%s", seed, set, refused, values)
					}
					if dir := os.Getenv("RENDER_DIR"); dir != "" && refused == nil && i%8 == 0 {
						sample(t, filepath.Join(dir, fmt.Sprintf("any-%s-%d.yaml", chart, i)), found)
					}
				}
				if rendered < wanted {
					t.Errorf("%s is rendered only %d times of %d: %v", name, rendered, tries, refused)
				}
			}
		})
	}
}

// values are those of a variant with a random one of a key, and of up to three others.
func (g *generator) values(chart, variant, name string) (text string, set []string) {
	g.t.Helper()
	file, err := os.ReadFile(filepath.Join(charts, chart, "ci", variant+"-values.yaml"))
	if err != nil {
		g.t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(file, &values); err != nil {
		g.t.Fatal(err)
	}
	all := slices.Sorted(maps.Keys(g.leaves))
	set = []string{name}
	for range g.random.IntN(4) {
		set = append(set, all[g.random.IntN(len(all))])
	}
	for _, name := range set {
		put(values, strings.Split(name, "."), g.leaves[name]())
	}
	switch name {
	case "config.environments": // the default protects one that is likely not there
		put(values, []string{"config", "protectedEnvironments"}, []any{})
	case "auth.readToken", "auth.writeToken": // random ones are short
		put(values, []string{"auth", "allowShortTokens"}, true)
	case "config.protectedEnvironments": // random ones are likely not there
		if protected := values["config"].(map[string]any)["protectedEnvironments"].([]any); len(protected) > 0 {
			put(values, []string{"config", "environments"}, protected)
		}
	}
	made, err := yaml.Marshal(values)
	if err != nil {
		g.t.Fatal(err)
	}
	return string(made), set
}

func check(t *testing.T, found map[string]object, of string) {
	t.Helper()
	for key, o := range found {
		if number := exponent.FindString(o.at()); number != "" {
			o.problems = append(o.problems, "the number "+number)
		}
		for _, problem := range o.problems {
			t.Errorf("%s: %s\n%s", key, problem, of)
		}
	}
}

func newGenerator(t *testing.T, chart string, seed uint64) *generator {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(charts, chart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	definitions := schema["definitions"].(map[string]any)
	definitions["values"] = schema
	return &generator{t: t, definitions: definitions, random: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // repeatable
}

// put sets a value below maps that are made where they are missing.
func put(values map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		below, is := values[name].(map[string]any)
		if !is {
			below = map[string]any{}
			values[name] = below
		}
		values = below
	}
	values[path[len(path)-1]] = value
}

func sample(t *testing.T, file string, found map[string]object) {
	t.Helper()
	var all strings.Builder
	for _, o := range found {
		if o.GetKind() == "Alert" { // events.operatorKinds needs the definition that Flux Operator installs
			continue
		}
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString("---\n" + string(text))
	}
	if err := os.WriteFile(file, []byte(all.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

func numberFrom(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
