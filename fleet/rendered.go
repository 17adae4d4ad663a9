package fleet

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	goyaml "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
)

// What the template of a resource type makes of an input. It is made on the cluster; here it is made to know which objects they
// are, and whether the template can be executed at all: one that fails stops the whole ResourceSet of a cluster.

// objectRef identifies an object on a cluster. The version of its API is left out: it is the same object in each.
type objectRef struct{ group, kind, namespace, name string }

// String is the object as messages name it: "NetworkPolicy podinfo/web".
func (o objectRef) String() string {
	if o.namespace == "" {
		return o.kind + " " + o.name
	}
	return o.kind + " " + o.namespace + "/" + o.name
}

func compareObjects(a, b objectRef) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name), cmp.Compare(a.group, b.group))
}

const (
	fluxGroup       = "fluxcd.controlplane.io"
	fluxNamespace   = "flux-system"
	kindResourceSet = "ResourceSet"
	kindProvider    = "ResourceSetInputProvider"
	// maxSetName is how long the name of a ResourceSet may be that a template makes: the operator and the receipts add to it, and
	// labels of the objects that it makes have 63 characters.
	maxSetName = 59
)

// receiptStub stands for the template of that name, which the chart and `bootstrap` put before each template. It reads what that
// one reads, and makes nothing.
const receiptStub = `<<- define "receipt" ->><<- $_ := .list ->><<- range $o := .objects ->><<- $_ := $o.apiVersion ->><<- $_ := $o.kind ->><<- $_ := $o.name ->><<- end ->><<- end ->>`

// rendered is what a template makes of one input.
type rendered struct {
	objects  []objectRef // sorted, each once
	handling map[objectRef]handling
	nulls    []string // places where a list holds nothing: Kubernetes reads these as something else than an empty list
	err      error
	left     int // units that executions may still take: those of nested ResourceSets count too
}

// compile parses the template of a type. What is wrong with it is reported by the check of the type.
func (t *resourceType) compile() {
	if t.Template != "" && len(t.Template) <= maxTemplateBytes {
		t.compiled, t.uncompiled = resourceset.Parse(receiptStub + t.Template)
	}
}

// render executes the template on the input that a cluster gets for a definition.
func (t *resourceType) render(id string, spec map[string]any, cluster api.FluxCluster) rendered {
	input := make(map[string]any, len(spec)+5)
	for name, value := range spec {
		input[name] = numbers(value)
	}
	input["id"] = id
	input["cluster"] = map[string]any{"name": cluster.Name, "dns": cluster.DNS, "environment": cluster.Environment}
	input["receipt"] = Receipt{}.String()
	input["provider"] = map[string]any{"apiVersion": fluxGroup + "/v1", "kind": kindProvider, "name": t.ID, "namespace": fluxNamespace}
	input["settings"] = map[string]any{}
	r := rendered{left: resourceset.Default.Units}
	r.add(t.compiled, input, enclosing{})
	slices.SortFunc(r.objects, compareObjects)
	r.objects = slices.Compact(r.objects)
	return r
}

// add executes a template, and those of the ResourceSets that it makes.
func (r *rendered) add(t *resourceset.Template, input map[string]any, in enclosing) {
	const overhead = 1000 // units that any execution takes, with what is parsed for it
	if r.left -= overhead; r.left <= 0 {
		r.err = fmt.Errorf("%w: it makes too many %ss with templates of their own", resourceset.ErrBudget, kindResourceSet)
		return
	}
	var used int
	text, err := t.Execute(input, resourceset.Limits{Units: r.left, Used: &used})
	r.left -= used
	if err != nil {
		r.err = err
		return
	}
	for _, document := range resourceset.Documents(text) {
		var obj map[string]any
		err := checkAliases(document)
		if err == nil {
			err = yaml.Unmarshal([]byte(document), &obj)
		}
		if err != nil {
			r.err = fmt.Errorf("it makes no YAML of an object: %w", err)
			return
		}
		if r.object(obj, in); r.err != nil {
			return
		}
	}
}

func (r *rendered) object(obj map[string]any, in enclosing) {
	const deepest = 3
	if len(obj) == 0 {
		return
	}
	kind, _ := obj["kind"].(string)
	if items, ok := obj["items"].([]any); ok && strings.HasSuffix(kind, "List") {
		for _, item := range items {
			item, _ := item.(map[string]any)
			r.object(item, in)
		}
		return
	}
	version, _ := obj["apiVersion"].(string)
	metadata, _ := obj["metadata"].(map[string]any)
	ref := refOf(obj, metadata)
	switch {
	case version == "" || kind == "" || ref.name == "":
		r.err = fmt.Errorf("it makes an object without apiVersion, kind or metadata.name")
		return
	case ref.group == fluxGroup && ref.kind == kindResourceSet && len(ref.name) > maxSetName:
		r.err = fmt.Errorf("it makes the %s %q, whose name has %d characters; at most %d are possible", kindResourceSet, ref.name, len(ref.name), maxSetName)
		return
	}
	r.objects = append(r.objects, ref)
	r.nulls = nullsIn(r.nulls, []string{ref.String() + ": "}, obj, false)
	kept := in.kept || disablesPrune(metadata)
	spec, _ := obj["spec"].(map[string]any)
	// The objects of a ResourceSet that has inputs of its own are not known.
	opened := ref.group == fluxGroup && ref.kind == kindResourceSet && in.depth < deepest && spec["inputs"] == nil && spec["inputsFrom"] == nil
	r.handle(ref, handling{kept: kept, opened: opened, guarded: slices.Contains(in.guards, ref)})
	if opened {
		r.nested(spec, enclose(spec, kept, in.depth+1))
	}
}

// refOf is the object with these type and names.
func refOf(typ, names map[string]any) objectRef {
	var ref objectRef
	version, _ := typ["apiVersion"].(string)
	if group, _, grouped := strings.Cut(version, "/"); grouped {
		ref.group = group
	}
	ref.kind, _ = typ["kind"].(string)
	ref.name, _ = names["name"].(string)
	ref.namespace, _ = names["namespace"].(string)
	return ref
}

// nested adds what a ResourceSet makes that has no inputs of its own.
func (r *rendered) nested(spec map[string]any, in enclosing) {
	resources, _ := spec["resources"].([]any)
	for _, resource := range resources {
		obj, _ := resource.(map[string]any)
		if r.object(obj, in); r.err != nil {
			return
		}
	}
	text, _ := spec["resourcesTemplate"].(string)
	if text == "" {
		return
	}
	t, err := resourceset.Parse(text)
	if err != nil {
		r.err = fmt.Errorf("the %s that it makes: %w", kindResourceSet, err)
		return
	}
	r.add(t, nil, in)
}

// nullsIn are the places in lists that are null. The path is joined only for those: its keys may be long, and the lists too.
func nullsIn(found, path []string, v any, inList bool) []string {
	const most = 5
	if len(found) >= most {
		return found
	}
	switch v := v.(type) {
	case nil:
		if inList {
			found = append(found, fmt.Sprintf("%.300s", strings.Join(path, "")))
		}
	case map[string]any:
		for _, key := range sortedKeys(v) {
			found = nullsIn(found, append(path, ".", key), v[key], inList)
		}
	case []any:
		for i, item := range v {
			found = nullsIn(found, append(path, "["+strconv.Itoa(i)+"]"), item, true)
		}
	}
	return found
}

// maxExpanded is how many bytes a document may have when each alias is replaced by what it stands for.
const maxExpanded = 4 << 20

// checkAliases refuses a document whose aliases stand for much more than their own size, before they are resolved.
func checkAliases(document string) error {
	if !strings.Contains(document, "*") {
		return nil
	}
	var root goyaml.Node
	if err := goyaml.Unmarshal([]byte(document), &root); err != nil {
		return err
	}
	const deepest = 1000
	left := maxExpanded
	var expand func(n *goyaml.Node, depth int)
	expand = func(n *goyaml.Node, depth int) {
		if left -= 1 + len(n.Value); left < 0 || depth > deepest {
			left = -1
			return
		}
		if n.Kind == goyaml.AliasNode {
			expand(n.Alias, depth+1)
			return
		}
		for _, child := range n.Content {
			if expand(child, depth+1); left < 0 {
				return
			}
		}
	}
	if expand(&root, 0); left < 0 {
		return fmt.Errorf("it is larger than %d MiB, or nested deeper than %d levels, with its aliases resolved", maxExpanded>>20, deepest)
	}
	return nil
}

// numbers is a value with numbers as Flux Operator reads them.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		if n := int64(f); float64(n) == f {
			return n
		}
		return f
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[key] = numbers(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = numbers(value)
		}
		return out
	}
	return v
}

// checkTemplate tries the template of a type with what its schema admits.
func checkTemplate(c *checker, t *resourceType) {
	if t.uncompiled != nil {
		c.problem("/template", "cannot be parsed: %v", t.uncompiled)
	}
	if t.compiled == nil || t.schema == nil || len(t.problems) > 0 {
		return
	}
	samples := t.schema.Samples(c.work.Work)
	if len(samples) == 0 {
		c.warn("the template of resource type %q is not tried: its schema has neither examples nor a spec that could be guessed from it; add `examples` to the schema", t.ID)
	}
	for _, spec := range samples {
		made := t.render("example", spec, api.FluxCluster{Name: "example", DNS: "example.example.com", Environment: "example"})
		text, _ := jsontext.Canonical(spec) // what was decoded encodes
		if made.problem() != "" {
			c.checkRenders("/template", t, made, fmt.Sprintf("with the spec %.300s", text))
			return
		}
		if wrong := t.wrongRemoval(&made); wrong != "" {
			c.problem("/template", "with the spec %.300s: %s", text, wrong)
			return
		}
	}
}

// misfit refuses a template that fails on an input. If the template reads settings or the environment of the cluster, which
// have placeholders here, it may still succeed on a cluster: then misfit only warns.
func (c *checker) checkRenders(at string, t *resourceType, made rendered, about string) {
	if t.readsCluster() && !errors.Is(made.err, resourceset.ErrBudget) {
		c.warn("the template of resource type %q fails with placeholders for the settings and the environment of a cluster: %s: %s", t.ID, about, made.problem())
		return
	}
	c.problem(at, "%s: %s", about, made.problem())
}

// readsCluster reports whether the template reads settings or the environment of the cluster that executes it.
func (t *resourceType) readsCluster() bool {
	return strings.Contains(t.Template, "settings") || strings.Contains(t.Template, "environment")
}

// problem is why the template does not fit an input; empty: it does.
func (r *rendered) problem() string {
	switch {
	case r.err != nil:
		return r.err.Error()
	case len(r.nulls) > 0:
		return fmt.Sprintf("it renders null in a list, which Kubernetes takes for something else than an empty list: %s; put an `if` around it", strings.Join(r.nulls, ", "))
	}
	return ""
}

// renderings are what the template of its type makes of a definition, remembered for as long as neither changes.
type renderings struct {
	mu   sync.Mutex
	made map[string]rendered // by the overrides of a cluster, encoded; "" for none
}

// maxRenderings is how many different overrides of one definition are remembered.
const maxRenderings = 64

// anywhere stands for the cluster where the objects of a definition are looked at for all clusters.
var placeholderCluster = api.FluxCluster{Name: "cluster", DNS: "cluster.example.com", Environment: "environment"}

// unitsPerStep is how many units of an execution are one step of work. A unit takes 0.1 µs.
const unitsPerStep = 4

// rendered is what the definition makes on a cluster that overrides nothing, or some properties. What is not remembered is executed at
// each call, as part of the work.
func (r *resource) rendered(overrides map[string]json.RawMessage, work work) rendered {
	t := r.typ()
	if t.compiled == nil || r.renderings == nil {
		return rendered{}
	}
	key := overridesKey(overrides)
	r.renderings.mu.Lock()
	defer r.renderings.mu.Unlock()
	made, known := r.renderings.made[key]
	if known {
		return made
	}
	made = r.renderOn(placeholderCluster, overrides)
	if r.renderings.made == nil {
		r.renderings.made = map[string]rendered{}
	}
	if key == "" || len(r.renderings.made) < maxRenderings {
		r.renderings.made[key] = made
	} else {
		work.Spend(made.units() / unitsPerStep)
	}
	return made
}

// units are those that the executions took.
func (r *rendered) units() int { return resourceset.Default.Units - r.left }

// overridesKey is the same text for the same overrides.
func overridesKey(overrides map[string]json.RawMessage) string {
	var key strings.Builder
	for _, name := range sortedKeys(overrides) {
		fmt.Fprintf(&key, "%s=%s\n", name, overrides[name])
	}
	return key.String()
}

// renderOn is what the definition makes on a cluster.
func (r *resource) renderOn(cluster api.FluxCluster, overrides map[string]json.RawMessage) rendered {
	fields, err := r.overlaid(overrides)
	if err != nil {
		return rendered{err: err, left: resourceset.Default.Units}
	}
	spec := make(map[string]any, len(fields))
	for _, f := range fields {
		if spec[f.name], err = decodeValue(f.value); err != nil {
			return rendered{err: err, left: resourceset.Default.Units}
		}
	}
	return r.typ().render(r.ID, spec, cluster)
}
