package admission

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
	"github.com/flux-resourceset/flux-resourceset/server/internal/httperror"
)

// Queues limit the requests that take a processor for seconds or hundreds of megabytes: how many run at a time, how many wait,
// and how many of both belong to one principal, so that no credential delays the others. Plans and batches have separate
// queues, because readers must not delay changes, and so have small batches, of which many come at a time. A page of the history and an explanation take tens of megabytes while they
// are computed. Questions about the status of the whole fleet have a queue, because after a change of the catalog the first of
// them computes the answers of all clusters, and the others reuse them. Watches wait for minutes, and have no limit of running
// jobs. Other reads start at once, and hold their State until the client has received the answer.
const (
	// maxJobTime is the limit of waiting and running together. The answer of a longer job could not be sent: see writeTimeout.
	maxJobTime = 50 * time.Second
	// BusyRetryAfter is the Retry-After of a full queue, in seconds.
	BusyRetryAfter = "5"

	// maxAbandoned is the number of canceled jobs of a queue that may go on while others take their turns. It bounds the
	// goroutines that are left behind.
	maxAbandoned = 2
	// stuckAfter is the time after its cancellation from which a job that still runs counts as stuck.
	stuckAfter = 10 * time.Second
)

// queueLimits are limits on jobs.
type queueLimits struct {
	perPrincipal           int // running and waiting, of one principal
	total                  int // running and waiting, of all principals
	concurrent             int // running; 0: no limit, and no waiting
	concurrentPerPrincipal int // running, of one principal
}

// Names of queues, also in metrics and messages.
const (
	queuePlans   = "plans"
	queueExplain = "explanations"
	queueBatches = "batches"
	queueChanges = "changes"
	queueHistory = "reads of the history"
	queueReads   = "reads"
	queueStatus  = "questions about the whole fleet"
	queueBackups = "backups"
	queueWatches = "watches"
)

// queuedOperations are the operations that may take long, by their ids.
var queuedOperations = map[string]string{
	"Plan": queuePlans, "PlanSource": queuePlans, "Render": queuePlans, "CheckAccess": queuePlans, "TestPolicy": queuePlans, "ApplyBatch": queueBatches, "RestoreRevision": queueBatches, "RevertRevision": queueBatches,
	"ListRevisions": queueHistory, "GetRevision": queueHistory, "ExplainCluster": queueExplain, "ExplainInput": queueExplain,
	"GetStatus": queueStatus, "GetComponentMatrix": queueStatus, "GetPlatformComponentStatus": queueStatus, "GetBackup": queueBackups,
}

// queueName returns the queue of an operation; empty: none.
func queueName(r Request) string {
	switch queue, known := queuedOperations[r.Operation]; {
	case r.Watch:
		return queueWatches
	case r.Write && (r.ContentLength < 0 || r.ContentLength > LargeBody):
		return queueBatches
	case r.Operation == "ApplyBatch" && r.ContentLength <= smallBatch:
		return queueChanges
	case known:
		return queue
	case !r.CRUDOnly || r.Write:
		return ""
	case strings.HasSuffix(r.Operation, "History"):
		return queueHistory
	}
	return queueReads
}

// Queues are the queues of a server, with the budgets of credentials and the buffer of answers.
type Queues struct {
	byName    map[string]*queue
	budget    timeBudgets
	responses responseBuffer
}

// DefaultWatches is the default limit of concurrent watches.
const DefaultWatches = 256

// watchesPerPrincipal is the limit of concurrent watches of one credential.
const watchesPerPrincipal = 8

// NewQueues returns the queues of a server. watches is the limit of concurrent watches; duration returns the metric of the running
// time of a queue's jobs.
func NewQueues(watches int, duration func(queue string) prometheus.Observer) *Queues {
	queues := map[string]*queue{
		queuePlans:   newQueue(queuePlans, queueLimits{perPrincipal: 4, total: 24, concurrent: 2, concurrentPerPrincipal: 1}),
		queueBatches: newQueue(queueBatches, queueLimits{perPrincipal: 4, total: 24, concurrent: 2, concurrentPerPrincipal: 1}),
		queueChanges: newQueue(queueChanges, queueLimits{perPrincipal: 16, total: 64, concurrent: 2, concurrentPerPrincipal: 1}),
		queueExplain: newQueue(queueExplain, queueLimits{perPrincipal: 4, total: 24, concurrent: 2, concurrentPerPrincipal: 1}),
		queueHistory: newQueue(queueHistory, queueLimits{perPrincipal: 8, total: 48, concurrent: 3, concurrentPerPrincipal: 2}),
		queueReads:   newQueue(queueReads, queueLimits{perPrincipal: 128, total: 512}),
		queueStatus:  newQueue(queueStatus, queueLimits{perPrincipal: 64, total: 256, concurrent: 2, concurrentPerPrincipal: 1}),
		queueBackups: newQueue(queueBackups, queueLimits{perPrincipal: 1, total: 1}),
		queueWatches: newQueue(queueWatches, queueLimits{perPrincipal: watchesPerPrincipal, total: watches}),
	}
	for name, q := range queues {
		switch {
		case name == queueChanges:
			q.duration = duration(queueBatches) // a small batch is a batch in metrics
		case q.limits.concurrent > 0:
			q.duration = duration(name)
		}
	}
	return &Queues{byName: queues, responses: responseBuffer{perPrincipal: map[string]int{}}}
}

// queue holds the jobs of one kind of request.
type queue struct {
	name     string
	limits   queueLimits
	duration prometheus.Observer

	mu                  sync.Mutex
	perPrincipal        map[string]int // number of jobs
	total               int
	waiting             []*Job // in the order of arrival
	running             map[*Job]struct{}
	runningPerPrincipal map[string]int
	lastTurn            map[string]uint64 // for each principal with jobs, the number of its last turn
	turns               uint64
	abandoned           int // running jobs whose turn was given to others
}

func newQueue(name string, limits queueLimits) *queue {
	return &queue{name: name, limits: limits, perPrincipal: map[string]int{}, running: map[*Job]struct{}{}, runningPerPrincipal: map[string]int{}, lastTurn: map[string]uint64{}}
}

// enter admits a job of a principal, or returns 429.
func (q *queue) enter(principal string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.perPrincipal[principal] >= q.limits.perPrincipal {
		return q.busyError("too many " + q.name + " of this credential in progress: wait for their answers, or try again later")
	}
	if q.total >= q.limits.total {
		return q.busyError("too many " + q.name + " in progress: try again later")
	}
	q.perPrincipal[principal]++
	q.total++
	return nil
}

// Watches returns the number of watches in progress.
func (s *Queues) Watches() int {
	q := s.byName[queueWatches]
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total
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

// dispatch gives free turns to waiting jobs: first to the principal whose last turn was longest ago.
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

// add appends a job to the waiting ones.
func (q *queue) add(j *Job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j.granted = make(chan struct{})
	q.waiting = append(q.waiting, j)
	q.dispatch()
}

// finish removes a waiting or running job.
func (q *queue) finish(j *Job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(other *Job) bool { return other == j })
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

// abandon gives the turn of a job that was canceled to the next one at once, because the job may be in a step that cannot be
// Interrupted. Its principal gets no other turn until it has ended.
func (q *queue) abandon(j *Job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, works := q.running[j]; !works {
		return
	}
	j.due = time.Now()
	q.abandonOverdue()
	q.dispatch()
}

// abandonOverdue gives up the turns of canceled jobs, up to maxAbandoned.
func (q *queue) abandonOverdue() {
	for j := range q.running {
		if q.abandoned < maxAbandoned && !j.due.IsZero() && !j.abandoned {
			j.abandoned = true
			q.abandoned++
		}
	}
}

// queueState is the number of jobs of a queue by state.
type queueState struct {
	waiting, running int
	stuck            int           // running longer than stuckAfter since their cancellation
	overdue          time.Duration // of the stuck job that was canceled first
	blocked          bool          // stuck jobs have all turns
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

// Stuck describes the queues with stuck jobs for probes; empty: there are none. blocked reports whether one of them can
// run no other job.
func (s *Queues) Stuck() (detail string, blocked bool) {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		if st := s.byName[name].state(); st.stuck > 0 {
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
	return &httperror.Error{
		Status: http.StatusTooManyRequests, Code: "too_many_requests", Detail: detail,
		Headers: map[string]string{"Retry-After": BusyRetryAfter},
	}
}

// Job is a request in its queue. It has no queue where the request needs none.
type Job struct {
	queues    *Queues
	queue     *queue
	principal string
	ctx       context.Context //nolint:containedctx // it ends with the request, as the job does
	running   bool
	startedAt time.Time // of running
	cancel    context.CancelFunc
	stopWatch func() bool // stops watching ctx
	// budget is charged for the time of the job; nil: none is.
	budget *timeBudgets

	granted   chan struct{} // closed at the job's turn
	due       time.Time     // when ctx was canceled while it was running; guarded by queue.mu
	abandoned bool          // its turn was given to others; guarded by queue.mu
}

// Request is a request before it enters a queue.
type Request struct {
	Operation     string // id in the OpenAPI document
	Write         bool   // it changes something
	CRUDOnly      bool   // only served in mode crud
	Watch         bool   // it waits for revisions
	ContentLength int64  // -1: unknown
	Principal     string
}

// LargeBody is the size from which any change is queued as a batch, in bytes: validation takes up to a hundred times the size
// of its body.
const LargeBody = 256 << 10

// smallBatch is the size up to which a batch has a queue with more places, in bytes: it is one command of a person, or of one of many jobs
// of a pipeline with one token.
const smallBatch = 4 << 10

// Enter admits a request to the queue of its operation, or returns 429. It is called before the body is read, which may be
// large. The job must be left.
func (s *Queues) Enter(ctx context.Context, r Request) (*Job, error) {
	j := &Job{queues: s, ctx: ctx, cancel: func() {}}
	if q := s.byName[queueName(r)]; q != nil {
		if chargedQueues[q.name] {
			if err := s.budget.check(r.Principal); err != nil {
				return nil, err
			}
			j.budget = &s.budget
		}
		j.queue, j.principal = q, r.Principal
		if err := q.enter(j.principal); err != nil {
			return nil, err
		}
	}
	if !r.Watch && (j.queue != nil || r.Write) {
		j.ctx, j.cancel = context.WithTimeoutCause(j.ctx, maxJobTime, &fleet.Error{
			Code: fleet.CodeLimitExceeded, Detail: "the request takes longer than " + maxJobTime.String() + ": try again, or split it",
		})
	}
	return j, nil
}

// Context ends with the request, and at the job's deadline.
func (j *Job) Context() context.Context { return j.ctx }

// MustWait reports whether the job needs a turn and has none.
func (j *Job) MustWait() bool { return j.queue != nil && j.queue.limits.concurrent > 0 && !j.running }

// WaitTurn waits for the job's turn. It returns 429 when the time is over before.
func (j *Job) WaitTurn() error {
	if !j.MustWait() {
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
		return j.queue.busyError("no turn within the time limit: try again later")
	}
}

// Interrupted returns the reason for which the job was canceled, by its client or by its deadline; nil: it was not.
func (j *Job) Interrupted() error { return context.Cause(j.ctx) }

// Leave ends the job, so that the next one can run. Further calls do nothing.
func (j *Job) Leave() {
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
