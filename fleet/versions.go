package fleet

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// VersionEvaluation is the result of one policy.
type VersionEvaluation struct {
	// Policy is the name of the image policy; empty: it is the component's version policy.
	Policy string
	Image  string
	// Stored are the version and the digest that the policy would replace; empty: none, or unknown.
	Stored, StoredDigest string
	// Candidate is the version to move to; nil: none.
	Candidate *KnownVersion
	// Reasons state for each known version, newest first, why it is not the candidate.
	Reasons []VersionReason
	// Problem is the reason why the policy has no candidate, whatever versions exist, such as a stored version that is not semantic; empty: none.
	Problem string
	// Warning describes a problem that blocks no move, such as a tag that the registry has moved; empty: none.
	Warning string

	eligible []KnownVersion // that could be the candidate, the highest first
}

// VersionReason is why a version is not the candidate of a policy; Reason is empty for the candidate.
type VersionReason struct {
	KnownVersion
	Reason string
}

const (
	maxKnownVersions = 10_000 // that one policy evaluates
	// maxAhead is how far the clocks of registries may be ahead.
	maxAhead = 5 * time.Minute
)

// versionRule decides which known versions a policy may move to.
type versionRule struct {
	target           string
	policy, image    string // of an image policy
	tag              string // whose digest moves; empty: the version moves
	rangeText        string
	versions         *semver.Constraints
	include, exclude *regexp.Regexp
	minAge           time.Duration
	needsDigest      bool
	suspended        bool
}

// newVersionRule returns the rule of a policy, and the reason why it has none. Stored policies were checked, unless another version
// wrote them.
func newVersionRule(track api.ImageTrack, minAge string) (r versionRule, problem string) {
	var err error
	r.tag, r.rangeText = track.Tag, track.Range
	if track.Range != "" {
		if r.versions, err = semver.NewConstraint(track.Range); err != nil {
			return r, "the range cannot be read"
		}
	}
	for _, e := range []struct {
		text string
		to   **regexp.Regexp
	}{{track.Include, &r.include}, {track.Exclude, &r.exclude}} {
		if e.text == "" {
			continue
		}
		if *e.to, err = regexp.Compile(e.text); err != nil {
			return r, "include or exclude cannot be read"
		}
	}
	if minAge != "" {
		if r.minAge, err = time.ParseDuration(minAge); err != nil {
			return r, "min_age cannot be read"
		}
	}
	return r, ""
}

// storedVersion is the version that a policy would replace.
type storedVersion struct {
	version, digest string
	problem         string // why nothing may replace it; empty: it may be replaced
}

// evaluate decides which known version a rule moves to. The result depends on nothing else, and not on the order of known.
func (r *versionRule) evaluate(stored storedVersion, known []KnownVersion, held *versionAutomation, now time.Time) VersionEvaluation {
	out := VersionEvaluation{Policy: r.policy, Image: r.image, Stored: stored.version, StoredDigest: stored.digest, Problem: stored.problem}
	from := parseVersion(stored.version)
	switch {
	case out.Problem != "":
	case r.suspended:
		out.Problem = "the policy is suspended"
	case r.tag == "" && stored.version != "" && from == nil:
		out.Problem = fmt.Sprintf("the stored version %s is not a semantic version", excerpt(stored.version))
	}
	var highest *semver.Version
	for _, parsed := range r.known(known) {
		k := parsed.KnownVersion
		why := r.excludes(parsed, from, stored, held, now)
		if why == "" && out.Problem == "" {
			out.eligible = append(out.eligible, k)
			switch {
			case out.Candidate == nil:
				out.Candidate, highest = &k, parsed.v
			case highest != nil && parsed.v != nil && highest.Compare(parsed.v) == 0 && highest.Metadata() != parsed.v.Metadata():
				why = "has the precedence of the candidate, and a lower build"
			default:
				why = "is older than the candidate"
			}
		}
		out.Reasons = append(out.Reasons, VersionReason{k, cmp.Or(why, out.Problem)})
		if k.Version == stored.version && r.tag == "" && k.Digest != "" && stored.digest != "" && k.Digest != stored.digest {
			out.Warning = fmt.Sprintf("the registry has another digest for %s now, %s", excerpt(k.Version), excerpt(k.Digest))
		}
	}
	return out
}

// parsedVersion is a known version, parsed; nil: it is not semantic.
type parsedVersion struct {
	KnownVersion
	v *semver.Version
}

// known returns the known versions that are for the rule, the highest first, then those that are no semantic versions.
func (r *versionRule) known(all []KnownVersion) []parsedVersion {
	var some []parsedVersion
	for _, k := range all {
		if k.Image == r.image && len(some) < maxKnownVersions && (r.tag == "" || r.tag == k.Version) {
			some = append(some, parsedVersion{k, parseVersion(k.Version)})
		}
	}
	slices.SortFunc(some, func(a, b parsedVersion) int {
		order := 0
		switch {
		case a.v != nil && b.v != nil:
			order = b.v.Compare(a.v)
		case a.v != nil:
			order = -1
		case b.v != nil:
			order = 1
		}
		if order == 0 && a.v != nil {
			order = compareBuilds(b.v.Metadata(), a.v.Metadata())
		}
		return cmp.Or(order, b.FirstSeen.Compare(a.FirstSeen), strings.Compare(a.Version, b.Version), strings.Compare(a.Digest, b.Digest), b.CreatedAt.Compare(a.CreatedAt))
	})
	return some
}

var buildParts = regexp.MustCompile(`[0-9]+|[^0-9]+`)

// compareBuilds orders build metadata, which precedence ignores: numbers in it as numbers, so that k3s10 is above k3s9.
func compareBuilds(a, b string) int {
	return slices.CompareFunc(buildParts.FindAllString(a, -1), buildParts.FindAllString(b, -1), func(a, b string) int {
		if strings.Contains("0123456789", a[:1]) && strings.Contains("0123456789", b[:1]) {
			a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
			return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
		}
		return strings.Compare(a, b)
	})
}

// excludes returns why a version cannot be the candidate, regardless of others; empty: it can be. from is the stored version, if it is
// semantic.
func (r *versionRule) excludes(k parsedVersion, from *semver.Version, stored storedVersion, held *versionAutomation, now time.Time) string {
	switch {
	case len(k.Version) > maxVersionText || !versionText.MatchString(k.Version):
		return "is not a tag"
	case k.Digest != "" && !versionDigest.MatchString(k.Digest):
		return "has a digest that is not sha256: and 64 hex digits"
	case k.Withdrawn:
		return "is no longer in the registry"
	}
	var why string
	if r.tag == "" {
		why = r.excludesVersion(k, from)
	} else {
		why = r.excludesDigest(k.KnownVersion, stored, held)
	}
	if why != "" {
		return why
	}
	switch hold := held.holdOf(k.KnownVersion); {
	case hold != nil && hold.Reason != "":
		return fmt.Sprintf("is held by %s: %s", hold.By, hold.Reason)
	case hold != nil:
		return "is held by " + hold.By
	case r.needsDigest && k.Digest == "":
		return "its digest is not known"
	}
	return r.tooYoung(k.KnownVersion, now)
}

// excludesVersion returns why the policy cannot move to a version; empty: it can.
func (r *versionRule) excludesVersion(k parsedVersion, from *semver.Version) string {
	v := k.v
	switch {
	case v == nil:
		return "is not a semantic version"
	case r.include != nil && !r.include.MatchString(k.Version):
		return "does not match include"
	case r.exclude != nil && r.exclude.MatchString(k.Version):
		return "matches exclude"
	case r.versions == nil || !r.versions.Check(v):
		return "is not in the range " + r.rangeText
	case from != nil && v.Compare(from) == 0 && v.Metadata() == from.Metadata():
		return "is the stored version"
	case from != nil && v.Compare(from) == 0:
		return "has the precedence of the stored version"
	case from != nil && v.LessThan(from):
		return "is older than the stored version"
	}
	return ""
}

// excludesDigest returns why the policy cannot move to the digest of a tag; empty: it can.
func (r *versionRule) excludesDigest(k KnownVersion, stored storedVersion, held *versionAutomation) string {
	switch {
	case k.Digest == "":
		return "its digest is not known"
	case k.Digest == stored.digest:
		return "is the stored digest"
	case held.replaced(r.target, r.image, k.Digest):
		return "was replaced before: the tag has moved back"
	}
	return ""
}

// tooYoung returns why a version is too young; empty: it is old enough.
func (r *versionRule) tooYoung(k KnownVersion, now time.Time) string {
	since := k.CreatedAt
	if since.IsZero() {
		since = k.FirstSeen
	}
	switch old := since.Add(r.minAge); {
	case k.CreatedAt.After(now.Add(maxAhead)):
		return "was created in the future, at " + k.CreatedAt.UTC().Format(time.RFC3339)
	case r.minAge == 0:
		return ""
	case since.IsZero():
		return "its age is not known"
	case old.After(now):
		return fmt.Sprintf("is younger than %s until %s", r.minAge, old.UTC().Format(time.RFC3339))
	}
	return ""
}
