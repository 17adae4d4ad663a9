package policy

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"regexp/syntax"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// Calls whose time depends on their arguments, not on their result. Each counts its steps before the work.

const (
	timeZoneSteps = 1000 // of a call that reads a time zone, which is loaded each time
	// regexWorkPerStep is the number of bytes of a text, times instructions of a pattern, that count as a step.
	regexWorkPerStep         = 16
	semverSteps, labelsSteps = 50, 8
	// searchedBytesPerStep is the number of bytes of a text in which another one is searched that count as a step.
	searchedBytesPerStep = 4
	conversionSteps      = 2 // additional ones, of a number or a time that is made of a text, or the other way
	// mapWork are the steps of the comparison of one value of a map.
	mapWork = 8
)

// extraSteps returns the additional steps of a call of a function with a constant cost, and those of its constant texts.
func extraSteps(call interpreter.InterpretableCall) (steps uint64) {
	for _, arg := range call.Args() {
		if literal, ok := arg.(interpreter.InterpretableConst); ok {
			steps += textSize(literal.Value()) / bytesReadPerStep
		}
	}
	switch call.Function() {
	case overloads.TypeConvertString, overloads.TypeConvertDouble, overloads.TypeConvertTimestamp, overloads.TypeConvertDuration:
		steps += conversionSteps
	case overloads.TimeGetFullYear, overloads.TimeGetMonth, overloads.TimeGetDayOfYear, overloads.TimeGetDate, overloads.TimeGetDayOfMonth,
		overloads.TimeGetDayOfWeek, overloads.TimeGetHours, overloads.TimeGetMinutes, overloads.TimeGetSeconds, overloads.TimeGetMilliseconds:
		if len(call.Args()) == 2 {
			steps += timeZoneSteps
		}
	}
	return steps
}

// binaryNode is a call of a function with two arguments that counts the steps of its arguments. It is no InterpretableCall, because the
// library replaces some of these.
type binaryNode struct {
	id    int64
	args  []interpreter.InterpretableV2
	meter *meter
	steps func(a, b ref.Val) uint64
	call  func(a, b ref.Val) ref.Val
}

func (n *binaryNode) ID() int64 { return n.id }

func (n *binaryNode) Eval(vars interpreter.Activation) ref.Val {
	return n.Exec(interpreter.AsFrame(vars))
}

func (n *binaryNode) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	a := n.args[0].Exec(frame)
	if types.IsUnknownOrError(a) {
		return a
	}
	b := n.args[1].Exec(frame)
	if types.IsUnknownOrError(b) {
		return b
	}
	n.meter.charge(1 + n.steps(a, b))
	out := n.call(a, b)
	if types.IsError(out) {
		n.meter.charge(errorSteps)
	}
	return out
}

// binary returns the node for a call that counts its arguments; nil: the call needs none.
func (m *meter) binary(call interpreter.InterpretableCall) (interpreter.InterpretableV2, error) {
	if len(call.Args()) != 2 {
		return nil, nil
	}
	n := &binaryNode{id: call.ID(), args: call.Args(), meter: m}
	switch {
	case call.Function() == functionSemver:
		n.steps, n.call = func(version, limits ref.Val) uint64 { return semverSteps + (textSize(version)+textSize(limits))/2 }, inRange
	case call.Function() == functionMatchesLabels:
		n.steps, n.call = func(_, selector ref.Val) uint64 { return labelsSteps + textSize(selector)/4 }, matchesLabels
	case call.Function() == overloads.Contains:
		n.steps, n.call = func(in, part ref.Val) uint64 { return (textSize(in) + textSize(part)) / searchedBytesPerStep }, types.StringContains
	case call.Function() == operators.Add:
		n.steps, n.call = sumSteps, sum
	case call.Function() == operators.Equals:
		n.steps, n.call = m.equalSteps, types.Equal
	case call.Function() == operators.NotEquals:
		n.steps, n.call = m.equalSteps, func(a, b ref.Val) ref.Val { return types.Bool(types.Equal(a, b) != types.True) }
	case call.OverloadID() == overloads.InList:
		if _, constant := call.Args()[1].(interpreter.InterpretableConst); constant {
			return nil, nil // the library searches a set
		}
		n.steps = func(_, list ref.Val) uint64 { return m.size(list, m.left) }
		n.call = func(a, list ref.Val) ref.Val {
			if in, ok := list.(traits.Container); ok {
				return in.Contains(a)
			}
			return types.MaybeNoSuchOverloadErr(list)
		}
	case call.Function() == overloads.Matches:
		return m.matches(n)
	default:
		return nil, nil
	}
	return n, nil
}

// matches completes the node for a call of matches().
func (m *meter) matches(n *binaryNode) (interpreter.InterpretableV2, error) {
	literal, ok := n.args[1].(interpreter.InterpretableConst)
	if !ok {
		return nil, errors.New("the pattern of matches() must be a literal")
	}
	text, ok := literal.Value().(types.String)
	if !ok {
		return nil, errors.New("the pattern of matches() must be a text")
	}
	instructions, err := regexInstructions(string(text))
	if err != nil {
		return nil, err
	}
	if instructions > maxRegexProgram {
		return nil, fmt.Errorf("the pattern %.50q is compiled to %d instructions; at most %d are possible", string(text), instructions, maxRegexProgram)
	}
	pattern, err := regexp.Compile(string(text))
	if err != nil {
		return nil, err
	}
	last, matched := types.String(""), types.Bool(pattern.MatchString("")) // many clusters have the same text
	n.steps = func(in, _ ref.Val) uint64 {
		if in == last {
			return 0
		}
		return textSize(in) * uint64(instructions) / regexWorkPerStep
	}
	n.call = func(in, _ ref.Val) ref.Val {
		s, ok := in.(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(in)
		}
		if s != last {
			last, matched = s, types.Bool(pattern.MatchString(string(s)))
		}
		return matched
	}
	return n, nil
}

func textSize(v ref.Val) uint64 {
	text, _ := v.(types.String)
	return uint64(len(text))
}

// sumSteps returns the steps of a sum: those of the text or list that it makes.
func sumSteps(a, b ref.Val) uint64 {
	switch x := a.(type) {
	case types.String:
		return (textSize(a) + textSize(b)) / bytesPerStep
	case types.Bytes:
		y, _ := b.(types.Bytes)
		return uint64((len(x) + len(y)) / bytesPerStep)
	case traits.MutableLister: // the result of a macro, which grows
		return sizeOf(b)
	case traits.Lister:
		return sizeOf(a) + sizeOf(b)
	}
	return 0
}

func sizeOf(list ref.Val) uint64 {
	if sized, ok := list.(traits.Sizer); ok {
		if n, ok := sized.Size().(types.Int); ok {
			return uint64(max(n, 0))
		}
	}
	return 0
}

// sum adds values. Lists are copied: the library keeps both, so that reading an element of a sum of many lists takes long.
func sum(a, b ref.Val) ref.Val {
	_, grows := a.(traits.MutableLister)
	x, isList := a.(traits.Lister)
	y, ok := b.(traits.Lister)
	if isList && ok && !grows {
		values := make([]ref.Val, 0, sizeOf(x)+sizeOf(y))
		for _, of := range []traits.Lister{x, y} {
			for each := of.Iterator(); each.HasNext() == types.True; {
				values = append(values, each.Next())
			}
		}
		return types.NewRefValList(adapter, values)
	}
	if adder, ok := a.(traits.Adder); ok {
		return adder.Add(b)
	}
	return types.MaybeNoSuchOverloadErr(a)
}

// regexInstructions returns the number of instructions of a pattern.
func regexInstructions(pattern string) (int, error) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0, err
	}
	return len(program.Inst), nil
}

// equalSteps returns the steps of a comparison. Those of texts are counted when they are read or made.
func (m *meter) equalSteps(a, b ref.Val) uint64 {
	if a.Type() == types.NullType || b.Type() == types.NullType {
		return 0
	}
	return m.size(a, m.left)
}

// size returns the number of values in a value, and at most a little more than limit.
func (m *meter) size(v ref.Val, limit uint64) uint64 {
	switch v.(type) {
	case *object, traits.Lister, traits.Mapper:
		return nativeSize(reflect.ValueOf(v), limit, 0)
	}
	return 0
}

// plainOf returns the Go value of a value.
func plainOf(v ref.Val) any {
	if o, ok := v.(*object); ok {
		return o.plain()
	}
	return v.Value()
}

const maxSizeDepth = 32

// nativeSize is size for a Go value.
func nativeSize(v reflect.Value, limit uint64, depth int) uint64 {
	if depth > maxSizeDepth || !v.IsValid() {
		return 1
	}
	if v.CanInterface() {
		if value, ok := reflect.TypeAssert[ref.Val](v); ok {
			switch value.(type) {
			case *object, traits.Lister:
				return nativeSize(reflect.ValueOf(plainOf(value)), limit, depth+1)
			case traits.Mapper:
				return mapWork * nativeSize(reflect.ValueOf(plainOf(value)), limit/mapWork, depth+1)
			}
			return 1
		}
	}
	n := uint64(1)
	add := func(of reflect.Value) bool {
		n += nativeSize(of, limit-min(limit, n), depth+1)
		return n <= limit
	}
	switch v.Kind() {
	case reflect.String:
		n += uint64(v.Len()) / bytesPerStep
	case reflect.Interface, reflect.Pointer:
		if !v.IsNil() {
			add(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return n + uint64(v.Len())/bytesPerStep
		}
		for i := 0; i < v.Len() && add(v.Index(i)); i++ {
		}
	case reflect.Map:
		for each := v.MapRange(); each.Next() && add(each.Value()); {
		}
	case reflect.Struct:
		for i := 0; i < v.NumField() && (!v.Type().Field(i).IsExported() || add(v.Field(i))); i++ {
		}
	default:
	}
	return n
}
