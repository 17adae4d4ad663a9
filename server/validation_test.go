package server_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// refusal is a request that validation refuses, with where its problems are.
type refusal struct {
	method, path, body string
	pointers           []string
	detail             string // in any of the problems
}

func refuse(t *testing.T, w *world, cases map[string]refusal) {
	t.Helper()
	w.unchanged(func() {
		for name, r := range cases {
			got := w.do(r.method, r.path, r.body)
			require.Equal(t, 400, got.status, "%s: %s", name, got.body)
			got.problem(400, "validation_error")
			require.Equal(t, r.pointers, got.pointers(), "%s: %s", name, got.body)
			if r.detail != "" {
				require.Contains(t, string(got.body), r.detail, name)
			}
		}
	})
}

func newCluster(fields string) string {
	return `{"id":"new","cluster_dns":"new.example.com","environment":"dev"` + fields + `}`
}

func newComponent(fields string) string {
	return `{"id":"new","component_path":"p","oci_url":"https://charts.example.com"` + fields + `}`
}

func TestClusterValidation(t *testing.T) {
	t.Parallel()
	w := setup(t)
	long := strings.Repeat("a", 64)
	cases := map[string]refusal{
		"nothing":               {"POST", "/clusters", `{}`, []string{"/cluster_dns", "/environment", "/id"}, "is required"},
		"no object":             {"POST", "/clusters", `[]`, []string{""}, ""},
		"a string":              {"POST", "/clusters", `"x"`, []string{""}, ""},
		"null":                  {"POST", "/clusters", `null`, []string{""}, ""},
		"an unknown field":      {"POST", "/clusters", newCluster(`,"nonsense":1`), []string{"/nonsense"}, "unknown field"},
		"a field in other case": {"POST", "/clusters", newCluster(`,"Environment":"prod"`), []string{"/Environment"}, "unknown field"},
		"an unknown field below": {
			"POST", "/clusters", newCluster(`,"platform_components":[{"id":"podinfo","version":"1"}]`),
			[]string{"/platform_components/0/version"},
			"unknown field",
		},
		"types": {
			"POST", "/clusters", newCluster(`,"labels":[],"namespaces":{},"patches":"x","deletion_protection":"yes","node_count":1.5`),
			[]string{"/deletion_protection", "/labels", "/namespaces", "/node_count", "/patches"},
			"",
		},
		"types below": {
			"POST", "/clusters", newCluster(`,"labels":{"a":1},"namespaces":["podinfo"],"platform_components":[{"id":7,"enabled":"no"}]`),
			[]string{"/labels/a", "/namespaces/0", "/platform_components/0/enabled", "/platform_components/0/id"},
			"",
		},
		"an empty id":                              {"POST", "/clusters", `{"id":"","cluster_dns":"new.example.com","environment":"dev"}`, []string{"/id"}, ""},
		"an id in upper case":                      {"POST", "/clusters", `{"id":"New","cluster_dns":"new.example.com","environment":"dev"}`, []string{"/id"}, ""},
		"an id with an empty part":                 {"POST", "/clusters", `{"id":"a..b","cluster_dns":"new.example.com","environment":"dev"}`, []string{"/id"}, ""},
		"a slash in the id":                        {"POST", "/clusters", `{"id":"a/b","cluster_dns":"new.example.com","environment":"dev"}`, []string{"/id"}, ""},
		"a long id":                                {"POST", "/clusters", `{"id":"` + long + `","cluster_name":"x","cluster_dns":"new.example.com","environment":"dev"}`, []string{"/id"}, "63"},
		"a name of dashes":                         {"POST", "/clusters", newCluster(`,"cluster_name":"---"`), []string{"/cluster_name"}, "letter or digit"},
		"a long name":                              {"POST", "/clusters", newCluster(`,"cluster_name":"` + long + `"`), []string{"/cluster_name"}, "63"},
		"a name with a newline":                    {"POST", "/clusters", newCluster(`,"cluster_name":"a\nb"`), []string{"/cluster_name"}, "control"},
		"a DNS name":                               {"POST", "/clusters", `{"id":"new","cluster_dns":"not a name","environment":"dev"}`, []string{"/cluster_dns"}, ""},
		"an empty DNS name":                        {"POST", "/clusters", `{"id":"new","cluster_dns":"","environment":"dev"}`, []string{"/cluster_dns"}, ""},
		"a DNS name with a dot at the end":         {"POST", "/clusters", `{"id":"new","cluster_dns":"new.example.com.","environment":"dev"}`, []string{"/cluster_dns"}, ""},
		"an international DNS name":                {"POST", "/clusters", `{"id":"new","cluster_dns":"bücher.example","environment":"dev"}`, []string{"/cluster_dns"}, ""},
		"a DNS name that is taken":                 {"POST", "/clusters", `{"id":"new","cluster_dns":"DEMO-cluster-01.k8s.example.com","environment":"dev"}`, []string{"/cluster_dns"}, "demo-cluster-01"},
		"an unknown environment":                   {"POST", "/clusters", `{"id":"new","cluster_dns":"new.example.com","environment":"moon"}`, []string{"/environment"}, "dev, qa, uat, prod"},
		"labels":                                   {"POST", "/clusters", newCluster(`,"labels":{"a b":"x","ok":"not ok!","` + long + `":"x"}`), []string{"/labels/a b", "/labels/" + long, "/labels/ok"}, ""},
		"a label with a slash":                     {"POST", "/clusters", newCluster(`,"labels":{"a/b/c":"x","~":"x"}`), []string{"/labels/a~1b~1c", "/labels/~0"}, ""},
		"node_count":                               {"POST", "/clusters", newCluster(`,"node_count":-1`), []string{"/node_count"}, ""},
		"patches of a component that is not there": {"POST", "/clusters", newCluster(`,"patches":{"podinfo":{"a":"b"}}`), []string{"/patches/podinfo"}, "not assigned"},
		"an override with a newline":               {"POST", "/clusters", newCluster(`,"platform_components":[{"id":"podinfo","oci_tag":"a\nb"}]`), []string{"/platform_components/0/oci_tag"}, "control"},
		"an integer above 2^53":                    {"PUT", demoCluster, `{"patches":{"podinfo":{"a":9007199254740993}}}`, []string{"/patches/podinfo/a"}, "2^53"},
		"an integer in a string above 2^53":        {"PUT", demoCluster, `{"patches":{"podinfo":{"a":"9007199254740993"}}}`, []string{"/patches/podinfo/a"}, "2^53"},
		"NUL":                                      {"PUT", demoCluster, `{"patches":{"podinfo":{"a":"\u0000"}}}`, []string{"/patches/podinfo/a"}, `u0000`},
		"a label that selectors never read":        {"PUT", demoCluster, `{"labels":{"id":"x","environment":"prod"}}`, []string{"/labels/id", "/labels/environment"}, "selectors read"},
		"NUL in a key":                             {"PUT", demoCluster, `{"labels":{"\u0000":"x"}}`, []string{"/labels/\x00"}, `u0000`},
		"duplicate keys":                           {"PUT", demoCluster, `{"environment":"dev","environment":"prod"}`, []string{"/environment"}, "twice"},
		"duplicate keys below":                     {"PUT", demoCluster, `{"labels":{"a":"1","\u0061":"2"}}`, []string{"/labels/a"}, "twice"},
		"an unknown query parameter":               {"PUT", demoCluster + "?dryrun=true", `{}`, []string{""}, "dryrun"},
	}
	refuse(t, w, cases)
}

// All problems come in one answer, wherever they are.
func TestValidationReportsEverything(t *testing.T) {
	t.Parallel()
	w := setup(t)
	refuse(t, w, map[string]refusal{
		"the fleet's rules": {"PUT", demoCluster, `{"environment":"moon","cluster_name":"--","labels":{"a b":"c"},
			"platform_components":[{"id":"podinfo"},{"id":"podinfo"},{"id":"nobody"}],"namespaces":[{"id":"x"}],"rolebindings":[{"id":"y"}],
			"patches":{"traefik":{"a":"b"},"podinfo":{"a..b":"c","ui":"x","ui.color":"y"}}}`, []string{
			"/cluster_name", "/environment", "/labels/a b", "/platform_components/1/id", "/platform_components/2/id",
			"/namespaces/0/id", "/rolebindings/0/id", "/patches/podinfo/a..b", "/patches/podinfo/ui.color", "/patches/traefik",
		}, "10 problems"},
		"parameters and the body": {"PUT", demoCluster + "?dry_run=x&what=1", `{"nonsense":1,"labels":7}`, []string{"", "", "/labels", "/nonsense"}, "4 problems"},
	})
}

func TestComponentValidation(t *testing.T) {
	t.Parallel()
	w := setup(t)
	big := strings.Repeat("x", 256<<10)
	refuse(t, w, map[string]refusal{
		"nothing":                             {"POST", "/platform_components", `{}`, []string{"/component_path", "/id", "/oci_url"}, "is required"},
		"empty fields":                        {"POST", "/platform_components", `{"id":"new","component_path":"","oci_url":""}`, []string{"/component_path", "/oci_url"}, ""},
		"a long id":                           {"POST", "/platform_components", `{"id":"` + strings.Repeat("a", 54) + `","component_path":"p","oci_url":"oci://r/x","release_name":"x"}`, []string{"/id"}, "53"},
		"a long release name":                 {"POST", "/platform_components", newComponent(`,"release_name":"` + strings.Repeat("a", 54) + `"`), []string{"/release_name"}, "53"},
		"a bad release name":                  {"POST", "/platform_components", newComponent(`,"release_name":"A_b"`), []string{"/release_name"}, ""},
		"a bad namespace":                     {"POST", "/platform_components", newComponent(`,"target_namespace":"a.b"`), []string{"/target_namespace"}, ""},
		"a bad secret":                        {"POST", "/platform_components", newComponent(`,"secret_ref":"a b"`), []string{"/secret_ref"}, ""},
		"another URL":                         {"POST", "/platform_components", `{"id":"new","component_path":"p","oci_url":"ftp://x"}`, []string{"/oci_url"}, "oci://"},
		"no URL":                              {"POST", "/platform_components", `{"id":"new","component_path":"p","oci_url":"charts"}`, []string{"/oci_url"}, ""},
		"credentials in a URL":                {"POST", "/platform_components", `{"id":"new","component_path":"p","oci_url":"https://u:p@charts.example.com"}`, []string{"/oci_url"}, "credentials"},
		"a query in a URL":                    {"POST", "/platform_components", `{"id":"new","component_path":"p","oci_url":"https://charts.example.com?a=b"}`, []string{"/oci_url"}, "query"},
		"a type":                              {"POST", "/platform_components", newComponent(`,"type":"rpm"`), []string{"/type"}, "helm, kustomize"},
		"kustomize over https":                {"POST", "/platform_components", newComponent(`,"type":"kustomize"`), []string{"/type"}, "oci://"},
		"an unknown dependency":               {"POST", "/platform_components", newComponent(`,"depends_on":["traefik","nobody","traefik"]`), []string{"/depends_on/1", "/depends_on/2"}, "nobody"},
		"itself":                              {"POST", "/platform_components", newComponent(`,"depends_on":["new"]`), []string{"/depends_on/0"}, "itself"},
		"a cycle of three":                    {"PATCH", "/platform_components/cert-manager", `{"depends_on":["podinfo"]}`, []string{"/depends_on"}, "cert-manager -> podinfo -> traefik -> cert-manager"},
		"a twin after slugify":                {"POST", "/platform_components", `{"id":"cert--manager","component_path":"p","oci_url":"oci://r/x"}`, []string{"/id"}, "same name"},
		"patches":                             {"POST", "/platform_components", newComponent(`,"patches":{"a[":"x","b.":"x","c=d":"x"}`), []string{"/patches/a[", "/patches/b.", "/patches/c=d"}, ""},
		"large patches":                       {"POST", "/platform_components", newComponent(`,"patches":{"a":"` + big + `"}`), []string{"/patches"}, "262144"},
		"a catalog patch against a cluster's": {"PATCH", "/platform_components/podinfo", `{"patches":{"ui":"x"}}`, []string{"", ""}, `cluster \"demo-cluster-01\"`},
		"a type that patches do not fit":      {"PATCH", "/platform_components/podinfo", `{"type":"kustomize","oci_url":"oci://r/x"}`, []string{"", ""}, "substitution"},
	})
}

func TestNamespaceValidation(t *testing.T) {
	t.Parallel()
	w := setup(t)
	cases := map[string]refusal{
		"nothing":           {"POST", "/namespaces", `{}`, []string{"/id"}, "is required"},
		"a bad id":          {"POST", "/namespaces", `{"id":"a.b"}`, []string{"/id"}, ""},
		"a policy":          {"POST", "/namespaces", `{"id":"new","deletion_policy":"keep"}`, []string{"/deletion_policy"}, "delete, orphan"},
		"labels":            {"POST", "/namespaces", `{"id":"new","labels":{"a":"b c","-":"x"}}`, []string{"/labels/-", "/labels/a"}, ""},
		"annotations":       {"POST", "/namespaces", `{"id":"new","annotations":{"a b":"any text: at all\n"}}`, []string{"/annotations/a b"}, ""},
		"large annotations": {"POST", "/namespaces", `{"id":"new","annotations":{"a":"` + strings.Repeat("x", 256<<10) + `"}}`, []string{"/annotations"}, "262144"},
		"null below":        {"PUT", "/namespaces/podinfo", `{"labels":{"a":null}}`, []string{"/labels/a"}, "null"},
	}
	for _, id := range []string{"default", "flux-system", "kube-system", "kube-public", "kube-anything"} {
		cases["the system namespace "+id] = refusal{"POST", "/namespaces", fmt.Sprintf(`{"id":%q}`, id), []string{"/deletion_policy"}, "orphan"}
	}
	refuse(t, w, cases)
	w.create("/namespaces", `{"id":"kube-system","deletion_policy":"orphan"}`)
	require.Equal(t, []string{"/deletion_policy"}, w.patch("/namespaces/kube-system", `{"deletion_policy":"delete"}`).problem(400, "validation_error").pointers())
	require.Equal(t, []string{"/deletion_policy"}, w.patch("/namespaces/kube-system", `{"deletion_policy":null}`).problem(400, "validation_error").pointers())
}

func TestRoleBindingValidation(t *testing.T) {
	t.Parallel()
	w := setup(t)
	binding := func(subject string) string { return `{"id":"new","role":"view","subjects":[` + subject + `]}` }
	cases := map[string]refusal{
		"nothing":                      {"POST", "/rolebindings", `{}`, []string{"/id", "/role", "/subjects"}, "is required"},
		"an empty role":                {"POST", "/rolebindings", `{"id":"new","role":"","subjects":[]}`, []string{"/role"}, ""},
		"a role with a slash":          {"POST", "/rolebindings", `{"id":"new","role":"a/b","subjects":[]}`, []string{"/role"}, ""},
		"an id with a slash":           {"POST", "/rolebindings", `{"id":"a/b","role":"view","subjects":[]}`, []string{"/id"}, ""},
		"an id of dots":                {"POST", "/rolebindings", `{"id":"..","role":"view","subjects":[]}`, []string{"/id"}, ""},
		"a kind":                       {"POST", "/rolebindings", binding(`{"kind":"Robot","name":"x"}`), []string{"/subjects/0/kind"}, "User, Group, ServiceAccount"},
		"no name":                      {"POST", "/rolebindings", binding(`{"kind":"User"}`), []string{"/subjects/0/name"}, "is required"},
		"an empty name":                {"POST", "/rolebindings", binding(`{"kind":"User","name":""}`), []string{"/subjects/0/name"}, ""},
		"an account without namespace": {"POST", "/rolebindings", binding(`{"kind":"User","name":"a"},{"kind":"ServiceAccount","name":"x"}`), []string{"/subjects/1/namespace"}, "needs a namespace"},
		"an account's name":            {"POST", "/rolebindings", binding(`{"kind":"ServiceAccount","name":"A b","namespace":"C d"}`), []string{"/subjects/0/name", "/subjects/0/namespace"}, ""},
		"an account's group":           {"POST", "/rolebindings", binding(`{"kind":"ServiceAccount","name":"x","namespace":"y","apiGroup":"rbac.authorization.k8s.io"}`), []string{"/subjects/0/apiGroup"}, ""},
		"a user's namespace":           {"POST", "/rolebindings", binding(`{"kind":"User","name":"x","namespace":"y"}`), []string{"/subjects/0/namespace"}, ""},
		"a group's group":              {"POST", "/rolebindings", binding(`{"kind":"Group","name":"x","apiGroup":"example.com"}`), []string{"/subjects/0/apiGroup"}, ""},
		"an unknown field":             {"POST", "/rolebindings", binding(`{"kind":"User","name":"x","api_group":"y"}`), []string{"/subjects/0/api_group"}, "unknown field"},
	}
	for _, id := range []string{"cluster-admin", "system:node", "system:", "kubeadm:get-nodes", "flux-operator", "cluster-reconciler-flux-system", "crd-controller-flux-system"} {
		cases["the reserved name "+id] = refusal{"POST", "/rolebindings", fmt.Sprintf(`{"id":%q,"role":"view","subjects":[]}`, id), []string{"/id"}, "belongs to"}
	}
	refuse(t, w, cases)
	w.create("/rolebindings", `{"id":"Team:readers","role":"system:aggregate-to-view","subjects":[]}`)
	w.get("/rolebindings/Team:readers").want(200)
}

// Patch paths follow Helm's grammar and must not contradict one another.
func TestPatchPathValidation(t *testing.T) {
	t.Parallel()
	w := setup(t)
	cases := map[string]refusal{}
	put := func(name, values, path string) {
		cases[name] = refusal{"PUT", demoCluster, `{"patches":{"podinfo":` + values + `}}`, []string{"/patches/podinfo/" + path}, ""}
	}
	for _, path := range []string{"", ".", "a..b", ".a", "a.", "a[", "a[x]", "a[-1]", "a[65537]", "a[0]b", "[0]", "a,b", "a=b", `a\`, "a[0", strings.Repeat("a.", 30) + "a"} {
		put("the path "+path, `{`+strconv.Quote(path)+`:"x"}`, path)
	}
	for values, path := range map[string]string{
		`{"ui":"x","ui.color":"y"}`:              "ui.color",
		`{"hosts":"x","hosts[0]":"y"}`:           "hosts[0]",
		`{"list.name":"x","list[0].a":"y"}`:      "list[0].a",
		`{"a.b\\.c":"x","a.b\\.c.d":"y"}`:        `a.b\.c.d`,
		`{"a":{"b":1},"a.c":2}`:                  "a.c",
		`{"replicaCount":1,"replicaCount[0]":2}`: "replicaCount[0]",
	} {
		put("the values "+values, values, path)
	}
	refuse(t, w, cases)
	w.patch(demoCluster, `{"patches":{"podinfo":{"nodeSelector.kubernetes\\.io/os":"linux","hosts[1].name":"b","a\\,b":"c","obj":{"k":[1,2.5,true]},"n":3,"b":false,"quoted":"\"3\""}}}`).want(200)
	values := at(w.poll(demoPolls+"/platform-components").json(), "inputs", 2, "values")
	require.Equal(t, "linux", at(values, "nodeSelector", "kubernetes.io/os"))
	require.Equal(t, []any{nil, map[string]any{"name": "b"}}, at(values, "hosts"))
	require.Equal(t, "c", at(values, "a,b"))
	require.Equal(t, map[string]any{"k": []any{1.0, 2.5, true}}, at(values, "obj"))
	require.Equal(t, 3.0, at(values, "n"))
	require.Equal(t, "3", at(values, "quoted"))
}

// A kustomize component's patches are substituted as text: names of variables, and values that YAML reads one way.
func TestKustomizePatchValidation(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/platform_components", `{"id":"kust","component_path":"p","oci_url":"oci://r/x"}`)
	w.put(demoCluster+"/platform_components/kust", "").want(200)
	w.unchanged(func() {
		for _, name := range []string{"a.b", "1a", "a-b", "", "a[0]", "ä"} {
			require.Equal(t, []string{"/patches/kust/" + name}, w.patch(demoCluster, `{"patches":{"kust":{"`+name+`":"x"}}}`).problem(400, "validation_error").pointers(), name)
		}
		for _, value := range []string{`"a: b"`, `"a:"`, `"a #b"`, `"\"a\""`, `"it's"`, `"$(x)"`, `"back\\slash"`, `"two\nlines"`, `"*a"`, `"&a"`, `"!a"`, `"- a"`, `"[a"`, `"{a"`, `"%a"`, `"@a"`, `" a"`, `"a "`, `{"a":1}`, `[1]`, `"---"`, `"a\u2028b"`} {
			require.Equal(t, []string{"/patches/kust/A"}, w.patch(demoCluster, `{"patches":{"kust":{"A":`+value+`}}}`).problem(400, "validation_error").pointers(), value)
		}
	})
	w.patch(demoCluster, `{"patches":{"kust":{"A":"3","B":3,"C":true,"_d1":"a:b","E":"","F":"-1"}}}`).want(200)
	input := at(w.poll(demoPolls+"/platform-components").json(), "inputs", 3)
	strung := map[string]any{"A": "3", "B": "3", "C": "true", "_d1": "a:b", "E": "", "F": "-1"}
	require.Equal(t, strung, at(input, "values"), "served as strings")
	require.Equal(t, strung, at(input, "patches"))
}

// Everything that is wrong with a body's shape is reported at once, and when that is right, everything that is wrong by the
// fleet's rules.
func TestSchemaCheckedBeforeRules(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for name, r := range map[string]struct {
		method, path string
		misshapen    string
		shape        []string
		wrong        string
		rules        []string
	}{
		"an update": {
			"PUT", demoCluster,
			`{"environ":"prod","labels":7,"environment":"moon","namespaces":[7,{"id":"nobody"}]}`,
			[]string{"/environ", "/labels", "/namespaces/0"},
			`{"labels":{"a":"not ok!"},"environment":"moon","namespaces":[{"id":"nobody"}],"patches":{"podinfo":{"a..b":"c"}}}`,
			[]string{"/labels/a", "/environment", "/namespaces/0/id", "/patches/podinfo/a..b"},
		},
		"a patch": {
			"PATCH", demoCluster,
			`{"deletion_protection":"yes","environment":"moon","labels":{"ok":1}}`,
			[]string{"/deletion_protection", "/labels/ok"},
			`{"environment":"moon","labels":{"a":"not ok!"}}`,
			[]string{"/environment", "/labels/a"},
		},
		"a new document": {
			"POST", "/namespaces",
			`{"labels":{"a":"not ok!"},"annotations":[]}`,
			[]string{"/id", "/annotations"},
			`{"id":"Not A Label","labels":{"a":"not ok!"}}`,
			[]string{"/id", "/labels/a"},
		},
		"a component": {
			"POST", "/platform_components",
			newComponent(`,"depends_on":[7,"nobody"],"patches":[]`),
			[]string{"/depends_on/0", "/patches"},
			newComponent(`,"depends_on":["nobody"],"release_name":"Not Ok","patches":{"a..b":"c"}`),
			[]string{"/depends_on/0", "/release_name", "/patches/a..b"},
		},
		"an assignment": {
			"PUT", demoCluster + "/platform_components/podinfo",
			`{"enabled":"no","oci_tga":"a"}`,
			[]string{"/enabled", "/oci_tga"},
			`{"oci_tag":"a\nb"}`,
			[]string{"/platform_components/2/oci_tag"},
		},
		"operations": {
			"POST", "/batch",
			`{"operations":[{"op":"create","kind":"cluster","id":"new","document":{"id":7,"cluster_dns":"new.example.com","environment":"moon"}},
				{"op":"patch","kind":"cluster","id":"demo-cluster-01","patch":{"environment":"moon","node_count":"three"}}]}`,
			[]string{"/operations/0/document/id", "/operations/1/patch/node_count"},
			`{"operations":[{"op":"update","kind":"namespace","id":"podinfo","document":{"labels":{"x":"not ok!"}}},
				{"op":"patch","kind":"cluster","id":"demo-cluster-01","patch":{"environment":"moon"}}]}`,
			[]string{"/operations/0/document/labels/x", "/operations/1/patch/environment"},
		},
	} {
		w.unchanged(func() {
			got := w.do(r.method, r.path, r.misshapen).problem(400, "validation_error")
			require.ElementsMatch(t, r.shape, got.pointers(), "%s: %s", name, got.body)
			got = w.do(r.method, r.path, r.wrong).problem(400, "validation_error")
			require.ElementsMatch(t, r.rules, got.pointers(), "%s: %s", name, got.body)
		})
	}
}

// One Helm release cannot be two components.
func TestReleaseNameConflict(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/platform_components", `{"id":"other","component_path":"x","oci_url":"https://charts.example.com","release_name":"podinfo","target_namespace":"elsewhere"}`)
	w.unchanged(func() {
		p := w.put(demoCluster+"/platform_components/other", "").problem(400, "validation_error")
		require.Equal(t, []string{"/platform_components"}, p.pointers())
	})
}
