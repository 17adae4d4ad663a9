package fleet

import (
	"context"
	"encoding/json"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// EventClusters returns the clusters that each event of a revision is about, by [DocumentEvent.Name]; "" is the event of the revision
// itself. That one is about the clusters whose documents the revision changes, before and after it, those whose inputs it changes, and
// those of the rollouts and freezes that it changes. Arguments and errors are those of [State.InputsChangedBy].
func (s *State) EventClusters(ctx context.Context, changes []Change, later Documents) (map[string][]*api.Cluster, error) {
	at, err := s.WithDocuments(later)
	if err != nil {
		return nil, err
	}
	inputs, err := at.InputsChangedBy(ctx, changes, nil)
	if err != nil {
		return nil, err
	}
	about := map[string][]*api.Cluster{"": at.clustersWhere(func(c *api.Cluster) bool { return len(inputs[c.ID]) > 0 })}
	for _, ch := range changes {
		var concerned func(c *api.Cluster, stage string) bool
		switch ch.Kind {
		case KindCluster:
			for _, body := range []json.RawMessage{ch.Before, ch.After} {
				var c api.Cluster
				if body != nil && json.Unmarshal(body, &c) == nil {
					about[""] = append(about[""], &c)
				}
			}
			continue
		case KindRollout:
			concerned, err = at.rolloutClusters(ctx, ch)
		case KindFreeze:
			concerned, err = freezeClusters(ch)
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		about[""] = append(about[""], at.clustersWhere(func(c *api.Cluster) bool { return concerned(c, "") })...)
		events, err := ch.Events()
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			stage, _ := e.Data["stage"].(string)
			if e.Type == EventRolloutStageSkipped {
				stage = "" // its clusters are in others now
			}
			about[e.Name()] = at.clustersWhere(func(c *api.Cluster) bool { return concerned(c, stage) })
		}
	}
	return about, nil
}

// rolloutClusters returns a function that reports whether a rollout changes inputs of a cluster; with a stage, only of a cluster of that
// stage. A rollout that is not open changes no inputs, so its version before the change counts.
func (s *State) rolloutClusters(ctx context.Context, ch Change) (func(c *api.Cluster, stage string) bool, error) {
	var r rollout
	body := ch.After
	if body == nil || json.Unmarshal(body, &r) != nil || !r.open() {
		body = ch.Before
	}
	if body == nil {
		return func(*api.Cluster, string) bool { return false }, nil
	}
	open := Documents{}
	open.Set(KindRollout, ch.ID, body)
	for _, part := range r.Changes { // the last stage may have made the change
		open.Set(part.Kind, part.ID, part.Before)
	}
	st, err := s.WithDocuments(open)
	if err != nil {
		return nil, err
	}
	d := st.docs[KindRollout][ch.ID]
	inputs, err := st.RolloutInputs(ctx, d, nil)
	if err != nil {
		return nil, err
	}
	return func(c *api.Cluster, stage string) bool {
		return len(inputs.ByCluster[c.ID]) > 0 && (stage == "" || d.rollout().stageName(c) == stage)
	}, nil
}

// freezeClusters returns a function that reports whether a freeze is about a cluster.
func freezeClusters(ch Change) (func(c *api.Cluster, stage string) bool, error) {
	body := ch.After
	if body == nil {
		body = ch.Before
	}
	var f freeze
	if err := json.Unmarshal(body, &f); err != nil {
		return nil, err
	}
	err := f.parse()
	return func(c *api.Cluster, _ string) bool { return f.matches(c) }, err
}
