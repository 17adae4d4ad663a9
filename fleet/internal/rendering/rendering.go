// Package rendering executes the template of a resource type as Flux Operator does on a cluster, and returns the Kubernetes
// objects that it makes, including those of nested ResourceSets. It does not know fleets.
//
// objects.go identifies objects, rendering.go executes templates within a budget, identity.go compares results, retained.go
// determines how Flux treats an object when the input is removed.
package rendering

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
)

// maxSetName is the maximum length of the name of a ResourceSet that a template renders: the operator and the receipts
// append to it, and labels have at most 63 characters.
const maxSetName = 59

// receiptStub replaces the template of that name, which the chart and `bootstrap` put before each template. It reads the
// same values, and renders no object.
const receiptStub = `<<- define "receipt" ->><<- $_ := .list ->><<- range $o := .objects ->><<- $_ := $o.apiVersion ->><<- $_ := $o.kind ->><<- $_ := $o.name ->><<- end ->><<- end ->>`

// Result is the result of a template for one input.
type Result struct {
	Objects  []Object            // sorted, without duplicates
	Handling map[Object]Handling // how Flux treats each object
	// identities of all objects, in any order; objects that several ResourceSets apply have several.
	identities []Identity
	sources    []source
	usedBy     map[Object]string // by sources: chartRef if only HelmReleases use it
	patched    []patchedObject
	reversed   bool                       // the order of maps
	contents   map[[sha256.Size]byte]bool // digests of all objects; nil: not needed
	nulls      []string                   // places of null items in lists: Kubernetes does not read them as an empty list
	Err        error                      // the reason why the template fails
	left       int                        // units that executions may still use, including those of nested ResourceSets
	bytes      int                        // of YAML that the executions rendered, which is parsed
}

// Parse parses the template of a resource type.
func Parse(text string) (*resourceset.Template, error) {
	return resourceset.Parse(receiptStub + text)
}

// Execute executes a template on an input.
func Execute(t *resourceset.Template, input map[string]any) Result {
	return execute(t, input, Result{})
}

// Reordered compares an execution with one in which the functions `keys` and `values` return another order. Flux Operator returns
// them in any order, so a template must not depend on it: objects reports whether other objects are rendered, contents whether
// the objects have other contents. Result has the steps of both.
func Reordered(t *resourceset.Template, input map[string]any) (made Result, objects, contents bool) {
	made = execute(t, input, Result{contents: map[[sha256.Size]byte]bool{}})
	other := execute(t, input, Result{contents: map[[sha256.Size]byte]bool{}, reversed: true})
	objects = made.Digest() != other.Digest() || (made.Err == nil) != (other.Err == nil)
	contents = !maps.Equal(made.contents, other.contents)
	made.left, made.bytes = made.left+other.left-resourceset.Default.Units, made.bytes+other.bytes
	return made, objects, contents
}

func execute(t *resourceset.Template, input map[string]any, r Result) Result {
	r.left = resourceset.Default.Units
	values, _ := resourceset.Numbers(input).(map[string]any)
	r.add(t, values, enclosing{})
	r.identifyCharts()
	slices.SortFunc(r.Objects, compareObjects)
	r.Objects = slices.Compact(r.Objects)
	return r
}

// add executes a template, and those of the ResourceSets that it renders.
func (r *Result) add(t *resourceset.Template, input map[string]any, in enclosing) {
	const overhead = 1000 // units that any execution takes, including parsing
	if r.left -= overhead; r.left <= 0 {
		r.Err = fmt.Errorf("%w: it makes too many %ss with templates of their own", resourceset.ErrBudget, KindResourceSet)
		return
	}
	var used int
	text, err := t.Execute(input, resourceset.Limits{Units: r.left, Used: &used, Reversed: r.reversed})
	r.left -= used
	r.bytes += len(text)
	if err != nil {
		r.Err = err
		return
	}
	objects, err := resourceset.ParseObjects(text)
	if err != nil {
		r.Err = fmt.Errorf("it makes no YAML of an object: %w", err)
		return
	}
	for _, obj := range objects {
		if r.object(obj, in); r.Err != nil {
			return
		}
	}
}

// object adds one object, the items of a List, or the objects of a nested ResourceSet.
func (r *Result) object(obj map[string]any, in enclosing) {
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
	case version == "" || kind == "" || ref.Name == "":
		r.Err = fmt.Errorf("it makes an object without apiVersion, kind or metadata.name")
		return
	case ref.Group == FluxGroup && ref.Kind == KindResourceSet && len(ref.Name) > maxSetName:
		r.Err = fmt.Errorf("it makes the %s %q, whose name has %d characters; at most %d are possible", KindResourceSet, ref.Name, len(ref.Name), maxSetName)
		return
	}
	r.Objects = append(r.Objects, ref)
	if r.contents != nil {
		text, _ := json.Marshal(obj) // it was read as JSON
		r.contents[sha256.Sum256(text)] = true
	}
	r.nulls = nullsIn(r.nulls, []string{ref.String() + ": "}, obj, false)
	kept := in.kept || disablesPrune(metadata)
	spec, _ := obj["spec"].(map[string]any)
	// The objects of a ResourceSet with inputs of its own are unknown.
	opened := ref.Group == FluxGroup && ref.Kind == KindResourceSet && in.depth < deepest && spec["inputs"] == nil && spec["inputsFrom"] == nil
	r.handle(ref, Handling{Kept: kept, Opened: opened, Guarded: slices.Contains(in.guards, ref)})
	annotations, _ := metadata["annotations"].(map[string]any)
	if in.skipped = in.skipped || annotations[reconcileKey] == "disabled"; !in.skipped {
		r.identify(ref, spec, in, opened)
	}
	if opened {
		r.nested(spec, enclose(ref, spec, kept, in))
	}
}

// nested adds the objects of a ResourceSet without inputs of its own.
func (r *Result) nested(spec map[string]any, in enclosing) {
	resources, _ := spec["resources"].([]any)
	for _, resource := range resources {
		obj, _ := resource.(map[string]any)
		if r.object(obj, in); r.Err != nil {
			return
		}
	}
	text, _ := spec["resourcesTemplate"].(string)
	if text == "" {
		return
	}
	t, err := resourceset.Parse(text)
	if err != nil {
		r.Err = fmt.Errorf("the %s that it makes: %w", KindResourceSet, err)
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
		for _, key := range slices.Sorted(maps.Keys(v)) {
			found = nullsIn(found, append(path, ".", key), v[key], inList)
		}
	case []any:
		for i, item := range v {
			found = nullsIn(found, append(path, "["+strconv.Itoa(i)+"]"), item, true)
		}
	}
	return found
}

// Failed returns the result for an input that cannot be composed.
func Failed(err error) Result { return Result{Err: err, left: resourceset.Default.Units} }

// Problem returns the reason why the template fails on an input; empty: it does not.
func (r *Result) Problem() string {
	switch {
	case r.Err != nil:
		return r.Err.Error()
	case len(r.nulls) > 0:
		return fmt.Sprintf("it renders null in a list, which Kubernetes takes for something else than an empty list: %s; put an `if` around it", strings.Join(r.nulls, ", "))
	}
	return ""
}

// Steps returns the work of the executions: their units, and the bytes of YAML that were parsed.
func (r *Result) Steps() int { return resourceset.Default.Units - r.left + r.bytes }
