package server_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/server"
)

// TestCauseNamesRevision: the cause of a failure names the last revision before it that changed the input of the cluster, whatever
// happened since, and whatever happened before that did not change it. The receipts say when it changed.
func TestCauseNamesRevision(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			w := setupWith(t, options{configure: func(c *server.Config) { c.ClusterStatus = clusterstatus.NewTracker(clusterstatus.Config{}) }})
			w.clusters(2, "qa")
			w.create("/layers", `{"id":"qa","priority":1,"selector":"environment=qa"}`)
			const id, dns = "qa-00", "qa-00.example.com"
			receipt := func() any { return w.input(id, "platform-components", "podinfo")["receipt"] }
			changed, was := 0, receipt()
			rollout := ""
			version := func() string { return fmt.Sprintf("6.%d.0", r.IntN(1000)) }
			step := func() {
				switch n := r.IntN(9); {
				case n == 0 && rollout == "":
					rollout = fmt.Sprintf("/rollouts/r%d", w.revision())
					w.create("/rollouts", `{"id":"`+rollout[len("/rollouts/"):]+`","operations":[{"op":"patch","kind":"platform_component","id":"podinfo","patch":{"component_version":"`+version()+`"}}],
						"stages":[{"name":"one","cluster_ids":["`+[]string{id, "qa-01"}[r.IntN(2)]+`"]},{"name":"two","selector":"environment=qa"}]}`)
				case n <= 2 && rollout != "":
					w.do("POST", rollout+"/"+[]string{"start", "start", "pause", "resume", "back"}[r.IntN(5)], "")
				case n == 3 && rollout != "":
					w.do("POST", rollout+"/abort", "").want(200)
					rollout = ""
				case n == 4:
					w.put("/platform_components/podinfo", `{"component_version":"`+version()+`"}`)
				case n == 5:
					w.patch("/clusters/"+id, fmt.Sprintf(`{"patches":{"podinfo":{"replicaCount":"%d"}}}`, r.IntN(3))).want(200)
				case n == 6:
					w.patch("/layers/qa", fmt.Sprintf(`{"platform_components":[{"id":"podinfo"}],"patches":{"podinfo":{"ui.color":"%d"}}}`, r.IntN(3))).want(200)
				case n == 7:
					w.patch("/clusters/"+id, fmt.Sprintf(`{"labels":{"note":"%d"}}`, r.IntN(100))).want(200)
				default:
					w.put("/platform_components/traefik", `{"component_version":"`+version()+`"}`)
				}
				if now := receipt(); now != was {
					changed, was = w.revision(), now
				}
				w.clock.advance(time.Second)
			}
			for range 25 {
				step()
			}
			if changed == 0 {
				w.patch("/clusters/"+id, `{"patches":{"podinfo":{"replicaCount":"7"}}}`).want(200)
				changed, was = w.revision(), receipt()
			}
			w.clock.advance(time.Minute)
			w.fail(id, dns, "podinfo", "it failed")
			failed, want := was, changed
			for range 25 { // while the failure is of what the cluster has
				if was == failed {
					got := w.get("/status?group=cause").want(200).json()
					require.EqualValues(t, want, at(got, "causes", 0, "revision"), "%v", got)
				}
				step()
			}
		})
	}
}
