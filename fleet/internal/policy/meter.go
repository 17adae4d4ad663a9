package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// The library counts the steps of an evaluation too, but its time then grows with the square of the iterations of a loop. So this file
// counts: one step for each call, each variable that is read and each field of it, and more for lists and maps that are made, for large
// texts, and for calls whose time depends on their arguments. Each iteration of a loop has at least one. A step takes about 100 ns, at most about 200 ns,
// and allocates about 64 bytes at most.

// meter counts the steps of one evaluation at a time.
type meter struct {
	ctx   context.Context //nolint:containedctx // of the evaluation
	left  uint64
	check int // steps until the next look at the context
	loops map[int64]clusterFields
}

const (
	// bytesPerStep is the number of bytes of a new text that count as a step.
	bytesPerStep = 8
	// bytesReadPerStep is the number of bytes of a text that is read, or is a constant argument, that count as a step.
	bytesReadPerStep = 32
	// errorSteps are the steps of an error, whose text is made each time.
	errorSteps = 20
	// mapSteps are the steps of a new map, and entrySteps those of an entry.
	mapSteps, entrySteps = 4, 4
)

// maxConstantSteps is the number of steps that the constants of an expression may take.
const maxConstantSteps = 10_000

// checkEvery is the number of calls after which an evaluation checks whether its context has ended.
const checkEvery = 1024

// spend counts steps, and those of a result. The library turns the panics into errors.
func (m *meter) spend(steps uint64, out ref.Val, bytesPerStep int) {
	switch v := out.(type) {
	case types.String:
		steps += uint64(len(v) / bytesPerStep)
	case types.Bytes:
		steps += uint64(len(v) / bytesPerStep)
	case *types.Err:
		steps += errorSteps
	}
	m.charge(steps)
}

// charge counts steps.
func (m *meter) charge(steps uint64) {
	if steps > m.left {
		m.left = 0
		panic(interpreter.EvalCancelledError{Message: "too many steps", Cause: interpreter.CostLimitExceeded})
	}
	m.left -= steps
	if m.check--; m.check < 0 {
		m.check = checkEvery
		if m.ctx.Err() != nil {
			panic(interpreter.EvalCancelledError{Message: "interrupted", Cause: interpreter.ContextCancelled})
		}
	}
}

// decorate adds the meter to a node of a program. The nodes of other sorts are only reached through these.
func (m *meter) decorate(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	switch n := node.(type) {
	case *meteredCall, *meteredAttribute:
		return node, nil
	case interpreter.InterpretableAttribute:
		attribute := &meteredAttribute{InterpretableAttribute: n, meter: m, steps: 1}
		if read, ok := m.loops[n.ID()]; ok {
			attribute.loop = &read
		}
		return attribute, nil
	case interpreter.InterpretableCall:
		if of, err := m.binary(n); of != nil || err != nil {
			return of, err
		}
		return &meteredCall{n, m, extraSteps(n)}, nil
	case interpreter.InterpretableConstructor:
		if !slices.ContainsFunc(n.InitVals(), func(of interpreter.InterpretableV2) bool { _, ok := of.(interpreter.InterpretableConst); return !ok }) {
			return node, nil // the library makes it once
		}
		return &meteredConstructor{n, m, constructorSteps(n)}, nil
	}
	return node, nil
}

var _ interpreter.Attribute = (*meteredAttribute)(nil)

type meteredCall struct {
	interpreter.InterpretableCall
	meter *meter
	extra uint64 // steps of each call
}

func (c *meteredCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	if c.extra > 0 {
		c.meter.charge(c.extra)
	}
	out := c.InterpretableCall.Exec(frame)
	c.meter.spend(1, out, bytesPerStep)
	return out
}

func (c *meteredCall) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

// meteredConstructor makes a list, a map or an object.
type meteredConstructor struct {
	interpreter.InterpretableConstructor
	meter *meter
	steps uint64
}

func constructorSteps(n interpreter.InterpretableConstructor) uint64 {
	if n.Type() == types.ListType {
		return uint64(len(n.InitVals()))
	}
	return mapSteps + entrySteps*uint64(len(n.InitVals()))
}

func (c *meteredConstructor) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	c.meter.charge(c.steps)
	return c.InterpretableConstructor.Exec(frame)
}

func (c *meteredConstructor) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

// meteredAttribute is a variable with the fields that are read of it. It is evaluated, or resolved if it is an index or the argument of has().
type meteredAttribute struct {
	interpreter.InterpretableAttribute
	meter *meter
	steps uint64         // one, and one for each field
	loop  *clusterFields // if it is the list of a loop on distinct clusters
}

func (a *meteredAttribute) AddQualifier(q interpreter.Qualifier) (interpreter.Attribute, error) {
	a.steps++
	_, err := a.InterpretableAttribute.AddQualifier(q)
	return a, err
}

// Attr returns the attribute for a conditional, which resolves it.
func (a *meteredAttribute) Attr() interpreter.Attribute { return a }

func (a *meteredAttribute) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	out := a.InterpretableAttribute.Exec(frame)
	a.meter.spend(a.steps, out, bytesReadPerStep)
	if list, ok := out.(clusterList); ok && a.loop != nil && len(list.of.Clusters) > 1 {
		distinct, steps, err := list.of.distinct(*a.loop)
		if err != nil {
			return types.WrapErr(err)
		}
		a.meter.charge(steps)
		return distinct
	}
	return out
}

func (a *meteredAttribute) Eval(vars interpreter.Activation) ref.Val {
	return a.Exec(interpreter.AsFrame(vars))
}

func (a *meteredAttribute) Resolve(vars interpreter.Activation) (any, error) {
	out, err := a.InterpretableAttribute.Resolve(vars)
	text, _ := out.(types.String)
	a.meter.spend(a.steps, text, bytesReadPerStep)
	return out, err
}

func (a *meteredAttribute) Qualify(vars interpreter.Activation, of any) (any, error) {
	a.meter.charge(a.steps)
	return a.InterpretableAttribute.Qualify(vars, of)
}

func (a *meteredAttribute) QualifyIfPresent(vars interpreter.Activation, of any, presenceOnly bool) (any, bool, error) {
	a.meter.charge(a.steps)
	return a.InterpretableAttribute.QualifyIfPresent(vars, of, presenceOnly)
}

// meteredProgram is a program with its meter. One evaluation at a time uses it.
type meteredProgram struct {
	program cel.Program
	meter   *meter
}

func (e *expression) newProgram() (*meteredProgram, error) {
	m := &meter{ctx: context.Background(), left: maxConstantSteps, loops: e.loops} // the library evaluates constants now
	program, err := e.env.Program(e.ast, cel.EvalOptions(cel.OptOptimize), cel.CustomDecoratorV2(m.decorate))
	return &meteredProgram{program, m}, err
}

var errTooManySteps = errors.New("the policies of the fleet that refuse changes, or those that warn, together take too many steps on this change: make a smaller change, or simplify their rules")

// evaluate evaluates one expression.
func (e *expression) evaluate(ctx context.Context, in *Input, budget *Budget) (ref.Val, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if budget.left == 0 {
		return nil, errTooManySteps
	}
	p, ok := e.idle.Get().(*meteredProgram)
	if !ok {
		var err error
		if p, err = e.newProgram(); err != nil {
			return nil, err
		}
	}
	limit := min(MaxCost, budget.left)
	p.meter.ctx, p.meter.left, p.meter.check = ctx, limit, checkEvery
	out, _, err := p.program.Eval(in)
	budget.left -= limit - p.meter.left
	p.meter.ctx = context.Background()
	e.idle.Put(p)
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if ended, ok := errors.AsType[interpreter.EvalCancelledError](err); ok && ended.Cause == interpreter.CostLimitExceeded {
		if limit < MaxCost {
			return nil, errTooManySteps
		}
		return nil, fmt.Errorf("it takes more than %d steps on this change", MaxCost)
	}
	if err != nil {
		return nil, errors.New(plainText(err.Error()))
	}
	return out, nil
}
