package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

const (
	simulatedTick         = 5 * time.Second
	simulatedOfflineAfter = 6 * time.Minute
	simulatedRollout      = "sim"
)

// rolloutSimulation is an automatic rollout over clusters that poll and send receipts as Flux does, served by two processes of
// one store. Each commit is compared with what the clusters truly run, and each answer with two fleets without rollouts: in
// one the change was made, in the other not.
type rolloutSimulation struct {
	t *testing.T
	*rand.Rand
	store     *sqlite.Store
	table     *sharedTable
	now       time.Time
	skew      time.Duration // of the clock of the second process
	processes [2]*simulatedProcess
	clusters  []*simulatedCluster
	steps     map[string]int // made by the runners

	state *fleet.State // at the last commit that was examined
	fleetsWithout
	past        map[fleet.Revision]fleetsWithout
	deployer    issuedToken
	revoked     bool
	evaluated   *simulatedProcess // that evaluates the rollouts now
	wasComplete bool              // it knew the status of all clusters then

	newest    time.Time        // of the commits
	notes     int              // made by people
	reverted  []fleet.Revision // made by people, who may revert them
	takesBack map[fleet.Revision]bool
}

// fleetsWithout are two fleets without rollouts.
type fleetsWithout struct{ without, with *fleet.State }

type issuedToken struct {
	ID     string `json:"id"`
	Secret string `json:"token"`
}

// simulatedProcess is a process of the service.
type simulatedProcess struct {
	name    string
	store   *interruptedStore
	tracker *clusterstatus.Tracker
	replica *store.Replica
	server  *server.Server
	now     func() time.Time
}

// interruptedStore runs before just before the next commit, and loses the answer to it if dies is set.
type interruptedStore struct {
	store.Store
	before func()
	dies   bool
}

func (s *interruptedStore) Commit(ctx context.Context, base fleet.Head, c fleet.Commit) error {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	err := s.Store.Commit(ctx, base, c)
	if s.dies && err == nil {
		return store.ErrUnknown
	}
	return err
}

// sharedTable is the status of clusters that the processes share.
type sharedTable struct {
	now  func() time.Time // its clock; nil: time.Now
	mu   sync.Mutex
	rows map[[2]string]sharedRow
}

type sharedRow struct {
	clusterstatus.Row
	written time.Time
}

func (s *sharedTable) clock() time.Time {
	if s.now == nil {
		return time.Now()
	}
	return s.now()
}

func (s *sharedTable) Put(_ context.Context, rows []clusterstatus.Row) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rows {
		key := [2]string{r.Cluster, r.Subject}
		if old, ok := s.rows[key]; ok && (old.ObservedAt.After(r.ObservedAt) || old.Row == r) {
			continue
		}
		s.rows[key] = sharedRow{r, s.clock()}
	}
	return nil
}

func (s *sharedTable) Since(_ context.Context, at time.Time, subjects []string, visit func(clusterstatus.Row)) (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rows {
		if at.IsZero() || !r.written.Before(at) || r.Cluster == "" && slices.Contains(subjects, r.Subject) {
			visit(r.Row)
		}
	}
	return s.clock(), nil
}

func (s *sharedTable) Prune(context.Context, []string, int) error { return nil }
func (s *sharedTable) Close() error                               { return nil }

// simulatedCluster starts to apply an input seconds after it was served. Then it no longer runs the previous one, whose receipt
// is still sent for a while. It runs the new one some time later.
type simulatedCluster struct {
	id                    string
	offline, mute, broken bool
	next, seen            time.Time // seen: the last request, by the clock of the process that answered it
	served                map[string]map[string]string
	applies               map[string]applying
	runs, first           map[string]string // by list/id
	sends                 []sending
}

type applying struct {
	receipt        string
	begins, ready  time.Time
	begun, settled bool
}

type sending struct {
	key, receipt string
	at           time.Time
}

func (s *rolloutSimulation) start(i int) {
	p := &simulatedProcess{name: fmt.Sprint("process ", i), store: &interruptedStore{Store: s.store}, tracker: clusterstatus.NewTracker(clusterstatus.Config{Store: s.table})}
	p.now = func() time.Time { return s.now.Add(time.Duration(i) * s.skew) }
	p.replica = store.NewReplica(store.Config{Store: p.store, Rules: fleet.Rules{MaxRemovals: 1000}, Now: p.now})
	require.NoError(s.t, p.replica.Load(s.t.Context()))
	var err error
	p.server, err = server.New(server.Config{
		Mode: server.ModeCRUD, Replica: p.replica, History: p.store, Tokens: server.Tokens{Read: readToken, Write: writeToken},
		ClusterStatus: p.tracker, OfflineAfter: simulatedOfflineAfter, Now: p.now, GatesTrustSharedToken: true, // the clusters poll with it
	})
	require.NoError(s.t, err)
	p.tracker.Sync(s.t.Context(), p.now())
	s.processes[i] = p
}

// do sends a request. It returns the body of a success.
func (p *simulatedProcess) do(method, path, token, body string, headers ...string) (status int, answer []byte) {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
		if method == http.MethodPatch {
			req.Header.Set("Content-Type", mergePatchType)
		}
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res := httptest.NewRecorder()
	p.server.ServeHTTP(res, req)
	return res.Code, res.Body.Bytes()
}

func (s *rolloutSimulation) any() *simulatedProcess { return s.processes[s.IntN(2)] }
func (s *rolloutSimulation) chance(n int) bool      { return s.IntN(n) == 0 }
func (s *rolloutSimulation) seconds(least, most int) time.Duration {
	return time.Duration(least+s.IntN(most-least+1)) * time.Second
}
func (s *rolloutSimulation) pick(of ...string) string { return of[s.IntN(len(of))] }

// flux sends a request of the Flux Operator of a cluster.
func (s *rolloutSimulation) flux(p *simulatedProcess, c *simulatedCluster, path string) (int, []byte) {
	if now := p.now(); now.After(c.seen) {
		c.seen = now
	}
	return p.do("GET", "/api/v2/flux/clusters/"+c.id+".example.com/"+path, readToken, "", "User-Agent", "flux-operator/v0.58.0", "Accept", "application/json")
}

var simulatedLists = []string{"platform-components", "namespaces"}

// live is one tick of a cluster.
func (s *rolloutSimulation) live(c *simulatedCluster) {
	for _, key := range slices.Sorted(maps.Keys(c.applies)) {
		a := c.applies[key]
		switch {
		case !a.begun && !s.now.Before(a.begins):
			a.begun = true
			if was := c.runs[key]; was != "" {
				for range s.IntN(3) {
					c.sends = append(c.sends, sending{key, was, s.now.Add(s.seconds(0, 25))})
				}
				delete(c.runs, key)
			}
		case a.begun && !a.settled && !s.now.Before(a.ready):
			a.settled = true
			if a.receipt == "" { // it is removed
				break
			}
			if c.broken && a.receipt != c.first[key] {
				list, id, _ := strings.Cut(key, "/")
				if list == "platform-components" {
					s.any().do("POST", "/api/v2/flux/clusters/"+c.id+".example.com/events", readToken, event(fmt.Sprintf(`{"component":%q,"input":%q}`, id, a.receipt), "no such image"), "User-Agent", "Go-http-client/1.1")
				}
				break
			}
			c.runs[key] = a.receipt
		}
		c.applies[key] = a
	}
	if c.offline {
		return
	}
	if !s.now.Before(c.next) {
		c.next = s.now.Add(s.seconds(20, 40))
		for _, list := range simulatedLists {
			s.poll(c, list)
		}
	}
	if c.mute {
		return
	}
	if s.chance(2) {
		for _, key := range slices.Sorted(maps.Keys(c.runs)) {
			s.receipt(c, key, c.runs[key])
		}
	}
	if s.chance(6) { // receipts of the first input, unless it is desired again, and of no input at all, at any time
		for _, key := range slices.Sorted(maps.Keys(c.first)) {
			list, id, _ := strings.Cut(key, "/")
			if c.runs[key] != c.first[key] && c.served[list][id] != c.first[key] && s.chance(2) {
				s.receipt(c, key, c.first[key])
				s.receipt(c, key, fmt.Sprintf("%016x", s.Uint64()))
			}
		}
	}
	var later []sending
	for _, sent := range c.sends {
		if s.now.Before(sent.at) {
			later = append(later, sent)
		} else {
			s.receipt(c, sent.key, sent.receipt)
		}
	}
	c.sends = later
}

func (s *rolloutSimulation) receipt(c *simulatedCluster, key, receipt string) {
	for range 1 + s.IntN(2) {
		s.flux(s.any(), c, "receipts/"+key+"?input="+receipt)
	}
}

func (s *rolloutSimulation) poll(c *simulatedCluster, list string) {
	p := s.any()
	status, body := s.flux(p, c, list)
	if status != http.StatusOK {
		return
	}
	var answer struct {
		Inputs []struct{ ID, Receipt string } `json:"inputs"`
	}
	require.NoError(s.t, json.Unmarshal(body, &answer))
	got := map[string]string{}
	for _, in := range answer.Inputs {
		got[in.ID] = in.Receipt
	}
	for _, id := range slices.Sorted(maps.Keys(c.served[list])) {
		if got[id] == "" {
			c.applies[list+"/"+id] = applying{begins: s.now.Add(s.seconds(1, 5)), ready: s.now}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(got)) {
		if receipt := got[id]; c.served[list][id] != receipt {
			if key := list + "/" + id; c.first[key] == "" {
				c.first[key] = receipt
			}
			begins := s.now.Add(s.seconds(1, 5))
			c.applies[list+"/"+id] = applying{receipt: receipt, begins: begins, ready: begins.Add(s.seconds(0, 40))}
		}
	}
	c.served[list] = got
}

// person makes a random change by a process.
func (s *rolloutSimulation) person(p *simulatedProcess) {
	token := writeToken
	if !s.revoked && s.chance(2) {
		token = s.deployer.Secret
	}
	act := func(action string) {
		status, answer := p.do("POST", "/rollouts/"+simulatedRollout+"/"+action, token, "")
		if action == "abort" || action == "back" {
			s.requireNotHindered(action, status, answer)
		}
	}
	switch s.IntN(24) {
	case 0, 1, 2, 3, 18, 19:
		d := s.read(bodyOf(s.state))
		if d.State == "proposed" && d.Started == 0 {
			act("start")
		} else if d.State == "paused" {
			act("resume")
		}
	case 4, 5:
		act("approve")
	case 6:
		act(s.pick("pause", "resume", "skip", "back", "complete", "start"))
	case 7:
		if s.chance(4) {
			act(s.pick("abort", "back"))
		}
	case 8, 9, 10:
		id, tier := s.clusters[s.IntN(len(s.clusters))].id, s.pick("a", "b")
		p.do("PATCH", "/clusters/"+id, writeToken, fmt.Sprintf(`{"labels":{"tier":%q}}`, tier), "X-Change-Reason", "tier "+id+" "+tier)
	case 11:
		if s.chance(2) {
			break
		}
		p.do("POST", "/freezes", writeToken, `{"id":"all","all":true,"reason":"test"}`)
	case 12, 13:
		p.do("DELETE", "/freezes/all", writeToken, "")
	case 14:
		if !s.revoked && s.chance(3) {
			status, _ := p.do("DELETE", "/tokens/"+s.deployer.ID, writeToken, "")
			s.revoked = status < 300
		}
	case 15:
		if rev := fleet.Revision(1 + s.IntN(int(s.state.Revision()))); s.chance(6) && s.past[rev].with != nil {
			p.do("POST", fmt.Sprintf("/revisions/%d/restore", rev), writeToken, "", "X-Change-Reason", fmt.Sprint("restore ", rev))
		}
	case 16:
		c := s.clusters[s.IntN(len(s.clusters))]
		c.offline = !c.offline
	case 17:
		s.clusters[s.IntN(len(s.clusters))].broken = s.chance(4)
	default:
		s.changeByPerson(p)
	}
}

// run evaluates the rollouts in a process. Another process may commit in between, and the process may die.
func (s *rolloutSimulation) run(i int) {
	p := s.processes[i]
	other := s.processes[1-i]
	wasComplete := p.tracker.Stats().Complete
	evaluate := func(p *simulatedProcess, complete bool) {
		s.evaluated, s.wasComplete = p, complete
		p.server.AdvanceRollouts(s.t.Context())
		s.examine()
	}
	if s.chance(4) {
		p.store.before = func() {
			if s.chance(2) {
				evaluate(other, other.tracker.Stats().Complete)
			} else {
				s.person(other)
				other.do("POST", "/rollouts/"+simulatedRollout+"/"+s.pick("pause", "abort", "back", "complete", "skip"), writeToken, "")
				s.examine()
			}
			s.evaluated, s.wasComplete = p, wasComplete
		}
	}
	p.store.dies = s.chance(20)
	before := s.state
	evaluate(p, wasComplete)
	p.store.before = nil
	if before == s.state {
		s.requireNotForgotten(p)
	}
	if p.store.dies || s.chance(60) {
		s.start(i)
	}
	p.store.dies = false
}

func newRolloutSimulation(t *testing.T, seed uint64) *rolloutSimulation {
	t.Helper()
	memory, err := sqlite.Open(t.Context(), sqlite.Config{Memory: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = memory.Close() })
	s := &rolloutSimulation{
		t: t, Rand: rand.New(rand.NewPCG(seed, 31)), store: memory, table: &sharedTable{rows: map[[2]string]sharedRow{}},
		past: map[fleet.Revision]fleetsWithout{}, steps: map[string]int{}, takesBack: map[fleet.Revision]bool{},
	}
	s.now = simulatedStarts[s.IntN(len(simulatedStarts))]
	s.table.now = func() time.Time { return s.now }
	s.skew = []time.Duration{0, 0, 0, 8 * time.Second, 0, -8 * time.Second, time.Hour, -time.Hour}[s.IntN(8)]
	s.start(0)
	p := s.processes[0]
	ops := []api.Operation{}
	add := func(kind, body string) {
		ops = append(ops, api.Operation{Op: "create", Kind: kind, Document: json.RawMessage(body)})
	}
	for _, id := range []string{"app", "db"} {
		add("platform_component", fmt.Sprintf(`{"id":%q,"component_path":%q,"oci_url":"https://charts.example.com","component_version":"1"}`, id, id))
	}
	add("namespace", `{"id":"team"}`)
	add("namespace", `{"id":"kept","deletion_policy":"orphan"}`)
	add("layer", `{"id":"base","priority":10,"all":true,"platform_components":[{"id":"app"},{"id":"db"}],"namespaces":[{"id":"team"},{"id":"kept"}]}`)
	add("layer", fmt.Sprintf(`{"id":"zone","priority":20,"selector":"tier=b","variables":{"timezone":%q}}`, simulatedLayerZone))
	for i := range 2 + s.IntN(5) {
		c := &simulatedCluster{
			id: fmt.Sprint("c", i), next: s.now.Add(s.seconds(0, 20)), mute: s.chance(12), broken: false,
			served: map[string]map[string]string{}, applies: map[string]applying{}, runs: map[string]string{}, first: map[string]string{},
		}
		s.clusters = append(s.clusters, c)
		pin := ""
		if s.chance(6) {
			pin = `,"platform_components":[{"id":"app","component_version":"0"}]`
		}
		if s.chance(2) {
			pin += fmt.Sprintf(`,"variables":{"timezone":%q}`, s.pick(simulatedZones...))
		}
		add("cluster", fmt.Sprintf(`{"id":%q,"cluster_dns":"%s.example.com","environment":"dev","labels":{"tier":%q}%s}`, c.id, c.id, s.pick("a", "b"), pin))
	}
	_, err = p.replica.Update(s.t.Context(), store.Meta{Actor: "test"}, func(tx *fleet.Tx) error {
		_, err := fleet.NewBatch(tx, nil).Run(ops)
		return err
	})
	require.NoError(t, err)
	status, token := p.do("POST", "/tokens", writeToken, `{"name":"deployer","role":"write"}`)
	require.Equal(t, http.StatusCreated, status, "%s", token)
	require.NoError(t, json.Unmarshal(token, &s.deployer))
	s.start(1)
	s.state = s.processes[1].replica.State()
	s.without = s.state
	s.create()
	return s
}

// create creates the rollout.
func (s *rolloutSimulation) create() {
	var ops []api.Operation
	for _, op := range []api.Operation{
		{Op: "patch", Kind: "platform_component", ID: "app", Patch: json.RawMessage(`{"component_version":"2"}`)},
		{Op: "patch", Kind: "platform_component", ID: "db", Patch: json.RawMessage(`{"target_namespace":"data"}`)},
		{Op: "patch", Kind: "namespace", ID: "team", Patch: json.RawMessage(`{"labels":{"x":"y"}}`)},
		{Op: "unassign_namespace", Layers: []string{"base"}, NamespaceID: "kept"},
	} {
		if s.chance(2) || len(ops) == 0 && op.NamespaceID != "" {
			ops = append(ops, op)
		}
	}
	s.with = s.edited(s.without, func(tx *fleet.Tx) error { _, err := fleet.NewBatch(tx, nil).Run(ops); return err })
	var stages []string
	for i := range s.IntN(4) {
		stage := s.pick(`"cluster_ids":["c0"]`, `"selector":"tier=a"`, `"selector":"tier=b"`, `"all":true,"percent":50`, `"all":true,"count":1`, `"selector":"tier=c"`)
		if s.chance(6) {
			stage += `,"approval":true`
		}
		stages = append(stages, fmt.Sprintf(`{"name":"s%d",%s}`, i, stage+s.startTime(5)))
	}
	gate := fmt.Sprintf(`{"soak":%q,"deadline":%q,"confirmed":%q,"max_failures":%d}`, s.pick("30s", "2m"), s.pick("4m", "10m"), s.pick("100%", "100%", "100%", "50%", "1%", "0%"), s.IntN(5)/4)
	settings := ""
	if s.chance(3) {
		settings += `,"on_failure":"back"`
	}
	if s.chance(4) {
		settings += fmt.Sprintf(`,"windows":[{"from":%q,"to":%q}]`, s.now.Add(3*time.Minute).Format("15:04"), s.now.Add(9*time.Minute).Format("15:04"))
	}
	settings += s.startTime(3)
	freezes := s.chance(2)
	for id := range s.IntN(4) {
		if freezes {
			s.processes[0].do("POST", "/freezes", writeToken, s.randomFreeze(fmt.Sprint("w", id)))
		}
	}
	text, err := json.Marshal(ops)
	require.NoError(s.t, err)
	body := fmt.Sprintf(`{"id":%q,"advance":"automatic","gate":%s,"operations":%s,"stages":[%s]%s}`, simulatedRollout, gate, text, strings.Join(stages, ","), settings)
	s.t.Log(body)
	status, answer := s.processes[0].do("POST", "/rollouts", writeToken, body)
	for id := 0; id < 4 && strings.Contains(string(answer), "could never start"); id++ {
		s.processes[0].do("DELETE", fmt.Sprint("/freezes/w", id), writeToken, "")
		status, answer = s.processes[0].do("POST", "/rollouts", writeToken, body)
	}
	require.Equal(s.t, http.StatusCreated, status, "%s", answer)
	s.examine()
}

// TestRolloutSimulation: whatever clusters, people, clocks, restarts and losses do, a runner starts no stage before the clusters
// of the last one truly run exactly the new inputs, and every poll is that of a fleet without rollouts. ROLLOUT_SIMULATIONS is
// the number of rollouts, and ROLLOUT_SIMULATION the first one, or without a number the only one.
func TestRolloutSimulation(t *testing.T) {
	t.Parallel()
	steps, first, n := map[string]int{}, 0, 25
	if _, err := fmt.Sscan(os.Getenv("ROLLOUT_SIMULATION"), &first); err == nil {
		n = 1
	}
	_, _ = fmt.Sscan(os.Getenv("ROLLOUT_SIMULATIONS"), &n)
	for seed := first; seed < first+n && !t.Failed(); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := newRolloutSimulation(t, uint64(seed))
			for tick := range 150 {
				s.tick(tick)
			}
			for step, n := range s.steps {
				steps[step] += n
			}
			steps["commits"] += int(s.state.Revision())
		})
	}
	t.Log("steps of runners:", steps)
	for _, step := range []string{"start", "complete", "start by itself", "taken back outside windows", "waits for freeze", "waits for start_at"} {
		require.True(t, n < 25 || steps[step] > 0, "no rollout had the step %q", step)
	}
}

// tick is five seconds of all processes, clusters and people.
func (s *rolloutSimulation) tick(n int) {
	s.now = s.now.Add(simulatedTick)
	for i, p := range s.processes {
		if !s.chance(10) {
			require.NoError(s.t, p.replica.SyncTo(s.t.Context(), s.state.Revision()))
		}
		if !s.chance(10) {
			p.tracker.Sync(s.t.Context(), p.now())
		}
		if n%2 == i {
			s.run(i)
		}
	}
	for _, c := range s.clusters {
		s.live(c)
	}
	if s.chance(5) {
		s.person(s.any())
		s.examine()
	}
	if s.chance(200) { // the status of all clusters is lost
		s.table.rows = map[[2]string]sharedRow{}
	}
}
