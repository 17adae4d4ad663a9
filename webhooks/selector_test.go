package webhooks

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// TestSelector: a webhook with a selector receives the events about clusters that it selects: those whose documents or inputs a revision
// changes, those of a freeze, and those that a rollout changes, of its stage where the event is about one.
func TestSelector(t *testing.T) {
	t.Parallel()
	e, prod, all := setup(t), newReceiver(t), newReceiver(t)
	create := func(kind fleet.Kind, body string) func(*fleet.Tx) error {
		return func(tx *fleet.Tx) error { _, err := tx.Create(kind, []byte(body)); return err }
	}
	patch := func(kind fleet.Kind, id, body string) func(*fleet.Tx) error {
		return func(tx *fleet.Tx) error { _, err := tx.Patch(kind, id, []byte(body)); return err }
	}
	remove := func(kind fleet.Kind, id string) func(*fleet.Tx) error {
		return func(tx *fleet.Tx) error { _, err := tx.Delete(kind, id, fleet.DeleteOptions{}); return err }
	}
	rollout := func(id, namespace string) func(*fleet.Tx) error {
		return func(tx *fleet.Tx) error {
			_, err := tx.CreateRollout(fleet.NewRollout{
				ID: id, Stages: []fleet.RolloutStage{{Name: "first", Selector: "id=b"}, {Name: "rest", All: true}},
				Operations: []api.Operation{{Op: "patch", Kind: "namespace", ID: namespace, Patch: []byte(`{"labels":{"rolled":"out"}}`)}},
			}, nil)
			return err
		}
	}
	advance := func(id, action, stage string) func(*fleet.Tx) error {
		return func(tx *fleet.Tx) error { _, err := tx.ChangeRollout(id, action, stage); return err }
	}
	e.update(t, store.Meta{}, func(tx *fleet.Tx) error {
		for kind, bodies := range map[fleet.Kind][]string{
			fleet.KindNamespace: {`{"id":"both","labels":{}}`, `{"id":"only-b","labels":{}}`},
			fleet.KindLayer:     {`{"id":"everywhere","priority":1,"all":true,"namespaces":[{"id":"both"}]}`},
			fleet.KindCluster: {
				`{"id":"a","cluster_dns":"a.example.com","environment":"dev","labels":{"tier":"prod"}}`,
				`{"id":"b","cluster_dns":"b.example.com","environment":"dev","labels":{},"namespaces":[{"id":"only-b"}]}`,
			},
		} {
			for _, body := range bodies {
				if err := create(kind, body)(tx); err != nil {
					return err
				}
			}
		}
		return nil
	})
	e.webhook(t, "all", all.URL, nil)
	e.webhook(t, "prod", prod.URL, map[string]any{"selector": "tier=prod,environment=dev"})
	for _, step := range []struct {
		name   string
		change func(*fleet.Tx) error
		events []string // of the webhook with the selector: %d is the revision
	}{
		{"a namespace of another cluster", patch(fleet.KindNamespace, "only-b", `{"labels":{"x":"1"}}`), nil},
		{"a namespace of its layer", patch(fleet.KindNamespace, "both", `{"labels":{"x":"1"}}`), []string{"rev_%d"}},
		{"a namespace of no cluster", create(fleet.KindNamespace, `{"id":"unused","labels":{}}`), nil},
		{"a strategy", create(fleet.KindStrategy, `{"id":"s","stages":[{"name":"all","all":true}]}`), nil},
		{"a label of another cluster", patch(fleet.KindCluster, "b", `{"labels":{"x":"1"}}`), nil},
		{"a cluster that joins", patch(fleet.KindCluster, "b", `{"labels":{"tier":"prod"}}`), []string{"rev_%d"}},
		{"a cluster that leaves", patch(fleet.KindCluster, "b", `{"labels":{"tier":"dev"}}`), []string{"rev_%d"}},
		{"a freeze of another cluster", create(fleet.KindFreeze, `{"id":"fb","selector":"id=b","reason":"x"}`), nil},
		{"its end", remove(fleet.KindFreeze, "fb"), nil},
		{"a freeze", create(fleet.KindFreeze, `{"id":"fa","selector":"id in (a,z)","reason":"x"}`), []string{"rev_%d", "rev_%d_freeze_fa_started"}},
		{"the end of a freeze", remove(fleet.KindFreeze, "fa"), []string{"rev_%d", "rev_%d_freeze_fa_ended"}},
		{"a rollout for another cluster", rollout("rb", "only-b"), nil},
		{"a rollout", rollout("ra", "both"), []string{"rev_%d", "rev_%d_rollout_ra_created"}},
		{"the stage of another cluster", advance("ra", fleet.RolloutStart, "first"), []string{"rev_%d"}},
		{"its stage", advance("ra", fleet.RolloutStart, "rest"), []string{"rev_%d", "rev_%d_rollout_ra_stage_started"}},
		{"its end", advance("ra", fleet.RolloutComplete, ""), []string{"rev_%d", "rev_%d_rollout_ra_completed"}},
		{"a deletion", remove(fleet.KindCluster, "a"), []string{"rev_%d"}},
	} {
		rev := e.update(t, store.Meta{Reason: step.name}, step.change)
		for _, id := range step.events {
			require.Equal(t, fmt.Sprintf(id, rev), prod.next(t).id(), step.name)
		}
		e.until(t, "prod", func(d Delivery) bool { return d.Revision == rev })
		prod.none(t, step.name)
	}
	head := e.replica.State().Revision()
	e.until(t, "all", func(d Delivery) bool { return d.Revision == head })

	e.update(t, store.Meta{}, func(tx *fleet.Tx) error {
		_, err := tx.PatchWebhook("prod", map[string]any{"selector": ""})
		return err
	})
	require.Equal(t, revisionID(head+1), prod.next(t).id(), "without a selector it receives all")
	_, err := e.replica.Update(t.Context(), store.Meta{Actor: "ann"}, func(tx *fleet.Tx) error {
		_, err := tx.PatchWebhook("prod", map[string]any{"selector": "tier=(prod"})
		return err
	})
	require.ErrorContains(t, err, "selector")
}

// TestFailingClustersOfSelector: a webhook with a selector receives the numbers, names and causes of its clusters only, and nothing about
// others.
func TestFailingClustersOfSelector(t *testing.T) {
	t.Parallel()
	c, r := setupClusters(t, 30), newReceiver(t)
	c.hook(t, "one", r.URL, map[string]any{"selector": "id in (" + c.ids[20] + "," + c.ids[21] + ")", "events": []any{fleet.EventClustersFailing, fleet.EventClustersRecovered}})
	c.after(t, 0)
	c.fail(c.ids[:20]...)
	c.after(t, time.Minute)
	r.none(t, "other clusters")
	c.fail(c.ids...)
	c.after(t, time.Minute)
	body := r.next(t).json(t)
	data := body["data"].(map[string]any)
	require.Equal(t, []any{"fleet.clusters.failing", 2.0, 2.0, 0.0, []any{c.ids[20], c.ids[21]}}, []any{body["type"], data["failing"], data["began"], data["recovered"], data["began_clusters"]})
	require.Equal(t, []any{2.0, c.ids[20]}, []any{data["causes"].([]any)[0].(map[string]any)["clusters"], data["causes"].([]any)[0].(map[string]any)["cluster"]})
	c.recover(c.ids[19], c.ids[20])
	c.after(t, time.Minute)
	body = r.next(t).json(t)
	data = body["data"].(map[string]any)
	require.Equal(t, []any{"fleet.clusters.recovered", 1.0, 0.0, 1.0, []any{c.ids[20]}}, []any{body["type"], data["failing"], data["began"], data["recovered"], data["recovered_clusters"]})
	c.recover(c.ids[:19]...)
	c.after(t, time.Minute)
	r.none(t, "other clusters")
}
