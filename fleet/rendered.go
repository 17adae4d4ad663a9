package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/rendering"
	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
)

// The objects that the template of a resource type renders from an input. The cluster renders them; the service does so too,
// to know which objects exist and whether the template can be executed at all: a failing template stops the whole
// ResourceSet of a cluster.

// The possible fates of an object on the cluster when its input is removed.
const (
	removalDelete = "delete"
	removalKeep   = "keep"
)

// maxTemplateBytes is the maximum size of a template.
const maxTemplateBytes = 64 << 10

// compile parses the template of a type. The check of the type reports errors.
func (t *resourceType) compile() {
	if t.Template != "" && len(t.Template) <= maxTemplateBytes {
		t.compiled, t.uncompiled = rendering.Parse(t.Template)
	}
}

// render executes the template on the input of a definition on a cluster.
func (t *resourceType) render(id string, spec map[string]any, cluster api.FluxCluster, receipt Receipt) rendering.Result {
	return rendering.Execute(t.compiled, t.input(id, spec, cluster, receipt))
}

// input returns the input of a definition as the template of a cluster receives it.
func (t *resourceType) input(id string, spec map[string]any, cluster api.FluxCluster, receipt Receipt) map[string]any {
	input := make(map[string]any, len(spec)+5)
	input["settings"] = map[string]any{} // a property of the type has precedence
	maps.Copy(input, spec)
	input["id"] = id
	block := map[string]any{"name": cluster.Name, "dns": cluster.DNS, "environment": cluster.Environment}
	if cluster.ReconcileRequestedAt != "" {
		block["reconcile_requested_at"] = cluster.ReconcileRequestedAt
	}
	input["cluster"], input["receipt"] = block, receipt.String()
	input["provider"] = map[string]any{"apiVersion": rendering.FluxGroup + "/v1", "kind": rendering.KindProvider, "name": t.ID, "namespace": rendering.FluxNamespace}
	return input
}

// ordersMaps matches the functions whose result has no order in Flux Operator.
var ordersMaps = regexp.MustCompile(`\b(?:keys|values)\b`)

// checkOrder refuses a template that renders other objects when maps have another order: Flux would delete and create them
// each time. If only their contents differ, it warns.
func (c *checker) checkOrder(at string, t *resourceType, id string, spec map[string]any) {
	if !ordersMaps.MatchString(t.Template) {
		return
	}
	var objects, contents bool
	c.work.execute(t.ID, func() (made rendering.Result) {
		made, objects, contents = rendering.Reordered(t.compiled, t.input(id, spec, placeholderCluster, Receipt{}))
		return made
	})
	const advice = "Flux Operator returns `keys` and `values` of a map in another order each time; sort them, as with `keys … | sortAlpha`"
	switch {
	case objects:
		c.problem(at, "the template renders other objects in another order of maps: %s", advice)
	case contents:
		c.warn("the template of resource type %q gives its objects other contents in another order of maps: %s", t.ID, advice)
	}
}

// checkTemplate tries the template of a type with samples of its schema.
func checkTemplate(c *checker, t *resourceType) {
	if t.uncompiled != nil {
		c.problem("/template", "cannot be parsed: %v", t.uncompiled)
	}
	if t.compiled == nil || t.schema == nil || len(t.problems) > 0 {
		return
	}
	samples := t.schema.Samples(c.work.Work, fieldsRead(t.Template))
	if len(samples) == 0 {
		c.warn("the template of resource type %q is not tried: its schema has neither examples nor a spec that could be guessed from it; add `examples` to the schema", t.ID)
	}
	for _, sample := range samples {
		spec := sample.Spec
		made := c.work.execute(t.ID, func() rendering.Result {
			return t.render("example", spec, api.FluxCluster{Name: "example", DNS: "example.example.com", Environment: "example"}, Receipt{})
		})
		text, _ := jsontext.Canonical(spec) // a decoded value can be encoded
		if made.Problem() != "" {
			about := fmt.Sprintf("with the spec %.300s", text)
			if sample.Without != "" {
				about = fmt.Sprintf("with a spec that sets everything but the optional properties %q", sample.Without)
			}
			c.checkRenders("/template", t, made, about)
			return
		}
		if wrong := t.wrongRemoval(&made); wrong != "" {
			c.problem("/template", "with the spec %.300s: %s", text, wrong)
			return
		}
		if c.checkOrder("/template", t, "example", spec); len(c.problems) > 0 {
			return
		}
	}
}

// checkRenders refuses a template that fails on an input. If the template reads settings or the environment of the cluster,
// which have placeholders here, it may still succeed on a cluster: then checkRenders only warns.
func (c *checker) checkRenders(at string, t *resourceType, made rendering.Result, about string) {
	if t.readsCluster() && !errors.Is(made.Err, resourceset.ErrBudget) {
		c.warn("the template of resource type %q fails with placeholders for the settings and the environment of a cluster: %s: %s", t.ID, about, made.Problem())
		return
	}
	c.problem(at, "%s: %s%s", about, made.Problem(), optionalAdvice(t, made.Err))
}

var (
	// templateAction matches an action of a template, and readField a field that it reads.
	templateAction = regexp.MustCompile(`(?s)<<.*?>>`)
	readField      = regexp.MustCompile(`(inputs)?\.([A-Za-z_][A-Za-z0-9_]*)`)
	// absentField matches the error of a template that reads a field that its input lacks.
	absentField = regexp.MustCompile(`map has no entry for key "([^"]*)"`)
	// readPath matches a field of the input, or of a value in it.
	readPath = regexp.MustCompile(`\binputs(?:\.[A-Za-z_][A-Za-z0-9_]*)+`)
)

// fieldsRead returns the names of the fields of nested objects that a template reads: it fails if one of them is absent. Fields of the
// input itself always exist.
func fieldsRead(template string) []string {
	read := map[string]bool{}
	for _, action := range templateAction.FindAllString(template, -1) {
		for _, field := range readField.FindAllStringSubmatch(action, -1) {
			if field[1] == "" {
				read[field[2]] = true
			}
		}
	}
	return sortedKeys(read)
}

// optionalAdvice returns how to read an optional property whose absence made a template fail; empty if it failed for another reason.
func optionalAdvice(t *resourceType, err error) string {
	if err == nil || t.schema == nil {
		return ""
	}
	found := absentField.FindStringSubmatch(err.Error())
	if found == nil {
		return ""
	}
	name := found[1]
	places := t.schema.Optional(name)
	if len(places) == 0 {
		return ""
	}
	dig := fmt.Sprintf(`dig %q "" MAP`, name)
	for _, path := range readPath.FindAllString(t.Template, -1) {
		keys := strings.Split(path, ".")
		if i := slices.Index(keys, name); i > 0 {
			dig = fmt.Sprintf(`dig "%s" "" %s`, strings.Join(keys[i:], `" "`), strings.Join(keys[:i], "."))
			break
		}
	}
	return fmt.Sprintf("; %s is optional and may be absent: read it with `%s`, test it with hasKey, or write the whole object with toJson", strings.Join(places, ", "), dig)
}

// readsCluster reports whether the template reads settings or the environment of the cluster that executes it.
func (t *resourceType) readsCluster() bool {
	return strings.Contains(t.Template, "settings") || strings.Contains(t.Template, "environment")
}

var (
	// inputReads matches the places in a template that read its input: a field, or all of it.
	inputReads = regexp.MustCompile(`\b(?:(?:get|hasKey) inputs "(\w+)"|dig "(\w+)"(?: (?:"\w*"|\d+|true|false|\(dict\)|\(list\)))* inputs\b|inputs\.(\w+(?:\.\w+)*)|inputs\b)`)
	// settingsReads matches the places that read the settings of the cluster, which the fleet does not know.
	settingsReads = regexp.MustCompile("\\.settings\\b|[\"`]settings[\"`]")
)

// findClusterUse returns the part of the cluster that the objects of an input depend on, or more.
func (t *resourceType) findClusterUse() clusterUse {
	use := usesNoCluster
	if !t.objectsKnown && slices.ContainsFunc(t.namingFields(), func(path string) bool { return path == wholeInput || strings.HasPrefix(path, "cluster") }) {
		return usesWholeCluster
	}
	for _, m := range inputReads.FindAllStringSubmatch(t.Template, -1) {
		name, _, _ := strings.Cut(m[1]+m[2]+m[3], ".")
		switch {
		case m[3] == "cluster.environment":
			use = max(use, usesEnvironment)
		case name == "" || name == "cluster":
			return usesWholeCluster
		}
	}
	return use
}

// findObjectsKnown reports whether the objects of an input follow from the input alone.
func (t *resourceType) findObjectsKnown() bool {
	return t.compiled != nil && (!settingsReads.MatchString(t.Template) || t.schema != nil && slices.Contains(t.schema.Properties(), "settings"))
}

// maxRenderings is the number of different overrides of one definition that are cached.
const maxRenderings = 64

// placeholderCluster is the cluster used to find the objects of a definition for all clusters.
var placeholderCluster = api.FluxCluster{Name: "cluster", DNS: "cluster.example.com", Environment: "environment"}

// newWork returns the work of a change of the State.
func (s *State) newWork(ctx context.Context) work {
	w := newWork(ctx)
	w.templates = rendering.NewBudget(s.templateSteps())
	expanded := sync.OnceValue(func() map[any]bool { // of an earlier commit, which has paid for them
		out := map[any]bool{}
		if s.layers != nil {
			for _, d := range s.layers.expanded {
				out[d.value] = true
			}
		}
		return out
	})
	w.isStored = func(definition any) bool {
		r, ok := definition.(*resource)
		switch {
		case !ok:
			return false
		case r.expanded:
			return expanded()[definition]
		}
		return slices.ContainsFunc(s.versions(ResourceKind(r.of.ID), r.ID), func(doc *Document) bool { return doc.value == r })
	}
	return w
}

// templateSteps returns the number of steps that the templates of one change may take.
func (s *State) templateSteps() int {
	n := len(s.docs[KindCluster])
	for _, list := range s.kinds.lists[s.kinds.compiledCount:] {
		n += len(s.docs[list.kind])
	}
	return templateSteps + templateStepsEach*n
}

// rendered returns the objects of the definition on a cluster with some overrides, or none. A result that is not cached is
// computed again at each call. The first result of a stored definition is no part of the work: the change that stored it paid for
// it, and in a new process any change may be the first to need it.
func (r *resource) rendered(overrides map[string]json.RawMessage, work work) rendering.Result {
	t := r.typ()
	if t.compiled == nil || r.renderings == nil {
		return rendering.Result{}
	}
	key := overridesKey(overrides)
	r.renderings.mu.Lock()
	defer r.renderings.mu.Unlock()
	made, known := r.renderings.made[key]
	if known {
		return made
	}
	run := func() rendering.Result { return r.renderOn(placeholderCluster, overrides) }
	if key == "" && work.isStored != nil && work.isStored(r) {
		made = run()
	} else if made = work.execute(t.ID, run); work.stopped() != nil {
		return made // it may be the error of the work
	}
	if r.renderings.made == nil {
		r.renderings.made = map[string]rendering.Result{}
	}
	if key == "" || len(r.renderings.made) < maxRenderings {
		r.renderings.made[key] = made
	}
	return made
}

// overridesKey returns the same text for equal overrides.
func overridesKey(overrides map[string]json.RawMessage) string {
	var key strings.Builder
	for _, name := range sortedKeys(overrides) {
		fmt.Fprintf(&key, "%s=%s\n", name, overrides[name])
	}
	return key.String()
}

// renderOn returns the objects of the definition on a cluster.
func (r *resource) renderOn(cluster api.FluxCluster, overrides map[string]json.RawMessage) rendering.Result {
	fields, err := r.overlaid(overrides)
	if err != nil {
		return rendering.Failed(err)
	}
	return r.typ().renderInput(&resourceInput{id: r.ID, fields: fields, cluster: cluster}, Receipt{})
}

// renderInput executes the template on an input.
func (t *resourceType) renderInput(in *resourceInput, receipt Receipt) rendering.Result {
	spec := make(map[string]any, len(in.fields))
	for _, f := range in.fields {
		value, err := decodeValue(f.value)
		if err != nil {
			return rendering.Failed(err)
		}
		spec[f.name] = value
	}
	return t.render(in.id, spec, in.cluster, receipt)
}

// wrongRemoval returns the reason if Flux would delete an object that must stay: one of a type whose removal is "keep", or
// one that exists on every cluster. Otherwise it is empty.
func (t *resourceType) wrongRemoval(r *rendering.Result) string {
	for _, o := range r.Deleted() {
		var reason string
		switch {
		case o.ExistsEverywhere():
			reason = fmt.Sprintf("Flux would delete %s, which exists on every cluster, when the definition is removed", o)
		case t.Removal == removalKeep:
			reason = fmt.Sprintf("removal is %q, but Flux would delete %s when the definition is removed", removalKeep, o)
		default:
			continue
		}
		return fmt.Sprintf("%s; give the object the annotation %s: %s", reason, rendering.PruneKey, rendering.PruneDisabled)
	}
	return ""
}

// mayDelete reports whether overrides may add an object that Flux must not delete. Executing a template takes longer than
// all other checks of an override, so for a type that deletes its objects it is done only if a value contains part of a name
// that [rendering.Object.ExistsEverywhere] knows.
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

// hasTemplate reports whether the kind's definitions are rendered by a template that the fleet knows.
func (a *descriptor) hasTemplate() bool {
	return a.typed && a.typeDoc != nil && a.resourceType().compiled != nil
}

// resourceType returns the type of a list of a resource type.
func (a *descriptor) resourceType() *resourceType { return a.typeDoc.value.(*resourceType) }

// checkOwnSet refuses a definition that renders the ResourceSet or the provider of a polled list.
func checkOwnSet(c *checker, r *resource) {
	for _, o := range r.rendered(nil, c.work).Objects {
		if o.OwnSet() && c.next.kinds.byEndpoint[o.Name] != nil {
			c.problem("/spec", "the template makes %s, which is that of the list %q itself", o, o.Name)
		}
	}
}

// checkSetTaken refuses a resource type whose ResourceSet and provider would have the name of those that a definition
// renders.
func checkSetTaken(c *checker, id string) {
	for _, a := range c.next.kinds.lists[c.next.kinds.compiledCount:] {
		if !a.hasTemplate() {
			continue
		}
		for _, doc := range c.next.docs[a.kind] {
			if slices.ContainsFunc(doc.value.(*resource).rendered(nil, c.work).Objects, func(o rendering.Object) bool { return o.OwnSet() && o.Name == id }) {
				c.problem("/id", "the %s %q makes a ResourceSet or provider of this name, and that of the type would be the same", a.rules.noun, doc.ID)
				return
			}
		}
	}
}
