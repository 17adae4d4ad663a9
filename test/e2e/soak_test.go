package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// said is the content of an input: a value, and a version or tag.
type said struct {
	marker  int
	version string
}

// soaked is a component that is changed all the time.
type soaked struct {
	id       string
	versions []string
	flag     string // of component set, for the version
	setting  string // the value that is the marker
	live     func(*unstructured.Unstructured) (marker, version string)
	where    [2]string // namespace and name of the ConfigMap that is looked at

	mu      sync.Mutex
	history []said               // oldest first
	inputs  map[string]int       // receipts, and where in history
	changed map[string]time.Time // when it was
}

// soak changes a cluster at random and holds every receipt against the live object at the moment in which it arrives.
type soak struct {
	*cluster
	components map[string]*soaked

	mu              sync.Mutex
	counted         map[claim]bool
	late            []time.Duration // from a change to its receipt
	heldBack, early int             // receipts that the API did not take, or took and did not count
	wrong           []string
}

// claim is a receipt for the change in the history of its component that it is of.
type claim struct {
	rig.Receipt
	at int
}

// soakTime is how long a soak is to take.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	long, err := time.ParseDuration(cmp.Or(os.Getenv("E2E_SOAK"), "5m"))
	if err != nil {
		t.Fatal(err)
	}
	return long
}

// startSoak makes components of each kind, named after the cluster, whose receipts are checked from then on.
func startSoak(t *testing.T, id string, kinds ...string) *soak {
	t.Helper()
	s := &soak{components: map[string]*soaked{}, counted: map[claim]bool{}}
	var definitions, assigned []object
	for i := range 3 {
		for _, kind := range kinds {
			name := fmt.Sprintf("%s-%s-%d", id, kind, i)
			definition := object{"id": name, "component_path": "web", "oci_url": "https://charts.example.com", "component_version": "1.0.0"}
			one := &soaked{
				id: name, flag: "--component-version", versions: []string{"1.0.0", "1.1.0", "2.0.0"}, setting: "marker",
				where: [2]string{name, name + "-values"}, inputs: map[string]int{}, changed: map[string]time.Time{},
				live: func(o *unstructured.Unstructured) (string, string) {
					text, _, _ := unstructured.NestedString(o.Object, "data", "values")
					version, _, _ := unstructured.NestedString(o.Object, "data", "version")
					var values struct{ Marker json.Number }
					if err := json.Unmarshal([]byte(text), &values); err != nil {
						return err.Error(), version
					}
					version, _, _ = strings.Cut(version, "+")
					return values.Marker.String(), version
				},
			}
			switch kind {
			case "oci":
				definition = object{"id": name, "component_path": "web", "oci_url": "oci://registry.example.com/charts", "type": "helm", "oci_tag": "1.0.0"}
				one.flag = "--oci-tag"
			case "tree":
				definition = object{"id": name, "component_path": "apps/" + name, "oci_url": "oci://registry.example.com/trees/" + name, "oci_tag": "v1"}
				one.flag, one.versions, one.setting, one.where = "--oci-tag", []string{"v1", "v2", "v3"}, "color", [2]string{"default", name}
				one.live = func(o *unstructured.Unstructured) (string, string) {
					marker, _, _ := unstructured.NestedString(o.Object, "data", "color")
					version, _, _ := unstructured.NestedString(o.Object, "data", "tag")
					return strings.TrimPrefix(marker, "c"), version
				}
			}
			definitions = append(definitions, definition)
			assigned = append(assigned, object{"id": name, "enabled": true})
			s.components[name] = one
		}
	}
	define(t, "platform_components", definitions...)
	s.cluster = prepare(t, id, object{"platform_components": assigned})
	for _, name := range slices.Sorted(maps.Keys(s.components)) {
		one := s.components[name]
		one.history = []said{{0, one.versions[0]}}
		s.change(one, 1, one.versions[0])
	}
	s.gate.OnReceipt(s.judge)
	return s
}

// change makes one commit, and records the content of the input and its receipt.
func (s *soak) change(one *soaked, marker int, version string) {
	s.Helper()
	one.mu.Lock()
	defer one.mu.Unlock()
	before := one.history[len(one.history)-1]
	if version != before.version {
		s.cli("component", "set", one.id, "--cluster", s.id, one.flag, version)
	} else {
		value := fmt.Sprint(marker)
		if one.setting == "color" {
			value = "c" + value
		}
		s.cli("component", "set", one.id, "--cluster", s.id, "--set", one.setting+"="+value)
	}
	s.remember(one, said{marker, version})
}

// remember notes the input of a component after a change. The caller holds one.mu.
func (s *soak) remember(one *soaked, now said) {
	s.Helper()
	digest := s.receipt("platform-components", one.id).Input
	one.history = append(one.history, now)
	one.inputs[digest], one.changed[digest] = len(one.history)-1, time.Now()
}

// removeAndAdd disables a component and enables it again after a pause. Its receipt is the same before and after, so one that
// arrives late, or at a process that served only one of both lists, must not confirm it.
func (s *soak) removeAndAdd(one *soaked, pause time.Duration) {
	s.Helper()
	one.mu.Lock()
	defer one.mu.Unlock()
	s.cli("component", "set", one.id, "--cluster", s.id, "--enabled=false", "--yes")
	select {
	case <-s.Context().Done():
	case <-time.After(pause):
	}
	s.cli("component", "set", one.id, "--cluster", s.id, "--enabled=true")
	s.remember(one, one.history[len(one.history)-1])
}

// judge compares an accepted receipt with the live object, which must have the content of the receipt or later content. An input that
// is removed and created again has the same receipt, so a receipt may belong to the first one. It is false only if the API then shows
// the second one as confirmed.
func (s *soak) judge(r rig.Receipt, status int) {
	one := s.components[r.ID]
	if one == nil {
		return
	}
	if status != http.StatusOK {
		s.mu.Lock()
		if status == http.StatusConflict {
			s.heldBack++
		}
		s.mu.Unlock()
		return
	}
	// Not while it is being changed: its receipt is not known yet.
	one.mu.Lock()
	defer one.mu.Unlock()
	at, ok := one.inputs[r.Input]
	if !ok {
		return // of before the first change
	}
	s.mu.Lock()
	known := s.counted[claim{r, at}]
	s.counted[claim{r, at}] = true
	s.mu.Unlock()
	if known {
		return
	}
	found := s.live(one, at)
	claimed := found == "" || s.claimed(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !claimed {
		delete(s.counted, claim{r, at})
		s.early++
		return
	}
	s.late = append(s.late, time.Since(one.changed[r.Input]))
	if found != "" {
		s.wrong = append(s.wrong, fmt.Sprintf("%s: confirmed %v, live is %s", r.ID, one.history[at], found))
	}
}

// live returns the live content, unless it is the given content of the component or a later one.
func (s *soak) live(one *soaked, at int) string {
	found, err := s.get(context.Background(), "v1", "ConfigMap", one.where[0], one.where[1])
	if err != nil {
		return err.Error()
	}
	marker, version := one.live(found)
	for _, later := range one.history[at:] {
		if fmt.Sprint(later.marker) == marker && later.version == version {
			return ""
		}
	}
	return fmt.Sprintf("marker %q and version %q", marker, version)
}

// claimed reports whether the API shows the input of a receipt as confirmed, within the time that its processes need to synchronize.
func (s *soak) claimed(r rig.Receipt) bool {
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
	defer cancel()
	return rig.Eventually(ctx, func(ctx context.Context) error {
		var status object
		if err := s.w.API.Do(ctx, "GET", "/clusters/"+s.id+"/status", nil, &status); err != nil {
			if ctx.Err() == nil {
				s.Error(err)
			}
			return err
		}
		inputs, _ := status["inputs"].([]any)
		for _, input := range inputs {
			if in, ok := input.(object); ok && in["list"] == r.List && in["id"] == r.ID && in["receipt"] == r.Input && in["state"] == "confirmed" {
				return nil
			}
		}
		return errors.New("it does not")
	}) == nil
}

// run changes components at random until the time is up.
func (s *soak) run(long time.Duration, random *rand.Rand, versions bool) (changes int) {
	s.Helper()
	names := slices.Sorted(maps.Keys(s.components))
	for end := time.Now().Add(long); time.Now().Before(end); changes++ {
		one := s.components[names[random.IntN(len(names))]]
		now := one.history[len(one.history)-1]
		if random.IntN(6) == 0 {
			s.removeAndAdd(one, time.Duration(random.IntN(3000))*time.Millisecond)
			continue
		}
		if versions && random.IntN(2) == 0 {
			now.version = one.versions[(slices.Index(one.versions, now.version)+1+random.IntN(2))%len(one.versions)]
		} else {
			now.marker++
		}
		s.change(one, now.marker, now.version)
		select {
		case <-s.Context().Done():
			return changes
		case <-time.After(time.Duration(random.IntN(1500)) * time.Millisecond):
		}
	}
	return changes
}

// allConfirmed waits until the cluster has confirmed every input as it is now, and answers how long that took.
func (s *soak) allConfirmed() time.Duration {
	s.Helper()
	start := time.Now()
	for name := range s.components {
		s.confirmed("platform-components", name)
	}
	return time.Since(start)
}

// report logs the figures of a soak and answers how many receipts were false.
func (s *soak) report(changes int) int {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.late, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	at := func(share float64) time.Duration {
		if len(s.late) == 0 {
			return 0
		}
		return s.late[int(share*float64(len(s.late)-1))].Round(time.Millisecond)
	}
	s.Logf("%d changes, %d receipts compared, %d false; %d held back, %d not counted; from a change to its receipt: median %v, 90th percentile %v, longest %v",
		changes, len(s.late), len(s.wrong), s.heldBack, s.early, at(0.5), at(0.9), at(1))
	for _, line := range s.wrong[:min(len(s.wrong), 5)] {
		s.Log(line)
	}
	return len(s.wrong)
}

// TestSoak changes values, versions and tags of every kind of component for as long as E2E_SOAK specifies, removes some and adds
// them again, takes the API away for a minute in between, and compares each receipt with the live object: none may be false.
//
//nolint:paralleltest // the load of the one would be the delays of the other
func TestSoak(t *testing.T) {
	long := soakTime(t)
	s := startSoak(t, "soak", "http", "oci", "tree")
	s.join(rig.Cluster{})
	s.settled()
	s.allConfirmed()
	random := rand.New(rand.NewPCG(1, 2))
	changes := s.run(long/2, random, true)
	s.gate.Close()
	changes += s.run(min(time.Minute, long/4), random, true)
	if err := s.gate.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("after the outage everything was confirmed within %v", s.allConfirmed().Round(time.Second))
	changes += s.run(long/2, random, true)
	s.allConfirmed()
	if s.report(changes) > 0 {
		t.Error("receipts were false")
	}
}

// send sends a receipt as the cluster would, to the process that judge asks, until that accepts it, and has it judged.
func (s *soak) send(r rig.Receipt) {
	s.Helper()
	path := fmt.Sprintf("%s/api/v2/flux/clusters/%s/receipts/%s/%s?input=%s", s.w.URL, s.dns, r.List, r.ID, r.Input)
	s.eventually("the API accepts a receipt of "+r.ID, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+rig.ReadToken)
		req.Header.Set("User-Agent", "flux-operator/v0")
		answer, err := (&http.Client{Timeout: 10 * time.Second}).Do(req)
		if err != nil {
			return err
		}
		if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
			return errors.Join(err, errors.New(answer.Status))
		}
		return nil
	})
	s.judge(r, http.StatusOK)
}

// TestSoakDetectsFalseReceipts is the negative control: the soak must be able to detect false receipts. Each component is changed to
// a version that does not exist, so that the cluster never applies it, and its receipt is sent all the same: every one of them is false,
// and has to be found.
//
//nolint:paralleltest // as above
func TestSoakDetectsFalseReceipts(t *testing.T) {
	s := startSoak(t, "control", "http", "oci", "tree")
	s.join(rig.Cluster{})
	s.settled()
	s.allConfirmed()
	if s.report(0) > 0 {
		t.Fatal("receipts were false before any was forged")
	}
	for _, name := range slices.Sorted(maps.Keys(s.components)) {
		one := s.components[name]
		s.change(one, one.history[len(one.history)-1].marker, "9.0.0")
	}
	if err := s.gate.Polls(t.Context(), 2); err != nil { // what was not served cannot be confirmed
		t.Fatal(err)
	}
	for name := range s.components {
		s.send(s.receipt("platform-components", name))
	}
	if found := s.report(len(s.components)); found != len(s.components) {
		t.Errorf("%d of %d false receipts were found: the soak cannot tell", found, len(s.components))
	}
}
