package fleet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	goyaml "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
)

// The possible fates of an object on the cluster when its input is removed.
const (
	removalDelete = "delete"
	removalKeep   = "keep"
)

const maxTemplateBytes = 64 << 10

// The objects that the template of a resource type renders from an input. The cluster renders them; the service does so too,
// to know which objects exist and whether the template can be executed at all: a failing template stops the whole
// ResourceSet of a cluster.

// objectRef identifies an object on a cluster. It omits the version of the API: the object is the same in each version.
type objectRef struct{ group, kind, namespace, name string }

// String returns the name in messages: "NetworkPolicy podinfo/web".
func (o objectRef) String() string {
	if o.namespace == "" {
		return o.kind + " " + o.name
	}
	return o.kind + " " + o.namespace + "/" + o.name
}

// compareObjects orders objects.
func compareObjects(a, b objectRef) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name), cmp.Compare(a.group, b.group))
}

const (
	fluxGroup       = "fluxcd.controlplane.io"
	fluxNamespace   = "flux-system"
	kindResourceSet = "ResourceSet"
	kindProvider    = "ResourceSetInputProvider"
	// maxSetName is the maximum length of the name of a ResourceSet that a template renders: the operator and the receipts
	// append to it, and labels have at most 63 characters.
	maxSetName = 59
)

// receiptStub replaces the template of that name, which the chart and `bootstrap` put before each template. It reads the
// same values, and renders no object.
const receiptStub = `<<- define "receipt" ->><<- $_ := .list ->><<- range $o := .objects ->><<- $_ := $o.apiVersion ->><<- $_ := $o.kind ->><<- $_ := $o.name ->><<- end ->><<- end ->>`

// rendered is the result of a template for one input.
type rendered struct {
	objects  []objectRef // sorted, without duplicates
	handling map[objectRef]handling
	nulls    []string // places of null items in lists: Kubernetes does not read them as an empty list
	err      error
	left     int // units that executions may still use, including those of nested ResourceSets
}

// compile parses the template of a type. The check of the type reports errors.
func (t *resourceType) compile() {
	if t.Template != "" && len(t.Template) <= maxTemplateBytes {
		t.compiled, t.uncompiled = resourceset.Parse(receiptStub + t.Template)
	}
}

// render executes the template on the input of a definition on a cluster.
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

// add executes a template, and those of the ResourceSets that it renders.
func (r *rendered) add(t *resourceset.Template, input map[string]any, in enclosing) {
	const overhead = 1000 // units that any execution takes, including parsing
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

// object adds one object, the items of a List, or the objects of a nested ResourceSet.
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
	// The objects of a ResourceSet with inputs of its own are unknown.
	opened := ref.group == fluxGroup && ref.kind == kindResourceSet && in.depth < deepest && spec["inputs"] == nil && spec["inputsFrom"] == nil
	r.handle(ref, handling{kept: kept, opened: opened, guarded: slices.Contains(in.guards, ref)})
	if opened {
		r.nested(spec, enclose(spec, kept, in.depth+1))
	}
}

// refOf returns the object with this type and name.
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

// nested adds the objects of a ResourceSet without inputs of its own.
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

// nullsIn returns the places of null items in lists. The path is joined only for those: keys may be long, and lists too.
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

// maxExpanded is the maximum size, in bytes, of a document after its aliases are expanded.
const maxExpanded = 4 << 20

// checkAliases refuses a document whose aliases expand to much more than their own size, before they are resolved.
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

// numbers returns a value with its numbers as Flux Operator reads them.
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

// checkTemplate tries the template of a type with samples of its schema.
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
		text, _ := jsontext.Canonical(spec) // a decoded value can be encoded
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

// checkRenders refuses a template that fails on an input. If the template reads settings or the environment of the cluster,
// which have placeholders here, it may still succeed on a cluster: then checkRenders only warns.
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

// problem returns the reason why the template fails on an input; empty: it does not.
func (r *rendered) problem() string {
	switch {
	case r.err != nil:
		return r.err.Error()
	case len(r.nulls) > 0:
		return fmt.Sprintf("it renders null in a list, which Kubernetes takes for something else than an empty list: %s; put an `if` around it", strings.Join(r.nulls, ", "))
	}
	return ""
}

// maxRenderings is the number of different overrides of one definition that are cached.
const maxRenderings = 64

// placeholderCluster is the cluster used to find the objects of a definition for all clusters.
var placeholderCluster = api.FluxCluster{Name: "cluster", DNS: "cluster.example.com", Environment: "environment"}

// unitsPerStep is the number of execution units per step of work. A unit takes 0.1 µs.
const unitsPerStep = 4

// rendered returns the objects of the definition on a cluster with some overrides, or none. A result that is not cached is
// computed again at each call, as part of the work.
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

// units returns the number of units that the executions took.
func (r *rendered) units() int { return resourceset.Default.Units - r.left }

// overridesKey returns the same text for equal overrides.
func overridesKey(overrides map[string]json.RawMessage) string {
	var key strings.Builder
	for _, name := range sortedKeys(overrides) {
		fmt.Fprintf(&key, "%s=%s\n", name, overrides[name])
	}
	return key.String()
}

// renderOn returns the objects of the definition on a cluster.
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

// wrongRemoval returns the reason if Flux would delete an object that must stay: one of a type whose removal is "keep", or
// one that exists on every cluster. Otherwise it is empty.
func (t *resourceType) wrongRemoval(r *rendered) string {
	for _, o := range r.deleted() {
		var reason string
		switch {
		case o.existsEverywhere():
			reason = fmt.Sprintf("Flux would delete %s, which exists on every cluster, when the definition is removed", o)
		case t.Removal == removalKeep:
			reason = fmt.Sprintf("removal is %q, but Flux would delete %s when the definition is removed", removalKeep, o)
		default:
			continue
		}
		return fmt.Sprintf("%s; give the object the annotation %s: %s", reason, pruneKey, pruneDisabled)
	}
	return ""
}

// mayDelete reports whether overrides may add an object that Flux must not delete. Executing a template takes longer than
// all other checks of an override, so for a type that deletes its objects it is done only if a value contains part of a name
// in existsEverywhere.
func (t *resourceType) mayDelete(overrides map[string]json.RawMessage) bool {
	if t.Removal == removalKeep {
		return true
	}
	for _, value := range overrides {
		for _, part := range []string{"default", "kube", "flux-system", "system", "admin", "edit", "view"} {
			if bytes.Contains(value, []byte(part)) {
				return true
			}
		}
	}
	return false
}

// ownSet reports whether each cluster has the object for a polled list: it has the name of the list.
func (o objectRef) ownSet() bool {
	return o.group == fluxGroup && o.namespace == fluxNamespace && (o.kind == kindResourceSet || o.kind == kindProvider)
}
