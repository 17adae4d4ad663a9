package fleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/objectidentity"
)

// Flux identifies an object by apiVersion, kind, namespace and name. If an input of a resource type changes one of these,
// Flux deletes the object and creates another one: that is a removal, although the input stays.

// naming describes how the inputs of a resource type determine the names of the objects on a cluster.
type naming struct {
	fields   []string // paths whose values are part of the identity
	presence []string // paths for which it matters only whether they are empty
	names    string   // digest of the template's expressions for identities; empty: the template is unknown
}

// naming returns the declared identity of the type, or else the one that its template shows.
func (t *resourceType) naming() naming {
	if t.template == nil {
		return naming{fields: []string{objectidentity.Whole}}
	}
	derived := t.template()
	if t.Identity != nil {
		return naming{fields: *t.Identity, names: derived.Names}
	}
	return naming{derived.Fields, derived.Presence, derived.Names}
}

// checkIdentity refuses a declared identity without fields, and one that lacks a field which the template's metadata
// certainly uses.
func checkIdentity(c *checker, t *resourceType) {
	if t.Identity == nil {
		if t.template != nil && slices.Equal(t.template().Fields, []string{objectidentity.Whole}) {
			c.warn("of resource type %q it is not known which fields name its objects: every change of a definition counts as a removal; list them in identity", t.ID)
		}
		return
	}
	for i, path := range *t.Identity {
		name, _, _ := strings.Cut(path, ".")
		if name != "id" && name != "cluster" && (t.schema == nil || !slices.Contains(t.schema.Properties(), name)) {
			c.problem(jsontext.Pointer("identity", i), "%q is not a field of this type", path)
		}
	}
	for _, path := range t.template().Direct {
		switch {
		case objectidentity.Covers(*t.Identity, path):
		case path == objectidentity.Whole:
			c.problem("/identity", "the template names objects after the whole input: leave identity out")
		default:
			c.problem("/identity", "must list %q: the template names objects after it", path)
		}
	}
}

// renamesObjects reports whether a change of an input or of its type changes the identity of an object.
func renamesObjects(was, is naming, before, after resourceInput) bool {
	if was.names != "" && was.names != is.names {
		return true
	}
	for _, fields := range [][]string{was.fields, is.fields} {
		for _, path := range fields {
			if !bytes.Equal(before.at(path), after.at(path)) {
				return true
			}
		}
	}
	for _, presence := range [][]string{was.presence, is.presence} {
		for _, path := range presence {
			if emptyValue(before.at(path)) != emptyValue(after.at(path)) {
				return true
			}
		}
	}
	return false
}

// emptyValue reports whether a template's condition treats a value as false.
func emptyValue(value json.RawMessage) bool {
	return slices.Contains([]string{"", "null", "false", "0", `""`, "[]", "{}"}, string(value))
}

// at returns the encoded value at a path of an input; nil if there is none.
func (in *resourceInput) at(path string) json.RawMessage {
	if path == objectidentity.Whole {
		body, err := in.MarshalJSON()
		if err != nil {
			return nil
		}
		return body
	}
	name, rest, deeper := strings.Cut(path, ".")
	value := in.field(name)
	for deeper && value != nil {
		var object map[string]json.RawMessage
		if json.Unmarshal(value, &object) != nil {
			return value // the whole value counts
		}
		name, rest, deeper = strings.Cut(rest, ".")
		value = object[name]
	}
	return value
}

// field returns the encoded value of a field of an input; nil if there is none.
func (in *resourceInput) field(name string) json.RawMessage {
	if name == "cluster" {
		body, err := jsontext.Canonical(in.cluster)
		if err != nil {
			return nil
		}
		return body
	}
	at, present := slices.BinarySearchFunc(in.fields, name, func(f inputField, name string) int { return strings.Compare(f.name, name) })
	if !present {
		return nil
	}
	return in.fields[at].value
}

// typedInputs returns the inputs of a resource type on a cluster, by id.
func (s *State) typedInputs(cluster *Effective, kind Kind) map[string]resourceInput {
	typeID, _ := kind.ResourceType()
	entries := cluster.cluster.Resources[typeID]
	inputs := make(map[string]resourceInput, len(entries))
	for i := range entries {
		doc, ok := s.definition(cluster, kind, entries[i].ID)
		if !ok {
			continue
		}
		r := doc.value.(*resource)
		fields, err := r.overlaid(entries[i].Overrides)
		if err != nil {
			continue // the list is not served
		}
		inputs[r.ID] = resourceInput{id: r.ID, fields: fields, cluster: fluxCluster(cluster.cluster)}
	}
	return inputs
}

// renamed returns the installations that stay on a cluster's lists while the identities of their objects change.
func (r Result) renamed(before, after *Effective, was []installation) []installation {
	var out []installation
	for _, list := range r.State.kinds.lists[r.State.kinds.compiledCount:] {
		base := r.base.kinds.byKind[list.kind]
		if !slices.ContainsFunc(was, func(i installation) bool { return i.Kind == list.kind }) {
			continue
		}
		is := r.State.typedInputs(after, list.kind)
		naming := namingOf(list)
		var had map[string]resourceInput
		if before != nil && base != nil {
			had = r.base.typedInputs(before, list.kind)
		}
		for _, i := range was {
			in, stays := is[i.ID]
			if i.Kind != list.kind || !stays {
				continue
			}
			old, known := had[i.ID]
			renamed := i.Identity != in.identity(naming)
			if known && i.Identity == "" {
				renamed = renamesObjects(namingOf(base), naming, old, in)
			}
			if renamed {
				out = append(out, i)
			}
		}
	}
	return out
}

// namingOf returns the naming of a list of a resource type.
func namingOf(list *descriptor) naming { return list.typeDoc.value.(*resourceType).naming() }

// identity returns a digest of the values that determine the names of an input's objects.
func (in *resourceInput) identity(by naming) string {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%s\n", by.names)
	for _, path := range by.fields {
		_, _ = fmt.Fprintf(sum, "%q %s\n", path, in.at(path))
	}
	for _, path := range by.presence {
		_, _ = fmt.Fprintf(sum, "%q %t\n", path, emptyValue(in.at(path)))
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:16])
}

// identified adds identities to installations, to be stored.
func (s *State) identified(cluster *Effective, installed []installation) []installation {
	inputs := map[Kind]map[string]resourceInput{}
	for n := range installed {
		i := &installed[n]
		list := s.kinds.descriptor(i.Kind)
		if list == nil || !list.typed {
			continue
		}
		if inputs[i.Kind] == nil {
			inputs[i.Kind] = s.typedInputs(cluster, i.Kind)
		}
		if in, ok := inputs[i.Kind][i.ID]; ok {
			i.Identity = in.identity(namingOf(list))
		}
	}
	return installed
}
