package server_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// managedTokens returns a token of each role that may poll for any cluster.
func (w *world) managedTokens() (all []string) {
	w.t.Helper()
	for _, role := range []string{"read", "write", "admin"} {
		all = append(all, w.issue(fmt.Sprintf(`{"name":"shared-%s","role":%q,"expires_at":"2099-01-02T03:04:05Z"}`, role, role)).secret)
	}
	return all
}

// impersonate sends the same requests as the Flux of a cluster that applies its components: polls, receipts, and events of a
// failure and a success.
func (w *world) impersonate(token, dns string) {
	w.t.Helper()
	base := "/api/v2/flux/clusters/" + dns
	flux := []string{"Authorization", "Bearer " + token, "User-Agent", "flux-operator/v0.58.0"}
	for _, list := range []string{"platform-components", "namespaces", "rolebindings"} {
		for _, in := range at(w.get(base+"/"+list, flux...).want(200).json(), "inputs").([]any) {
			got := w.get(fmt.Sprintf("%s/receipts/%s/%s?input=%s", base, list, at(in, "id"), at(in, "receipt")), flux...).want(200)
			require.Equal(w.t, "{\"inputs\":[]}\n", string(got.body))
			failed := event(fmt.Sprintf(`{"list":%q,"component":%q,"input":%q}`, list, at(in, "id"), at(in, "receipt")), "forged")
			for _, body := range []string{failed, strings.NewReplacer(`"severity":"error"`, `"severity":"info"`, "UpgradeFailed", "UpgradeSucceeded").Replace(failed)} {
				require.Contains(w.t, []int{202, 429}, w.tell(token, base+"/events", body).status, "429: too many that count")
			}
		}
	}
}

// observed is all state that the service derives from the polls, receipts and events of clusters, except the use of shared tokens.
func (w *world) observed(server *server.Server) map[string]any {
	w.t.Helper()
	server.AdvanceRollouts(w.t.Context())
	w.counted()
	out := map[string]any{"rollout": w.get(autoPath).want(200).json(), "component": w.get("/platform_components/podinfo/status").want(200).json()}
	list := w.get("/status").want(200).json()
	for _, cluster := range list["clusters"].([]any) {
		one := cluster.(map[string]any)
		detail := w.status(one["id"].(string)).(map[string]any)
		for _, view := range []map[string]any{one, detail} {
			delete(view, "shared_token_at")
		}
		out[one["id"].(string)] = detail
	}
	out["list"] = list
	for _, state := range clusterstatus.States() {
		clusters, inputs := w.inState(string(state))
		out["metrics of "+string(state)] = []float64{clusters, inputs}
	}
	out["polled"] = w.metric(`flux_resourceset_clusters_polled{within="24h"}`)
	return out
}

// withoutTimes removes the fields that depend on the time of a poll with a token that is not the cluster's own.
func withoutTimes(observed map[string]any) map[string]any {
	delete(observed, "polled")
	return observed
}

// TestSharedTokenDoesNotCount attacks with a token that is not the cluster's own: it polls, confirms and fails for other clusters. Neither
// a managed token nor the write token changes anything, with any setting. The read token changes the status of clusters that have not
// polled with their own credential, but not with RequireClusterToken; it changes the rollout only with GatesTrustSharedToken.
func TestSharedTokenDoesNotCount(t *testing.T) {
	t.Parallel()
	for name, setting := range map[string]struct{ require, trust bool }{"default": {}, "required": {require: true}, "trusted": {trust: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, runners := autoRollout(t, 1, `,"on_failure":"back"`, func(c *server.Config) {
				c.RequireClusterToken, c.GatesTrustSharedToken = setting.require, setting.trust
			})
			dns := map[string]string{"demo-cluster-01": demoDNS, "wave-1": "wave-1.example.com", "wave-2": "wave-2.example.com"}
			confirm := func(id, token string) {
				base, flux := "/api/v2/flux/clusters/"+dns[id], []string{"Authorization", "Bearer " + token, "User-Agent", "flux-operator/v0.58.0"}
				for _, in := range at(w.get(base+"/platform-components", flux...).want(200).json(), "inputs").([]any) {
					w.get(fmt.Sprintf("%s/receipts/platform-components/%s?input=%s", base, at(in, "id"), at(in, "receipt")), flux...).want(200)
				}
			}
			w.clock.advance(time.Second)
			own := map[string]string{}
			for id := range dns {
				own[id] = w.issue(fmt.Sprintf(`{"name":"own-%s","role":"poll","cluster_id":%q}`, id, id)).secret
				confirm(id, own[id])
			}
			w.do("POST", autoPath+"/start", "").want(200)
			before := w.observed(runners[0])
			require.EqualValues(t, 0, at(before["rollout"], "stages", 0, "progress", "confirmed"))
			for _, token := range append(w.managedTokens(), writeToken, writePrevious) {
				for _, name := range dns {
					w.impersonate(token, name)
				}
			}
			require.Equal(t, before, w.observed(runners[0]))
			require.NotEqual(t, "2026-01-02T03:04:06.678Z", at(w.status("wave-2"), "shared_token_at"), "only of the polls before")

			for _, token := range []string{readToken, readPrevious} {
				for _, name := range dns {
					w.impersonate(token, name)
				}
			}
			require.Equal(t, withoutTimes(before), withoutTimes(w.observed(runners[0])), "each cluster polls with its own token")

			// The clusters lose their tokens, for longer than OFFLINE_AFTER: the static token reports for them.
			w.clock.advance(61 * time.Minute)
			for _, name := range dns {
				w.impersonate(readToken, name)
			}
			progress := at(w.get(autoPath).want(200).json(), "stages", 0, "progress")
			if !setting.trust {
				require.EqualValues(t, 1, at(progress, "unknown"), "the gate waits for it")
				require.Equal(t, []any{"wave-1"}, at(progress, "cluster_ids", "shared_token"))
				runners[0].AdvanceRollouts(t.Context())
				got := w.get(autoPath).want(200).json()
				require.Equal(t, "paused", got["state"])
				require.Contains(t, got["paused_because"], "1 cluster not counted (shared token)")
				require.NotContains(t, got, "gates_trust_shared_token")
			} else {
				require.EqualValues(t, 1, at(progress, "confirmed"))
				require.Equal(t, true, at(w.get(autoPath).json(), "gates_trust_shared_token"))
			}
			state := "confirmed"
			if setting.require {
				state = "unknown"
			}
			require.Equal(t, state, w.input("wave-1", "platform-components", "podinfo")["state"])
		})
	}
}

// TestForgedFailure: an error event with the shared token does not make the runner take a stage back, and does not replace the report
// of the cluster itself.
func TestForgedFailure(t *testing.T) {
	t.Parallel()
	w, runners := autoRollout(t, 1, `,"on_failure":"back"`, func(c *server.Config) { c.GatesTrustSharedToken = false })
	token := w.issue(`{"name":"own","role":"poll","cluster_id":"wave-1"}`).secret
	w.do("POST", autoPath+"/start", "").want(200)
	const polls = "/api/v2/flux/clusters/wave-1.example.com"
	input := at(w.get(polls+"/platform-components", "Authorization", "Bearer "+token).want(200).json(), "inputs", 0, "receipt").(string)
	failure := event(`{"component":"podinfo","input":"`+input+`"}`, "forged")
	for _, forger := range append(w.managedTokens(), readToken, writeToken) {
		w.tell(forger, polls+"/events", failure).want(202)
	}
	runners[0].AdvanceRollouts(t.Context())
	require.Equal(t, "running", w.get(autoPath).want(200).json()["state"])
	w.tell(token, polls+"/events", failure).want(202)
	for _, forger := range append([]string{readToken}, writeToken) { // a success with another token does not end the failure
		w.tell(forger, polls+"/events", strings.NewReplacer(`"severity":"error"`, `"severity":"info"`, "UpgradeFailed", "UpgradeSucceeded").Replace(failure)).want(202)
	}
	runners[0].AdvanceRollouts(t.Context())
	got := w.get(autoPath).want(200).json()
	require.Equal(t, "paused", got["state"])
	require.EqualValues(t, 0, got["started"])
}

// TestSharedTokenOfNewCluster: a cluster that polls with a shared token only is served like others, and has the state never.
func TestSharedTokenOfNewCluster(t *testing.T) {
	t.Parallel()
	w := setupWith(t, options{configure: func(c *server.Config) { c.RequireClusterToken = true }})
	bytes := string(w.poll(demoPolls + "/platform-components").want(200).body)
	known := w.status("demo-cluster-01").(map[string]any)
	require.Equal(t, "never", known["state"])
	require.NotContains(t, known, "seen_at")
	require.Equal(t, "2026-01-02T03:04:05.678Z", known["shared_token_at"])
	require.Equal(t, known["shared_token_at"], at(w.get("/status").want(200).json(), "clusters", 0, "shared_token_at"))

	w.clock.advance(time.Minute)
	mine := w.issue(pollBody).secret
	require.Equal(t, bytes, string(w.get(demoPolls+"/platform-components", "Authorization", "Bearer "+mine, "User-Agent", "flux-operator/v0.58.0").want(200).body))
	known = w.status("demo-cluster-01").(map[string]any)
	require.Equal(t, "unknown", known["state"], "it sends no receipts")
	require.Equal(t, "2026-01-02T03:05:05.678Z", known["seen_at"])
	require.Equal(t, "2026-01-02T03:04:05.678Z", known["shared_token_at"])
}

// TestSharedTokenBehindOtherServer: polls that do not count are served no older list after a newer one either, whichever token
// the cluster used for each.
func TestSharedTokenBehindOtherServer(t *testing.T) {
	t.Parallel()
	table := sqlite.NewObservations(filepath.Join(t.TempDir(), "fleet.db"))
	var trackers []*clusterstatus.Tracker
	var worlds []*world
	for range 2 {
		tracker := clusterstatus.NewTracker(clusterstatus.Config{Store: table})
		trackers = append(trackers, tracker)
		worlds = append(worlds, setupWith(t, options{configure: func(c *server.Config) { c.ClusterStatus, c.RequireClusterToken = tracker, true }}))
	}
	ahead, behind := worlds[0], worlds[1]
	ownAhead, ownBehind := ahead.issue(pollBody).secret, behind.issue(pollBody).secret
	poll := func(w *world, list, token string) *answer {
		return w.get(demoPolls+list, "Authorization", "Bearer "+token, "User-Agent", "flux-operator/v0.58.0")
	}
	ahead.do("PATCH", "/namespaces/podinfo", `{"labels":{"changed":"yes"}}`).want(200)
	ahead.do("PATCH", "/platform_components/podinfo", `{"component_version":"6.9.0"}`).want(200)
	poll(ahead, "/namespaces", readToken).want(200)
	poll(ahead, "/platform-components", ownAhead).want(200)
	for range 2 {
		for _, tracker := range trackers {
			tracker.Sync(t.Context(), start)
		}
	}
	for _, token := range []string{readToken, ownBehind} {
		for _, list := range []string{"/namespaces", "/platform-components"} {
			poll(behind, list, token).problem(503, "store_unavailable")
		}
		poll(behind, "/rolebindings", token).want(200)
	}
	require.Contains(t, behind.status("demo-cluster-01"), "shared_token_at", "each process shows it")
	behind.do("PATCH", "/namespaces/podinfo", `{"labels":{"changed":"yes"}}`).want(200)
	behind.do("PATCH", "/platform_components/podinfo", `{"component_version":"6.9.0"}`).want(200)
	poll(behind, "/namespaces", readToken).want(200)
	poll(behind, "/platform-components", readToken).want(200)
}

// TestSharedTokensShown: status, its filter and the metrics show the clusters that poll with a shared token, and the age of tokens,
// with and without the setting.
func TestSharedTokensShown(t *testing.T) {
	t.Parallel()
	for _, required := range []bool{false, true} {
		w := setupWith(t, options{configure: func(c *server.Config) { c.RequireClusterToken = required }})
		w.clusters(2, "qa")
		token := w.issue(`{"name":"own","role":"poll","cluster_id":"qa-00"}`)
		w.clock.advance(time.Minute)
		own := []string{"Authorization", "Bearer " + token.secret, "User-Agent", "flux-operator/v0.58.0"}
		dns := at(w.get("/clusters/qa-00").json(), "cluster_dns").(string)
		w.get("/api/v2/flux/clusters/"+dns+"/namespaces", own...).want(200)
		w.poll(demoPolls + "/namespaces").want(200)

		list := w.get("/status").want(200).json()
		require.EqualValues(t, 1, list["shared_tokens"])
		require.Equal(t, "2026-01-02T03:05:05.678Z", at(list, "clusters", 0, "shared_token_at"))
		require.NotContains(t, at(list, "clusters", 0), "token_created_at", "it has no token of its own")
		require.Equal(t, "2026-01-02T03:04:05.678901Z", at(list, "clusters", 1, "token_created_at"))
		require.NotContains(t, at(list, "clusters", 1), "shared_token_at")
		require.Equal(t, at(list, "clusters", 1, "token_created_at"), at(w.status("qa-00"), "token_created_at"))
		some := w.get("/status?shared_token=true").want(200)
		require.Equal(t, "1", some.header.Get("X-Total-Count"))
		require.Equal(t, "demo-cluster-01", at(some.json(), "clusters", 0, "id"))
		require.EqualValues(t, 3, some.json()["total"], "clusters that are left out are counted")
		require.Equal(t, "2", w.get("/status?shared_token=false&limit=1").want(200).header.Get("X-Total-Count"))
		w.get("/status?shared_token=maybe").problem(400, "validation_error")
		require.Equal(t, 1.0, w.metric("flux_resourceset_clusters_shared_token"))
		created := float64(start.UnixMilli()) / 1000
		require.InDelta(t, created, w.metric(`flux_resourceset_token_created_timestamp_seconds{role="poll",token="own"}`), 0.001)

		// The overlap of a rotation ends: the age is that of the new secret.
		w.do("POST", "/tokens/"+token.id+"/rotate", `{"overlap":"1h"}`).want(200)
		require.Equal(t, "2026-01-02T03:04:05.678901Z", at(w.status("qa-00"), "token_created_at"), "the secret from before is valid")
		w.clock.advance(time.Hour + time.Second)
		require.Equal(t, "2026-01-02T03:05:05.678901Z", at(w.status("qa-00"), "token_created_at"))
		require.Zero(t, w.metric("flux_resourceset_clusters_shared_token"))
		require.NotContains(t, w.get("/status").want(200).json(), "shared_tokens")
		require.NotContains(t, string(w.get("/metrics", "Authorization", "").want(200).body), `token="own"`, "only those who may read see names")
	}
}
