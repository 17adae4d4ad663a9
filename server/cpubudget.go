package server

import (
	"io"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Reads and plans of a large fleet take seconds of a processor, and a credential that asks for nothing else would have one for
// itself. So each credential has a budget of time that is refilled more slowly than time passes. Changes are not charged: who
// may change the fleet need not be kept from it by what they have read, nor a pipeline by what it has changed.
const (
	// budgetSize is for how long a credential may keep a processor busy at once. It is spent by the clock, and not by processor time:
	// a job works in several goroutines, and no clock of the system counts for these alone. So a machine that does other things too
	// uses up the budget sooner. A plan of 2,000 operations on 10,000 clusters takes less than a second of it, a plan that changes a
	// component on all of them a few.
	budgetSize = 300 * time.Second
	// budgetRate is how much of a processor a credential may have in the long run.
	budgetRate = 0.5
)

// charged are the queues whose jobs are paid for with the budget.
var chargedQueues = map[string]bool{queuePlans: true, queueExplain: true, queueHistory: true, queueStatus: true, queueReads: true}

// budgets are the budgets of credentials. Those that are full are not kept.
type timeBudgets struct {
	mu    sync.Mutex
	spent map[string]spentTime
}

// spending is how much of a budget was spent, as of a time.
type spentTime struct {
	amount time.Duration
	at     time.Time
}

// now is what is left of it when the budget has been refilled until now.
func (s spentTime) after(now time.Time) time.Duration {
	return s.amount - time.Duration(float64(now.Sub(s.at))*budgetRate)
}

// spend charges a credential for work that took so long.
func (b *timeBudgets) charge(who string, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.spent == nil {
		b.spent = map[string]spentTime{}
	}
	for other, s := range b.spent { // as many as have asked for something lately
		if s.after(now) <= 0 {
			delete(b.spent, other)
		}
	}
	b.spent[who] = spentTime{max(0, b.spent[who].after(now)) + took, now}
}

// charge has the job's principal pay for work that took so long.
func (j *job) charge(took time.Duration) {
	if j != nil && j.budget != nil {
		j.budget.charge(j.principal, took)
	}
}

// timedWriter measures how long its client takes.
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

// check refuses a credential whose budget is spent until some of it, at least a second, is there again.
func (b *timeBudgets) check(who string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, known := b.spent[who]
	if !known {
		return nil
	}
	over := s.after(time.Now()) - budgetSize
	if over <= 0 {
		return nil
	}
	return &publicError{
		status: http.StatusTooManyRequests, code: "too_many_requests",
		detail:  "reads and plans of this credential have taken too much processor time: ask less often, or for less at a time",
		headers: map[string]string{"Retry-After": strconv.Itoa(1 + int(math.Ceil(over.Seconds()/budgetRate)))},
	}
}
