package server

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Plans and batches may take a core for seconds and hundreds of megabytes. One plan and one batch are worked on at a time;
// the others wait, and there is a limit to how many do. Plans and batches do not wait for each other: whoever may only read
// must not keep changes out. A page of the history and an explanation are tens of megabytes while they are made, so those wait
// for each other, too. So do questions about what is known of the whole fleet: after a change of the catalog the first of them makes
// the answers of all clusters, which the others then find.
// Other reads wait for nobody, and hold what they answer with for as long as their client takes.
const (
	// workTime is how long one may take, waiting included. The answer to a longer one could not be sent: see writeTimeout.
	workTime = 50 * time.Second
	// workAgain is when to come back, in seconds.
	workAgain = "5"
)

// limits of a queue.
type limits struct {
	each   int // of one principal that are under way or wait
	total  int // of all together
	atOnce int // that are worked on; 0: all of them
}

// newQueues are the queues of a server, by their names.
func newQueues(work *prometheus.HistogramVec) map[string]*queue {
	queues := map[string]*queue{
		queuePlans:   newQueue(queuePlans, limits{each: 4, total: 24, atOnce: 1}),
		queueBatches: newQueue(queueBatches, limits{each: 4, total: 24, atOnce: 1}),
		queueExplain: newQueue(queueExplain, limits{each: 4, total: 24, atOnce: 1}),
		queueHistory: newQueue(queueHistory, limits{each: 8, total: 48, atOnce: 2}),
		queueReads:   newQueue(queueReads, limits{each: 128, total: 512}),
		queueStatus:  newQueue(queueStatus, limits{each: 64, total: 256, atOnce: 1}),
		queueBackups: newQueue(queueBackups, limits{each: 1, total: 1}),
	}
	for name, q := range queues {
		if q.turn != nil {
			q.took = work.WithLabelValues(name)
		}
	}
	return queues
}

// queue is where plans, batches or reads wait for each other.
type queue struct {
	what  string
	most  limits
	turn  chan struct{} // holds a token for each that is worked on; nil: nobody waits
	took  prometheus.Observer
	mu    sync.Mutex
	each  map[string]int // by principal
	total int
}

func newQueue(what string, most limits) *queue {
	q := &queue{what: what, most: most, each: map[string]int{}}
	if most.atOnce > 0 {
		q.turn = make(chan struct{}, most.atOnce)
	}
	return q
}

// enter takes a place in the queue.
func (q *queue) enter(who string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.each[who] >= q.most.each {
		return q.busy("too many " + q.what + " of this credential are under way: wait for their answers, or try again later")
	}
	if q.total >= q.most.total {
		return q.busy("too many " + q.what + " are under way: try again later")
	}
	q.each[who]++
	q.total++
	return nil
}

func (q *queue) leave(who string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total--
	if q.each[who]--; q.each[who] == 0 {
		delete(q.each, who)
	}
}

func (q *queue) busy(detail string) error {
	return &publicError{
		status: http.StatusTooManyRequests, code: "too_many_requests", detail: detail,
		headers: map[string]string{"Retry-After": workAgain},
	}
}

// job is a request in its queue. The zero value is that of a request without one.
type job struct {
	queue *queue
	who   string
	ctx   context.Context //nolint:containedctx // it ends with the request, as the job does
	turn  bool            // it is worked on
	begun time.Time       // since when
	stop  context.CancelFunc
}

// enter takes a place in the operation's queue, before the body is read: it may be large.
func (s *Server) enter(r *request) (*job, error) {
	j := &job{ctx: r.Request().Context(), stop: func() {}}
	if q := s.queueOf(r); q != nil {
		j.queue, j.who = q, r.who.actor
		if err := q.enter(j.who); err != nil {
			return nil, err
		}
		j.ctx, j.stop = context.WithTimeoutCause(j.ctx, workTime, &fleet.Error{
			Code: fleet.CodeLimitExceeded, Detail: "this takes longer than " + workTime.String() + ": try again, or do it in parts",
		})
	}
	r.job = j
	return j, nil
}

// largeBody is from where the body of any change waits among the batches: looking into it takes up to a hundred times its
// size.
const largeBody = 256 << 10

func (s *Server) queueOf(r *request) *queue {
	if n := r.Request().ContentLength; r.op.write && (n < 0 || n > largeBody) {
		return s.queues[queueBatches]
	}
	return s.queues[r.op.queue]
}

// waits tells whether the job has to wait for its turn.
func (j *job) waits() bool { return j.queue != nil && j.queue.turn != nil && !j.turn }

// begin waits for the job's turn.
func (j *job) begin() error {
	if !j.waits() {
		return nil
	}
	select {
	case j.queue.turn <- struct{}{}:
		j.turn, j.begun = true, time.Now()
		return nil
	case <-j.ctx.Done():
		if j.ctx.Err() == context.Canceled {
			return context.Canceled
		}
		return j.queue.busy("others took too long: try again later")
	}
}

// stopped tells that the job is in vain: its client is gone, or it took too long.
func (j *job) stopped() error { return context.Cause(j.ctx) }

// leave ends the job, unless it has ended: the next one may begin.
func (j *job) leave() {
	j.stop()
	if j.queue == nil {
		return
	}
	if j.turn {
		<-j.queue.turn
		j.queue.took.Observe(time.Since(j.begun).Seconds())
	}
	j.queue.leave(j.who)
	j.queue, j.turn = nil, false
}
