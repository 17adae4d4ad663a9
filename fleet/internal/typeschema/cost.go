package typeschema

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The validator cannot be interrupted, and a small schema and a small spec can keep it busy for hours: an enum of 4,000
// objects takes 360 million comparisons on a list of 90,000. So the cost is computed first, by an interruptible walk through
// the same pairs of subschema and value, and a validation that would cost too much is refused instead of run.
//
// The unit is a step, which takes the validator 0.1 to 1 µs.
const (
	// MaxSteps is the maximum number of steps of one validation.
	MaxSteps = 1_000_000
	// maxWork is the maximum number of steps of all validations of one change: a type may have thousands of definitions.
	maxWork = 20_000_000
	// checkEvery is the number of steps after which the walk checks whether the context has ended.
	checkEvery = 4096
)

// TooCostly is the problem of a spec that takes more than [MaxSteps]. Its text is constant, so that the problem of a stored
// spec is recognized.
var TooCostly = Problem{Detail: fmt.Sprintf(
	"takes more than %d steps to validate against the type's schema (subschemas, enum values and patterns, multiplied by the values they apply to): "+
		"use shorter lists, or a schema with fewer alternatives", MaxSteps)}

// Work counts the steps of all validations of one change. It ends with its context, or after too many steps. Several
// goroutines may share one.
type Work struct {
	ctx  context.Context //nolint:containedctx // the validations of one change share it, and end with it
	left atomic.Int64
}

// NewWork returns the work of a change that ends with ctx.
func NewWork(ctx context.Context) *Work {
	w := &Work{ctx: ctx}
	w.left.Store(maxWork)
	return w
}

// Err returns why validations have ended: the cause of the context's end, or [ErrTooMuchWork].
func (w *Work) Err() error {
	if w == nil {
		return nil
	}
	if err := context.Cause(w.ctx); err != nil {
		return err
	}
	if w.left.Load() < 0 {
		return ErrTooMuchWork
	}
	return nil
}

// Context returns the context of the change.
func (w *Work) Context() context.Context {
	if w == nil {
		return context.Background()
	}
	return w.ctx
}

// Spend adds other work of the change, measured in steps.
func (w *Work) Spend(steps int) {
	if w != nil {
		w.left.Add(-int64(steps))
	}
}

// ErrTooMuchWork reports that the validations of one change take too many steps together.
var ErrTooMuchWork = fmt.Errorf("the validations of this change take more than %d steps: change fewer definitions at a time, or use a schema with fewer alternatives", maxWork)

// meter counts the steps of one validation.
type meter struct {
	ctx     context.Context //nolint:containedctx // it lives for one call
	weights map[*jsonschema.Schema]weight
	left    int
	visits  int
}

// cost returns the number of steps of a validation; one more than [MaxSteps] if it is too many, or the context has ended.
func (s *Schema) cost(ctx context.Context, compiled *jsonschema.Schema, value any) int {
	m := &meter{ctx: ctx, weights: s.weights, left: MaxSteps}
	m.visit(compiled, value, place{})
	return min(MaxSteps-m.left, MaxSteps+1)
}

// add counts steps, and reports whether the walk continues.
func (m *meter) add(steps int) bool {
	m.left -= steps
	if m.visits++; m.visits%checkEvery == 0 && m.ctx.Err() != nil {
		m.left = -1
	}
	return m.left >= 0
}

// place is the position of a visit.
type place struct {
	depth       int  // of the value: each error carries its path
	chain       int  // subschemas of the same value above: the validator searches them for a cycle
	unevaluated bool // the validator keeps a set of the properties or items that no subschema has evaluated
}

// same returns the place of a further subschema on the same value.
func (p place) same(s *jsonschema.Schema) place {
	return place{p.depth, p.chain + 1, p.unevaluated || s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil}
}

// inside returns the place of a value inside the current one.
func (p place) inside() place { return place{depth: p.depth + 1} }

// visit counts the steps of one subschema on one value, and of all below it. It assumes that alternatives are tried and
// conditions met, so the result is an upper bound.
func (m *meter) visit(s *jsonschema.Schema, value any, at place) {
	if !m.add(1 + at.chain/8 + at.depth/8) {
		return
	}
	if s.Bool != nil {
		return
	}
	self := at.same(s)
	m.scalars(s, value)
	if s.Ref != nil {
		m.visit(s.Ref, value, self)
	}
	switch value := value.(type) {
	case map[string]any:
		if self.unevaluated {
			m.add(len(value))
		}
		m.object(s, value, at, self)
	case []any:
		if self.unevaluated {
			m.add(len(value))
		}
		m.array(s, value, at)
	}
	for _, subs := range [...][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf, {s.Not, s.If, s.Then, s.Else}} {
		for _, sub := range subs {
			if m.left < 0 {
				return
			}
			if sub != nil {
				m.visit(sub, value, self)
			}
		}
	}
}

// scalars counts the steps of comparisons with a whole value.
func (m *meter) scalars(s *jsonschema.Schema, value any) {
	w := m.weights[s]
	switch v := value.(type) {
	case string:
		m.add(w.values/4 + len(v)*w.pattern/8 + len(v)*w.format/4)
	case json.Number:
		m.add((w.values + w.bounds) * 8)
	case map[string]any, []any:
		m.add(w.total)
	default:
		m.add(w.values / 4)
	}
}

func (m *meter) object(s *jsonschema.Schema, value map[string]any, at, self place) {
	m.add(len(s.Required)/2 + len(s.DependentRequired) + len(s.DependentSchemas))
	for _, names := range s.DependentRequired {
		m.add(len(names))
	}
	for name, sub := range s.DependentSchemas {
		if _, has := value[name]; has {
			m.visit(sub, value, self)
		}
	}
	inside := at.inside()
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	for name, v := range value {
		if !m.add(1) {
			return
		}
		sub, known := s.Properties[name]
		if known {
			m.visit(sub, v, inside)
		}
		for pattern, sub := range s.PatternProperties {
			m.add(1 + len(name)*m.weights[sub].key[pattern.String()]/8)
			m.visit(sub, v, inside)
		}
		if additional != nil && !known {
			m.visit(additional, v, inside)
		}
		if s.PropertyNames != nil {
			m.visit(s.PropertyNames, name, place{depth: at.depth})
		}
		if s.UnevaluatedProperties != nil {
			m.visit(s.UnevaluatedProperties, v, inside)
		}
	}
}

func (m *meter) array(s *jsonschema.Schema, value []any, at place) {
	inside := at.inside()
	for i, v := range value {
		if m.left < 0 {
			return
		}
		switch {
		case i < len(s.PrefixItems):
			m.visit(s.PrefixItems[i], v, inside)
		case s.Items2020 != nil:
			m.visit(s.Items2020, v, inside)
		}
		for _, sub := range [...]*jsonschema.Schema{s.Contains, s.UnevaluatedItems} {
			if sub != nil {
				m.visit(sub, v, inside)
			}
		}
	}
	if s.UniqueItems {
		m.unique(value)
	}
}

// unique counts the steps to find equal items. The validator compares short lists pair by pair, and items of long ones that
// have the same hash; the author of a spec can give any number of lists and objects the same hash.
func (m *meter) unique(value []any) {
	const short = 20
	composite, total := 0, 0
	for _, v := range value {
		switch v.(type) {
		case map[string]any, []any:
			composite++
		}
		n := m.size(v)
		if total += n; !m.add(n) {
			return
		}
	}
	if len(value) <= short {
		m.add(total * len(value) / 2)
		return
	}
	m.add(composite * composite / 4)
}

// size counts the steps to read a value.
func (m *meter) size(value any) int {
	if m.left < 0 {
		return 0
	}
	switch v := value.(type) {
	case string:
		return 1 + len(v)/32
	case json.Number:
		return 8
	case []any:
		n := 1
		for _, e := range v {
			n += m.size(e)
		}
		return n
	case map[string]any:
		n := 1
		for name, e := range v {
			n += 1 + len(name)/32 + m.size(e)
		}
		return n
	}
	return 1
}
