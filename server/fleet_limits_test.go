package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// repeatUntilRefused repeats a request with other ids until it is refused, and returns the refusal and the number of requests before it.
func (w *world) repeatUntilRefused(atMost int, attempt func(i int) *answer) (*answer, int) {
	w.t.Helper()
	for i := range atMost {
		if a := attempt(i); a.status >= 400 {
			return a, i
		}
	}
	w.t.Fatalf("%d requests were not refused", atMost)
	return nil, 0
}

// TestTeamsLeaveReserveOfLimits: teams with one cluster each create as many documents as they can. Each team has a share, and all teams
// leave a reserve: admins can stop all clusters, freeze some, create rollouts and layers, and list the clusters.
func TestTeamsLeaveReserveOfLimits(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/namespaces", `{"id":"shared"}`)
	for i := range 30 {
		w.create("/namespaces", fmt.Sprintf(`{"id":"ns-%d"}`, i))
	}
	made := map[string]int{}
	for team := range 5 {
		name := fmt.Sprint("team-", team)
		as := bearer(w.issue(fmt.Sprintf(`{"name":%q,"role":"scoped"}`, name)).secret)
		cluster := func(id, labels string) string {
			return fmt.Sprintf(`{"id":%q,"cluster_dns":"%s.example.com","environment":"dev","labels":{"team":%q%s}}`, id, id, name, labels)
		}
		w.create("/clusters", cluster(name, ""))
		w.create("/access", fmt.Sprintf(`{"id":%q,"subjects":[{"token":%q}],"may":["read"]}`, name+"-reads", name))
		w.create("/access", fmt.Sprintf(`{"id":%q,"subjects":[{"token":%q}],"may":["read","write"],"on":{"selector":"team=%s","labels":["kk*","never"],"kinds":["cluster","layer","freeze","rollout","namespace"]}}`, name, name, name))
		count := func(what string, atMost int, attempt func(i int) *answer) {
			t.Helper()
			refused, n := w.repeatUntilRefused(atMost, attempt)
			refused.problem(422, "limit_exceeded")
			require.Contains(t, refused.json()["detail"], "ask a principal without limits")
			made[what] += n
			if team == 0 {
				require.GreaterOrEqual(t, n, 2, what)
			}
		}
		count("freezes", 100, func(i int) *answer {
			return w.post("/freezes", fmt.Sprintf(`{"id":"f-%d-%d","selector":"team=%s","reason":"x"}`, team, i, name), as...)
		})
		count("ended freezes", 1_000, func(i int) *answer {
			return w.post("/freezes", fmt.Sprintf(`{"id":"e-%d-%d","selector":"team=%s","reason":"x","until":"2001-01-01T00:00:00Z"}`, team, i, name), as...)
		})
		count("rollouts", 20, func(i int) *answer {
			return w.post("/rollouts", fmt.Sprintf(`{"id":"r-%d-%d","operations":[{"op":"patch","kind":"namespace","id":"ns-%d","patch":{"labels":{"a":"b"}}}]}`, team, i, 5*team+i), as...)
		})
		count("layers", 200, func(i int) *answer {
			return w.post("/layers", fmt.Sprintf(`{"id":"l-%d-%d","priority":%d,"selector":"team=%s,never=%d"}`, team, i, 1000*team+i+1, name, i), as...)
		})
		var labels strings.Builder
		for i := range 60 {
			fmt.Fprintf(&labels, `,"%s-%d":%q`, strings.Repeat("k", 50), i, strings.Repeat("v", 60))
		}
		count("clusters", 500, func(i int) *answer {
			return w.post("/clusters", cluster(fmt.Sprintf("c-%d-%d", team, i), labels.String()), as...)
		})
	}
	require.Equal(t, 80, made["freezes"])
	require.Equal(t, 800-80, made["ended freezes"])
	require.Equal(t, 16, made["rollouts"])
	require.Equal(t, 160, made["layers"])
	w.poll("/api/v2/flux/clusters").want(200)

	w.create("/freezes", `{"id":"some","selector":"id=demo-cluster-01","reason":"INC-1","until":"2999-01-01T00:00:00Z"}`)
	w.create("/rollouts", `{"id":"of-an-admin","operations":[{"op":"patch","kind":"namespace","id":"shared","patch":{"labels":{"a":"b"}}}]}`)
	w.create("/layers", `{"id":"of-an-admin","priority":999999,"selector":"team=none"}`)
	w.create("/clusters", `{"id":"of-an-admin","cluster_dns":"of-an-admin.example.com","environment":"dev"}`)
	for i := range 19 {
		w.create("/freezes", fmt.Sprintf(`{"id":"admin-%d","selector":"id=demo-cluster-01","reason":"x"}`, i))
	}
	w.post("/freezes", `{"id":"more","selector":"id=demo-cluster-01","reason":"x"}`).problem(422, "limit_exceeded")
	w.create("/freezes", `{"id":"all","all":true,"reason":"INC-2"}`)

	limits := map[string]map[string]any{}
	for _, l := range w.get("/status").want(200).json()["limits"].([]any) {
		limits[l.(map[string]any)["name"].(string)] = l.(map[string]any)
	}
	require.Equal(t, map[string]any{"name": "freezes", "used": 100.0, "max": 100.0, "share": 25.0, "reserved": 20.0}, limits["freezes"])
	require.Equal(t, 17.0, limits["open_rollouts"]["used"])
	require.Equal(t, 161.0, limits["layers"]["used"])
	metrics := string(w.get("/metrics").want(200).body)
	require.Contains(t, metrics, `flux_resourceset_limit_usage_ratio{limit="freezes"} 1`+"\n")
	require.Contains(t, metrics, `flux_resourceset_limit_usage_ratio{limit="open_rollouts"} 0.85`+"\n")
}
