package rendering

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Budget is the number of steps that the templates of one change may still take. Several goroutines may share one. Nil has no
// limit.
type Budget struct {
	mu          sync.Mutex
	most, taken int
	uses        map[string]use
}

// use is the use of one template.
type use struct{ executions, steps int }

// NewBudget returns a budget of some steps.
func NewBudget(steps int) *Budget { return &Budget{most: steps, uses: map[string]use{}} }

// Spent reports whether the templates took too many steps.
func (b *Budget) Spent() bool { return b.Left() < 0 }

// Left returns the number of steps that remain, negative if the templates took too many.
func (b *Budget) Left() int {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.most - b.taken
}

// Charge adds the steps of an execution of the template of a resource type.
func (b *Budget) Charge(typeID string, made *Result) { b.Spend(typeID, made.Steps()) }

// Spend adds steps of one execution of a template.
func (b *Budget) Spend(typeID string, steps int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	had := b.uses[typeID]
	b.uses[typeID] = use{had.executions + 1, had.steps + steps}
	b.taken += steps
}

// Costliest describes the template that took the most steps.
func (b *Budget) Costliest() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := slices.SortedFunc(maps.Keys(b.uses), func(x, y string) int {
		return cmp.Or(cmp.Compare(b.uses[y].steps, b.uses[x].steps), cmp.Compare(x, y))
	})
	if len(ids) == 0 {
		return ""
	}
	most := b.uses[ids[0]]
	return fmt.Sprintf("the template of resource type %q takes too long: this change executed it %d times with about %d steps each, and all templates of one change may take %d steps",
		ids[0], most.executions, most.steps/most.executions, b.most)
}
