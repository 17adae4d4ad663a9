// Package parallel distributes work on thousands of clusters over all processors while other requests wait. It knows nothing
// of the fleet.
package parallel

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Each calls f for 0 to n-1, on all processors if there is enough work. The calls yield to polls. A panic in f is raised
// again in the caller, and its value contains the stack of f.
func Each(n int, f func(i int)) {
	const few = 64 // not worth a goroutine
	workers := min(runtime.GOMAXPROCS(0), (n+few-1)/few)
	if workers <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var panicked atomic.Pointer[string]
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					where := fmt.Sprintf("%v\n%s", v, debug.Stack())
					panicked.CompareAndSwap(nil, &where)
				}
			}()
			for i := next.Add(1) - 1; i < int64(n) && panicked.Load() == nil; i = next.Add(1) - 1 {
				runtime.Gosched()
				f(int(i))
			}
		})
	}
	wg.Wait()
	if v := panicked.Load(); v != nil {
		panic(*v)
	}
}

// Errors is Each for calls that can fail. It makes all calls and returns the first error in the order of their numbers, so
// that the result does not depend on the number of processors.
func Errors(n int, f func(i int) error) error {
	errs := make([]error, n)
	Each(n, func(i int) { errs[i] = f(i) })
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
