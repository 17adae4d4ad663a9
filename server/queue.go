package server

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Plans and batches may take a core for seconds and hundreds of megabytes, so a few are worked on at a time, at most one of
// them for a credential: nobody holds up the others. The rest wait, and there is a limit to how many do. Plans and batches do
// not wait for each other: whoever may only read must not keep changes out. A page of the history and an explanation are tens
// of megabytes while they are made, so those wait for each other, too. So do questions about what is known of the whole
// fleet: after a change of the catalog the first of them makes the answers of all clusters, which the others then find.
// Other reads wait for nobody, and hold what they answer with for as long as their client takes.
const (
	// workTime is how long one may take, waiting included. The answer to a longer one could not be sent: see writeTimeout.
	maxJobTime = 50 * time.Second
	// workAgain is when to come back, in seconds.
	busyRetryAfter = "5"

	// maxAbandoned is how many jobs of a queue may go on after their end was due while others take their turns. It bounds the
	// goroutines that are left behind.
	maxAbandoned = 2
	// stuckAfter is how long after its end was due a job that still goes on counts as stuck.
	stuckAfter = 10 * time.Second
)

// limits of a queue.
type queueLimits struct {
	perPrincipal           int // of one principal that are under way or wait
	total                  int // of all together
	concurrent             int // that are worked on; 0: all of them
	concurrentPerPrincipal int // of these, of one principal
}

// newQueues are the queues of a server, by their names.
func newQueues(work *prometheus.HistogramVec) map[string]*queue {
	queues := map[string]*queue{
		queuePlans:   newQueue(queuePlans, queueLimits{perPrincipal: 4, total: 24, concurrent: 2, concurrentPerPrincipal: 1}),
		queueBatches: newQueue(queueBatches, queueLimits{perPrincipal: 4, total: 24, concurrent: 2, concurrentPerPrincipal: 1}),
		queueExplain: newQueue(queueExplain, queueLimits{perPrincipal: 4, total: 24, concurrent: 2, concurrentPerPrincipal: 1}),
		queueHistory: newQueue(queueHistory, queueLimits{perPrincipal: 8, total: 48, concurrent: 3, concurrentPerPrincipal: 2}),
		queueReads:   newQueue(queueReads, queueLimits{perPrincipal: 128, total: 512}),
		queueStatus:  newQueue(queueStatus, queueLimits{perPrincipal: 64, total: 256, concurrent: 2, concurrentPerPrincipal: 1}),
		queueBackups: newQueue(queueBackups, queueLimits{perPrincipal: 1, total: 1}),
	}
	for name, q := range queues {
		if q.limits.concurrent > 0 {
			q.duration = work.WithLabelValues(name)
		}
	}
	return queues
}

// queue is where plans, batches or reads wait for each other.
type queue struct {
	name     string
	limits   queueLimits
	duration prometheus.Observer

	mu                  sync.Mutex
	perPrincipal        map[string]int // jobs by principal
	total               int
	waiting             []*job // in the order in which they came
	running             map[*job]struct{}
	runningPerPrincipal map[string]int    // of working, by principal
	lastTurn            map[string]uint64 // when each principal that has jobs had its last turn, as a number of turns
	turns               uint64
	abandoned           int // of working, whose turn was given to others
}

func newQueue(name string, limits queueLimits) *queue {
	return &queue{name: name, limits: limits, perPrincipal: map[string]int{}, running: map[*job]struct{}{}, runningPerPrincipal: map[string]int{}, lastTurn: map[string]uint64{}}
}

// enter takes a place in the queue.
func (q *queue) enter(principal string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.perPrincipal[principal] >= q.limits.perPrincipal {
		return q.busyError("too many " + q.name + " of this credential are under way: wait for their answers, or try again later")
	}
	if q.total >= q.limits.total {
		return q.busyError("too many " + q.name + " are under way: try again later")
	}
	q.perPrincipal[principal]++
	q.total++
	return nil
}

func (q *queue) leave(principal string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total--
	if q.perPrincipal[principal]--; q.perPrincipal[principal] == 0 {
		delete(q.perPrincipal, principal)
		delete(q.lastTurn, principal)
	}
}

// grant gives free turns to those who wait: first to the principal that has not had one for the longest.
func (q *queue) dispatch() {
	for len(q.running)-q.abandoned < q.limits.concurrent {
		next := -1
		for i, j := range q.waiting {
			if q.runningPerPrincipal[j.principal] < q.limits.concurrentPerPrincipal && (next < 0 || q.lastTurn[j.principal] < q.lastTurn[q.waiting[next].principal]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		j := q.waiting[next]
		q.waiting = slices.Delete(q.waiting, next, next+1)
		q.turns++
		q.lastTurn[j.principal] = q.turns
		q.runningPerPrincipal[j.principal]++
		q.running[j] = struct{}{}
		close(j.granted)
	}
}

// wait adds a job to those who wait for a turn.
func (q *queue) add(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j.granted = make(chan struct{})
	q.waiting = append(q.waiting, j)
	q.dispatch()
}

// done takes a job out, whether it waits or is worked on.
func (q *queue) finish(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(other *job) bool { return other == j })
	if _, works := q.running[j]; works {
		delete(q.running, j)
		if q.runningPerPrincipal[j.principal]--; q.runningPerPrincipal[j.principal] == 0 {
			delete(q.runningPerPrincipal, j.principal)
		}
		if j.abandoned {
			q.abandoned--
		}
		q.abandonOverdue()
	}
	q.dispatch()
}

// abandon gives the turn of a job whose client is gone, or whose time is over, to the next one at once: the job may be in the
// middle of something that cannot be interrupted. Its principal has no other turn until it has really ended.
func (q *queue) abandon(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, works := q.running[j]; !works {
		return
	}
	j.due = time.Now()
	q.abandonOverdue()
	q.dispatch()
}

// abandonDue gives up the turns of jobs that were to end, up to maxAbandoned.
func (q *queue) abandonOverdue() {
	for j := range q.running {
		if q.abandoned < maxAbandoned && !j.due.IsZero() && !j.abandoned {
			j.abandoned = true
			q.abandoned++
		}
	}
}

// queueState is how many jobs of a queue do what.
type queueState struct {
	waiting, running int
	stuck            int           // of working, that have not ended although they were to
	overdue          time.Duration // how long ago the first of these was to end
	blocked          bool          // they have all turns: nobody else gets one
}

func (q *queue) state() queueState {
	q.mu.Lock()
	defer q.mu.Unlock()
	st := queueState{waiting: len(q.waiting), running: len(q.running)}
	for j := range q.running {
		if late := time.Since(j.due); !j.due.IsZero() && late > stuckAfter {
			st.stuck++
			st.overdue = max(st.overdue, late)
		}
	}
	st.blocked = q.limits.concurrent > 0 && st.stuck >= q.limits.concurrent+maxAbandoned
	return st
}

// stuckQueues describes the queues in which jobs are stuck, for probes; empty: there are none. Blocked tells whether one of
// them does nothing any more.
func (s *Server) stuckQueues() (detail string, blocked bool) {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s.queues)) {
		if st := s.queues[name].state(); st.stuck > 0 {
			all = append(all, fmt.Sprintf("%s: %d not ended %s after they were canceled", name, st.stuck, st.overdue.Round(time.Second)))
			blocked = blocked || st.blocked
		}
	}
	if len(all) == 0 {
		return "", false
	}
	return "stuck: " + strings.Join(all, "; "), blocked
}

func (q *queue) busyError(detail string) error {
	return &publicError{
		status: http.StatusTooManyRequests, code: "too_many_requests", detail: detail,
		headers: map[string]string{"Retry-After": busyRetryAfter},
	}
}

// job is a request in its queue. The zero value is that of a request without one.
type job struct {
	queue     *queue
	principal string
	ctx       context.Context //nolint:containedctx // it ends with the request, as the job does
	running   bool            // it is worked on
	startedAt time.Time       // since when
	cancel    context.CancelFunc
	stopWatch func() bool // ends looking after ctx
	// budget is what its principal pays with; nil: it costs nothing.
	budget *timeBudgets

	granted   chan struct{} // closed when it is its turn
	due       time.Time     // when ctx ended while it was worked on; of the queue
	abandoned bool          // its turn was given to others; of the queue
}

// enter takes a place in the operation's queue, before the body is read: it may be large.
func (s *Server) enter(r *request) (*job, error) {
	j := &job{ctx: r.Request().Context(), cancel: func() {}}
	if q := s.queueFor(r); q != nil {
		if chargedQueues[q.name] {
			if err := s.budget.check(r.principal.actor); err != nil {
				return nil, err
			}
			j.budget = &s.budget
		}
		j.queue, j.principal = q, r.principal.actor
		if err := q.enter(j.principal); err != nil {
			return nil, err
		}
	}
	if j.queue != nil || r.op.write {
		j.ctx, j.cancel = context.WithTimeoutCause(j.ctx, maxJobTime, &fleet.Error{
			Code: fleet.CodeLimitExceeded, Detail: "this takes longer than " + maxJobTime.String() + ": try again, or do it in parts",
		})
	}
	r.job = j
	return j, nil
}

// largeBody is from where the body of any change waits among the batches: looking into it takes up to a hundred times its
// size.
const largeBody = 256 << 10

func (s *Server) queueFor(r *request) *queue {
	if n := r.Request().ContentLength; r.op.write && (n < 0 || n > largeBody) {
		return s.queues[queueBatches]
	}
	return s.queues[r.op.queue]
}

// waits tells whether the job has to wait for its turn.
func (j *job) mustWait() bool { return j.queue != nil && j.queue.limits.concurrent > 0 && !j.running }

// begin waits for the job's turn.
func (j *job) waitTurn() error {
	if !j.mustWait() {
		return nil
	}
	j.queue.add(j)
	select {
	case <-j.granted:
		j.running, j.startedAt = true, time.Now()
		q := j.queue
		j.stopWatch = context.AfterFunc(j.ctx, func() { q.abandon(j) })
		return nil
	case <-j.ctx.Done():
		j.queue.finish(j)
		if j.ctx.Err() == context.Canceled {
			return context.Canceled
		}
		return j.queue.busyError("others took too long: try again later")
	}
}

// stopped tells that the job is in vain: its client is gone, or it took too long.
func (j *job) interrupted() error { return context.Cause(j.ctx) }

// leave ends the job, unless it has ended: the next one may begin.
func (j *job) leave() {
	if q := j.queue; q != nil {
		if j.running {
			j.stopWatch()
			q.finish(j)
			took := time.Since(j.startedAt)
			q.duration.Observe(took.Seconds())
			j.charge(took)
		}
		q.leave(j.principal)
	}
	j.cancel()
	j.queue, j.running = nil, false
}
