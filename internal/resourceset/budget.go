package resourceset

import (
	"errors"
	"fmt"
)

// Budget bounds the executions of one request together.
type Budget struct {
	Units int          // that remain: those of [Limits], and one for each byte of YAML, which is parsed
	Bytes int          // of objects that remain
	Stop  func() error // its error ends the executions; nil: none does
}

// maxUnits is the limit of one execution: the shipped templates need more than [Default] for an input with the largest patches.
const maxUnits = 50_000_000

// overhead are the units that any execution takes, and any input before it.
const overhead = 1000

// ErrSpent is wrapped by the error of a rendering that exceeds its [Budget].
var ErrSpent = errors.New("the request renders more than is allowed at a time")

// Spent reports whether nothing can be rendered.
func (b *Budget) Spent() bool { return b.Units <= 0 || b.Bytes <= 0 }

// spend takes units.
func (b *Budget) spend(units int) error {
	if b.Units -= units; b.Units < 0 {
		return fmt.Errorf("%w: its templates take too many steps", ErrSpent)
	}
	if b.Stop != nil {
		return b.Stop()
	}
	return nil
}

// execute executes a template on one input.
func (b *Budget) execute(t *Template, input map[string]any) ([]Object, error) {
	if err := b.spend(overhead); err != nil {
		return nil, err
	}
	var used int
	text, err := t.Execute(input, Limits{Units: maxUnits, Stop: b.Stop, Used: &used})
	b.Units -= used + len(text)
	if err != nil {
		return nil, err
	}
	return ParseObjects(text)
}

// keep takes the size of an object.
func (b *Budget) keep(size int) error {
	if b.Bytes -= size; b.Bytes < 0 {
		return fmt.Errorf("%w: its objects are too large", ErrSpent)
	}
	return nil
}
