package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

func (w *world) revert(revision int, body, query string) *answer {
	w.t.Helper()
	return w.post(fmt.Sprintf("/revisions/%d/revert%s", revision, query), body)
}

// polls are the bodies that all clusters are answered with.
func (w *world) polls() map[string]string {
	w.t.Helper()
	out, st := map[string]string{}, w.replica.State()
	for _, cluster := range st.All(fleet.KindCluster) {
		for _, kind := range fleet.Definitions() {
			answer, err := st.Answer(cluster, kind)
			require.NoError(w.t, err)
			body, err := answer.Body()
			require.NoError(w.t, err)
			out[cluster.ID+"/"+kind.Endpoint()] = string(body)
		}
	}
	return out
}

// TestRevertCascade is the mistake that revert is for: a component deleted from 200 clusters, each with a pin and values of
// its own, and noticed after three more changes. The fleet then polls as if only those had been made.
func TestRevertCascade(t *testing.T) {
	t.Parallel()
	build := func(t *testing.T) *world {
		w := setup(t)
		ops := make([]string, 200)
		for i := range ops {
			ops[i] = fmt.Sprintf(`{"op":"create","kind":"cluster","id":"c-%03d","document":{"id":"c-%03d","cluster_dns":"c-%03d.example.com","environment":%q,
				"platform_components":[{"id":"traefik"},{"id":"podinfo","component_version":"6.%d.0"},{"id":"cert-manager"}],
				"patches":{"podinfo":{"replicaCount":"%d","ui.message":"cluster %d"}}}}`, i, i, i, []string{"dev", "qa", "prod"}[i%3], i%9, i%5+1, i)
		}
		w.batch(ops...).want(200)
		w.patch("/clusters/c-007/patches/podinfo?field_manager=ci", `{"image.tag":"6.7.1"}`).want(200)
		return w
	}
	others := func(w *world) {
		w.batch(`{"op":"set_labels","selector":"environment=qa","labels":{"wave":"2"}}`).want(200)
		w.create("/namespaces", `{"id":"team-new"}`)
		w.batch(`{"op":"assign_namespace","namespace_id":"team-new","cluster_ids":["c-001","c-007"]}`, `{"op":"set_component","component_id":"cert-manager","component_version":"1.17.2","selector":"environment=prod"}`).want(200)
	}
	w := build(t)
	cascade := `{"op":"delete","kind":"platform_component","id":"podinfo","cascade":true}`
	hash := w.plan(cascade)["plan_hash"].(string)
	w.post("/batch", `{"operations":[`+cascade+`],"plan_hash":"`+hash+`"}`).want(200)
	mistake := w.revision()
	require.NotContains(t, w.polls()["c-007/platform-components"], "podinfo")
	others(w)

	plan := w.plan(fmt.Sprintf(`{"op":"revert","revision":%d}`, mistake))
	require.EqualValues(t, 0, at(plan, "totals", "removals"))
	require.EqualValues(t, 201, at(plan, "totals", "added"), "200 clusters and the one of the demo")
	require.Equal(t, false, plan["confirmation_required"])
	w.unchanged(func() { w.revert(mistake, "", "?dry_run=true").want(200) })
	w.revert(mistake, "", "?plan_hash="+plan["plan_hash"].(string)).want(200)

	never := build(t) // in a fleet without the mistake
	others(never)
	require.Equal(t, never.polls(), w.polls())
	require.JSONEq(t, string(never.get("/clusters/c-007/patches/podinfo").body), string(w.get("/clusters/c-007/patches/podinfo").body))
	summary := w.get("/revisions?limit=1").list()[0]
	require.Equal(t, fmt.Sprintf("reverted revision %d", mistake), summary["reason"])
}

// TestRevertGuarded: its removals count like any removal.
func TestRevertGuarded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(60, "qa")
	made := w.revision()
	w.unchanged(func() {
		w.revert(made, "", "").problem(409, "confirmation_required")
		w.revert(made, "", "?plan_hash=0000").problem(412, "stale")
		w.revert(9999, "", "").problem(404, "not_found")
		w.revert(made, `{"prefer":"mine"}`, "").problem(400, "validation_error")
		w.revert(made, `{"documents":[{"kind":"token","id":"x"}]}`, "").problem(400, "validation_error")
		w.revert(made, "", "?plan_hash=&dry_run=true").problem(400, "validation_error")
		w.post(fmt.Sprintf("/revisions/%d/revert", made), "", bearer(readToken)...).problem(401, "unauthorized")
	})
	w.patch("/clusters/qa-03", `{"labels":{"later":"1"}}`).want(200)
	conflict := w.revert(made, "", "").problem(409, "revert_conflict").json()["errors"].([]any)[0].(map[string]any)
	require.Equal(t, map[string]any{
		"pointer": "/operations/0", "kind": "cluster", "id": "qa-03", "detail": `cluster "qa-03": was changed since`,
	}, conflict)
	two := `{"documents":[{"kind":"cluster","id":"qa-01"},{"kind":"cluster","id":"qa-02"}]}`
	w.unchanged(func() { w.revert(made, two, "").problem(409, "confirmation_required") }) // of a namespace on each
	w.revert(made, `{"documents":[{"kind":"cluster","id":"qa-01"}]}`, "").want(200)
	require.Empty(t, w.poll("/api/v2/flux/clusters/qa-01.example.com/platform-components").want(200).ids())
	require.NotEmpty(t, w.poll("/api/v2/flux/clusters/qa-04.example.com/platform-components").want(200).ids())
}

// TestRevertAndRetention: a removed revision cannot be reverted; a kept one can, although others were removed.
func TestRevertAndRetention(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.patch("/platform_components/podinfo", `{"component_version":"6.9.0"}`).want(200)
	gone := w.revision()
	w.clock.advance(time.Hour)
	w.patch("/platform_components/podinfo", `{"component_version":"6.9.1"}`).want(200)
	kept := w.revision()
	w.patch("/platform_components/podinfo", `{"patches":{"later":"1"}}`).want(200)
	_, _, err := w.store.Compact(t.Context(), start.Add(time.Hour))
	require.NoError(t, err)
	w.unchanged(func() {
		require.Contains(t, w.revert(gone, "", "").problem(404, "not_found").json()["detail"], "HISTORY_RETENTION")
	})
	w.revert(kept, "", "").want(200)
	now := w.get("/platform_components/podinfo").json()
	require.Equal(t, "6.9.0", now["component_version"])
	require.Equal(t, "1", at(now, "patches", "later"))
}

// TestRevertOfTokens: no secret works again, also where its revocation was one change of many.
func TestRevertOfTokens(t *testing.T) {
	t.Parallel()
	w := setup(t)
	token := w.issue(pollBody)
	w.get(demoPolls+"/namespaces", bearer(token.secret)...).want(200)
	w.delete(demoCluster + "?mode=orphan").want(200)
	res := w.revert(w.revision(), "", "").want(200)
	require.Contains(t, fmt.Sprint(res.json()["warnings"]), "tokens are never reverted")
	w.get(demoPolls+"/namespaces", bearer(token.secret)...).problem(401, "unauthorized")
	w.poll(demoPolls + "/namespaces").want(200)
}
