package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// said returns a process's status of the demo cluster: its state, and each input's state and last message.
func (p *program) said() string {
	p.t.Helper()
	var status struct {
		State  string
		Lists  []struct{ List, State string }
		Inputs []struct {
			List, ID, State string
			Failure         *struct{ Message string }
		}
	}
	require.NoError(p.t, json.Unmarshal([]byte(p.get("/clusters/demo-cluster-01/status")), &status))
	text, err := json.Marshal(status)
	require.NoError(p.t, err)
	return string(text)
}

// counted returns a process's metrics of states.
func (p *program) counted() map[string]string {
	p.t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(p.get("/metrics")) {
		if strings.HasPrefix(line, "flux_resourceset_inputs_by_state") || strings.HasPrefix(line, "flux_resourceset_clusters_by_state") {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			out[name] = value
		}
	}
	return out
}

// Two crud and two read-only processes with the database role of docs/databases.md: a cluster polls, confirms and fails
// through random processes, and all of them converge to the same status. The table is dropped meanwhile, and a process
// that starts later reports the same.
func TestFourProcessesAgree(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	owner := server.Database(t, "fleet")
	first := start(t, "DATABASE_URL="+owner, "API_MODE=crud", "SEED_FILE="+demoSeed, "SEED_ACCEPT=true")
	first.eventually("/ready", 200)
	pgtest.Exec(t, owner, `CREATE ROLE fleet_reader LOGIN PASSWORD 'sesame'; GRANT USAGE ON SCHEMA public TO fleet_reader;
		GRANT SELECT ON ALL TABLES IN SCHEMA public TO fleet_reader; GRANT INSERT, UPDATE ON observations TO fleet_reader`)
	reader := "DATABASE_URL=" + pgtest.WithUser(owner, "fleet_reader", "sesame")
	cruds := []*program{first, start(t, "DATABASE_URL="+owner, "API_MODE=crud")}
	all := append(slices.Clone(cruds), start(t, reader), start(t, reader))
	for _, p := range all {
		p.eventually("/ready", 200)
	}

	const flux = "flux-operator/v0.58.1"
	// The cluster polls each list and sends the receipt of each input, except those of one component, which it reports as failed.
	turn, revision := 0, "1"
	live := func(failing string, at ...*program) {
		t.Helper()
		next := func() *program { turn++; return at[turn%len(at)] }
		for _, list := range []string{"platform-components", "namespaces", "rolebindings"} {
			var answer struct {
				Inputs []struct{ ID, Receipt string }
			}
			require.NoError(t, json.Unmarshal([]byte(next().get(demoPolls+list, "User-Agent", flux, "X-Fleet-Min-Revision", revision)), &answer))
			for _, in := range answer.Inputs {
				if list != "platform-components" || in.ID != failing {
					// Like Flux Operator, retry until the process knows that another one has served the input.
					require.Eventually(t, func() bool {
						return next().send("GET", demoPolls+"receipts/"+list+"/"+in.ID+"?input="+in.Receipt, "", "User-Agent", flux).status == 200
					}, waitFor, tick)
					continue
				}
				sent := next().send("POST", demoPolls+"events", fmt.Sprintf(`{"involvedObject":{"kind":"HelmRelease","namespace":"flux-system","name":"x"},
					"severity":"error","reason":"UpgradeFailed","message":"its own words","metadata":{"component":%q,"input":%q}}`, in.ID, in.Receipt),
					"User-Agent", "Go-http-client/1.1", "Content-Type", "application/json")
				require.Equal(t, 202, sent.status, sent.body)
			}
		}
	}
	agree := func(what, state string, inputs int) {
		t.Helper()
		require.Eventually(t, func() bool {
			a, b := cruds[0].said(), cruds[1].said()
			return a == b && strings.HasPrefix(a, `{"State":"`+state+`"`) && strings.Count(a, `"State":"`+state+`"`) == 1+inputs
		}, waitFor, tick, what)
	}
	live("", all...)
	agree("it has everything", "confirmed", 8)
	change := func(by *program, version string) {
		t.Helper()
		changed := by.insist("PUT", "/platform_components/podinfo", `{"component_version":"`+version+`"}`)
		require.Equal(t, 200, changed.status, changed.body)
		revision = changed.header.Get("X-Fleet-Revision")
	}
	change(cruds[1], "6.9.0")
	live("podinfo", all...)
	agree("one input failed", "failed", 1)
	require.Contains(t, cruds[0].said(), "its own words")

	// The rights must be granted again after the drop; until then the read-only processes have only their own reports.
	pgtest.Exec(t, owner, `DROP TABLE observations`)
	agree("what is in memory stays", "failed", 1)
	change(cruds[0], "6.9.1")
	live("", cruds...)
	agree("it is mended", "confirmed", 8)
	pgtest.Exec(t, owner, `GRANT SELECT, INSERT, UPDATE ON observations TO fleet_reader`)
	require.Eventually(t, func() bool { // what is counted is counted anew after some seconds
		for _, p := range all {
			if counts := p.counted(); counts[`flux_resourceset_inputs_by_state{state="confirmed"}`] != "8" || !maps.Equal(counts, first.counted()) {
				return false
			}
		}
		return true
	}, waitFor, tick)
}
