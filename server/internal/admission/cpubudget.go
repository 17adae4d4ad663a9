package admission

import (
	"io"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/server/internal/httperror"
)

// Reads and plans of a large fleet take seconds of a processor, and one credential that repeats them could occupy it. So each
// credential has a budget of time, which refills more slowly than time passes. Changes are not charged: reads must not prevent
// a change, and the changes of a pipeline must not prevent the next one.
const (
	// budgetSize is the time for which a credential may occupy a processor at once. It is wall-clock time, not processor time,
	// because a job runs in several goroutines and the operating system measures no processor time for these. So a machine
	// that is busy with other work uses up the budget sooner. A plan of 2,000 operations on 10,000 clusters takes less than a
	// second of it, a plan that changes a component on all of them a few seconds.
	budgetSize = 300 * time.Second
	// budgetRate is the share of one processor that a credential may use in the long run.
	budgetRate = 0.5
)

// chargedQueues are the queues whose jobs are charged.
var chargedQueues = map[string]bool{queuePlans: true, queueExplain: true, queueHistory: true, queueStatus: true, queueReads: true, queueWatches: true}

// timeBudgets are the budgets of credentials. Full budgets take no memory.
type timeBudgets struct {
	mu    sync.Mutex
	spent map[string]spentTime
}

// spentTime is the spent part of a budget at a time.
type spentTime struct {
	amount time.Duration
	at     time.Time
}

// after returns the part that is still spent at a later time; negative: the budget was full before.
func (s spentTime) after(now time.Time) time.Duration {
	return s.amount - time.Duration(float64(now.Sub(s.at))*budgetRate)
}

// charge adds the time of a job to the spent part of a principal's budget.
func (b *timeBudgets) charge(principal string, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.spent == nil {
		b.spent = map[string]spentTime{}
	}
	for other, s := range b.spent { // few: the principals with recent requests
		if s.after(now) <= 0 {
			delete(b.spent, other)
		}
	}
	b.spent[principal] = spentTime{max(0, b.spent[principal].after(now)) + took, now}
}

// charge charges the job's principal, if the queue is charged.
func (j *Job) charge(took time.Duration) {
	if j.budget != nil {
		j.budget.charge(j.principal, took)
	}
}

// ChargeReading charges the time of a read of the store.
func (j *Job) ChargeReading(began time.Time) { j.charge(time.Since(began)) }

// ChargeWriting charges the time that write takes, without the time for which the client delays it.
func (j *Job) ChargeWriting(client io.Writer, write func(io.Writer) error) error {
	began, timed := time.Now(), &timedWriter{Writer: client}
	err := write(timed)
	j.charge(time.Since(began) - timed.took)
	return err
}

// timedWriter measures the time for which its client delays writes.
type timedWriter struct {
	io.Writer
	took time.Duration
}

// Write implements io.Writer.
func (w *timedWriter) Write(p []byte) (int, error) {
	began := time.Now()
	defer func() { w.took += time.Since(began) }()
	return w.Writer.Write(p)
}

// check returns 429 for a principal whose budget is spent, with the time until at least a second of it is available.
func (b *timeBudgets) check(principal string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, known := b.spent[principal]
	if !known {
		return nil
	}
	over := s.after(time.Now()) - budgetSize
	if over <= 0 {
		return nil
	}
	return &httperror.Error{
		Status: http.StatusTooManyRequests, Code: "too_many_requests",
		Detail:  "reads and plans of this credential have used up its budget of processor time: send fewer or smaller requests",
		Headers: map[string]string{"Retry-After": strconv.Itoa(1 + int(math.Ceil(over.Seconds()/budgetRate)))},
	}
}
