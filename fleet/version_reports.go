package fleet

import (
	"cmp"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// VersionReport is the result of evaluating the policies of a component against its known versions.
type VersionReport struct {
	Component string
	// Chart is about the component's own version; nil: its policy has no range.
	Chart *VersionEvaluation
	// Images are about its image policies, in their order.
	Images []VersionEvaluation
	// Holds are the versions that are never candidates until a person releases them.
	Holds []VersionHold
	// Pins are the layers and clusters that set an older version themselves, so a new version in the target of the policy does not reach them.
	Pins []VersionPin
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

// EvaluateVersions evaluates the policies of a component: it decides which version each of them would move to, and why it is no
// other. It depends on its arguments only, and is the only function that decides that; [Tx.MoveVersions] uses it too. The component
// must exist. A State with only visible documents is evaluated as if the others did not exist, except for the holds.
func EvaluateVersions(st *State, component string, known []KnownVersion, now time.Time) VersionReport {
	out := VersionReport{Component: component}
	doc := st.componentDocument(component)
	if doc == nil {
		out.Problem = "there is no such component"
		return out
	}
	p := doc.Component()
	held := st.Whole().versionAutomation(component)
	out.Holds = slices.Clone(held.Holds)
	target, problem := st.versionTarget(p)
	out.Problem = problem
	policy := policyOf(p)
	if policy.Suspended {
		out.Problem = "the version policy is suspended"
	}
	if policy.Range != "" {
		rule, problem := newVersionRule(api.ImageTrack{Range: policy.Range, Include: policy.Include, Exclude: policy.Exclude}, policy.MinAge)
		stored := target.chart()
		stored.problem = cmp.Or(out.Problem, problem, stored.problem)
		chart := rule.evaluate(stored, known, held, now)
		out.Chart = &chart
		out.Pins = st.versionPins(p, target, chart)
	}
	for i := range p.ImagePolicies {
		image := &p.ImagePolicies[i]
		rule, problem := newVersionRule(image.Track, image.MinAge)
		rule.policy, rule.image, rule.suspended, rule.needsDigest = image.Name, image.Image, image.Suspended, writesDigest(image)
		stored := target.image(image)
		stored.problem = cmp.Or(out.Problem, problem, stored.problem)
		out.Images = append(out.Images, rule.evaluate(stored, known, held, now))
	}
	if d := st.docs[KindRollout][rolloutOfMove(VersionMoveOf(p))]; d != nil && d.rollout().open() && d.rollout().Automation == VersionMoveOf(p) {
		out.Rollout = d.ID
	}
	return out
}

// versionPins returns the layers and clusters that set an older version of a component than its policy moves, with precedence.
func (s *State) versionPins(p *api.PlatformComponent, t versionTarget, chart VersionEvaluation) (pins []VersionPin) {
	newest := chart.Stored
	if chart.Candidate != nil {
		newest = chart.Candidate.Version
	}
	add := func(kind Kind, id, version, tag string) {
		if p.Type == typeKustomize {
			version = tag
		}
		if version == "" {
			return
		}
		is, than := parseVersion(version), parseVersion(newest)
		if is == nil && version != newest || is != nil && than != nil && is.LessThan(than) {
			pins = append(pins, VersionPin{kind, id, version})
		}
	}
	above := -1
	if t.kind == KindLayer && s.docs[KindLayer][t.id] != nil {
		above = s.docs[KindLayer][t.id].layer().Priority
	}
	for _, d := range s.sorted(KindLayer, func(d *Document) bool { return d.ID != t.id && d.layer().Priority > above }) {
		l := d.layer()
		o := l.Overrides[p.ID]
		version, tag := o.ComponentVersion, o.OCITag
		for _, e := range l.PlatformComponents {
			if e.ID == p.ID {
				version, tag = cmp.Or(version, e.ComponentVersion), cmp.Or(tag, e.OCITag)
			}
		}
		add(KindLayer, d.ID, version, tag)
	}
	for _, d := range s.sorted(KindCluster, func(d *Document) bool { return !d.Deleted() }) {
		for _, e := range d.Cluster().PlatformComponents {
			if e.ID == p.ID {
				add(KindCluster, d.ID, e.ComponentVersion, e.OCITag)
			}
		}
	}
	return pins
}
