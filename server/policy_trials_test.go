package server_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestPolicyTrials: a rule is tested on a change and on the newest revisions, by those who read everything.
func TestPolicyTrials(t *testing.T) {
	t.Parallel()
	w := twoTeams(t)
	web := bearer(w.issue(scopedBody).secret)
	read := bearer(w.issue(`{"name":"reader","role":"read"}`).secret)
	w.do(http.MethodPatch, "/clusters/web-01", `{"pinned":null}`).want(200)
	w.create("/access", accessFor("team", `["read","plan","write"]`, teamRead))
	const (
		policy = `"policy":{"id":"p","rule":"effect.clusters.all(c, c.id != 'web-01')","message":"'changes ' + effect.clusters[0].id","action":"deny"}`
		change = `"operations":[{"op":"patch","kind":"cluster","id":"web-01","patch":{"patches":{"web-app":{"replicas":"3"}}}}]`
	)
	test := func(body string, as ...string) api.PolicyTest {
		var out api.PolicyTest
		require.NoError(t, json.Unmarshal(w.do(http.MethodPost, "/policies/test", "{"+body+"}", as...).want(200).body, &out))
		return out
	}
	got := test(policy + "," + change)
	require.Equal(t, api.PolicyTest{Tested: 1, Failures: []api.PolicyTestFailure{{Message: "changes web-01", Clusters: 1, ClusterIds: []string{"web-01"}}}}, got)

	w.do(http.MethodPost, "/batch", "{"+change+"}", "X-Change-Author", "ann").want(200)
	w.post("/freezes", `{"id":"f","selector":"team=none","reason":"x"}`).want(201)
	revision := w.get("/revisions?limit=2").want(200).list()[1]["revision"]
	got = test(policy + `,"last":2`)
	require.Equal(t, [3]int{2, 1, 0}, [3]int{got.Tested, got.Exempt, got.Skipped})
	require.Len(t, got.Failures, 1)
	require.EqualValues(t, revision, got.Failures[0].Revision)
	require.Equal(t, "ann", got.Failures[0].Author)
	require.Equal(t, "changes web-01", got.Failures[0].Message)
	require.NotZero(t, got.Failures[0].At)
	all := test(policy + `,"last":200`)
	require.Zero(t, all.Skipped)
	require.Greater(t, all.Tested, 5)
	require.Empty(t, w.get("/policies").want(200).list(), "nothing is stored")

	require.Equal(t, got, test(policy+`,"last":2`, read...))
	w.do(http.MethodPost, "/policies/test", "{"+policy+`,"last":2}`, web...).problem(403, "forbidden")
	w.do(http.MethodPost, "/policies/test", "{"+policy+","+change+"}", web...).problem(403, "forbidden")
	w.do(http.MethodPost, "/policies/test", "{"+policy+"}").problem(400, "validation_error")
	w.do(http.MethodPost, "/policies/test", "{"+policy+`,"last":2,`+change+"}").problem(400, "validation_error")
	w.do(http.MethodPost, "/policies/test", "{"+policy+`,"last":201}`).problem(400, "validation_error")
	w.do(http.MethodPost, "/policies/test", `{"policy":{"id":"p","rule":"effect.cluster","action":"deny"},"last":1}`).problem(400, "validation_error")
	wrong := w.do(http.MethodPost, "/policies/test", `{"policy":{"id":"p","rule":"effect.cluster","action":"deny"},"last":1}`)
	require.Contains(t, string(wrong.body), "/policy/rule")
}
