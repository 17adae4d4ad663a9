package server_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFreezeRoutes runs a freeze from its creation to its deletion: refused changes name the clusters, an override is
// recorded, and polls stay the same.
func TestFreezeRoutes(t *testing.T) {
	t.Parallel()
	w := rolloutWorld(t)
	before := w.polls()
	require.Empty(t, w.get("/freezes").want(200).list())
	year := `{"id":"year-end","selector":"id=wave-1","until":"2999-01-01T00:00:00Z","reason":"CHG-9"}`
	w.unchanged(func() { w.post("/freezes?dry_run=true", year).want(200) })
	made := w.post("/freezes", year).want(201)
	require.Equal(t, "/freezes/year-end", made.header.Get("Location"))
	require.Equal(t, "active", made.json()["state"])
	require.Equal(t, 1.0, made.json()["clusters"])
	w.post("/freezes", year).problem(409, "conflict")
	require.Equal(t, made.etag(), w.get("/freezes/year-end").want(200).etag())
	require.Len(t, w.get("/freezes").want(200).list(), 1)

	set := `{"op":"set_component","component_id":"podinfo","cluster_ids":["wave-1"],"component_version":"6.9.9"}`
	var refused *answer
	w.unchanged(func() {
		refused = w.patch("/platform_components/podinfo", `{"component_version":"6.9.9"}`).problem(409, "frozen")
		w.batch(set).problem(409, "frozen")
		w.delete("/clusters/wave-1").problem(409, "frozen")
		w.do("DELETE", "/clusters/wave-1?mode=orphan", "").problem(409, "frozen")
		w.do("POST", "/revisions/1/restore", "").problem(409, "frozen")
		w.patch("/clusters/wave-1", `{"cluster_dns":"elsewhere.example.com"}`).problem(409, "frozen")
	})
	require.Contains(t, refused.json()["detail"], `freeze "year-end" (CHG-9) forbids until 2999-01-01T00:00:00Z: wave-1`)
	require.Equal(t, "wave-1", at(refused.json(), "errors", 0, "id"))
	require.Equal(t, before, w.polls())
	plan := w.post("/plan", `{"operations":[`+bump+`]}`).want(200).json()
	require.Equal(t, []any{map[string]any{"freeze": "year-end", "reason": "CHG-9", "until": "2999-01-01T00:00:00Z", "cluster_ids": []any{"wave-1"}}}, plan["frozen"])
	w.do("PATCH", "/platform_components/podinfo?plan_hash="+plan["plan_hash"].(string), `{"component_version":"6.9.9"}`, "Content-Type", "application/merge-patch+json").problem(409, "frozen")

	// A rollout may be created; its stage with the cluster cannot start.
	w.post("/rollouts", bumpRollout).want(201)
	w.do("POST", "/rollouts/podinfo-6.9.9/start", "").problem(409, "frozen")
	w.do("POST", "/rollouts/podinfo-6.9.9/abort", "").want(200)

	// An override names the freeze and has a reason.
	override := []string{"X-Fleet-Override-Freeze", "year-end"}
	w.do("POST", "/batch", `{"operations":[`+set+`]}`, override...).problem(400, "validation_error")
	w.do("POST", "/revisions/1/restore", "", override...).problem(400, "validation_error")
	w.do("POST", "/batch", `{"operations":[`+set+`],"reason":"CHG-10"}`, "X-Fleet-Override-Freeze", "other").problem(409, "frozen")
	w.do("POST", "/batch", `{"operations":[`+set+`],"reason":"CHG-10"}`, override...).want(200)
	revision := w.get(fmt.Sprint("/revisions/", w.get("/revisions?limit=1").want(200).list()[0]["revision"])).want(200).json()
	require.Equal(t, "override", at(revision, "operations", 0, "op"))
	require.Equal(t, "year-end", at(revision, "operations", 0, "id"))
	require.Contains(t, revision["summary"], "override freeze/year-end")

	ended := w.do("PATCH", "/freezes/year-end", `{"until":"2001-01-01T00:00:00Z"}`, "Content-Type", "application/merge-patch+json").want(200)
	require.Equal(t, "ended", ended.json()["state"])
	w.batch(`{"op":"set_component","component_id":"podinfo","cluster_ids":["wave-1"],"component_version":"6.9.10"}`).want(200)
	w.delete("/freezes/year-end").want(200)
	w.get("/freezes/year-end").problem(404, "not_found")
	bad := w.post("/freezes", `{"id":"Bad","selector":"x in (y","all":true,"from":"2999-01-01T00:00:00Z","until":"2998-01-01T00:00:00Z","reason":"r"}`).problem(400, "validation_error")
	require.NotEmpty(t, bad.pointers())
	w.post("/freezes", `{"id":"all","all":true,"from":"2999-01-01T00:00:00Z","until":"2998-01-01T00:00:00Z","reason":"r"}`).problem(400, "validation_error")
}
