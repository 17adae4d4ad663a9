package fleet

import (
	"cmp"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// VersionReport is the result of evaluating the policies of a target against the known versions of its component.
type VersionReport struct {
	Component string
	Target    string // catalog, or layer/ and the id of a layer
	// Move is the name of the move: see [VersionMoves].
	Move string
	// Chart is about the component's own version; nil: the policy has no range.
	Chart *VersionEvaluation
	// Images are about its image policies, in their order.
	Images []VersionEvaluation
	// Rollout is the open rollout by which its versions move; empty: there is none.
	Rollout string
	// Problem is why nothing moves, for reasons that are no property of one version; empty: none.
	Problem string
}

// VersionPin is a document that sets an older version of a component itself.
type VersionPin struct {
	Kind    Kind // KindLayer or KindCluster
	ID      string
	Version string
}

// VersionTargets returns the targets of a component's policies by their precedence, the lowest first.
func VersionTargets(st *State, p *api.PlatformComponent) []string {
	targets := policyTargets(p)
	slices.SortFunc(targets, st.compareTargets)
	return targets
}

// VersionHolds returns the versions of a component that are never candidates, in any target, until a person releases them.
func VersionHolds(st *State, component string) []VersionHold {
	return slices.Clone(st.Whole().versionAutomation(component).Holds)
}

// EvaluateVersions evaluates the policies of a target of a component: it decides which version each of them would move to, and why it is
// no other. It depends on its arguments only, and is the only function that decides that; [Tx.MoveVersions] uses it too. A State with
// only visible documents is evaluated as if the others did not exist, except for the holds.
func EvaluateVersions(st *State, component, target string, known []KnownVersion, now time.Time) VersionReport {
	out := VersionReport{Component: component, Target: target}
	doc := st.componentDocument(component)
	if doc == nil {
		out.Problem = "there is no such component"
		return out
	}
	p := doc.Component()
	out.Move = moveOf(p, target)
	held := st.Whole().versionAutomation(component)
	of, problem := st.versionTarget(p, target)
	out.Problem = problem
	policy := policyOf(p, target)
	if policy.Suspended {
		out.Problem = "the version policy is suspended"
	}
	if policy.Range != "" {
		rule, problem := newVersionRule(api.ImageTrack{Range: policy.Range, Include: policy.Include, Exclude: policy.Exclude}, policy.MinAge)
		stored := of.chart()
		stored.problem = cmp.Or(out.Problem, problem, stored.problem)
		chart := rule.evaluate(stored, known, held, now)
		out.Chart = &chart
	}
	for i := range p.ImagePolicies {
		image := &p.ImagePolicies[i]
		rule, problem := newVersionRule(image.Track, image.MinAge)
		rule.target, rule.policy, rule.image, rule.suspended, rule.needsDigest = target, image.Name, image.Image, image.Suspended, writesDigest(image)
		stored := of.image(image)
		stored.problem = cmp.Or(out.Problem, problem, stored.problem)
		out.Images = append(out.Images, rule.evaluate(stored, known, held, now))
	}
	if d := st.docs[KindRollout][rolloutOfMove(out.Move)]; d != nil && d.rollout().open() && d.rollout().Automation == out.Move {
		out.Rollout = d.ID
	}
	return out
}

// VersionPins returns the layers and clusters that set an older version of a component than the policy of a report moves, with
// precedence. Layers with a policy of their own are left out. warning: no cluster gets the version from the target of the policy.
func VersionPins(st *State, r *VersionReport) (pins []VersionPin, warning string) {
	doc := st.componentDocument(r.Component)
	if doc == nil || r.Chart == nil {
		return nil, ""
	}
	p, newest := doc.Component(), r.Chart.Stored
	if r.Chart.Candidate != nil {
		newest = r.Chart.Candidate.Version
	}
	add := func(kind Kind, id, version string) {
		is, than := parseVersion(version), parseVersion(newest)
		if version != "" && (is == nil && version != newest || is != nil && than != nil && is.LessThan(than)) {
			pins = append(pins, VersionPin{kind, id, version})
		}
	}
	sets := map[string]bool{} // the layers above the target that set the version
	for _, d := range st.sorted(KindLayer, func(d *Document) bool { return st.compareTargets(layerTarget+d.ID, r.Target) > 0 }) {
		chart := readTarget(p, d).chart()
		if sets[d.ID] = chart.version != ""; !moves(p, layerTarget+d.ID) {
			add(KindLayer, d.ID, chart.version)
		}
	}
	clusters, overriding := 0, map[string]bool{}
	for _, d := range st.sorted(KindCluster, func(d *Document) bool { return !d.Deleted() }) {
		layers := st.LayerIDs(d)
		if layer := layerOf(r.Target); layer != "" && !slices.Contains(layers, layer) {
			continue
		}
		own := ""
		for _, e := range d.Cluster().PlatformComponents {
			if e.ID == p.ID {
				own = (&versionTarget{component: p, version: e.ComponentVersion, tag: e.OCITag}).chart().version
			}
		}
		add(KindCluster, d.ID, own)
		if _, runs := st.Running(d, p.ID); !runs {
			continue
		}
		over := ""
		for _, id := range layers { // by rising priority
			if sets[id] {
				over = layerTarget + id
			}
		}
		if own != "" {
			over = "the clusters themselves"
		}
		clusters++
		overriding[over] = true
	}
	if clusters > 0 && !overriding[""] {
		warning = "a move has no effect: every cluster with the component gets its version from " + list(sortedKeys(overriding))
	}
	return pins, warning
}
