package objectidentity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const object = "apiVersion: v1\nkind: ConfigMap\n"

func TestFieldsThatNameObjects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		template string
		fields   []string
		direct   []string
	}{
		"none":                   {"", []string{""}, nil},
		"only the id":            {object + "metadata:\n  name: << inputs.id | quote >>\n  namespace: default\ndata: {a: << inputs.a >>}\n", nil, nil},
		"a namespace":            {object + "metadata:\n  name: << inputs.id | quote >>\n  namespace: << inputs.namespace | quote >>\n", []string{"namespace"}, []string{"namespace"}},
		"in flow style":          {object + "metadata: {name: << inputs.a >>, labels: {x: << inputs.x | quote >>}}\n", []string{"a"}, []string{"a"}},
		"quoted keys":            {object + "\"metadata\":\n  'name': << inputs.a >>\n", []string{"a"}, []string{"a"}},
		"a pipeline":             {object + "metadata:\n  name: << printf \"%s-%s\" inputs.a (inputs.b | lower) | trunc 63 >>\n", []string{"a", "b"}, []string{"a", "b"}},
		"a variable":             {"<<- $n := printf \"x-%s\" inputs.a >>\n" + object + "metadata:\n  name: << $n | quote >>\n", []string{"a"}, []string{"a"}},
		"a variable set later":   {"<<- $n := \"x\" >><<- if inputs.b >><<- $n = inputs.a >><<- end >>\n" + object + "metadata:\n  name: << $n | quote >>\n", []string{"a", "b"}, []string{"a", "b"}},
		"set in an earlier turn": {"<<- $n := \"x\" >><<- $m := \"y\" >><<- range inputs.l >><<- $n = $m >><<- $m = inputs.a >><<- end >>\n" + object + "metadata:\n  name: << $n >>\n", []string{"a", "l"}, []string{"a", "l"}},
		"get":                    {object + "metadata:\n  name: << get inputs \"a\" >>\n  namespace: << dig \"o\" \"n\" \"x\" inputs >>\n", []string{"a", "o.n"}, []string{"a", "o.n"}},
		"index":                  {object + "metadata:\n  name: << index inputs.l 0 >>\n  namespace: << (index inputs \"o\").n >>\n", []string{"l", "o"}, []string{"l", "o"}},
		"parts of an object":     {"<<- $m := inputs.o.m >>\n" + object + "metadata:\n  name: << $m.name >>\n", []string{"o.m.name"}, []string{"o.m.name"}},
		"the cluster":            {object + "metadata:\n  name: << inputs.cluster.environment >>\n", []string{"cluster.environment"}, []string{"cluster.environment"}},
		"kind":                   {"apiVersion: << inputs.v >>\nkind: << inputs.k >>\nmetadata:\n  name: x\nspec: {a: << inputs.a >>}\n", []string{"a", "k", "v"}, []string{"k", "v"}},
		"the whole input":        {object + "metadata:\n  name: << toJson inputs | sha256sum | trunc 8 >>\n", []string{""}, []string{""}},
		"the receipt":            {object + "metadata:\n  name: << inputs.receipt >>\n", []string{""}, []string{""}},
		"one of several":         {object + "metadata:\n  name: a\n---\n" + object + "metadata:\n  name: << inputs.a >>\n", []string{"a"}, []string{"a"}},
		"each of a list":         {"<<- range $x := inputs.l >>\n---\n" + object + "metadata:\n  name: << $x.name >>\ndata: {b: << inputs.b >>}\n<<- end >>\n", []string{"l"}, []string{"l"}},
		"there or not":           {"<<- if inputs.on >>\n---\n" + object + "metadata:\n  name: << inputs.id >>\n<<- end >>\n", []string{"on"}, nil},
		"one or the other": {
			object + "metadata:\n  name: << if inputs.a >>x<< else >>y<< end >>\n  <<- if inputs.labels >>\n  labels: << inputs.labels | toJson >>\n  <<- end >>\n",
			[]string{"a"},
			nil,
		},
		"two kinds":        {"apiVersion: v1\n<<- if inputs.a >>\nkind: Secret\n<<- else >>\nkind: ConfigMap\n<<- end >>\nmetadata:\n  name: x\n", []string{"a"}, nil},
		"a condition else": {object + "metadata:\n  name: << inputs.id >>\n<<- if inputs.a >>\ndata:\n  name: << inputs.b >>\n<<- end >>\n", nil, nil},
		"all as JSON":      {"<<- $o := dict \"kind\" \"ConfigMap\" \"metadata\" (dict \"name\" inputs.a) \"data\" inputs.d >>\n---\n<< $o | toJson >>\n", []string{"a", "d"}, nil},
		"metadata as JSON": {object + "metadata: << dict \"name\" inputs.a | toJson >>\ndata: {b: << inputs.b >>}\n", []string{"a"}, nil},
		"merged":           {object + "metadata:\n  << inputs.m | toYaml | nindent 2 >>\n", []string{"m"}, nil},
		"labels on a line": {object + "metadata:\n  name: x\n  labels:\n    <<- inputs.labels | toYaml | nindent 4 >>\n", nil, nil},
		"a list":           {"apiVersion: v1\nkind: List\nitems:\n  - apiVersion: v1\n    kind: ConfigMap\n    metadata:\n      name: << inputs.a >>\n", []string{"a"}, []string{"a"}},
		"defined":          {"<<- define \"n\" >>\n---\n" + object + "metadata:\n  name: << .a >>\n<<- end >><<- template \"n\" inputs >>\n", []string{"a"}, []string{"a"}},
		"defined elsewhere": {
			object + "metadata:\n  name: x\n<< template \"other\" inputs.a >>\n", []string{""}, nil,
		},
		"a receipt":     {object + "metadata:\n  name: x\n<<- template \"receipt\" (dict \"objects\" inputs.a) >>\n", nil, nil},
		"a release":     {"apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata:\n  name: << inputs.id >>\nspec:\n  targetNamespace: << inputs.n >>\n  values: << inputs.v | toJson >>\n", []string{"n"}, nil},
		"other sets":    {"apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata:\n  name: << inputs.id >>\nspec:\n  resourcesTemplate: |\n    name: << inputs.n >>\n", []string{"n"}, nil},
		"broken":        {object + "metadata:\n  name: << inputs.id\n", []string{""}, nil},
		"not YAML":      {object + "metadata: [\n << inputs.a >> << inputs.b >>\n", []string{"a", "b"}, nil},
		"the data":      {object + "metadata:\n  name: << .name >>\n", []string{""}, []string{""}},
		"our character": {object + "metadata:\n  name: \ue0000\ue001\n", []string{""}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Of(c.template)
			require.Equal(t, c.fields, normal(append(got.Presence, got.Fields...)))
			require.Equal(t, c.direct, got.Direct)
		})
	}
}

func TestNamesChangeWithTheTemplate(t *testing.T) {
	t.Parallel()
	const base = "<<- $n := printf \"a-%s\" inputs.id >>\n" + object + "metadata:\n  name: << $n >>\n  namespace: << inputs.namespace >>\n  labels: {a: b}\ndata: {x: << inputs.x >>}\n"
	names := Of(base).Names
	for change, same := range map[[2]string]bool{
		{"data: {x: << inputs.x >>}", "data: {x: << inputs.y >>, z: z}"}:                       true,
		{"labels: {a: b}", "labels: {a: << inputs.x >>}"}:                                      true,
		{"apiVersion", "# a comment\napiVersion"}:                                              true,
		{"inputs.namespace", "inputs.ns"}:                                                      false,
		{"\"a-%s\"", "\"b-%s\""}:                                                               false,
		{"kind: ConfigMap", "kind: Secret"}:                                                    false,
		{"name: << $n >>", "name: x<< $n >>"}:                                                  false,
		{"apiVersion: v1", "apiVersion: v2"}:                                                   false,
		{"  namespace: << inputs.namespace >>\n", ""}:                                          false,
		{"data: {x", "---\n" + object + "metadata: {name: y}\ndata: {x"}:                       false,
		{"<<- $n :=", "<<- if inputs.x >>\n<<- end >>\n<<- $n :="}:                             true,
		{"  labels: {a: b}", "  <<- if inputs.x >>\n  labels: {a: b}\n  <<- end >>"}:           true,
		{"  namespace:", "  <<- if inputs.x >>\n  namespace: other\n<<- end >>\n  namespace:"}: false,
	} {
		got := Of(strings.Replace(base, change[0], change[1], 1)).Names
		require.Equal(t, same, got == names, "%q", change)
	}
}

func TestExamples(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string][]string{
		"network-policies": {"namespace"}, "external-secrets": {"namespace"}, "object-patches": {"manifest", "state"},
		"resource-quotas": {"namespace"},
	} {
		text, err := os.ReadFile(filepath.Join("../../../examples/resource-types", name, "type.yaml"))
		require.NoError(t, err)
		var doc struct{ Template string }
		require.NoError(t, yaml.Unmarshal(text, &doc))
		got := Of(doc.Template)
		require.Equal(t, fields, got.Fields, name)
		if name == "resource-quotas" {
			require.Equal(t, []string{"default_limits", "default_requests"}, got.Presence)
		}
	}
}

func FuzzOf(f *testing.F) {
	f.Add(object + "metadata:\n  name: << inputs.a >>\n")
	f.Add("<< range $x := inputs.l >><< $x.y | toYaml | nindent 4 >><< else >><< template \"x\" . >><< end >><< define \"x\" >><< . >><< end >>")
	f.Fuzz(func(t *testing.T, template string) {
		a, b := Of(template), Of(template)
		require.Equal(t, a, b)
		for _, path := range a.Direct {
			require.True(t, Covers(a.Fields, path), "%q is not covered by %q", path, a.Fields)
		}
	})
}

func BenchmarkOf(b *testing.B) {
	text, err := os.ReadFile("../../../examples/resource-types/object-patches/type.yaml")
	require.NoError(b, err)
	var doc struct{ Template string }
	require.NoError(b, yaml.Unmarshal(text, &doc))
	for b.Loop() {
		Of(doc.Template)
	}
}
