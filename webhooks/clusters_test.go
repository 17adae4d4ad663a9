package webhooks

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

var testReceipt = fleet.Receipt{1}

// clusterEnv is a store with clusters that poll, and a process whose events of clusters the test steps.
type clusterEnv struct {
	*env

	ids         []string
	tracker     *clusterstatus.Tracker
	events      *clusterEvents
	evaluations *atomic.Int64 // causes that were asked for
}

func setupClusters(t *testing.T, clusters int) *clusterEnv {
	t.Helper()
	c := &clusterEnv{env: setup(t), evaluations: &atomic.Int64{}}
	c.update(t, store.Meta{}, func(tx *fleet.Tx) error {
		for i := range clusters {
			id := fmt.Sprintf("c-%04d.example.com", i)
			c.ids = append(c.ids, id)
			if _, err := tx.Create(fleet.KindCluster, fmt.Appendf(nil, `{"id":%q,"cluster_dns":%q,"environment":"dev"}`, id, id)); err != nil {
				return err
			}
		}
		return nil
	})
	c.restart(t)
	return c
}

// restart replaces the tracker and the events by those of a process that starts.
func (c *clusterEnv) restart(t *testing.T) {
	t.Helper()
	c.tracker = clusterstatus.NewTracker(clusterstatus.Config{Store: sqlite.NewObservations(c.path)})
	c.tracker.Sync(t.Context(), c.clock.Now())
	for _, id := range c.ids {
		list := fleet.DesiredInputs{List: "components", ETag: "1", Receipts: []fleet.Receipt{testReceipt}, Inputs: func(yield func(string, bool) bool) { yield("podinfo", true) }}
		c.tracker.RecordPoll(clusterstatus.Poll{Cluster: id, List: list.List, ETag: list.ETag, Agent: "flux"}, c.clock.Now())
		c.tracker.RecordServed(id, list, c.clock.Now())
	}
	c.events = &clusterEvents{d: c.d, tracker: c.tracker, cause: func(_ *fleet.Document, _ string, e *clusterstatus.Event) string {
		c.evaluations.Add(1)
		return e.Message
	}}
}

func (c *clusterEnv) fail(ids ...string) {
	for _, id := range ids {
		c.tracker.RecordEvent(id, "components", "podinfo", clusterstatus.Event{Input: testReceipt.String(), Severity: "error", Reason: "InstallFailed", Message: "timed out", At: c.clock.Now()}, c.clock.Now())
	}
}

func (c *clusterEnv) recover(ids ...string) {
	c.clock.advance(time.Second)
	list := fleet.DesiredInputs{List: "components", ETag: "1", Receipts: []fleet.Receipt{testReceipt}, Inputs: func(yield func(string, bool) bool) { yield("podinfo", true) }}
	for _, id := range ids {
		c.tracker.RecordReceipt(id, list, "podinfo", testReceipt, c.clock.Now())
	}
}

// hook creates a webhook for events of clusters, and waits for its worker.
func (c *clusterEnv) hook(t *testing.T, id, url string, fields map[string]any) {
	t.Helper()
	if fields == nil {
		fields = map[string]any{"events": []any{fleet.EventClustersFailing, fleet.EventClustersRecovered}}
	}
	c.webhook(t, id, url, fields)
	require.Eventually(t, func() bool { c.d.mu.Lock(); defer c.d.mu.Unlock(); return c.d.workers[id] != nil }, guard, 2*time.Millisecond)
}

// after steps after some time, so all requests that are due have ended.
func (c *clusterEnv) after(t *testing.T, d time.Duration) {
	t.Helper()
	c.clock.advance(d)
	c.events.step(t.Context())
}

func (r *receiver) none(t *testing.T, why string) {
	t.Helper()
	select {
	case got := <-r.requests:
		require.Fail(t, "an event arrived: "+why, "%s", got.body)
	default:
	}
}

// TestThousandFailingClusters: they are one event, and so is their recovery; a deselected type, another kind and a suspended webhook get none.
func TestThousandFailingClusters(t *testing.T) {
	t.Parallel()
	c, r := setupClusters(t, 1000), newReceiver(t)
	c.hook(t, "both", r.URL, nil)
	recovered, others := newReceiver(t), newReceiver(t)
	c.hook(t, "recovered", recovered.URL, map[string]any{"events": []any{fleet.EventClustersRecovered}})
	c.hook(t, "rollouts", others.URL, map[string]any{"events": []any{fleet.EventRolloutPaused}})
	c.hook(t, "layers", others.URL, map[string]any{"kinds": []any{"layer"}, "events": []any{fleet.EventClustersFailing}})
	c.hook(t, "suspended", others.URL, map[string]any{"events": []any{fleet.EventClustersFailing}, "suspended": true})
	c.after(t, 0)
	c.fail(c.ids...)
	c.after(t, 59*time.Second)
	r.none(t, "a minute has not passed")
	c.after(t, 10*time.Second)
	got := r.next(t)
	body := got.json(t)
	require.Equal(t, []any{"1.0", got.id(), "https://fleet.example.com", "fleet.clusters.failing"}, []any{body["specversion"], body["id"], body["source"], body["type"]})
	data := body["data"].(map[string]any)
	require.Equal(t, []any{1000.0, 1000.0, 0.0, "https://fleet.example.com/ui/clusters?state=failed"}, []any{data["failing"], data["began"], data["recovered"], data["link"]})
	require.Len(t, data["began_clusters"], 10)
	require.Equal(t, []any{map[string]any{"list": "components", "input": "podinfo", "cause": "timed out", "clusters": 1000.0, "cluster": c.ids[0], "reason": "InstallFailed", "message": "timed out"}}, data["causes"])
	c.after(t, time.Hour)
	r.none(t, "nothing changed")
	recovered.none(t, "the type is not selected")
	c.recover(c.ids...)
	c.after(t, time.Minute)
	for _, one := range []*receiver{r, recovered} {
		body = one.next(t).json(t)
		require.Equal(t, "fleet.clusters.recovered", body["type"])
		data = body["data"].(map[string]any)
		require.Equal(t, []any{0.0, 0.0, 1000.0}, []any{data["failing"], data["began"], data["recovered"]})
		one.none(t, "one event")
	}
	others.none(t, "not selected")
}

// TestFlappingClusters cause at most one event a minute.
func TestFlappingClusters(t *testing.T) {
	t.Parallel()
	c, r := setupClusters(t, 3), newReceiver(t)
	c.hook(t, "both", r.URL, nil)
	c.after(t, 0)
	for second := range 600 {
		switch second % 13 {
		case 0:
			c.fail(c.ids...)
		case 7:
			c.recover(c.ids...)
		}
		c.after(t, time.Second)
	}
	require.LessOrEqual(t, len(r.requests), 11)
	require.NotEmpty(t, r.requests)
}

// TestClustersAfterRestart: an announced change is not sent again, one that was not announced is, with the same id.
func TestClustersAfterRestart(t *testing.T) {
	t.Parallel()
	c, r := setupClusters(t, 3), newReceiver(t)
	c.hook(t, "both", r.URL, nil)
	c.after(t, 0)
	c.fail(c.ids[0])
	c.after(t, time.Minute)
	first := r.next(t).id()
	c.tracker.Sync(t.Context(), c.clock.Now())
	c.restart(t)
	c.after(t, time.Minute)
	r.none(t, "sent before the restart")

	c.fail(c.ids[1])
	c.tracker.Sync(t.Context(), c.clock.Now())
	c.after(t, time.Minute)
	second := r.next(t).id()
	require.NotEqual(t, first, second)
	c.restart(t) // before the announcement was stored
	c.after(t, time.Minute)
	require.Equal(t, second, r.next(t).id())
}

// TestClustersOfTwoProcesses: two processes that find a change at once send it with one id, and then neither again.
func TestClustersOfTwoProcesses(t *testing.T) {
	t.Parallel()
	c, r := setupClusters(t, 3), newReceiver(t)
	c.hook(t, "both", r.URL, nil)
	c.after(t, 0)
	c.tracker.Sync(t.Context(), c.clock.Now())
	first := *c
	c.restart(t)
	for _, one := range []*clusterEnv{&first, c} {
		one.fail(c.ids[0])
	}
	first.after(t, time.Minute)
	c.after(t, 0)
	ids := r.ids(t, 2)
	require.Equal(t, ids[0], ids[1])
	first.after(t, time.Minute)
	c.after(t, 0)
	r.none(t, "announced")
}

// TestClustersToFailingReceiver: a webhook that is down receives the event later, once, unless another change replaces it. It delays neither
// another webhook nor the log.
func TestClustersToFailingReceiver(t *testing.T) {
	t.Parallel()
	c, down, up := setupClusters(t, 3), newReceiver(t), newReceiver(t)
	down.answersStatus(503)
	c.hook(t, "down", down.URL, nil)
	c.hook(t, "up", up.URL, nil)
	c.after(t, 0)
	c.fail(c.ids[0])
	c.after(t, time.Minute)
	id := up.next(t).id()
	require.Equal(t, id, down.next(t).id())
	c.after(t, time.Second)
	down.none(t, "it waits")
	down.answers(nil)
	c.after(t, 6*time.Second)
	require.Equal(t, id, down.next(t).id())
	c.after(t, time.Hour)
	down.none(t, "delivered")

	down.answersStatus(503)
	c.fail(c.ids[1])
	c.after(t, time.Minute)
	replaced := down.next(t).id()
	c.recover(c.ids...)
	down.answers(nil)
	c.after(t, time.Minute)
	got := down.next(t)
	require.NotEqual(t, replaced, got.id())
	require.Equal(t, "fleet.clusters.recovered", got.json(t)["type"])
	down.none(t, "the next change replaced it")
	require.Len(t, up.requests, 2)
}

// TestClustersBeforeAnnouncement: a change whose first attempts were not all made is found again, and webhooks that have it do not receive it twice.
func TestClustersBeforeAnnouncement(t *testing.T) {
	t.Parallel()
	c, up, late := setupClusters(t, 3), newReceiver(t), newReceiver(t)
	c.hook(t, "up", up.URL, nil)
	c.hook(t, "late", late.URL, nil)
	c.after(t, 0)
	c.stop() // so that it starts no worker
	worker := c.d.workers["late"]
	delete(c.d.workers, "late")
	c.fail(c.ids[0])
	c.after(t, time.Minute)
	id := up.next(t).id()
	c.after(t, time.Minute)
	up.none(t, "delivered")
	c.d.workers["late"] = worker
	c.after(t, time.Second)
	require.Equal(t, id, late.next(t).id())
	c.after(t, time.Hour)
	late.none(t, "delivered")
	up.none(t, "delivered")
}

// TestClustersOfSuspendedWebhook: a suspended or deleted webhook does not receive an event that waits, also not later; 410 suspends it.
func TestClustersOfSuspendedWebhook(t *testing.T) {
	t.Parallel()
	c, r := setupClusters(t, 3), newReceiver(t)
	c.hook(t, "both", r.URL, nil)
	c.after(t, 0)
	r.answersStatus(410)
	c.fail(c.ids[0])
	c.after(t, time.Minute)
	r.next(t)
	require.True(t, c.replica.State().Webhooks()[0].Suspended)
	r.answers(nil)
	c.after(t, time.Hour)
	c.update(t, store.Meta{}, func(tx *fleet.Tx) error {
		_, err := tx.PatchWebhook("both", map[string]any{"suspended": false})
		return err
	})
	c.after(t, time.Hour)
	r.none(t, "it was suspended")
	c.fail(c.ids[1])
	c.after(t, time.Minute)
	require.Equal(t, 1.0, r.next(t).json(t)["data"].(map[string]any)["began"])
}

// TestClustersWithoutWebhooks: nothing is computed without a webhook that selects the events.
func TestClustersWithoutWebhooks(t *testing.T) {
	t.Parallel()
	c, r := setupClusters(t, 3), newReceiver(t)
	c.hook(t, "freezes", r.URL, map[string]any{"events": []any{fleet.EventFreezeStarted}})
	c.after(t, 0)
	c.fail(c.ids...)
	c.after(t, time.Hour)
	require.True(t, c.events.triedAt.IsZero())
	require.Zero(t, c.evaluations.Load())
}
