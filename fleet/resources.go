package fleet

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/typeschema"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// resourceInput is the input of a definition of a resource type: id, the fields of the spec, and the cluster block.
type resourceInput struct {
	id      string
	fields  []inputField
	cluster api.FluxCluster
}

// decodeOverrides parses the overrides of an entry.
func decodeOverrides(raw map[string]json.RawMessage) (map[string]any, error) {
	out := make(map[string]any, len(raw))
	for name, value := range raw {
		var err error
		if out[name], err = decodeValue(value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// overlaid returns the fields with a cluster's overrides applied, property by property.
func (r *resource) overlaid(raw map[string]json.RawMessage) ([]inputField, error) {
	if len(raw) == 0 {
		return r.fields, nil
	}
	over, err := filledOverrides(r.typ().schema, raw)
	if err != nil {
		return nil, err
	}
	fields := slices.Clone(r.fields)
	for _, f := range over {
		at, present := slices.BinarySearchFunc(fields, f.name, func(have inputField, name string) int { return strings.Compare(have.name, name) })
		if present {
			fields[at] = f
		} else {
			fields = slices.Insert(fields, at, f)
		}
	}
	return fields, nil
}

// filledOverrides returns overrides with the defaults of their missing properties.
func filledOverrides(schema *typeschema.Schema, raw map[string]json.RawMessage) ([]inputField, error) {
	overrides, err := decodeOverrides(raw)
	if err != nil {
		return nil, err
	}
	if schema != nil {
		overrides = schema.Overlaid(map[string]any{}, overrides)
	}
	return encodeFields(overrides)
}

// spec reports the problems that a schema found.
func (c *checker) spec(at string, problems []typeschema.Problem) {
	for _, p := range problems {
		if c.full() {
			return
		}
		c.problem(at+p.Pointer, "%s", p.Detail)
	}
}

// typ returns the resource's type, or nil if the document is read alone.
func (r *resource) typ() *resourceType {
	if r.of == nil {
		return &resourceType{}
	}
	return r.of.value.(*resourceType)
}

// complete adds the defaults of the current type, which may have more than when the document was written.
func (r *resource) complete() error {
	spec, err := decodeValue(r.Spec)
	if err != nil {
		return err
	}
	fields, ok := spec.(map[string]any)
	if !ok {
		return &decodeError{"/spec", "must be an object"}
	}
	if schema := r.typ().schema; schema != nil {
		r.endless = !schema.Complete(fields)
	}
	r.renderings = &renderings{}
	r.fields, err = encodeFields(fields)
	return err
}

// encodeFields encodes the fields of a spec, sorted by name.
func encodeFields(spec map[string]any) ([]inputField, error) {
	fields := make([]inputField, 0, len(spec))
	for _, name := range sortedKeys(spec) {
		value, err := jsontext.Canonical(spec[name])
		if err != nil {
			return nil, err
		}
		fields = append(fields, inputField{name, value})
	}
	return fields, nil
}

// spec returns a copy of the spec with defaults.
func (r *resource) spec() (map[string]any, error) {
	spec := make(map[string]any, len(r.fields))
	for _, f := range r.fields {
		value, err := decodeValue(f.value)
		if err != nil {
			return nil, err
		}
		spec[f.name] = value
	}
	return spec, nil
}

// MarshalJSON implements json.Marshaler.
func (in resourceInput) MarshalJSON() ([]byte, error) {
	body := []byte(`{"id":`)
	value, err := jsontext.Canonical(in.id)
	body = append(body, value...)
	for _, f := range in.fields {
		name, bad := jsontext.Canonical(f.name)
		err = errors.Join(err, bad)
		body = append(append(append(append(body, ','), name...), ':'), f.value...)
	}
	value, bad := jsontext.Canonical(in.cluster)
	body = append(append(append(body, `,"cluster":`...), value...), '}')
	return body, errors.Join(err, bad)
}

// decodeValue parses a canonical value.
func decodeValue(body json.RawMessage) (any, error) {
	obj, err := unstructured.Decode(slices.Concat([]byte(`{"v":`), body, []byte(`}`)))
	return obj["v"], err
}
