package fleet

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/rendering"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/typeschema"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

const (
	maxTypeID = 53
)

// reservedTypes are paths next to the lists that clusters poll, some of them for future use.
var reservedTypes = []string{"clusters", "receipts", "events"}

// reservedPrefixes are prefixes of the names of ResourceSets that the shipped templates render. A type has its own
// ResourceSet, with the name of the type.
var reservedPrefixes = []string{"adopt-", "binding-", "gate-", "receipt-"}

var typeKind = kindRules{
	name: KindResourceType, noun: "resource type", collection: "resource_types",
	empty: func() any { return new(resourceType) },
	normalize: func(obj map[string]any) {
		unstructured.SetDefault(obj, "description", "")
		unstructured.SetDefault(obj, "overridable", []any{})
		unstructured.SetDefault(obj, "removal", removalDelete)
		unstructured.SetDefault(obj, "template", "")
		unstructured.DropEmpty(obj, "receipt")
	},
	complete: func(value any, _ json.RawMessage) error { return value.(*resourceType).parse() },
	check:    func(c *checker, d *Document) { checkResourceType(c, d.value.(*resourceType)) },
	view: func(d *Document) any {
		t := d.value.(*resourceType).ResourceType
		t.Revision, t.CreatedAt, t.UpdatedAt = int64(d.Revision), d.CreatedAt, d.UpdatedAt
		return &t
	},
}

// parse parses the schema and the template of the type.
func (t *resourceType) parse() error {
	var text any
	if len(t.Schema) > 0 {
		var err error
		if text, err = decodeValue(t.Schema); err != nil {
			return err
		}
	}
	t.schema, t.problems = typeschema.Parse(text, len(t.Schema))
	t.compile()
	t.objectsKnown = t.findObjectsKnown()
	t.clusterUse = t.findClusterUse()
	return nil
}

// checkResourceType checks a resource type's document, and its template with samples.
func checkResourceType(c *checker, t *resourceType) {
	c.dnsLabel("/id", t.ID)
	if len(t.ID) > maxTypeID {
		c.problem("/id", "must be at most %d characters", maxTypeID)
	}
	if a := c.next.kinds.byEndpoint[t.ID]; a != nil && a.kind != ResourceKind(t.ID) || slices.Contains(reservedTypes, t.ID) {
		c.problem("/id", "%q is the name of another list that clusters poll, or may become one", t.ID)
	}
	for _, prefix := range reservedPrefixes {
		if strings.HasPrefix(t.ID, prefix) {
			c.problem("/id", "must not begin with %q: the templates make ResourceSets of such names in flux-system, and that of the type would be one of them", prefix)
		}
	}
	c.text("/description", t.Description, 1024)
	c.oneOf("/removal", t.Removal, removalDelete, removalKeep)
	if t.Receipt != "" {
		c.oneOf("/receipt", t.Receipt, receiptNone)
	}
	adviseReceipt(c, t)
	if len(t.Template) > maxTemplateBytes {
		c.problem("/template", "must be at most %d bytes", maxTemplateBytes)
	}
	c.spec("/schema", t.problems)
	if t.schema != nil {
		c.spec("/schema", t.schema.Costly())
		c.spec("/overridable", t.schema.CheckOverridable(t.Overridable))
		if n := t.schema.CELRules(); n > 0 {
			c.warn("the rules in CEL of resource type %q (x-kubernetes-validations: %d) are not evaluated here: the clusters refuse objects that violate them", t.ID, n)
		}
	}
	checkTemplate(c, t)
	if t.Removal == removalKeep && t.Template == "" {
		c.warn("removal of resource type %q is %q, and the type has no template that shows it: its removals are not counted, and Flux deletes each object without the annotation %s: %s",
			t.ID, removalKeep, rendering.PruneKey, rendering.PruneDisabled)
	}
	checkSetTaken(c, t.ID)
	checkIdentity(c, t)
}

// checkTypePatterns refuses patterns that are too large before they are compiled.
func checkTypePatterns(obj map[string]any) error {
	var problems []Problem
	for _, p := range typeschema.CheckPatterns(obj["schema"]) {
		problems = append(problems, Problem{Pointer: "/schema" + p.Pointer, Detail: p.Detail})
	}
	return Invalid(problems)
}

// makesReceipts matches a call of the receipt template.
var makesReceipts = regexp.MustCompile(`<<-?\s*template\s+"receipt"`)

// adviseReceipt warns of types whose inputs are never confirmed, or are confirmed without a receipt from the template.
func adviseReceipt(c *checker, t *resourceType) {
	switch made := makesReceipts.MatchString(t.Template); {
	case t.Template == "":
	case !made && t.Receipt == "":
		c.warn("clusters never confirm inputs of resource type %q: its template makes no receipt; add one, or set receipt to \"none\" to have them count as confirmed when they are delivered", t.ID)
	case made && t.Receipt == receiptNone:
		c.warn("the template of resource type %q makes receipts, and receipt is \"none\": its inputs count as confirmed when they are delivered, before they are applied", t.ID)
	}
}

// resourceKind returns the descriptor of a resource type's definitions. Each version of the type gets a new one.
func resourceKind(id string, of *Document) *descriptor {
	return definition[resource, api.ResourceAssignment, resourceInput]{
		descriptor: descriptor{
			kind: ResourceKind(id), field: id, endpoint: id, idField: "resource_id", typeDoc: of, typed: true,
			rules: kindRules{
				noun:      id + " resource",
				empty:     func() any { return &resource{of: of} },
				complete:  func(value any, _ json.RawMessage) error { return value.(*resource).complete() },
				normalize: func(obj map[string]any) { normalizeResource(id, of, obj) },
				check:     checkResource,
			},
			idFrom: func(op *api.Operation) string { return op.ResourceID },
			checkEntries: func(c *checker, on *clusterCheck) {
				for i := range on.effective.cluster.Resources[id] {
					if c.full() {
						return
					}
					checkOverrides(c, on.effective, id, i)
				}
			},
			normalizeEntry: normalizeResourceEntry,
			overrides: &overrideRules{
				size:         func(c *api.Cluster) int { return overridesSize(of, c.Resources[id]) },
				sizeFromType: true,
				differ:       func(_, _ *api.Cluster, _ string) bool { return false }, // they are in the entry
				overriddenOn: func(c *api.Cluster, resource string) bool { return entryOf(c, id, resource) >= 0 },
				invalidates: func(was, is *Document) bool {
					before, after := was.value.(*resource), is.value.(*resource)
					return before.of != after.of || !slices.Equal(before.Spec, after.Spec)
				},
				recheck: func(c *checker, has *Effective, resource string) {
					checkOverrides(c, has, id, entryOf(has.cluster, id, resource))
				},
			},
			redeployed: func(was, is *Document) bool { return mayRename(was.value.(*resource), is.value.(*resource)) },
			kept: func(d *Document, now time.Time) bool {
				of := d.value.(*resource).of
				return of != nil && of.value.(*resourceType).Removal == removalKeep && !of.unsettled(now)
			},
		},
		list:    func(c *Effective) []api.ResourceAssignment { return c.cluster.Resources[id] },
		entryID: func(e *api.ResourceAssignment) string { return e.ID },
		setMetadata: func(r *resource, revision int64, created, updated time.Time) {
			r.Revision, r.CreatedAt, r.UpdatedAt = revision, created, updated
		},
		input: func(_ *inputContext, r *resource, e *api.ResourceAssignment) (resourceInput, error) {
			fields, err := r.overlaid(e.Overrides)
			return resourceInput{id: r.ID, fields: fields}, err
		},
		cluster: func(in *resourceInput) *api.FluxCluster { return &in.cluster },
		same: func(a, b *api.ResourceAssignment) bool {
			return maps.EqualFunc(a.Overrides, b.Overrides, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
		},
	}.describe()
}

// normalizeResource sets the type, and adds the defaults of its schema to the spec.
func normalizeResource(id string, of *Document, obj map[string]any) {
	unstructured.SetDefault(obj, "type", id)
	unstructured.SetDefault(obj, "spec", map[string]any{})
	spec, ok := obj["spec"].(map[string]any)
	if !ok || of == nil {
		return
	}
	if schema := of.value.(*resourceType).schema; schema != nil {
		schema.Fill(spec)
	}
}

// normalizeResourceEntry omits empty overrides.
func normalizeResourceEntry(entry map[string]any) {
	if overrides, ok := entry["overrides"]; ok {
		if object, isObject := overrides.(map[string]any); overrides == nil || isObject && len(object) == 0 {
			delete(entry, "overrides")
		}
	}
}

// checkResource checks a definition's document against its type.
func checkResource(c *checker, d *Document) {
	r := d.value.(*resource)
	c.dnsSubdomain("/id", r.ID)
	if r.of == nil {
		return
	}
	if r.Type != r.of.ID {
		c.problem("/type", "must be %q, as in the path", r.of.ID)
	}
	schema := r.typ().schema
	if schema == nil {
		return // the type is refused, or its problems are stored already
	}
	if d.refers {
		return // the results are checked on clusters
	}
	if r.endless {
		c.spec("/spec", []typeschema.Problem{typeschema.Endless})
		return
	}
	spec, err := r.spec()
	if err != nil {
		c.problem("/spec", "%v", err)
		return
	}
	problems := schema.Check(spec, c.work.Work)
	c.spec("/spec", problems)
	if len(problems) > 0 || c.work.stopped() != nil {
		return // rendering an unchecked spec could take long
	}
	if made := r.rendered(nil, c.work); made.Problem() != "" {
		c.checkRenders("/spec", r.typ(), made, "the template of the type does not fit it")
	} else if wrong := r.typ().wrongRemoval(&made); wrong != "" {
		c.problem("/spec", "%s", wrong)
	} else {
		c.checkOrder("/spec", r.typ(), r.ID, spec)
	}
	checkOwnSet(c, r)
}
