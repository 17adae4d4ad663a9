package fleet

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// Where the fleet does not know which objects an input makes, because its type has no template or the template reads settings
// of the cluster, the type may declare the fields that name them. Otherwise any field may.

// wholeInput is the path of all fields of an input.
const wholeInput = ""

// namingFields returns the fields of an input that determine its objects if the template does not show that.
func (t *resourceType) namingFields() []string {
	if t.Identity != nil {
		return *t.Identity
	}
	return []string{wholeInput}
}

// checkIdentity refuses a declared identity that is not needed, and one with unknown fields.
func checkIdentity(c *checker, t *resourceType) {
	switch {
	case t.Identity == nil && !t.objectsKnown:
		c.warn("of resource type %q it is not known which fields name its objects: every change of a definition counts as a removal; list them in identity", t.ID)
	case t.Identity != nil && t.objectsKnown:
		c.problem("/identity", "the template shows which objects an input makes: leave identity out")
	case t.Identity != nil:
		for i, path := range *t.Identity {
			name, _, _ := strings.Cut(path, ".")
			if name != "id" && name != "cluster" && (t.schema == nil || !slices.Contains(t.schema.Properties(), name)) {
				c.problem(jsontext.Pointer("identity", i), "%q is not a field of this type", path)
			}
		}
	}
}

// sameFields reports whether two inputs have the same values at some paths.
func sameFields(paths []string, a, b *resourceInput) bool {
	return !slices.ContainsFunc(paths, func(path string) bool { return !bytes.Equal(a.at(path), b.at(path)) })
}

// equal reports whether two inputs have the same content.
func (in *resourceInput) equal(other *resourceInput) bool {
	a, b := in.fields, other.fields
	return in.id == other.id && in.cluster == other.cluster && len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] ||
		slices.EqualFunc(a, b, func(x, y inputField) bool { return x.name == y.name && bytes.Equal(x.value, y.value) }))
}

// mayRename reports whether a change of a definition, or of its type, may remove objects on some cluster. Another schema may have other
// defaults of fields that overrides leave out.
func mayRename(was, is *resource) bool {
	before, after := &resourceInput{fields: was.fields}, &resourceInput{fields: is.fields}
	t, next := was.typ(), is.typ()
	if t.Template != "" || next.Template != "" {
		return t.Template != next.Template || !before.equal(after) || !sameSchema(t, next)
	}
	return !sameFields(t.namingFields(), before, after) || !sameFields(next.namingFields(), before, after) || !sameSchema(t, next)
}

func sameSchema(a, b *resourceType) bool { return a == b || bytes.Equal(a.Schema, b.Schema) }

// at returns the encoded value at a path of an input; nil if there is none.
func (in *resourceInput) at(path string) json.RawMessage {
	if path == wholeInput {
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
