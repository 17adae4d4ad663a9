package webhooks

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

var update = flag.Bool("update", false, "write the golden files")

// TestBodies: the bodies that receivers parse.
func TestBodies(t *testing.T) {
	t.Parallel()
	d := New(Config{PublicURL: "https://fleet.example.com/fleet", Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }})
	commit := fleet.Commit{
		Revision: 431, ID: uuid.MustParse("0b1c0f6e-3f4d-4f2a-9a51-0d3a3b8a5a11"), At: time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC),
		Actor: "token:ci (1)", Author: "ann", Reason: "CHG-1 <b> & [x]", RequestID: "r1",
	}
	r, err := newRevision(store.Summary{Commit: commit, Count: 3, First: []store.ChangedName{
		{Kind: fleet.KindBudget, ID: "removals", Action: "update"}, {Kind: fleet.KindLayer, ID: "web", Action: "update"}, {Kind: fleet.KindRollout, ID: "podinfo", Action: "update"},
	}}, []fleet.Change{{
		Kind: fleet.KindRollout, ID: "podinfo",
		Before: json.RawMessage(`{"id":"podinfo","state":"running","started":1,"stages":[{"name":"canary"},{"name":"prod"}]}`),
		After:  json.RawMessage(`{"id":"podinfo","state":"paused","started":1,"stages":[{"name":"canary"},{"name":"prod"}],"paused_because":"stage \"canary\": 1 cluster failed, and 0 may; x"}`),
	}})
	require.NoError(t, err)
	head := fleet.Head{Revision: 431, ID: commit.ID}
	for name, e := range map[string]event{
		"revision": d.revisionEvent(r), "batch": d.batchEvent([]revisionData{d.revisionData(r, 0), d.revisionData(r, 0)}),
		"rollout": d.documentEvent(r, r.events[0]), "completed": d.documentEvent(r, fleet.DocumentEvent{Type: fleet.EventRolloutCompleted, Kind: fleet.KindRollout, ID: "podinfo"}),
		"recovered": d.clusterEvent(clusterstatus.FleetChange{ID: "fedcba9876543210", Type: clusterstatus.ClustersRecovered, At: commit.At, Recovered: 13}),
		"gap":       d.gapEvent(gapRetention, 3, 9, head), "history": d.gapEvent(gapHistory, 500, 431, head),
		"test": d.testEvent(&fleet.Webhook{ID: "log"}, "X"), "clusters": d.clusterEvent(clusterstatus.FleetChange{
			ID: "0123456789abcdef", Type: clusterstatus.ClustersFailing, At: commit.At, Failing: 13, Began: 12, Recovered: 1,
			BeganClusters: []string{"a.example.com", "b.example.com"}, RecoveredClusters: []string{"c.example.com"}, MoreCauses: 2,
			Causes: []clusterstatus.FailingCause{{
				List: "platform_components", Input: "podinfo", Cause: "Helm install failed: timed out <N>", Clusters: 11, Cluster: "a.example.com",
				Example: clusterstatus.Event{Reason: "InstallFailed", Message: "Helm install failed:\n<!channel> timed out [x](http://x) " + strings.Repeat("x", 400)},
			}, {List: "namespaces", Input: "web", Cause: "", Clusters: 1, Cluster: "b.example.com", Example: clusterstatus.Event{Reason: "ApplyFailed"}}},
		}),
	} {
		formats := []string{fleet.WebhookStandard, fleet.WebhookSlack, fleet.WebhookTeams}
		switch pager := []string{fleet.WebhookPagerDuty, fleet.WebhookOpsgenie}; name {
		case "completed", "recovered":
			formats = pager
		case "rollout", "clusters", "test":
			formats = append(formats, pager...)
		}
		for _, format := range formats {
			m, err := d.message(&fleet.Webhook{ID: "log", Format: format, URL: "https://pager.example.com/v2/alerts?routing_key=R1&api_key=G1"}, e)
			require.NoError(t, err)
			var got bytes.Buffer
			require.NoError(t, json.Indent(&got, m.body, "", "  "))
			got.WriteByte('\n')
			path := filepath.Join("testdata", name+"."+format+".json")
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o750))
				require.NoError(t, os.WriteFile(path, got.Bytes(), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), got.String(), path)
		}
	}
}
