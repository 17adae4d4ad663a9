package policy

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// The structs of the API as values of rules, which read their fields by reflection.

// structValue is a struct of the API with the values of the fields that rules have read: their conversion can take long.
type structValue struct {
	of   reflect.Value
	read map[int]any // by the index of the field
}

func newStructValue(of reflect.Value) *structValue { return &structValue{of, map[int]any{}} }

// hiddenFields are the fields of inputs that rules do not read: they repeat others, or differ on each cluster.
var hiddenFields = []string{"cluster", "receipt", "values_json"}

// structType returns the type of a struct of the API. Its fields are read by reflection, with the names of its JSON.
func structType(of reflect.Type) *objectType {
	if t := objectTypes["fleet."+of.Name()]; t != nil {
		return t
	}
	t := newType(of.Name(), map[string]field{})
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" || slices.Contains(hiddenFields, name) {
			continue
		}
		fieldType := typeOf(of.Field(i).Type)
		t.fields[name] = field{fieldType, func(from any) (any, error) {
			v, ok := from.(*structValue)
			if !ok {
				return nil, fmt.Errorf("unexpected value %T", from)
			}
			if value, known := v.read[i]; known {
				return value, nil
			}
			value, err := valueOf(fieldType, v.of.Field(i))
			if err == nil {
				v.read[i] = value
			}
			return value, err
		}}
	}
	return t
}

var rawType = reflect.TypeFor[json.RawMessage]()

// typeOf returns the type in rules of a type of the API.
func typeOf(of reflect.Type) *types.Type {
	switch {
	case of == rawType:
	case of.Kind() == reflect.String:
		return types.StringType
	case of.Kind() == reflect.Bool:
		return types.BoolType
	case of.Kind() == reflect.Int, of.Kind() == reflect.Int64, of.Kind() == reflect.Int32:
		return types.IntType
	case of.Kind() == reflect.Slice:
		return types.NewListType(typeOf(of.Elem()))
	case of.Kind() == reflect.Map:
		return types.NewMapType(types.StringType, typeOf(of.Elem()))
	case of.Kind() == reflect.Pointer && of.Elem().Kind() == reflect.Struct:
		return typeOf(of.Elem())
	case of.Kind() == reflect.Struct && of != reflect.TypeFor[time.Time]():
		return structType(of).Type
	}
	return types.DynType
}

// valueOf returns the value of a field of the API.
func valueOf(t *types.Type, v reflect.Value) (any, error) {
	if raw, ok := reflect.TypeAssert[json.RawMessage](v); ok {
		return decode(raw)
	}
	switch t.Kind() {
	case types.StringKind:
		return types.String(v.String()), nil
	case types.BoolKind:
		return types.Bool(v.Bool()), nil
	case types.IntKind:
		return types.Int(v.Int()), nil
	case types.ListKind:
		out := make([]ref.Val, v.Len())
		for i := range out {
			if err := element(t.Parameters()[0], v.Index(i), &out[i]); err != nil {
				return nil, err
			}
		}
		return types.NewRefValList(adapter, out), nil
	case types.MapKind:
		out := make(map[string]ref.Val, v.Len())
		for _, key := range v.MapKeys() {
			var value ref.Val
			if err := element(t.Parameters()[1], v.MapIndex(key), &value); err != nil {
				return nil, err
			}
			out[key.String()] = value
		}
		return types.NewDynamicMap(adapter, out), nil
	case types.StructKind:
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return types.NullValue, nil
			}
			v = v.Elem()
		}
		return &object{objectTypes[t.TypeName()], newStructValue(v)}, nil
	default:
	}
	if v.Kind() == reflect.Interface && v.IsNil() {
		return types.NullValue, nil
	}
	text, err := json.Marshal(v.Interface())
	if err != nil {
		return nil, err
	}
	return decode(text)
}

func element(t *types.Type, v reflect.Value, into *ref.Val) error {
	value, err := valueOf(t, v)
	if err == nil {
		*into = adapter.NativeToValue(value)
	}
	return err
}
