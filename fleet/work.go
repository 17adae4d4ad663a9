package fleet

import (
	"context"
	"errors"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/rendering"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/typeschema"
)

// work is the context and the budgets of one Tx, its plan included. It ends with its context, or when validations or templates
// take too many steps.
type work struct {
	*typeschema.Work
	templates *rendering.Budget
	isStored  func(definition any) bool // whether an earlier change has stored the definition; nil: none is stored
}

// newWork returns the work of a request that changes nothing.
func newWork(ctx context.Context) work { return work{Work: typeschema.NewWork(ctx)} }

// The templates of one change may take templateSteps, and templateStepsEach for each stored cluster and definition of a resource type.
// A step is a unit of an execution or a byte of what it renders, and takes about 0.15 µs.
const (
	templateSteps     = 15_000_000
	templateStepsEach = 5_000
)

// stopped returns the reason why the work has ended: the cause of the context's end, or an error with [CodeLimitExceeded];
// nil: it has not.
func (w work) stopped() error {
	err := w.Err()
	if errors.Is(err, typeschema.ErrTooMuchWork) {
		return &Error{Code: CodeLimitExceeded, Detail: err.Error()}
	}
	if err == nil && w.templates.Spent() {
		return errorf(CodeLimitExceeded, "%s (%d, and %d for each cluster and each definition of a resource type); shorten the loops or the output of the template, "+
			"let it read less of inputs.cluster so that clusters share results, or change fewer clusters at a time, as a rollout does", w.templates.Costliest(), templateSteps, templateStepsEach)
	}
	return err
}

// execute executes the template of a type as part of the work.
func (w work) execute(typeID string, run func() rendering.Result) rendering.Result {
	if err := w.stopped(); err != nil {
		return rendering.Failed(err)
	}
	made := run()
	w.templates.Charge(typeID, &made)
	return made
}
