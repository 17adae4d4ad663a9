package ui

import (
	"cmp"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

const (
	// shownVersions is the number of versions of a source that the page of a component shows; the others are collapsed.
	shownVersions = 10
	// shownPins is the number of documents with an older version of their own that it names.
	shownPins = 50
)

// versionsView has the known versions of a component and its images, and what its policies make of them.
type versionsView struct {
	Sources  []versionSource
	Holds    []api.VersionHold
	Pins     []api.VersionPin
	MorePins int // not named
}

// versionSource is the component itself, or an image.
type versionSource struct {
	api.VersionSource

	Title     string
	Layer     string           // whose version moves; empty: that of the catalog
	Settings  []versionSetting // of the policy; none: there is no policy
	Suspended bool
	First     []knownVersion
	Others    []knownVersion // collapsed
}

// versionSetting is a setting of a policy. Link is empty, or leads to the document that it names.
type versionSetting struct{ Name, Value, Link string }

// knownVersion is a version, and whether its policy moves to it.
type knownVersion struct {
	api.KnownVersion

	Candidate bool
}

// knownVersions returns what is known of the versions of a component; nil: it has neither policies nor known or held versions.
func (req *pageRequest) knownVersions(c api.PlatformComponent) (*versionsView, error) {
	response, err := req.fleet.GetComponentVersionsWithResponse(req.r.Context(), c.ID, nil)
	if err != nil {
		return nil, err
	}
	known := *response.JSON200
	used := len(c.VersionPolicies)+len(c.ImagePolicies)+len(known.Holds) > 0
	view := versionsView{Holds: known.Holds, Pins: known.Pins[:min(len(known.Pins), shownPins)]}
	for _, s := range known.Sources {
		used = used || len(s.Versions) > 0
		if s.Policy == "" && len(s.Versions) == 0 && len(c.VersionPolicies) == 0 {
			continue // only images have policies
		}
		view.Sources = append(view.Sources, makeVersionSource(c, s))
	}
	if !used {
		return nil, nil //nolint:nilnil // as documented
	}
	view.MorePins = len(known.Pins) - len(view.Pins)
	return &view, nil
}

// makeVersionSource returns a source, with the settings of its policy.
func makeVersionSource(c api.PlatformComponent, s api.VersionSource) versionSource {
	out := versionSource{VersionSource: s, Title: "Component"}
	if policy, found := c.VersionPolicies[s.Target]; s.Policy == "" {
		if found {
			out.Settings, out.Suspended = policySettings(policy), policy.Suspended
		}
	} else if i := slices.IndexFunc(c.ImagePolicies, func(p api.ImagePolicy) bool { return p.Name == s.Policy }); i >= 0 {
		out.Title, out.Settings, out.Suspended = "Image "+s.Policy, imageSettings(c.ImagePolicies[i]), c.ImagePolicies[i].Suspended
	}
	if layer, ofLayer := strings.CutPrefix(s.Target, "layer/"); ofLayer {
		out.Title, out.Layer = out.Title+" in layer "+layer, layer
	}
	for _, v := range s.Versions {
		row := knownVersion{v, v.Version == s.Candidate}
		if len(out.First) < shownVersions {
			out.First = append(out.First, row)
		} else {
			out.Others = append(out.Others, row)
		}
	}
	return out
}

// policySettings returns the settings of a version policy.
func policySettings(p api.VersionPolicy) []versionSetting {
	out := []versionSetting{
		{"Range", p.Range, ""},
		{"Include", p.Include, ""},
		{"Exclude", p.Exclude, ""},
		{"Minimum age", p.MinAge, ""},
		{"Action", cmp.Or(p.Action, "propose"), ""},
		{"Strategy", p.Strategy, link("definitions", "strategies", p.Strategy)},
		{"Group", p.Group, ""},
		{"Interval", p.Interval, ""},
	}
	return withValue(out)
}

func imageSettings(p api.ImagePolicy) []versionSetting {
	out := []versionSetting{
		{"Image", p.Image, ""},
		{"Tag", p.Track.Tag, ""},
		{"Range", p.Track.Range, ""},
		{"Include", p.Track.Include, ""},
		{"Exclude", p.Track.Exclude, ""},
		{"Minimum age", p.MinAge, ""},
		{"Interval", p.Interval, ""},
	}
	return withValue(out)
}

// withValue returns the settings that are set.
func withValue(settings []versionSetting) []versionSetting {
	return slices.DeleteFunc(settings, func(s versionSetting) bool { return s.Value == "" })
}
