package fleet

import (
	"context"
	"errors"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/typeschema"
)

// work is the context and the budget of one Tx, its plan included. It ends with its context, or when validations take too
// many steps.
type work struct{ *typeschema.Work }

func newWork(ctx context.Context) work { return work{typeschema.NewWork(ctx)} }

// stopped returns the reason why the work has ended: the cause of the context's end, or an error with [CodeLimitExceeded];
// nil: it has not.
func (w work) stopped() error {
	err := w.Err()
	if errors.Is(err, typeschema.ErrTooMuchWork) {
		return &Error{Code: CodeLimitExceeded, Detail: err.Error()}
	}
	return err
}
