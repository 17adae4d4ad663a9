package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// The types of rules. Values are objects that read a field of a Go value when a rule selects it. An object that is missing is null, and
// the fields of null are empty, as with messages of protocol buffers: a rule needs no test before it reads the inputs of a cluster.

// field is a field of a type.
type field struct {
	typ *types.Type
	get func(from any) (any, error) // from is the Go value
}

type objectType struct {
	*types.Type
	fields map[string]field
}

// object is a value of a type.
type object struct {
	of    *objectType
	value any
}

var _ ref.Val = (*object)(nil)

func (o *object) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("%s has no form as %s", o.of.TypeName(), t)
}

func (o *object) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return o.of.Type
	}
	return types.NewErr("%s cannot be converted to %s", o.of.TypeName(), t.TypeName())
}

func (o *object) Equal(other ref.Val) ref.Val {
	with, ok := other.(*object)
	return types.Bool(ok && with.of == o.of && reflect.DeepEqual(with.plain(), o.plain()))
}

// plain returns the Go value for comparisons.
func (o *object) plain() any {
	if v, ok := o.value.(*structValue); ok {
		return v.of.Interface()
	}
	return o.value
}

func (o *object) Type() ref.Type { return o.of.Type }

func (o *object) Value() any { return o.value }

// provider finds the types.
type provider struct {
	types.Provider
	objects map[string]*objectType
}

var adapter types.Adapter = types.DefaultTypeAdapter

func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if t := p.objects[name]; t != nil {
		return types.NewTypeTypeWithParam(t.Type), true
	}
	return p.Provider.FindStructType(name)
}

func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	if t := p.objects[name]; t != nil {
		return slices.Sorted(maps.Keys(t.fields)), true
	}
	return p.Provider.FindStructFieldNames(name)
}

func (p *provider) FindStructFieldType(name, of string) (*types.FieldType, bool) {
	t := p.objects[name]
	if t == nil {
		return p.Provider.FindStructFieldType(name, of)
	}
	f, ok := t.fields[of]
	if !ok {
		return nil, false
	}
	get := func(from any) (any, error) {
		if from == nil || reflect.TypeOf(from) == nullType {
			return emptyOf(f.typ), nil
		}
		return f.get(from)
	}
	return &types.FieldType{Type: f.typ, GetFrom: get, IsSet: func(from any) bool {
		value, err := get(from)
		return err != nil || !isEmpty(value)
	}}, true
}

// NewValue refuses to make objects: rules only read.
func (p *provider) NewValue(name string, fields map[string]ref.Val) ref.Val {
	if p.objects[name] != nil {
		return types.NewErr("rules cannot make a %s", name)
	}
	return p.Provider.NewValue(name, fields)
}

var nullType = reflect.TypeOf(types.NullValue.Value())

// emptyOf returns the value of a field that is missing.
func emptyOf(t *types.Type) ref.Val {
	switch t.Kind() {
	case types.StringKind:
		return types.String("")
	case types.BoolKind:
		return types.False
	case types.IntKind:
		return types.IntZero
	case types.ListKind:
		return types.NewRefValList(adapter, nil)
	case types.MapKind:
		return types.NewStringInterfaceMap(adapter, map[string]any{})
	default:
		return types.NullValue
	}
}

// isEmpty reports whether the macro has() is false for a value.
func isEmpty(value any) bool {
	v := adapter.NativeToValue(value)
	switch v.Type() {
	case types.StringType, types.BoolType, types.IntType, types.NullType:
		zero := emptyOf(v.Type().(*types.Type))
		return v.Equal(zero) == types.True
	}
	if sized, ok := v.(interface{ Size() ref.Val }); ok {
		return sized.Size() == types.IntZero
	}
	return false
}

// declarations declares the variables and their types.
func declarations() []cel.EnvOption {
	registry, err := types.NewRegistry()
	if err != nil {
		return []cel.EnvOption{func(*cel.Env) (*cel.Env, error) { return nil, err }}
	}
	return []cel.EnvOption{
		cel.CustomTypeProvider(&provider{Provider: registry, objects: objectTypes}),
		cel.CustomTypeAdapter(adapter),
		cel.Variable("change", changeType.Type),
		cel.Variable("effect", effectType.Type),
		cel.Variable("recent", recentType.Type),
		cel.Variable("now", cel.TimestampType),
	}
}

// objectTypes are all types by name. The variables below add theirs.
var objectTypes = map[string]*objectType{}

func newType(name string, fields map[string]field) *objectType {
	t := &objectType{types.NewObjectType("fleet." + name), fields}
	objectTypes["fleet."+name] = t
	return t
}

// of returns a field that is a function of a Go value.
func of[T any](t *types.Type, get func(*T) any) field {
	return field{t, func(from any) (any, error) {
		value, ok := from.(*T)
		if !ok {
			return nil, fmt.Errorf("unexpected value %T", from)
		}
		out := get(value)
		if err, failed := out.(error); failed {
			return nil, err
		}
		return out, nil
	}}
}

func objectOrNull[T any](t *objectType, value *T) ref.Val {
	if value == nil {
		return types.NullValue
	}
	return &object{t, value}
}

func listOf[T any](t *objectType, values []*T) traits.Lister {
	out, objects := make([]ref.Val, len(values)), make([]object, len(values))
	for i, v := range values {
		objects[i] = object{t, v}
		out[i] = &objects[i]
	}
	return types.NewRefValList(adapter, out)
}

var (
	documentType = newType("Document", map[string]field{
		"kind":   of(types.StringType, func(d *Document) any { return d.Kind }),
		"id":     of(types.StringType, func(d *Document) any { return d.ID }),
		"action": of(types.StringType, func(d *Document) any { return d.Action }),
		"before": of(types.DynType, func(d *Document) any { d.decode(); return orError(d.before, d.err) }),
		"after":  of(types.DynType, func(d *Document) any { d.decode(); return orError(d.after, d.err) }),
	})
	changeType = newType("Change", map[string]field{
		"kind":    of(types.StringType, func(c *Change) any { return c.Kind }),
		"actor":   of(types.StringType, func(c *Change) any { return c.Actor }),
		"author":  of(types.StringType, func(c *Change) any { return c.Author }),
		"reason":  of(types.StringType, func(c *Change) any { return c.Reason }),
		"rollout": of(types.StringType, func(c *Change) any { return c.Rollout }),
		"source":  of(types.StringType, func(c *Change) any { return c.Source }),
		"documents": of(types.NewListType(documentType.Type), func(c *Change) any {
			if c.list == nil {
				c.list = listOf(documentType, c.Documents)
			}
			return c.list
		}),
	})
	recentType = newType("Recent", map[string]field{
		"removals": of(types.IntType, func(r *Recent) any { return r.Removals }),
		"count":    of(types.IntType, func(r *Recent) any { return r.Count }),
	})
	versionType = newType("ClusterVersion", map[string]field{
		"environment": of(types.StringType, func(v *Version) any { return v.Environment }),
		"labels":      of(labelsType, func(v *Version) any { return labelsOf(v.Labels) }),
	})
	listsType = newType("Lists", map[string]field{
		string(ListComponents):   entries("ComponentChange", ListComponents, func(l *Lists) []*Entry[api.FluxPlatformComponent] { return l.Components }),
		string(ListNamespaces):   entries("NamespaceChange", ListNamespaces, func(l *Lists) []*Entry[api.FluxNamespace] { return l.Namespaces }),
		string(ListRoleBindings): entries("RoleBindingChange", ListRoleBindings, func(l *Lists) []*Entry[api.FluxRoleBinding] { return l.RoleBindings }),
		string(ListResources): of(types.NewListType(resourceChangeType.Type), func(l *Lists) any {
			return l.value(ListResources, func() ref.Val {
				var out []*resourceChange
				for _, of := range slices.Sorted(maps.Keys(l.Resources)) {
					for _, e := range l.Resources[of] {
						out = append(out, &resourceChange{of, e})
					}
				}
				return listOf(resourceChangeType, out)
			})
		}),
	})
	resourceChangeType = newType("ResourceChange", map[string]field{
		"type":   of(types.StringType, func(e *resourceChange) any { return e.of }),
		"id":     of(types.StringType, func(e *resourceChange) any { return e.ID }),
		"before": of(types.DynType, func(e *resourceChange) any { return mapOrNull(e.Before) }),
		"after":  of(types.DynType, func(e *resourceChange) any { return mapOrNull(e.After) }),
	})
	clusterType = newType("Cluster", map[string]field{
		"id":          of(types.StringType, func(c *Cluster) any { return types.String(c.ID) }),
		"environment": of(types.StringType, func(c *Cluster) any { return types.String(c.latest().Environment) }),
		"labels":      of(labelsType, func(c *Cluster) any { return labelsOf(c.latest().Labels) }),
		"before":      of(versionType.Type, func(c *Cluster) any { return objectOrNull(versionType, c.Before) }),
		"after":       of(versionType.Type, func(c *Cluster) any { return objectOrNull(versionType, c.After) }),
		"removals":    of(types.IntType, func(c *Cluster) any { return types.Int(c.Removals) }),
		"lists":       of(listsType.Type, func(c *Cluster) any { return objectOrNull(listsType, c.Lists) }),
	})
	effectType = newType("Effect", map[string]field{
		"clusters": of(types.NewListType(clusterType.Type), func(e *Effect) any {
			if e.list == nil {
				e.list = clusterList{listOf(clusterType, e.Clusters), e}
			}
			return e.list
		}),
		"count":    of(types.IntType, func(e *Effect) any { return len(e.Clusters) }),
		"removals": of(types.IntType, func(e *Effect) any { return e.Removals }),
	})
	labelsType = types.NewMapType(types.StringType, types.StringType)
)

type resourceChange struct {
	of string
	*Entry[map[string]any]
}

func labelsOf(labels map[string]string) ref.Val {
	if labels == nil {
		labels = map[string]string{}
	}
	return types.NewStringStringMap(adapter, labels)
}

func mapOrNull(m *map[string]any) ref.Val {
	if m == nil {
		return types.NullValue
	}
	return types.NewStringInterfaceMap(adapter, *m)
}

func orError(value any, err error) any {
	if err != nil {
		return err
	}
	return value
}

// effect returns the effect, or the error of its computation.
func (in *Input) effect() any {
	e, err := in.Effect()
	if err != nil {
		return types.WrapErr(err)
	}
	e.self = object{effectType, e}
	return &e.self
}

// decode decodes the document for rules.
func (d *Document) decode() {
	if d.decoded {
		return
	}
	d.decoded = true
	for _, version := range []struct {
		body json.RawMessage
		into *any
	}{{d.Before, &d.before}, {d.After, &d.after}} {
		value, err := decode(version.body)
		*version.into, d.err = value, errors.Join(d.err, err)
	}
}

// decode returns the value of a JSON text; null if it is empty. Whole numbers are integers.
func decode(body json.RawMessage) (ref.Val, error) {
	if len(body) == 0 {
		return types.NullValue, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("a document cannot be read: %w", err)
	}
	return adapter.NativeToValue(withNumbers(value)), nil
}

// withNumbers replaces the texts of numbers in a decoded value.
func withNumbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	case map[string]any:
		for key, of := range v {
			v[key] = withNumbers(of)
		}
	case []any:
		for i, of := range v {
			v[i] = withNumbers(of)
		}
	case nil:
		return types.NullValue
	}
	return value
}

// entries is a field with the changes of one list.
func entries[T any](name string, list ListName, get func(*Lists) []*Entry[T]) field {
	input := structType(reflect.TypeFor[T]())
	entry := newType(name, map[string]field{
		"id":     of(types.StringType, func(e *Entry[T]) any { return e.ID }),
		"before": of(input.Type, func(e *Entry[T]) any { return inputOf(input, e.Before, &e.before) }),
		"after":  of(input.Type, func(e *Entry[T]) any { return inputOf(input, e.After, &e.after) }),
	})
	return of(types.NewListType(entry.Type), func(l *Lists) any {
		return l.value(list, func() ref.Val { return listOf(entry, get(l)) })
	})
}

// fill adds the inputs of a list, once.
func (l *Lists) fill(name ListName) error {
	done := &l.filled[slices.Index(listNames[:], name)]
	if l.Fill == nil || *done {
		return nil
	}
	if err := l.Fill(l, name); err != nil {
		return err
	}
	*done = true
	return nil
}

// value returns a list as rules read it, made once, or an error.
func (l *Lists) value(name ListName, read func() ref.Val) any {
	if value := l.values[name]; value != nil {
		return value
	}
	if err := l.fill(name); err != nil {
		return err
	}
	if l.values == nil {
		l.values = map[ListName]ref.Val{}
	}
	l.values[name] = read()
	return l.values[name]
}

func inputOf[T any](t *objectType, input *T, cached **structValue) ref.Val {
	if input == nil {
		return types.NullValue
	}
	if *cached == nil {
		*cached = newStructValue(reflect.ValueOf(input).Elem())
	}
	return &object{t, *cached}
}
