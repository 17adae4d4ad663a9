package webhooks

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// clusterInterval is the time between two attempts to find a change of the failing clusters. The tracker evaluates once a minute at most.
const clusterInterval = 10 * time.Second

// clusterEvents sends events of changes of the set of failing clusters. They are not in the log, so no cursor covers them: the last change is
// kept in memory until each webhook has received it, or the next one replaces it. It is announced after the first attempts, so that it is found
// again if the process ends before. Their requests delay none of the log.
type clusterEvents struct {
	d       *Deliverer
	tracker *clusterstatus.Tracker
	cause   func(cluster *fleet.Document, input string, e *clusterstatus.Event) string

	triedAt   time.Time
	change    clusterstatus.FleetChange
	announced bool
	waiting   map[string]*clusterDelivery // by the id of the webhook
}

// clusterDelivery is the delivery of the change to one webhook.
type clusterDelivery struct {
	attempts int
	nextAt   time.Time
	done     bool
}

func (c *clusterEvents) run(ctx context.Context) {
	ticks := time.NewTicker(syncInterval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			c.step(ctx)
		}
	}
}

// step looks for a change if a webhook selects its events, and makes the requests that are due.
func (c *clusterEvents) step(ctx context.Context) {
	st := c.d.cfg.Replica.State()
	if st == nil || c.d.Problem() != "" || c.d.cfg.Replica.Status().QuarantineReason != "" || !c.d.cfg.Replica.MayAct() {
		return
	}
	hooks := map[string]*fleet.Webhook{}
	for _, hook := range st.Webhooks() {
		if selectsClusterEvent(hook, fleet.EventClustersFailing) || selectsClusterEvent(hook, fleet.EventClustersRecovered) {
			hooks[hook.ID] = hook
		}
	}
	if len(hooks) > 0 {
		c.evaluate(st, hooks)
	}
	maps.DeleteFunc(c.waiting, func(id string, _ *clusterDelivery) bool {
		if hooks[id] == nil {
			return true
		}
		change, ok := c.changeOf(st, hooks[id])
		return !ok || !selectsClusterEvent(hooks[id], "fleet."+change.Type)
	})
	c.send(ctx, st, hooks)
}

// changeOf returns the change of the clusters that a webhook selects. ok is false if none of them changed.
func (c *clusterEvents) changeOf(st *fleet.State, hook *fleet.Webhook) (change clusterstatus.FleetChange, ok bool) {
	return c.change.Filter(func(id string) bool {
		doc, found := st.Get(fleet.KindCluster, id)
		return hook.Selector == "" || found && hook.SelectsCluster(doc.Cluster())
	})
}

// selectsClusterEvent reports whether a webhook receives an event of clusters now.
func selectsClusterEvent(w *fleet.Webhook, event string) bool {
	return !w.Suspended && w.Known() && w.Selects(event) && w.SelectsKind(fleet.KindCluster)
}

func (c *clusterEvents) evaluate(st *fleet.State, hooks map[string]*fleet.Webhook) {
	now := c.d.cfg.Now()
	if passed := now.Sub(c.triedAt); passed >= 0 && passed < clusterInterval {
		return
	}
	c.triedAt = now
	change, ok := c.tracker.FleetChange(clusterstatus.FleetChangeQuery{Clusters: st.All(fleet.KindCluster), Now: now, Cause: c.cause})
	if !ok || change.ID == c.change.ID {
		return
	}
	c.change, c.announced, c.waiting = change, false, map[string]*clusterDelivery{}
	for id := range hooks {
		c.waiting[id] = &clusterDelivery{}
	}
}

// send makes the requests that are due, and announces the change once each webhook had one.
func (c *clusterEvents) send(ctx context.Context, st *fleet.State, hooks map[string]*fleet.Webhook) {
	var running sync.WaitGroup
	slots, now := make(chan struct{}, maxConcurrent), c.d.cfg.Now()
	for id, delivery := range c.waiting {
		c.d.mu.Lock()
		w := c.d.workers[id]
		c.d.mu.Unlock()
		if w == nil || now.Before(delivery.nextAt) {
			continue
		}
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if ctx.Err() == nil {
				c.attempt(ctx, st, w, hooks[id], delivery)
			}
		})
	}
	running.Wait()
	attempted := true
	for _, delivery := range c.waiting {
		attempted = attempted && (delivery.done || delivery.attempts > 0)
	}
	maps.DeleteFunc(c.waiting, func(_ string, delivery *clusterDelivery) bool { return delivery.done })
	if attempted && !c.announced && c.change.ID != "" {
		c.tracker.Announce(c.change)
		c.announced = true
	}
}

// attempt makes a request. It ends with the webhook, but not with ctx.
func (c *clusterEvents) attempt(ctx context.Context, st *fleet.State, w *worker, hook *fleet.Webhook, delivery *clusterDelivery) {
	change, _ := c.changeOf(st, hook)
	e := c.d.clusterEvent(change)
	m, err := c.d.message(hook, e)
	if err != nil {
		w.logStoreError(ctx, err)
		return
	}
	r := c.d.send(w.removed, hook, m)
	if r.Error == "" {
		c.d.delivered.Add(1)
		delivery.done = true
		return
	}
	c.d.failed.Add(1)
	delivery.attempts++
	delivery.nextAt = c.d.cfg.Now().Add(retryWait(delivery.attempts, r))
	c.d.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "a webhook cannot be delivered",
		slog.String("webhook", w.id), slog.String("event", e.ID), slog.Int("attempts", delivery.attempts), slog.String("error", r.Error), slog.Time("next_at", delivery.nextAt))
	if r.Status == http.StatusGone {
		w.suspend(ctx, hook)
	}
}

// clusterData is the data of an event of clusters.
type clusterData struct {
	Failing           int         `json:"failing"`
	Began             int         `json:"began"`
	Recovered         int         `json:"recovered"`
	BeganClusters     []string    `json:"began_clusters"`
	RecoveredClusters []string    `json:"recovered_clusters"`
	Causes            []causeData `json:"causes"`
	MoreCauses        int         `json:"more_causes,omitempty"`
	Link              string      `json:"link"`
}

// causeData is a reason for which clusters began to fail, with the message of one of them.
type causeData struct {
	List     string `json:"list"`
	Input    string `json:"input"`
	Cause    string `json:"cause"`
	Clusters int    `json:"clusters"`
	Cluster  string `json:"cluster"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
}

// clusterEvent returns the event of a change. The texts are those that the status has, in which secrets are masked.
func (d *Deliverer) clusterEvent(change clusterstatus.FleetChange) event {
	data := clusterData{
		Failing: change.Failing, Began: change.Began, Recovered: change.Recovered, BeganClusters: append([]string{}, change.BeganClusters...),
		RecoveredClusters: append([]string{}, change.RecoveredClusters...), Causes: []causeData{}, MoreCauses: change.MoreCauses,
		Link: d.link("clusters") + "?state=failed",
	}
	e := event{ID: "clusters_" + change.ID, Type: "fleet." + change.Type, Time: change.At, link: data.Link, text: clusterText(change), subject: "clusters", resolves: change.Failing == 0}
	e.details = append(clusterNames("Began to fail", change.BeganClusters, change.Began), clusterNames("Recovered", change.RecoveredClusters, change.Recovered)...)
	for _, one := range change.Causes {
		message := shorten(strings.Join(strings.Fields(one.Example.Message), " "))
		data.Causes = append(data.Causes, causeData{one.List, one.Input, shorten(one.Cause), one.Clusters, one.Cluster, one.Example.Reason, message})
		if message == "" {
			message = one.Example.Reason
		}
		e.details = append(e.details, fmt.Sprintf("%s, %s: %s", plural(one.Clusters, "cluster"), one.Input, message))
	}
	if change.MoreCauses > 0 {
		e.details = append(e.details, "and "+plural(change.MoreCauses, "more cause"))
	}
	e.Data = data
	return e
}

// clusterText describes a change in one line.
func clusterText(change clusterstatus.FleetChange) string {
	return fmt.Sprintf("Clusters: %d began to fail, %d recovered, %d are failing", change.Began, change.Recovered, change.Failing)
}

// clusterNames returns a line with the first clusters of a change; empty: there are none.
func clusterNames(title string, ids []string, count int) (lines []string) {
	if count == 0 {
		return nil
	}
	line := title + ": " + strings.Join(ids, ", ")
	if more := count - len(ids); more > 0 {
		line += fmt.Sprintf(" and %d more", more)
	}
	return []string{line}
}
