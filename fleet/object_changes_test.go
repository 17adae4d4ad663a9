package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// modelInput is an input of the types of this test.
type modelInput struct {
	id, a, b, n, note string
	on                bool
	list              []string
	name, environment string // of the cluster
}

func (m modelInput) input(t require.TestingT) *resourceInput {
	list := make([]any, len(m.list))
	for i, item := range m.list {
		list[i] = item
	}
	fields, err := encodeFields(map[string]any{"a": m.a, "b": m.b, "obj": map[string]any{"n": m.n}, "note": m.note, "on": m.on, "list": list})
	require.NoError(t, err)
	return &resourceInput{id: m.id, fields: fields, cluster: api.FluxCluster{Name: m.name, DNS: m.name + ".example.com", Environment: m.environment}}
}

// modelText is an expression of a template, and its value.
type modelText struct {
	text  string
	value func(in modelInput) string
}

func randomText(t *rapid.T) modelText {
	all := []modelText{
		{`"k"`, func(modelInput) string { return "k" }},
		{`"m"`, func(modelInput) string { return "m" }},
		{"inputs.id", func(in modelInput) string { return in.id }},
		{"inputs.a", func(in modelInput) string { return in.a }},
		{"inputs.obj.n", func(in modelInput) string { return in.n }},
		{`get inputs "b"`, func(in modelInput) string { return in.b }},
		{`dig "obj" "n" "x" inputs`, func(in modelInput) string { return in.n }},
		{`printf "%s-%s" inputs.a inputs.b`, func(in modelInput) string { return in.a + "-" + in.b }},
		{`inputs.a | trunc 1`, func(in modelInput) string { return in.a[:1] }},
		{`ternary "p" inputs.b inputs.on`, func(in modelInput) string {
			if in.on {
				return "p"
			}
			return in.b
		}},
		{"inputs.cluster.environment", func(in modelInput) string { return in.environment }},
		{"inputs.cluster.name", func(in modelInput) string { return in.name }},
		{"inputs.receipt | trunc 8", func(in modelInput) string { return fmt.Sprint(in) }},
		{"toJson inputs | sha256sum | trunc 8", func(in modelInput) string { return fmt.Sprint("JSON of ", in) }},
		{"$v", func(in modelInput) string {
			if in.on {
				return in.a
			}
			return "v"
		}},
	}
	return rapid.SampledFrom(all).Draw(t, "text")
}

// modelStart is the start of each template.
const modelStart = "<<- $v := \"v\" ->><<- if inputs.on ->><<- $v = inputs.a ->><<- end >>\n" +
	"<<- define \"secret\" >>\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: << .x | quote >>}\n<<- end >>\n"

// modelPart is a part of a template, and the identities of the objects that it renders.
type modelPart struct {
	text    string
	objects func(in modelInput) []string
}

func one(f func(in modelInput) string) func(in modelInput) []string {
	return func(in modelInput) []string { return []string{f(in)} }
}

// randomObject returns a YAML document with an object.
func randomObject(t *rapid.T) modelPart {
	name, namespace, other, note := randomText(t), randomText(t), randomText(t), randomText(t)
	metadata := fmt.Sprintf("{name: << %s | quote >>, namespace: << %s | quote >>, labels: {note: << %s | quote >>}}", name.text, namespace.text, note.text)
	id := func(kind string) func(in modelInput) string {
		return func(in modelInput) string { return kind + " " + namespace.value(in) + "/" + name.value(in) }
	}
	flux := "---\napiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: " + metadata + "\nspec:\n"
	switch rapid.IntRange(0, 9).Draw(t, "object") {
	case 0:
		kind := rapid.SampledFrom([]string{"v1\nkind: ConfigMap", "v1\nkind: Secret", "apps/v1\nkind: Deployment", "apps/v1beta1\nkind: Deployment"}).Draw(t, "kind")
		group, kindName, _ := strings.Cut(kind, "\nkind: ")
		group, _, grouped := strings.Cut(group, "/")
		if !grouped {
			group = ""
		}
		return modelPart{"---\napiVersion: " + kind + "\nmetadata: " + metadata + "\ndata: {x: << " + other.text + " | quote >>}\n", one(id(group + "/" + kindName))}
	case 1:
		return modelPart{"---\napiVersion: v1\nkind: << " + other.text + " | quote >>\nmetadata: " + metadata + "\n", one(func(in modelInput) string { return id("/" + other.value(in))(in) })}
	case 2:
		return modelPart{"---\napiVersion: v1\nkind: ConfigMap\ndata: {m: &m " + metadata + "}\nmetadata: *m\n", one(id("/ConfigMap"))}
	case 3:
		return modelPart{"---\napiVersion: v1\nkind: List\nitems:\n  - {apiVersion: v1, kind: ConfigMap, metadata: " + metadata + "}\n", one(id("/ConfigMap"))}
	case 4:
		field := rapid.SampledFrom([]string{"releaseName", "targetNamespace", "storageNamespace"}).Draw(t, "field")
		return modelPart{
			"---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: " + metadata + "\nspec: {" + field + ": << " + other.text + " | quote >>, values: {x: << " + note.text + " | quote >>}}\n",
			one(func(in modelInput) string { return id("helm/HelmRelease")(in) + " " + field + " " + other.value(in) }),
		}
	case 5:
		return modelPart{
			"---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: " + metadata + "\nspec: {chart: {spec: {chart: << " + other.text + " | quote >>, version: << " + note.text + " | quote >>}}}\n",
			one(func(in modelInput) string { return id("helm/HelmRelease")(in) + " chart " + other.value(in) }),
		}
	case 6:
		return modelPart{
			"---\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: " + metadata + "\nspec: {path: << " + other.text + " | quote >>, interval: << " + note.text + " | quote >>}\n",
			one(func(in modelInput) string { return id("kustomize/Kustomization")(in) + " path " + other.value(in) }),
		}
	case 7:
		return modelPart{
			flux + "  resources:\n    - {apiVersion: v1, kind: ConfigMap, metadata: {name: << " + other.text + " | quote >>}, data: {x: << " + note.text + " | quote >>}}\n",
			func(in modelInput) []string {
				set := id("flux/ResourceSet")(in)
				return []string{set, set + " > " + other.value(in)}
			},
		}
	case 8:
		return modelPart{
			flux + "  resourcesTemplate: << dict \"apiVersion\" \"v1\" \"kind\" \"ConfigMap\" \"metadata\" (dict \"name\" (" + other.text + ")) | toJson | toJson >>\n",
			func(in modelInput) []string {
				set := id("flux/ResourceSet")(in)
				return []string{set, set + " > " + other.value(in)}
			},
		}
	}
	return modelPart{
		flux + "  inputs: [{x: << " + other.text + " | quote >>}]\n  resources: [{apiVersion: v1, kind: ConfigMap, metadata: {name: '<< \"<<\" >> inputs.x >>'}}]\n  interval: << " + note.text + " | quote >>\n",
		one(func(in modelInput) string { return id("flux/ResourceSet")(in) + " of " + other.value(in) }),
	}
}

// randomPart returns a part of a template: objects, or objects under a condition or in a loop.
func randomPart(t *rapid.T) modelPart {
	object := randomObject(t)
	when := func(text string, condition func(in modelInput) bool) modelPart {
		otherwise := modelPart{"", func(modelInput) []string { return nil }}
		if rapid.Bool().Draw(t, "else") {
			otherwise = randomObject(t)
			otherwise.text = "<<- else >>\n" + otherwise.text
		}
		return modelPart{"<<- " + text + " >>\n" + object.text + otherwise.text + "<<- end >>\n", func(in modelInput) []string {
			if condition(in) {
				return object.objects(in)
			}
			return otherwise.objects(in)
		}}
	}
	switch rapid.IntRange(0, 8).Draw(t, "part") {
	case 6:
		return modelPart{"<<- template \"secret\" (dict \"x\" inputs.b) >>\n", one(func(in modelInput) string { return "/Secret " + in.b })}
	case 0:
		return when("if inputs.on", func(in modelInput) bool { return in.on })
	case 1:
		return when(`if eq inputs.a "x"`, func(in modelInput) bool { return in.a == "x" })
	case 2:
		return when("if and inputs.on inputs.list", func(in modelInput) bool { return in.on && len(in.list) > 0 })
	case 3:
		return when(`if eq inputs.cluster.environment "prod"`, func(in modelInput) bool { return in.environment == "prod" })
	case 4:
		return when("with inputs.obj.n", func(in modelInput) bool { return in.n != "" })
	case 5:
		namespace := randomText(t)
		return modelPart{
			"<<- range $item := inputs.list >>\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: << $item | quote >>, namespace: << " + namespace.text + " | quote >>}\n<<- end >>\n",
			func(in modelInput) (out []string) {
				for _, item := range in.list {
					out = append(out, "/ConfigMap "+namespace.value(in)+"/"+item)
				}
				return out
			},
		}
	}
	return object
}

// randomTemplate returns a template of some parts.
func randomTemplate(t *rapid.T) []modelPart {
	return rapid.SliceOfN(rapid.Custom(randomPart), 1, 3).Draw(t, "parts")
}

func typeOfParts(t require.TestingT, parts []modelPart) *resourceType {
	template := modelStart
	for _, part := range parts {
		template += part.text
	}
	out := &resourceType{ResourceType: api.ResourceType{ID: "model", Template: template}}
	require.NoError(t, out.parse())
	require.NoError(t, out.uncompiled, template)
	return out
}

func objectsOfParts(parts []modelPart, in modelInput) (out []string) {
	for _, part := range parts {
		out = append(out, part.objects(in)...)
	}
	return out
}

func randomInput(t *rapid.T) modelInput {
	value := rapid.SampledFrom([]string{"x", "y"})
	return modelInput{
		id: "r", a: value.Draw(t, "a"), b: value.Draw(t, "b"), n: rapid.SampledFrom([]string{"x", "y", ""}).Draw(t, "n"), note: value.Draw(t, "note"),
		on: rapid.Bool().Draw(t, "on"), list: rapid.SliceOfN(value, 0, 2).Draw(t, "list"),
		name: rapid.SampledFrom([]string{"k0", "k1"}).Draw(t, "name"), environment: rapid.SampledFrom([]string{"dev", "prod"}).Draw(t, "environment"),
	}
}

// TestRemovedObjectsOfRandomTemplates: an edit of an input or of its template is a removal if, and only if, an object that was
// rendered before is not rendered afterwards.
func TestRemovedObjectsOfRandomTemplates(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		parts, before := randomTemplate(rt), randomInput(rt)
		next, after := slices.Clone(parts), before
		if rapid.IntRange(0, 3).Draw(rt, "retyped") == 0 {
			next[rapid.IntRange(0, len(next)-1).Draw(rt, "at")] = rapid.Custom(randomPart).Draw(rt, "part")
		}
		other := randomInput(rt)
		for _, edit := range rapid.SliceOfN(rapid.IntRange(0, 7), 0, 2).Draw(rt, "edits") {
			[]func(){
				func() { after.a = other.a },
				func() { after.b = other.b },
				func() { after.n = other.n },
				func() { after.note = other.note },
				func() { after.on = other.on },
				func() { after.list = other.list },
				func() { after.name = other.name },
				func() { after.environment = other.environment },
			}[edit]()
		}
		was, is := typeOfParts(rt, parts), typeOfParts(rt, next)
		in, out := before.input(rt), after.input(rt)
		made := was.renderInput(in, Receipt{})
		if made.Err != nil { // an empty name
			rt.Skip()
		}
		if m := is.renderInput(out, Receipt{}); m.Err != nil {
			rt.Skip()
		}
		want := false
		stays := objectsOfParts(next, after)
		for _, object := range objectsOfParts(parts, before) {
			want = want || !slices.Contains(stays, object)
		}
		require.Equal(rt, want, (&objectChanges{work: newWork(t.Context()), known: map[objectChange]bool{}}).removes(was, is, in, out), "%s\n=>\n%s\n%+v => %+v", was.Template, is.Template, before, after)
	})
}

// TestRemovedObjects: only an object that goes counts, not every field that the text of the template uses.
func TestRemovedObjects(t *testing.T) {
	t.Parallel()
	const object = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: << inputs.a | quote >>}\n"
	const release = "---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: r}\nspec: {chart: {spec: {chart: << inputs.a | quote >>, version: << inputs.b | quote >>}}}\n"
	const set = "---\napiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: << inputs.a | quote >>}\nspec: {resources: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}]}\n"
	const source = "---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata: {name: s, namespace: ns}\nspec: {url: << inputs.a | quote >>, ref: {tag: << inputs.b | quote >>}}\n"
	const git = "---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: s, namespace: ns}\nspec: {url: << inputs.a | quote >>, ref: {branch: << inputs.b | quote >>}}\n"
	const bucket = "---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: Bucket\nmetadata: {name: s, namespace: ns}\nspec: {bucketName: << inputs.a | quote >>, interval: << inputs.b | quote >>}\n"
	const helmChart = "---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmChart\nmetadata: {name: s, namespace: ns}\nspec: {chart: << inputs.a | quote >>, version: << inputs.b | quote >>, sourceRef: {kind: HelmRepository, name: h}}\n"
	const chartOf = "---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: r, namespace: ns}\nspec: {chartRef: {kind: OCIRepository, name: s}}\n"
	const built = "---\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: r, namespace: flux-system}\nspec: {sourceRef: {kind: OCIRepository, name: s, namespace: ns}}\n"
	// patched returns an object whose patches have the text of the field b.
	patched := func(kind, spec string) string {
		return "---\napiVersion: " + kind + "\nmetadata: {name: r}\nspec: " + fmt.Sprintf(spec, `{patches: [{target: {kind: ConfigMap}, patch: << inputs.b | quote >>}]}`) + "\n"
	}
	kustomization := patched("kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization", "%s")
	postRendered := patched("helm.toolkit.fluxcd.io/v2\nkind: HelmRelease", "{postRenderers: [{kustomize: %s}]}")
	deletes := func(in *modelInput) { in.b = "$patch: delete\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}" }
	registry := func(in *modelInput) { in.a = "oci://other/x" } // the last segment stays
	a, b := func(in *modelInput) { in.a = "z" }, func(in *modelInput) { in.b = "z" }
	on := func(in *modelInput) { in.on = true }
	for name, c := range map[string]struct {
		template, next string // next is empty if it stays
		edit           func(in *modelInput)
		removes        bool
	}{
		"a name":                                 {object, "", a, true},
		"no name":                                {object, "", b, false},
		"the version of a chart":                 {release, "", b, false},
		"the chart":                              {release, "", a, true},
		"the version of an API":                  {object, strings.Replace(object, "v1", "v2", 1), nil, false},
		"the group of an API":                    {object, strings.Replace(object, "v1", "g/v1", 1), nil, true},
		"an object appears":                      {"<<- if inputs.on >>\n" + object + "<<- end >>\n", "", on, false},
		"an object goes":                         {"<<- if not inputs.on >>\n" + object + "<<- end >>\n", "", on, true},
		"an item is added":                       {"<<- range inputs.list >>\n" + strings.Replace(object, "inputs.a", ".", 1) + "<<- end >>\n", "", func(in *modelInput) { in.list = []string{"x", "y"} }, false},
		"an item goes":                           {"<<- range inputs.list >>\n" + strings.Replace(object, "inputs.a", ".", 1) + "<<- end >>\n", "", func(in *modelInput) { in.list = nil }, true},
		"a part of a value that is not used":     {strings.Replace(object, "inputs.a", "inputs.a | trunc 1", 1), "", func(in *modelInput) { in.a = "xz" }, false},
		"a value under a condition that is off":  {"<<- if not inputs.list >>\n" + object + "<<- end >>\n", "", a, false},
		"the value of a branch that is not used": {strings.Replace(object, "inputs.a", `ternary inputs.b inputs.a inputs.on`, 1), "", b, false},
		"another expression with the same value": {object, strings.Replace(object, "inputs.a", `printf "%s" inputs.a`, 1), nil, false},
		"an object moves to another ResourceSet": {set, "", a, true},
		"an object is added to the template":     {object, object + release, nil, false},
		"the template fails before":              {object + `<< if eq inputs.b "y" >><< fail "b" >><< end >>`, "", b, true},
		"the template fails afterwards":          {object + `<< if eq inputs.b "z" >><< fail "b" >><< end >>`, "", b, true},
		"it fails before and afterwards":         {object + `<< fail "always" >>`, "", b, true},
		"a setting decides on an object":         {object + `<< if dig "settings" "more" false inputs >>` + strings.Replace(object, "inputs.a", "inputs.b", 1) + "<< end >>", "", b, true},
		"a setting, and a field without a name":  {strings.Replace(object, "{name", `{labels: {x: << dig "settings" "x" "" inputs | quote >>}, name`, 1), "", b, true},
		"an object is no longer reconciled":      {strings.Replace(object, "{name", `{annotations: {fluxcd.controlplane.io/reconcile: << ternary "disabled" "enabled" inputs.on >>}, name`, 1), "", on, true},
		"a ResourceSet is no longer reconciled":  {strings.Replace(set, "{name", `{annotations: {fluxcd.controlplane.io/reconcile: << ternary "disabled" "enabled" inputs.on >>}, name`, 1), "", on, true},
		"an object that was not reconciled goes": {"<<- if not inputs.on >>\n" + strings.Replace(object, "{name", `{annotations: {fluxcd.controlplane.io/reconcile: disabled}, name`, 1) + "<<- end >>\n", "", on, false},
		"the URL of a source":                    {source, "", a, true},
		"the tag of a source":                    {source, "", b, false},
		"the URL of a repository":                {git, "", a, true},
		"the branch of a repository":             {git, "", b, false},
		"the name of a bucket":                   {bucket, "", a, true},
		"the interval of a bucket":               {bucket, "", b, false},
		"the URL of the source of a release":     {source + chartOf, "", a, true},
		"the registry of the source of a chart":  {source + chartOf, "", registry, false},
		"a first release from a source":          {source, source + chartOf, nil, false},
		"a Kustomization of a chart's source":    {source + chartOf, source + chartOf + built, nil, false},
		"a first release, and another URL":       {source, source + chartOf, a, true},
		"the chart of a HelmChart":               {helmChart, "", a, true},
		"the version of a HelmChart":             {helmChart, "", b, false},
		"the registry of a Kustomization":        {source + built, "", registry, true},
		"the registry of both":                   {chartOf + built + source, "", registry, true},
		"a patch that deletes an object":         {kustomization, "", deletes, true},
		"a patch of a field":                     {kustomization, "", b, false},
		"a patch that renames an object":         {kustomization, "", func(in *modelInput) { in.b = "- {op: replace, path: /metadata/name, value: d}" }, true},
		"a patch no longer deletes an object":    {strings.Replace(kustomization, "inputs.b", `ternary "" "$patch: delete" inputs.on`, 1), "", on, false},
		"a post-renderer that deletes an object": {postRendered, "", deletes, true},
		"a post-renderer of a field":             {postRendered, "", b, false},
		"a new Kustomization that deletes":       {object, object + strings.Replace(kustomization, "inputs.b", `"$patch: delete"`, 1), nil, false},
		"a comment in the template":              {object, "<<- /* text */ ->>\n" + object, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := modelInput{id: "r", a: "x", b: "y", n: "n", list: []string{"x"}, name: "k0", environment: "dev"}
			after := before
			if c.edit != nil {
				c.edit(&after)
			}
			part := func(text string) *resourceType { return typeOfParts(t, []modelPart{{text: text}}) }
			was := part(c.template)
			is := was
			if c.next != "" {
				is = part(c.next)
			}
			in, out := before.input(t), after.input(t)
			require.Equal(t, c.removes, (&objectChanges{work: newWork(t.Context()), known: map[objectChange]bool{}}).removes(was, is, in, out))
		})
	}
}

// TestPropertySettingsNamesObjects: a property of this name is no setting of the cluster.
func TestPropertySettingsNamesObjects(t *testing.T) {
	t.Parallel()
	of := &resourceType{ResourceType: api.ResourceType{
		ID: "a", Template: strings.Replace(configMap, "inputs.name", "inputs.settings.name", 1),
		Schema: []byte(`{"type":"object","additionalProperties":false,"required":["settings"],"properties":{"settings":{"type":"object"}}}`),
	}}
	require.NoError(t, of.parse())
	in := func(name string) *resourceInput {
		fields, err := encodeFields(map[string]any{"settings": map[string]any{"name": name}})
		require.NoError(t, err)
		return &resourceInput{id: "r", fields: fields}
	}
	require.True(t, (&objectChanges{work: newWork(t.Context()), known: map[objectChange]bool{}}).removes(of, of, in("x"), in("y")))
}

// TestRemovalsOfRandomChanges: the removals of a change, and those in its plan, are the inputs and objects that each cluster
// loses, although clusters with equal configurations are compared once.
func TestRemovalsOfRandomChanges(t *testing.T) {
	t.Parallel()
	names := []string{
		`inputs.namespace`, `inputs.note`, `inputs.cluster.name`, `inputs.cluster.environment`, `inputs.receipt`, `ternary inputs.note inputs.namespace (eq inputs.cluster.name \"c1\")`,
		`dig \"cluster\" \"dns\" \"\" inputs`, `ternary inputs.namespace \"n\" (eq inputs.cluster.environment \"prod\")`, `dig \"settings\" \"x\" \"y\" inputs`,
	}
	rapid.Check(t, func(rt *rapid.T) {
		w := volumes(t, 3, "")
		w.must(confirmedBy(w, both(patch(KindCluster, "c0", `{"environment":"dev"}`), create(kindVolume, `{"id":"u","spec":{"namespace":"data"}}`))))
		w.state.rules.Protected = nil // a cluster that leaves prod is no removal then
		value := rapid.SampledFrom([]string{"data", "store", "n"})
		for range rapid.IntRange(1, 5).Draw(rt, "changes") {
			var edits []func(*Tx) error
			what := ""
			for range rapid.IntRange(1, 2).Draw(rt, "edits") {
				cluster, id := fmt.Sprint("c", rapid.IntRange(0, 2).Draw(rt, "cluster")), rapid.SampledFrom([]string{"v", "u"}).Draw(rt, "id")
				spec := fmt.Sprintf(`{"namespace":%q,"note":%q}`, value.Draw(rt, "namespace"), value.Draw(rt, "note"))
				kind, of, body := kindVolume, id, `{"spec":`+spec+`}`
				switch rapid.IntRange(0, 8).Draw(rt, "edit") {
				case 8:
					edits = append(edits, batch(`{"op":"reconcile","cluster_ids":["`+cluster+`"]}`))
				case 0:
					kind, of = KindLayer, rapid.SampledFrom([]string{"all", "far"}).Draw(rt, "layer")
					body = `{"resources":{"volumes":[{"id":"` + id + `","overrides":` + spec + `}]}}`
				case 1:
					kind, of = KindLayer, "all"
					body = `{"resources":{"volumes":[{"id":"v"},{"id":"u"}]}}`
				case 2:
					kind, of, body = KindCluster, cluster, `{"resources":{"volumes":[{"id":"`+id+`","overrides":`+spec+`}]}}`
				case 3:
					kind, of, body = KindCluster, cluster, `{"resources":{"volumes":[]}}`
				case 4:
					kind, of = KindCluster, cluster
					body = rapid.SampledFrom([]string{`{"cluster_name":"x"}`, `{"environment":"dev"}`, `{"environment":"prod"}`, `{"labels":{"region":"far"}}`, `{"labels":{"region":null}}`}).Draw(rt, "body")
				case 5, 6:
					kind, of = KindResourceType, "volumes"
					body = `{"template":"` + strings.Replace(volumeTemplate, "inputs.namespace", rapid.SampledFrom(names).Draw(rt, "name"), 1) + `"}`
				}
				edits = append(edits, patch(kind, of, body))
				what += fmt.Sprintln(kind, of, body)
			}
			tx := w.state.Begin()
			tx.Guard(Guard{Off: true})
			if both(edits...)(tx) != nil {
				rt.Skip()
			}
			res, err := tx.Finish(Commit{ID: newCommitID(rt), At: w.now, Actor: "test"})
			require.NoError(rt, err, what)
			requireRemovals(rt, w.state, res, what)
			w.state = res.State
		}
	})
}

// TestComparisonEndsWithTheWork: a change whose objects cannot all be compared is refused. It never counts fewer removals.
func TestComparisonEndsWithTheWork(t *testing.T) {
	t.Parallel()
	const clusters = 5
	w := volumes(t, clusters, "")
	w.must(confirmedBy(w, patch(KindResourceType, "volumes", `{"template":"`+strings.Replace(volumeTemplate, "inputs.id", "inputs.cluster.name", 1)+`"}`)))
	refused, counted := 0, 0
	for left := 0; left < 40_000; left += 1000 {
		tx := w.state.Begin()
		tx.Guard(Guard{Off: true})
		require.NoError(t, patch(kindVolume, "v", `{"spec":{"namespace":"store"}}`)(tx))
		tx.work.templates.Spend("volumes", tx.work.templates.Left()-left)
		res, err := tx.Finish(Commit{ID: [16]byte{1}, At: w.now, Actor: "test"})
		if err == nil {
			require.Equal(t, clusters, res.removals.count)
			counted++
			continue
		}
		e, isDomain := errors.AsType[*Error](err)
		require.True(t, isDomain && e.Code == CodeLimitExceeded, "%v", err)
		refused++
	}
	require.Greater(t, refused, 2)
	require.Positive(t, counted)
}

// requireRemovals compares the removals of a change with the inputs of each cluster before and after.
func requireRemovals(t *rapid.T, base *State, res Result, what string) {
	plan, err := res.Plan()
	require.NoError(t, err, what)
	planned := map[string][]string{}
	for _, group := range plan.Groups {
		for _, id := range group.Clusters {
			for _, ch := range group.Effect["volumes"].Changed {
				if ch.Removal {
					planned[id] = append(planned[id], string(kindVolume)+"/"+ch.ID)
				}
			}
			for _, removed := range group.Effect["volumes"].Removed {
				planned[id] = append(planned[id], string(kindVolume)+"/"+removed)
			}
		}
	}
	list, was := res.State.kinds.byKind[kindVolume], base.kinds.byKind[kindVolume]
	for _, doc := range base.docs[KindCluster] {
		var want []string
		is := res.State.typedInputs(res.State.Effective(res.State.docs[KindCluster][doc.ID]), kindVolume)
		for id, before := range base.typedInputs(base.Effective(doc), kindVolume) {
			after, stays := is[id]
			if !stays || newObjectChanges(base, res.State, newWork(t.Context())).removes(was.resourceType(), list.resourceType(), &before, &after) {
				want = append(want, string(kindVolume)+"/"+id)
			}
		}
		require.ElementsMatch(t, want, res.removals.idsFor(lowerName(doc.Cluster())), "%s: %s", doc.ID, what)
		require.ElementsMatch(t, want, planned[doc.ID], "plan of %s: %s", doc.ID, what)
	}
}

// TestRemovedObjectsOfDefaults: a default of the schema that an override leaves out names an object, on a cluster and in a layer. The
// definition itself stays as it is.
func TestRemovedObjectsOfDefaults(t *testing.T) {
	t.Parallel()
	schema := func(name string) string {
		return `{"type":"object","additionalProperties":false,"properties":{"o":{"type":"object","additionalProperties":false,"default":{},"properties":{"n":{"type":"string","default":"` + name + `"},"m":{"type":"string","default":""}}}}}`
	}
	for name, template := range map[string]string{"template": `"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x-<< inputs.id >>-<< inputs.o.n >>, namespace: n}\n"`, "identity": `"","identity":["o.n"]`} {
		for where, docs := range map[string][]string{
			"cluster": {string(KindCluster), `{"id":"k","cluster_dns":"k.example.com","environment":"dev","resources":{"t1":[{"id":"d","overrides":{"o":{"m":"b"}}}]}}`},
			"layer": {
				string(KindLayer), `{"id":"l","priority":1,"selector":"environment=dev","resources":{"t1":[{"id":"d","overrides":{"o":{"m":"b"}}}]}}`,
				string(KindCluster), `{"id":"k","cluster_dns":"k.example.com","environment":"dev"}`,
			},
		} {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, string(KindResourceType), `{"id":"t1","overridable":["o"],"template":`+template+`,"schema":`+schema("k")+`}`)
				for i, docs := 0, append([]string{string(ResourceKind("t1")), `{"id":"d","spec":{}}`}, docs...); i < len(docs); i += 2 {
					w.must(func(tx *Tx) error { _, err := tx.Create(Kind(docs[i]), []byte(docs[i+1])); return err })
				}
				plan := w.plan(patch(KindResourceType, "t1", `{"schema":`+schema("k9")+`}`))
				require.Equal(t, 1, plan.Totals.Removals)
			})
		}
	}
}
