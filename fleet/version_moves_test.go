package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// versioned is a fleet with policies, and the versions that it knows.
type versioned struct {
	*world
	known map[string][]KnownVersion
	// limit limits automation as the server does; nil: every principal may do everything.
	limit func(tx *Tx, actor string)
}

// newVersioned returns a fleet with grafana 17.0.0 on four clusters, with a policy.
func newVersioned(t *testing.T, policy string) *versioned {
	t.Helper()
	return newVersionedOn(t, "catalog", policy)
}

// newVersionedOn returns the fleet of newVersioned with the policy of another target.
func newVersionedOn(t *testing.T, target, policy string) *versioned {
	t.Helper()
	w := &versioned{world: tiers(t, prodLayer, baseLayer), known: map[string][]KnownVersion{}}
	w.must(create(KindStrategy, `{"id":"waves","stages":[{"name":"dev","selector":"tier=dev"}]}`))
	w.must(patch(KindComponent, "grafana", fmt.Sprintf(`{"version_policies":{%q:%s}}`, target, policy)))
	return w
}

// sees adds known versions of a component.
func (w *versioned) sees(component string, versions ...string) {
	w.known[component] = append(w.known[component], seenVersions(versions...)...)
}

// automate tries a move as the server does.
func (w *versioned) automate(move string) (Result, bool, error) {
	tx := w.state.Begin()
	limit := func(tx *Tx, actor string, _ *Subject) {
		if w.limit != nil {
			w.limit(tx, actor)
		}
	}
	changed, err := tx.MoveVersions(move, func(id string) []KnownVersion { return w.known[id] }, w.now, limit)
	if err != nil || !changed {
		return Result{}, false, err
	}
	res, err := tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: VersionAutomation})
	return res, err == nil, err
}

// moves runs a move, keeps its commit, and reports whether there was one.
func (w *versioned) moves(move string) bool {
	w.t.Helper()
	res, changed, err := w.automate(move)
	require.NoError(w.t, err)
	if changed {
		followed, err := w.state.Apply(res.Commit)
		require.NoError(w.t, err)
		require.Equal(w.t, polls(w.t, res.State), polls(w.t, followed))
		w.keep(res)
	}
	return changed
}

// version returns the stored version of a component.
func (w *versioned) version(component string) string {
	d, err := w.state.Find(KindComponent, component)
	require.NoError(w.t, err)
	return d.Component().ComponentVersion
}

// rolloutState returns the state of a rollout; empty: there is none.
func (w *versioned) rolloutState(id string) string {
	if d := w.state.docs[KindRollout][id]; d != nil {
		return d.rollout().State
	}
	return ""
}

// held returns the held versions of a component.
func (w *versioned) held(component string) (out []string) {
	for _, h := range w.state.versionAutomation(component).Holds {
		out = append(out, strings.TrimPrefix(h.Image+" ", " ")+h.Version)
	}
	return out
}

// as runs an edit as an actor, and keeps it.
func (w *versioned) as(actor string, edit func(*Tx) error) Result {
	w.t.Helper()
	tx := w.state.Begin()
	require.NoError(w.t, edit(tx))
	res, err := tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: actor})
	require.NoError(w.t, err)
	w.keep(res)
	return res
}

// TestApply: a policy with action apply changes the document at once, and only when there is a newer version.
func TestApply(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"range":"~17","action":"apply"}`)
	require.Equal(t, []string{"grafana"}, VersionMoves(w.state))
	require.False(t, w.moves("grafana"), "nothing is known")
	w.sees("grafana", "16.0.0", "17.0.0", "18.0.0")
	require.False(t, w.moves("grafana"), "nothing is newer")
	w.sees("grafana", "17.2.0", "17.1.0")
	require.True(t, w.moves("grafana"))
	require.Equal(t, "17.2.0", w.version("grafana"))
	require.False(t, w.moves("grafana"))
	ops, _, _ := w.log.commits[len(w.log.commits)-1].Requested()
	require.Equal(t, []api.RevisionOperation{{Op: "patch", Kind: "platform_component", ID: "grafana", Fields: []string{"version=17.2.0"}, FieldManager: "versions"}}, ops)
}

// TestNotify: a policy with action notify changes nothing.
func TestNotify(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"range":"~17","action":"notify"}`)
	w.sees("grafana", "17.2.0")
	require.Empty(t, VersionMoves(w.state))
	require.False(t, w.moves("grafana"))
	require.Equal(t, "17.2.0", EvaluateVersions(w.state, "grafana", "catalog", w.known["grafana"], w.now).Chart.Candidate.Version)
}

// TestPropose: a policy proposes a rollout and rewrites it, but only while nobody has started or paused it.
func TestPropose(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"range":"~17","strategy":"waves"}`)
	before := polls(t, w.state)
	w.sees("grafana", "17.1.0")
	require.True(t, w.moves("grafana"))
	require.Equal(t, "proposed", w.rolloutState("auto-grafana"))
	require.Equal(t, "auto-grafana", EvaluateVersions(w.state, "grafana", "catalog", nil, w.now).Rollout)
	require.False(t, w.moves("grafana"), "it is proposed already")
	w.sees("grafana", "17.2.0")
	require.True(t, w.moves("grafana"))
	r := w.state.docs[KindRollout]["auto-grafana"].rollout()
	require.Equal(t, []rolloutVersion{{Component: "grafana", Version: "17.2.0"}}, r.Versions)
	require.Len(t, r.Stages, 2)
	require.Equal(t, before, polls(t, w.state), "a proposal changes no answer")
	require.False(t, w.moves("grafana"))

	w.must(act("auto-grafana", RolloutStart))
	w.sees("grafana", "17.3.0")
	require.False(t, w.moves("grafana"), "it is running")
	require.Equal(t, "17.2.0", component(t, w.state, "c0.example.com", "grafana")["component_version"])
	w.must(act("auto-grafana", RolloutPause))
	require.False(t, w.moves("grafana"), "it is paused")
	w.must(act("auto-grafana", RolloutResume))
	w.must(both(act("auto-grafana", RolloutStart)))
	w.must(act("auto-grafana", RolloutComplete))
	require.Equal(t, "17.2.0", w.version("grafana"))
	require.True(t, w.moves("grafana"), "the next version gets the next rollout")
	require.Equal(t, "17.3.0", w.state.docs[KindRollout]["auto-grafana"].rollout().Versions[0].Version)

	w.must(act("auto-grafana", RolloutPause)) // before its start
	w.sees("grafana", "17.4.0")
	require.False(t, w.moves("grafana"), "it is paused")
}

// TestRolloutAction: a policy with action rollout starts it, unless a stage needs an approval or clusters are frozen.
func TestRolloutAction(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"range":"~17","strategy":"waves","action":"rollout"}`)
	w.sees("grafana", "17.2.0")
	w.must(create(KindFreeze, `{"id":"year-end","all":true,"reason":"CHG-1","until":"2026-01-02T04:00:00Z"}`))
	require.True(t, w.moves("grafana"), "a freeze allows a proposal")
	require.False(t, w.moves("grafana"), "the freeze forbids the start")
	require.Equal(t, "proposed", w.rolloutState("auto-grafana"))
	w.now = w.now.Add(time.Hour)
	require.True(t, w.moves("grafana"))
	require.Equal(t, "running", w.rolloutState("auto-grafana"))
	require.Equal(t, "17.2.0", component(t, w.state, "c0.example.com", "grafana")["component_version"])
	require.Equal(t, "17.1.0", component(t, w.state, "c3.example.com", "grafana")["component_version"], "its layer pins it")
	require.False(t, w.moves("grafana"))

	w = newVersioned(t, `{"range":"~17","action":"rollout"}`)
	w.sees("grafana", "17.2.0")
	w.must(create(KindStrategy, `{"id":"approved","stages":[{"name":"dev","selector":"tier=dev","approval":true}]}`))
	w.as("token:ann (1)", patch(KindComponent, "grafana", `{"version_policies":{"catalog":{"strategy":"approved"}}}`))
	require.True(t, w.moves("grafana"))
	require.False(t, w.moves("grafana"), "it waits for the approval")
	w.as("token:bob (2)", act("auto-grafana", RolloutApprove))
	w.sees("grafana", "17.3.0")
	require.True(t, w.moves("grafana"))
	require.False(t, w.moves("grafana"), "the approval was for another version")
	w.as("token:bob (2)", act("auto-grafana", RolloutApprove))
	require.True(t, w.moves("grafana"))
	require.Equal(t, "running", w.rolloutState("auto-grafana"))
	r := w.state.docs[KindRollout]["auto-grafana"].rollout()
	require.Equal(t, "token:ann (1)", r.Principal, "the rollout advances with the rights of the author of the policy")
}

// TestApplyFallsBack: what a freeze forbids is proposed.
func TestApplyFallsBack(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"range":"~17","action":"apply"}`)
	w.sees("grafana", "17.2.0")
	w.must(create(KindFreeze, `{"id":"year-end","all":true,"reason":"CHG-1","until":"2026-01-02T04:00:00Z"}`))
	require.True(t, w.moves("grafana"))
	require.Equal(t, "17.0.0", w.version("grafana"))
	require.Equal(t, "proposed", w.rolloutState("auto-grafana"))
	require.False(t, w.moves("grafana"))
	w.now = w.now.Add(time.Hour)
	require.False(t, w.moves("grafana"), "a person decides about the proposal")
}

// TestLayerTarget: a policy moves the version where the layer sets it, and nothing where the layer sets none.
func TestLayerTarget(t *testing.T) {
	t.Parallel()
	w := newVersionedOn(t, "layer/prod", `{"range":"~17","action":"apply"}`)
	w.sees("grafana", "17.0.5", "17.2.0")
	require.True(t, w.moves("grafana@prod"))
	require.Equal(t, "17.0.0", w.version("grafana"))
	d, _ := w.state.Find(KindLayer, "prod")
	require.Equal(t, map[string]api.LayerOverride{"grafana": {ComponentVersion: "17.2.0"}}, d.layer().Overrides)
	require.Equal(t, "17.2.0", component(t, w.state, "c3.example.com", "grafana")["component_version"])

	w.must(patch(KindComponent, "grafana", `{"version_policies":{"layer/prod":null,"layer/base":{"range":"~17","action":"apply"}}}`))
	require.False(t, w.moves("grafana@base"))
	require.Contains(t, EvaluateVersions(w.state, "grafana", "layer/base", w.known["grafana"], w.now).Chart.Problem, "sets no version of the component")
	w.must(patch(KindLayer, "base", `{"platform_components":[{"id":"grafana","component_version":"17.1.0","oci_tag":"17.1.0"}]}`))
	require.True(t, w.moves("grafana@base"))
	d, _ = w.state.Find(KindLayer, "base")
	require.Equal(t, "17.2.0", d.layer().PlatformComponents[0].ComponentVersion)
	require.Equal(t, "17.2.0", d.layer().PlatformComponents[0].OCITag, "both move if both are set")
	require.Empty(t, d.layer().Overrides)
}

// TestHoldsOnLayer: a layer that sets no version for a while, and then an older one, takes the newer one back.
func TestHoldsOnLayer(t *testing.T) {
	t.Parallel()
	w := newVersionedOn(t, "layer/prod", `{"range":"~17","action":"apply"}`)
	w.sees("grafana", "17.2.0")
	require.True(t, w.moves("grafana@prod"))
	w.must(patch(KindLayer, "prod", `{"overrides":{"grafana":null}}`))
	require.False(t, w.moves("grafana@prod"))
	w.must(patch(KindLayer, "prod", `{"overrides":{"grafana":{"component_version":"17.0.5"}}}`))
	require.Equal(t, []string{"17.2.0"}, w.held("grafana"))
	require.False(t, w.moves("grafana@prod"))

	// The same version again takes nothing back, and a later downgrade does.
	w.sees("grafana", "17.3.0")
	require.True(t, w.moves("grafana@prod"))
	w.must(patch(KindLayer, "prod", `{"overrides":{"grafana":null}}`))
	w.must(patch(KindLayer, "prod", `{"overrides":{"grafana":{"component_version":"17.3.0"}}}`))
	require.Equal(t, []string{"17.2.0"}, w.held("grafana"))
	w.must(patch(KindLayer, "prod", `{"overrides":{"grafana":{"component_version":"17.1.0"}}}`))
	require.Equal(t, []string{"17.2.0", "17.3.0"}, w.held("grafana"))
}

// TestPins: layers and clusters that keep an older version are counted.
func TestPins(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"range":"~17"}`)
	w.sees("grafana", "17.2.0")
	w.must(assign("c0", KindComponent, "grafana", `{"component_version":"16.0.0"}`))
	w.must(assign("c1", KindComponent, "grafana", `{"component_version":"17.2.0"}`))
	w.must(assign("c2", KindComponent, "grafana", `{"component_version":"16.x"}`))
	report := EvaluateVersions(w.state, "grafana", "catalog", w.known["grafana"], w.now)
	pins, warning := VersionPins(w.state, &report)
	require.Equal(t, []VersionPin{{KindLayer, "prod", "17.1.0"}, {KindCluster, "c0", "16.0.0"}, {KindCluster, "c2", "16.x"}}, pins)
	require.Equal(t, "a move has no effect: every cluster with the component gets its version from layer/prod, the clusters themselves", warning)
}

// TestArtifact: a kustomize component moves its tag and its digest together, and never keeps the digest of another tag.
func TestArtifact(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"range":"~17"}`)
	w.must(create(KindComponent, `{"id":"apps","component_path":"./","oci_url":"oci://ghcr.io/acme/apps","oci_tag":"1.0.0","oci_digest":"`+imageDigest(1)+`","component_version":"1.0.0","version_policies":{"catalog":{"range":"1.x","action":"apply"}}}`))
	settings := func() []string {
		d, _ := w.state.Find(KindComponent, "apps")
		return []string{d.Component().OCITag, d.Component().ComponentVersion, d.Component().OCIDigest}
	}
	w.known["apps"] = []KnownVersion{{Version: "1.1.0", Digest: imageDigest(2)}}
	require.True(t, w.moves("apps"))
	require.Equal(t, []string{"1.1.0", "1.1.0", imageDigest(2)}, settings())
	w.known["apps"] = []KnownVersion{{Version: "1.2.0"}}
	require.True(t, w.moves("apps"))
	require.Equal(t, []string{"1.2.0", "1.2.0", ""}, settings(), "the digest belonged to the other tag")
	w.known["apps"] = []KnownVersion{{Version: "1.2.0", Digest: imageDigest(9)}}
	require.False(t, w.moves("apps"), "a tag that the registry moves changes nothing")
}

// TestImages: one evaluation of several policies makes one change, in patches and images.
func TestImages(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"range":"~17","action":"apply"}`)
	w.must(patch(KindComponent, "grafana", `{"patches":{"image.tag":"7.0.0","ui.color":"red"},"images":[{"name":"redis","new_name":"mirror/redis","new_tag":"1.0.0"},{"name":"other","new_tag":"x"}],"image_policies":[
		{"name":"app","image":"ghcr.io/acme/app","track":{"range":">=7.0.0"},"writes":{"image.tag":"{tag}"}},
		{"name":"live","image":"ghcr.io/acme/live","track":{"tag":"latest"},"writes":{"live.image":"{image}:{tag}@{digest}"}},
		{"name":"redis","image":"docker.io/library/redis","track":{"range":"1.x"},"images":{"name":"redis"}},
		{"name":"stopped","image":"ghcr.io/acme/app","track":{"range":">=7.0.0"},"writes":{"stopped.tag":"{tag}"},"suspended":true}]}`))
	w.sees("grafana", "17.2.0")
	w.known["grafana"] = append(w.known["grafana"],
		KnownVersion{Image: "ghcr.io/acme/app", Version: "7.1.0"}, KnownVersion{Image: "ghcr.io/acme/live", Version: "latest", Digest: imageDigest(1)},
		KnownVersion{Image: "docker.io/library/redis", Version: "1.1.0", Digest: imageDigest(2)})
	require.True(t, w.moves("grafana"))
	require.False(t, w.moves("grafana"))
	d, _ := w.state.Find(KindComponent, "grafana")
	require.Equal(t, api.PatchValues{"replicas": json.RawMessage(`"1"`), "image.tag": json.RawMessage(`"7.1.0"`), "ui.color": json.RawMessage(`"red"`), "live.image": json.RawMessage(`"ghcr.io/acme/live:latest@` + imageDigest(1) + `"`)}, d.Component().Patches)
	require.Equal(t, []api.ComponentImage{{Name: "redis", NewName: "mirror/redis", NewTag: "1.1.0", Digest: imageDigest(2)}, {Name: "other", NewTag: "x"}}, d.Component().Images)
	require.Equal(t, "17.2.0", d.Component().ComponentVersion)
	require.Contains(t, poll(t, w.state, "c0.example.com", KindComponent), `"tag":"7.1.0"`)

	// A tag that moves on is followed, and one that moves back is not.
	at := func(n int) {
		w.known["grafana"] = []KnownVersion{{Image: "ghcr.io/acme/live", Version: "latest", Digest: imageDigest(n)}}
	}
	at(3)
	require.True(t, w.moves("grafana"))
	at(1)
	require.False(t, w.moves("grafana"))
	e := EvaluateVersions(w.state, "grafana", "catalog", w.known["grafana"], w.now).Images[1]
	require.Equal(t, "was replaced before: the tag has moved back", e.Reasons[0].Reason)

	// A value that a person sets wins, and the policy says so.
	w.must(patch(KindComponent, "grafana", `{"patches":{"live.image":"my-fork:1"}}`))
	at(4)
	require.False(t, w.moves("grafana"))
	require.Contains(t, EvaluateVersions(w.state, "grafana", "catalog", w.known["grafana"], w.now).Images[1].Problem, `the patch "live.image" is "my-fork:1", which the policy does not write`)
}

// TestImagesOnLayer: image policies write the patches and images of a layer.
func TestImagesOnLayer(t *testing.T) {
	t.Parallel()
	w := newVersionedOn(t, "layer/prod", `{"action":"apply"}`)
	w.must(patch(KindComponent, "grafana", `{"image_policies":[{"name":"app","image":"ghcr.io/acme/app","track":{"range":">=7.0.0"},"writes":{"image.tag":"{tag}"},"images":{"name":"app"}}]}`))
	w.known["grafana"] = []KnownVersion{{Image: "ghcr.io/acme/app", Version: "7.1.0"}}
	require.True(t, w.moves("grafana@prod"))
	require.False(t, w.moves("grafana@prod"))
	d, _ := w.state.Find(KindLayer, "prod")
	require.JSONEq(t, `{"replicas":"3","image.tag":"7.1.0"}`, mustJSON(t, d.layer().Patches["grafana"]))
	require.JSONEq(t, `{"component_version":"17.1.0","images":[{"name":"app","new_name":"ghcr.io/acme/app","new_tag":"7.1.0"}]}`, mustJSON(t, d.layer().Overrides["grafana"]))
	w.must(patch(KindComponent, "grafana", `{"version_policies":{"layer/prod":null,"layer/base":{"action":"apply"}}}`))
	require.True(t, w.moves("grafana@base"))
	d, _ = w.state.Find(KindLayer, "base")
	require.JSONEq(t, `[{"id":"grafana","images":[{"name":"app","new_name":"ghcr.io/acme/app","new_tag":"7.1.0"}]}]`, mustJSON(t, d.layer().PlatformComponents))
	require.JSONEq(t, `{"image.tag":"7.1.0"}`, mustJSON(t, d.layer().Patches["grafana"]))
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// TestGroup: the components of a group move in one rollout, to the highest version that all have.
func TestGroup(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"range":"~17","group":"monitoring"}`)
	w.must(patch(KindComponent, "loki", `{"component_version":"17.0.0","version_policies":{"catalog":{"range":"~17","group":"monitoring"}}}`))
	require.Equal(t, []string{"group/monitoring"}, VersionMoves(w.state))
	w.sees("grafana", "17.1.0", "17.2.0")
	require.False(t, w.moves("group/monitoring"))
	w.sees("loki", "17.1.0")
	require.True(t, w.moves("group/monitoring"))
	r := w.state.docs[KindRollout]["auto-monitoring"].rollout()
	require.Equal(t, []rolloutVersion{{Component: "grafana", Version: "17.1.0"}, {Component: "loki", Version: "17.1.0"}}, r.Versions)
	require.Len(t, r.Changes, 2)
	require.False(t, w.moves("group/monitoring"))

	w.must(patch(KindComponent, "loki", `{"version_policies":{"catalog":{"action":"apply"}}}`))
	_, _, err := w.automate("group/monitoring")
	require.ErrorContains(t, err, "differ in action or strategy")
}

// TestRolloutsOfOthers: a policy never touches a rollout that it has not proposed.
func TestRolloutsOfOthers(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"range":"~17"}`)
	w.sees("grafana", "17.2.0")
	w.must(rollOut(w.world, "auto-grafana", nil, patchOp(KindComponent, "loki", `{"component_version":"2"}`)))
	_, _, err := w.automate("grafana")
	require.ErrorContains(t, err, "was not proposed by the policies of grafana")
	w.must(act("auto-grafana", RolloutAbort))
	w.must(rollOut(w.world, "mine", nil, patchOp(KindComponent, "grafana", `{"component_version":"17.5.0"}`)))
	_, _, err = w.automate("grafana")
	require.ErrorContains(t, err, `rollout "mine" changes this field`)
	w.must(act("mine", RolloutAbort))
	require.Equal(t, []string{"17.5.0"}, w.held("grafana"))
	require.True(t, w.moves("grafana"))

	// Policies leave rollouts to people.
	w = newVersioned(t, `{}`)
	for i := range DefaultVersionRollouts + 1 {
		id := fmt.Sprintf("app%d", i)
		w.must(create(KindComponent, fmt.Sprintf(`{"id":%q,"component_path":"x","oci_url":"https://charts.example.com","component_version":"1.0.0","version_policies":{"catalog":{"range":"1.x"}}}`, id)))
		w.sees(id, "1.1.0")
		_, changed, err := w.automate(id)
		if i < DefaultVersionRollouts {
			require.True(t, w.moves(id))
			continue
		}
		require.False(t, changed)
		require.ErrorIs(t, err, ErrVersionWaits)
	}
}

// TestHolds: a version that was taken back is not proposed again, whoever took it back and however.
func TestHolds(t *testing.T) {
	t.Parallel()
	for name, takeBack := range map[string]func(w *versioned){
		"revert": func(w *versioned) {
			w.must(operations(w.world, api.Operation{Op: "revert", Revision: int64(w.state.Revision())}))
		},
		"restore of the component": func(w *versioned) {
			w.log.past = Documents{}
			w.log.past.Set(KindComponent, "grafana", w.log.commits[len(w.log.commits)-1].Changes[0].Before)
			w.must(operations(w.world, api.Operation{Op: "restore", Revision: int64(w.state.Revision() - 1), Kind: "platform_component", ID: "grafana"}))
		},
		"downgrade by hand": func(w *versioned) { w.must(patch(KindComponent, "grafana", `{"component_version":"17.0.0"}`)) },
		"downgrade through latest": func(w *versioned) {
			w.must(patch(KindComponent, "grafana", `{"component_version":"latest"}`))
			require.Empty(w.t, w.held("grafana"))
			w.must(patch(KindComponent, "grafana", `{"component_version":"17.0.0"}`))
		},
		"downgrade without the policy": func(w *versioned) {
			w.must(patch(KindComponent, "grafana", `{"version_policies":null}`))
			w.must(patch(KindComponent, "grafana", `{"component_version":"17.0.0"}`))
			w.must(patch(KindComponent, "grafana", `{"version_policies":{"catalog":{"range":"~17","action":"apply"}}}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newVersioned(t, `{"range":"~17","action":"apply"}`)
			w.sees("grafana", "17.2.0")
			require.True(t, w.moves("grafana"))
			takeBack(w)
			require.Equal(t, "17.0.0", w.version("grafana"))
			require.Equal(t, []string{"17.2.0"}, w.held("grafana"))
			require.False(t, w.moves("grafana"))
			require.Contains(t, EvaluateVersions(w.state, "grafana", "catalog", w.known["grafana"], w.now).Chart.Reasons[0].Reason, "is held by test: ")
			// A revert of the revert does not lift the hold; a newer version moves, and a person lifts the hold.
			w.sees("grafana", "v17.2.0", "17.2.0+build")
			require.False(t, w.moves("grafana"), "another spelling is the same version")
			w.must(func(tx *Tx) error { return tx.ReleaseVersion("grafana", "", "17.2.0") })
			require.Empty(t, w.held("grafana"))
			require.True(t, w.moves("grafana"))
		})
	}
}

// TestHoldsOfRollouts: the version of a rollout that is aborted or rolled back is held in the same commit.
func TestHoldsOfRollouts(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"range":"~17","strategy":"waves"}`)
	w.sees("grafana", "17.2.0")
	require.True(t, w.moves("grafana"))
	w.must(act("auto-grafana", RolloutStart))
	w.must(act("auto-grafana", RolloutBack))
	require.Equal(t, []string{"17.2.0"}, w.held("grafana"))
	res := w.must(act("auto-grafana", RolloutAbort))
	require.Equal(t, []string{"17.2.0"}, w.held("grafana"))
	require.Empty(t, res.Warnings)
	require.False(t, w.moves("grafana"))
	w.sees("grafana", "17.3.0")
	require.True(t, w.moves("grafana"), "a newer version is not held")
	require.Contains(t, w.must(act("auto-grafana", RolloutAbort)).Warnings[0], "17.3.0")
	require.Equal(t, []string{"17.2.0", "17.3.0"}, w.held("grafana"))
	w.must(operations(w.world, api.Operation{Op: "revert", Revision: 2}))
	require.Equal(t, []string{"17.2.0", "17.3.0"}, w.held("grafana"), "reverts remove no hold")
}

// TestHoldByPerson: a person holds a version that is proposed, which aborts the proposal.
func TestHoldByPerson(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"range":"~17"}`)
	w.sees("grafana", "17.2.0", "17.1.0")
	require.True(t, w.moves("grafana"))
	hold := func(h VersionHold) func(*Tx) error { return func(tx *Tx) error { return tx.HoldVersion("grafana", h) } }
	w.refused(CodeInvalid, hold(VersionHold{Version: "17.2.0\n"}))
	w.refused(CodeInvalid, hold(VersionHold{Version: "17.2.0", Digest: "x"}))
	w.refused(CodeInvalid, hold(VersionHold{Version: "17.2.0", Image: "ghcr.io/acme/none"}))
	w.refused(CodeNotFound, func(tx *Tx) error { return tx.HoldVersion("none", VersionHold{Version: "1.0.0"}) })
	w.refused(CodeNotFound, func(tx *Tx) error { return tx.ReleaseVersion("grafana", "", "17.2.0") })
	res := w.must(hold(VersionHold{Version: "17.2.0", Reason: "CVE", By: "nobody", At: time.Unix(0, 0)}))
	require.Contains(t, strings.Join(res.Warnings, "\n"), `rollout "auto-grafana" is aborted`)
	require.Equal(t, "aborted", w.rolloutState("auto-grafana"))
	require.Equal(t, []VersionHold{{Version: "17.2.0", Reason: "CVE", By: "test", At: w.now}}, VersionHolds(w.state, "grafana"))
	require.True(t, w.moves("grafana"))
	require.Equal(t, "17.1.0", w.state.docs[KindRollout]["auto-grafana"].rollout().Versions[0].Version)
	for i := range maxVersionHolds - 1 {
		w.must(hold(VersionHold{Version: fmt.Sprintf("1.0.%d", i)}))
	}
	w.refused(CodeLimitExceeded, hold(VersionHold{Version: "2.0.0"}))
}

// TestImageHolds: a digest that was taken back is held, and the tag's next digest is not.
func TestImageHolds(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"action":"apply"}`)
	w.must(patch(KindComponent, "grafana", `{"patches":{"tag":"latest@`+imageDigest(1)+`"},"image_policies":[{"name":"app","image":"app","track":{"tag":"latest"},"writes":{"tag":"{tag}@{digest}"}}]}`))
	at := func(n int) {
		w.known["grafana"] = []KnownVersion{{Image: "app", Version: "latest", Digest: imageDigest(n)}}
	}
	at(2)
	require.True(t, w.moves("grafana"))
	w.must(operations(w.world, api.Operation{Op: "revert", Revision: int64(w.state.Revision())}))
	require.Equal(t, []VersionHold{{Image: "app", Version: "latest", Digest: imageDigest(2), At: w.now, By: "test", Reason: "taken back to " + imageDigest(1)}}, w.state.versionAutomation("grafana").Holds)
	require.False(t, w.moves("grafana"))
	at(3)
	require.True(t, w.moves("grafana"))
	at(2)
	require.False(t, w.moves("grafana"))
}

// TestRestoreSuspends: a restore of everything suspends the policies that it restores.
func TestRestoreSuspends(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"range":"~17","action":"apply"}`)
	w.sees("grafana", "17.2.0")
	require.True(t, w.moves("grafana"))
	w.must(patch(KindComponent, "grafana", `{"version_policies":null}`))
	w.log.past = Documents{}
	w.log.past.Set(KindComponent, "grafana", w.log.commits[len(w.log.commits)-2].Changes[0].Before)
	res := w.must(operations(w.world, api.Operation{Op: "restore", Revision: 3}))
	require.Contains(t, strings.Join(res.Warnings, "\n"), `the version policies of component "grafana" are suspended`)
	require.Equal(t, "17.0.0", w.version("grafana"))
	require.False(t, w.moves("grafana"))
	require.Equal(t, []string{"17.2.0"}, w.held("grafana"))
	require.Equal(t, "the version policy is suspended", EvaluateVersions(w.state, "grafana", "catalog", w.known["grafana"], w.now).Problem)

	// So does the acceptance of a backup.
	w.must(patch(KindComponent, "grafana", `{"version_policies":{"catalog":{"suspended":false}}}`))
	changes, err := PauseAutomation(slices.Collect(w.state.Records()))
	require.NoError(t, err)
	require.Len(t, changes, 1)
	require.Contains(t, string(changes[0].After), `"suspended":true`)
}

// TestRecreationSuspends: a component that a revert or restore recreates has no holds, so its policies are suspended.
func TestRecreationSuspends(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"revert", "restore"} {
		w := newVersioned(t, `{"range":"~17","action":"apply"}`)
		w.sees("grafana", "17.2.0")
		w.must(func(tx *Tx) error { return tx.HoldVersion("grafana", VersionHold{Version: "17.2.0"}) })
		w.must(func(tx *Tx) error {
			_, err := tx.Delete(KindComponent, "grafana", DeleteOptions{Cascade: true})
			return err
		})
		deletion := w.state.Revision()
		w.log.past = Documents{}
		for _, ch := range w.log.commits[len(w.log.commits)-1].Changes {
			if ch.Kind == KindComponent {
				w.log.past.Set(KindComponent, ch.ID, ch.Before)
			}
		}
		request := api.Operation{Op: "revert", Revision: int64(deletion)}
		if op == "restore" {
			request = api.Operation{Op: "restore", Revision: int64(deletion) - 1, Kind: string(KindComponent), ID: "grafana"}
		}
		res := w.must(operations(w.world, request))
		require.Contains(t, strings.Join(res.Warnings, "\n"), `the version policies of component "grafana" are suspended`, op)
		require.False(t, w.moves("grafana"), op)
		require.Equal(t, "17.0.0", w.version("grafana"), op)
	}
}

// TestHoldOfStartedMove: a hold says that a started rollout moves to the held version; people decide about started rollouts.
func TestHoldOfStartedMove(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"range":"~17","action":"rollout","strategy":"waves"}`)
	w.sees("grafana", "17.2.0")
	require.True(t, w.moves("grafana"))
	require.True(t, w.moves("grafana"))
	require.Equal(t, "running", w.rolloutState("auto-grafana"))
	res := w.must(func(tx *Tx) error { return tx.HoldVersion("grafana", VersionHold{Version: "17.2.0"}) })
	require.Contains(t, strings.Join(res.Warnings, "\n"), `rollout "auto-grafana" has started, and moves component "grafana" to the held version`)
	require.Equal(t, "running", w.rolloutState("auto-grafana"))
}

// TestHoldLimit: beyond the limit of holds, the one of the lowest version ends, which is the least likely to be a candidate.
func TestHoldLimit(t *testing.T) {
	t.Parallel()
	a := &versionAutomation{}
	for i := range maxVersionHolds {
		a.hold(VersionHold{Version: fmt.Sprintf("2.0.%d", i)})
	}
	a.hold(VersionHold{Version: "1.9.0"})
	a.hold(VersionHold{Version: "3.0.0"})
	require.Len(t, a.Holds, maxVersionHolds)
	require.NotNil(t, a.holdOf(KnownVersion{Version: "3.0.0"}))
	require.NotNil(t, a.holdOf(KnownVersion{Version: "2.0.1"}))
	require.Nil(t, a.holdOf(KnownVersion{Version: "1.9.0"}))
}

// TestHoldOfRenamedImage: a hold is one of an image, however its policy names it.
func TestHoldOfRenamedImage(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"action":"apply"}`)
	w.must(patch(KindComponent, "grafana", `{"patches":{"image.tag":"7.0.0"},"image_policies":[{"name":"app","image":"redis","track":{"range":">=7.0.0"},"writes":{"image.tag":"{tag}"}}]}`))
	w.must(func(tx *Tx) error { return tx.HoldVersion("grafana", VersionHold{Image: "redis", Version: "7.1.0"}) })
	for image, held := range map[string]bool{
		"redis": true, "library/redis": true, "docker.io/redis": true, "index.docker.io/library/redis": true, "Docker.io:443/library/redis": true,
		"registry.example.com/redis": false, "acme/redis": false, "localhost/redis": false, "docker.io/library/rediss": false,
	} {
		w.must(patch(KindComponent, "grafana", `{"image_policies":[{"name":"app","image":"`+image+`","track":{"range":">=7.0.0"},"writes":{"image.tag":"{tag}"}}]}`))
		w.known["grafana"] = []KnownVersion{{Image: image, Version: "7.1.0", FirstSeen: w.now}}
		report := EvaluateVersions(w.state, "grafana", "catalog", w.known["grafana"], w.now)
		require.Equal(t, held, report.Images[0].Candidate == nil, image)
	}
	w.must(func(tx *Tx) error { return tx.ReleaseVersion("grafana", "docker.io/library/redis", "7.1.0") })
	require.Empty(t, w.held("grafana"))
}

// TestUselessHold: a hold that would hold nothing is refused, since who requests it believes the version to be held.
func TestUselessHold(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"range":"~17","action":"apply"}`)
	for _, version := range []string{"17.2", "V17.2.0", "latest"} {
		err := w.refused(CodeInvalid, func(tx *Tx) error { return tx.HoldVersion("grafana", VersionHold{Version: version}) })
		require.Equal(t, "/version", err.Problems[0].Pointer)
		require.Contains(t, err.Problems[0].Detail, "must be a semantic version")
	}
}

// TestRecordOfPolicies: the record of a component follows its policies, and ends with it.
func TestRecordOfPolicies(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"range":"~17","action":"apply"}`)
	principal := func() string { return w.state.versionAutomation("grafana").principal("catalog").Actor }
	require.Equal(t, "test", principal())
	w.as("token:bob (2)", patch(KindComponent, "grafana", `{"component_path":"grafana","version_policies":{"catalog":{"range":"~17"}}}`))
	require.Equal(t, "test", principal(), "the policy is the same")
	w.as("token:bob (2)", patch(KindComponent, "grafana", `{"version_policies":{"catalog":{"range":"~18"}}}`))
	require.Equal(t, "token:bob (2)", principal())
	w.as("token:eve (3)", operations(w.world, api.Operation{Op: "revert", Revision: int64(w.state.Revision())}))
	require.Equal(t, "token:eve (3)", principal(), "a revert to the policy of another person has the rights of who reverts")
	w.must(func(tx *Tx) error { return tx.HoldVersion("grafana", VersionHold{Version: "17.2.0"}) })
	w.as("token:bob (2)", patch(KindComponent, "grafana", `{"version_policies":null}`))
	require.Empty(t, principal())
	require.Equal(t, []string{"17.2.0"}, w.held("grafana"), "holds outlast a policy")
	w.must(patch(KindComponent, "grafana", `{"version_policies":{"catalog":{"range":"~17"}}}`))
	w.must(patch(KindComponent, "grafana", `{"oci_url":"oci://ghcr.io/acme/grafana","type":"kustomize"}`))
	require.Empty(t, w.held("grafana"), "they were versions of another artifact")
	require.Equal(t, "test", principal())
	w.state.rules.MaxRemovals = 100
	w.must(remove(KindComponent, "grafana", DeleteOptions{Cascade: true}))
	require.Empty(t, w.state.docs[KindVersionAutomation])
}

// TestPolicyAndPersonAtOnce: whichever commit is first, the other is decided again, and neither is lost.
func TestPolicyAndPersonAtOnce(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"range":"~17","action":"apply"}`)
	w.sees("grafana", "17.2.0")
	res, changed, err := w.automate("grafana")
	require.NoError(t, err)
	require.True(t, changed)
	w.must(patch(KindComponent, "grafana", `{"component_version":"17.5.0"}`))
	require.NotEqual(t, res.Commit.Revision, w.state.Revision()+1, "the store refuses the commit")
	require.False(t, w.moves("grafana"))
	require.Equal(t, "17.5.0", w.version("grafana"))

	// While a version is proposed, a person's change of it is refused until the proposal ends.
	w.sees("grafana", "17.6.0")
	w.must(patch(KindComponent, "grafana", `{"version_policies":{"catalog":{"action":"propose"}}}`))
	require.True(t, w.moves("grafana"))
	w.refused(CodeInRollout, patch(KindComponent, "grafana", `{"component_version":"17.7.0"}`))
	w.must(patch(KindComponent, "grafana", `{"target_namespace":"grafana"}`))
}

// TestPoliciesAreNotStaged: a rollout cannot change policies, since they would get the rights of who completes it.
func TestPoliciesAreNotStaged(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"range":"~17"}`)
	e := w.refused(CodeNotStageable, rollOut(w.world, "r", nil, patchOp(KindComponent, "grafana", `{"version_policies":{"catalog":{"action":"apply"}}}`)))
	require.Contains(t, e.Detail, "cannot change version policies")
}

// limitTo limits automation to the rights of the subject ci if the principal is the token ci, and does not limit other principals.
func (w *versioned) limitTo() {
	w.limit = func(tx *Tx, actor string) {
		if actor == "token:ci (1)" {
			tx.LimitTo(tx.Base().Rights(ci, w.now), false)
		}
	}
}

// asCI runs an edit with the rights of the subject ci, and keeps it.
func (w *versioned) asCI(edit func(*Tx) error) error {
	res, err := w.limited(edit)
	if err == nil {
		w.keep(res)
	}
	return err
}

// TestPoliciesGrantNothing: a policy gives its author no rights, through a layer, a group, a revert, or what it writes.
func TestPoliciesGrantNothing(t *testing.T) {
	t.Parallel()
	const own = `{"components":["grafana"],"kinds":["platform_component"]}`
	setup := func(t *testing.T, may, on string) *versioned {
		w := newVersioned(t, `{"range":"~17","action":"apply"}`)
		w.grantCI("ci", may, on)
		w.limitTo()
		w.sees("grafana", "17.2.0")
		w.sees("loki", "17.2.0")
		return w
	}
	t.Run("a layer", func(t *testing.T) {
		t.Parallel()
		w := setup(t, `["write"]`, own)
		require.NoError(t, w.asCI(patch(KindComponent, "grafana", `{"version_policies":{"catalog":null,"layer/prod":{"range":"~17","action":"apply"}}}`)))
		before := polls(t, w.state)
		_, changed, err := w.automate("grafana@prod")
		require.False(t, changed)
		require.Equal(t, []string{"layer/prod"}, outside(err))
		require.Equal(t, before, polls(t, w.state))
		require.NoError(t, w.asCI(patch(KindComponent, "grafana", `{"version_policies":{"layer/prod":null,"catalog":{"range":"~17","action":"apply"}}}`)))
		require.True(t, w.moves("grafana"), "the own component moves")
	})
	t.Run("a rollout that would start", func(t *testing.T) {
		t.Parallel()
		w := setup(t, `["write"]`, own)
		require.NoError(t, w.asCI(patch(KindComponent, "grafana", `{"version_policies":{"catalog":{"action":"rollout"}}}`)))
		_, _, err := w.automate("grafana")
		require.Equal(t, []string{"rollout/auto-grafana"}, outside(err))
	})
	t.Run("a group", func(t *testing.T) {
		t.Parallel()
		w := setup(t, `["write"]`, own)
		w.must(patch(KindComponent, "loki", `{"component_version":"17.0.0","version_policies":{"catalog":{"range":"~17","action":"apply","group":"g"}}}`))
		require.NoError(t, w.asCI(patch(KindComponent, "grafana", `{"version_policies":{"catalog":{"group":"g"}}}`)))
		_, _, err := w.automate("group/g")
		require.Equal(t, []string{"platform_component/loki"}, outside(err))
	})
	t.Run("a group whose first component is another's", func(t *testing.T) {
		t.Parallel()
		w := setup(t, `["write"]`, `{"components":["loki"],"kinds":["platform_component"]}`)
		w.must(patch(KindComponent, "grafana", `{"version_policies":{"catalog":{"group":"g"}}}`))
		w.must(patch(KindComponent, "loki", `{"component_version":"17.0.0"}`))
		require.NoError(t, w.asCI(patch(KindComponent, "loki", `{"version_policies":{"catalog":{"range":"~17","action":"apply","group":"g"}}}`)))
		_, _, err := w.automate("group/g")
		require.Equal(t, []string{"platform_component/grafana"}, outside(err))
	})
	t.Run("a revert to the policy of an administrator", func(t *testing.T) {
		t.Parallel()
		w := setup(t, `["revert"]`, "")
		w.must(patch(KindComponent, "grafana", `{"version_policies":{"catalog":{"action":"notify"}}}`))
		require.NoError(t, w.asCI(operations(w.world, api.Operation{Op: "revert", Revision: int64(w.state.Revision())})))
		require.Equal(t, []string{"grafana"}, VersionMoves(w.state), "the policy of the administrator is back")
		_, _, err := w.automate("grafana")
		require.Equal(t, []string{"platform_component/grafana"}, outside(err))
	})
	t.Run("the right to push versions", func(t *testing.T) {
		t.Parallel()
		w := setup(t, `["push_version"]`, own)
		require.NotNil(t, outside(w.asCI(patch(KindComponent, "grafana", `{"version_policies":{"catalog":{"range":"*"}}}`))))
		require.NotNil(t, outside(w.asCI(func(tx *Tx) error { return tx.HoldVersion("grafana", VersionHold{Version: "17.2.0"}) })))
		require.NoError(t, w.asCI(patch(KindComponent, "grafana", `{"component_version":"16.0.0"}`)), "its hold follows from the change")
		require.Equal(t, []string{"17.0.0"}, w.held("grafana"))
		require.NotNil(t, outside(w.asCI(func(tx *Tx) error { return tx.ReleaseVersion("grafana", "", "17.0.0") })))
	})
	t.Run("holds of other components", func(t *testing.T) {
		t.Parallel()
		w := setup(t, `["write"]`, own)
		w.must(func(tx *Tx) error { return tx.HoldVersion("loki", VersionHold{Version: "1.0.0"}) })
		hold := func(id string) func(*Tx) error {
			return func(tx *Tx) error { return tx.HoldVersion(id, VersionHold{Version: "17.2.0"}) }
		}
		require.Equal(t, []string{"version_automation/loki"}, outside(w.asCI(hold("loki"))))
		require.Equal(t, []string{"version_automation/loki"}, outside(w.asCI(both(patch(KindComponent, "grafana", `{"secret_ref":"x"}`), hold("loki")))))
		require.Equal(t, []string{"version_automation/loki"}, outside(w.asCI(func(tx *Tx) error { return tx.ReleaseVersion("loki", "", "1.0.0") })))
		require.NoError(t, w.asCI(hold("grafana")))
	})
	t.Run("an unknown principal", func(t *testing.T) {
		t.Parallel()
		w := setup(t, `["write"]`, own)
		w.limit = func(tx *Tx, _ string) { tx.LimitTo(Rights{}, false) }
		before := maps.Clone(w.state.docs[KindComponent])
		_, _, err := w.automate("grafana")
		require.Error(t, err)
		require.Equal(t, before, w.state.docs[KindComponent])
	})
}

// TestSecondPersonOfPolicies: the author of a policy cannot approve its rollouts alone.
func TestSecondPersonOfPolicies(t *testing.T) {
	t.Parallel()
	w := newVersioned(t, `{"range":"~17"}`)
	w.state.rules.SecondPerson = true
	w.must(create(KindStrategy, `{"id":"approved","stages":[{"name":"dev","selector":"tier=dev","approval":true}]}`))
	w.as("token:ann (1)", patch(KindComponent, "grafana", `{"version_policies":{"catalog":{"strategy":"approved"}}}`))
	w.sees("grafana", "17.2.0")
	require.True(t, w.moves("grafana"))
	tx := w.state.Begin()
	require.NoError(t, act("auto-grafana", RolloutApprove)(tx))
	_, err := tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: "token:ann (2)"})
	require.Contains(t, errorOf(t, err, CodeSecondPerson).Detail, "another person must approve")
	w.as("token:bob (3)", act("auto-grafana", RolloutApprove))
}

// TestHistoryOfRecords: the history shows a rollout without the claims of its principal.
func TestHistoryOfRecords(t *testing.T) {
	t.Parallel()
	ch := Change{Kind: KindRollout, ID: "a", After: json.RawMessage(`{"id":"a","identity":{"issuer":"corp","claims":{"email":"ann@example.com"}},"principal":"ann"}`)}
	_, after, err := ch.Public()
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"a","principal":"ann"}`, string(after))
}

// TestMovesProperties: whatever people, registries and automation do, no commit of automation lowers a version, sets one that is held or
// outside the range, or changes anything that its rollout has started; and a second evaluation changes nothing.
func TestMovesProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		empty, err := NewState(testRules, Head{}, time.Time{}, nil)
		require.NoError(t, err)
		w := &versioned{world: &world{state: empty, now: versionsNow}, known: map[string][]KnownVersion{}}
		run := func(actor string, edit func(*Tx) error) bool {
			tx := w.state.Begin()
			if edit(tx) != nil {
				return false
			}
			res, err := tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: actor})
			if err == nil {
				w.keep(res)
			}
			return err == nil && len(res.Commit.Changes) > 0
		}
		action := rapid.SampledFrom([]string{versionsApply, versionsPropose, versionsRollout}).Draw(t, "action")
		require.True(t, run("ann", both(
			create(KindComponent, fmt.Sprintf(`{"id":"web","component_path":"x","oci_url":"https://charts.example.com","component_version":"1.0.0","version_policies":{"catalog":{"range":"<2.0.0","action":%q}}}`, action)),
			create(KindCluster, `{"id":"c","cluster_dns":"c.example.com","environment":"dev","platform_components":[{"id":"web"}]}`))))
		at := func() string { return w.state.docs[KindComponent]["web"].Component().ComponentVersion }
		draw := rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf("%d.%d.0", rapid.IntRange(1, 2).Draw(t, "major"), rapid.IntRange(0, 4).Draw(t, "minor"))
		})
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			w.now = w.now.Add(time.Minute)
			switch rapid.SampledFrom([]string{"see", "set", "act", "revert", "hold", "release", "automate", "automate"}).Draw(t, "step") {
			case "see":
				w.sees("web", draw.Draw(t, "version"))
			case "set":
				run("ann", patch(KindComponent, "web", fmt.Sprintf(`{"component_version":%q}`, draw.Draw(t, "version"))))
			case "act":
				run("ann", act("auto-web", rapid.SampledFrom([]string{RolloutStart, RolloutPause, RolloutResume, RolloutBack, RolloutAbort, RolloutComplete}).Draw(t, "action")))
			case "revert":
				run("ann", operations(w.world, api.Operation{Op: "revert", Revision: rapid.Int64Range(2, int64(w.state.Revision()+1)).Draw(t, "revision")}))
			case "hold":
				run("ann", func(tx *Tx) error { return tx.HoldVersion("web", VersionHold{Version: draw.Draw(t, "version")}) })
			case "release":
				run("ann", func(tx *Tx) error { return tx.ReleaseVersion("web", "", draw.Draw(t, "version")) })
			case "automate":
				before, was := at(), w.state.docs[KindRollout]["auto-web"]
				res, changed, err := w.automate("web")
				if err != nil {
					t.Fatal(err)
				}
				if !changed {
					continue
				}
				w.keep(res)
				moved := []string{}
				if is := at(); is != before {
					moved = append(moved, is)
				}
				if is := w.state.docs[KindRollout]["auto-web"]; is != was {
					if was != nil && was.rollout().open() && was.rollout().State != rolloutProposed {
						t.Fatalf("it changed a rollout that is %s", was.rollout().State)
					}
					moved = append(moved, is.rollout().Versions[0].Version)
				}
				for _, v := range moved {
					if isLower(v, before) || v == before || strings.HasPrefix(v, "2") || slices.Contains(w.held("web"), v) {
						t.Fatalf("from %s to %s, with the holds %v", before, v, w.held("web"))
					}
				}
				for range 2 { // a rollout that has to start does so
					if res, changed, _ := w.automate("web"); changed {
						w.keep(res)
					}
				}
				if _, changed, err := w.automate("web"); changed || err != nil {
					t.Fatalf("the evaluation does not end: %v", err)
				}
			}
		}
	})
}

// TestVersionsOfVisibleRollouts: a rollout names the component of its policy only to those who may read the component.
func TestVersionsOfVisibleRollouts(t *testing.T) {
	t.Parallel()
	w := newVersionedOn(t, "layer/prod", `{"range":"~17"}`)
	w.sees("grafana", "17.2.0")
	require.True(t, w.moves("grafana@prod"))
	w.must(act("auto-grafana.prod", RolloutAbort))
	w.must(patch(KindLayer, "prod", `{"platform_components":null,"overrides":null,"patches":null}`)) // it needs the component no longer
	view := func(limits string) (s *State, out api.Rollout) {
		var a access
		require.NoError(t, json.Unmarshal([]byte(limits), &a.On))
		a.ID, a.May = "a", []string{RightRead}
		require.NoError(t, a.parse([]byte(`{}`)))
		s = w.state.VisibleTo(Rights{grants: []*access{&a}})
		require.Contains(t, s.docs[KindRollout], "auto-grafana.prod")
		return s, *s.RolloutView(s.docs[KindRollout]["auto-grafana.prod"]).(*api.Rollout)
	}
	s, all := view(`{"layers":["*"],"components":["*"]}`)
	require.NotNil(t, s.docs[KindComponent]["grafana"])
	require.Equal(t, "grafana@prod", all.Automation)
	require.Equal(t, []api.RolloutVersion{{Component: "grafana", Version: "17.2.0"}}, all.Versions)
	s, limited := view(`{"layers":["prod"]}`)
	require.Nil(t, s.docs[KindComponent]["grafana"])
	require.Empty(t, limited.Automation)
	require.Empty(t, limited.Versions)
}
