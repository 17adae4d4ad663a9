package fleet

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// The actions of a version policy.
const (
	versionsNotify  = "notify"
	versionsPropose = "propose"
	versionsRollout = "rollout"
	versionsApply   = "apply"
)

const (
	maxImagePolicies  = 20
	maxVersionPattern = 256 // bytes of a range or a regular expression
	maxImageName      = 512
	maxMinAge         = 365 * 24 * time.Hour
	minScanInterval   = time.Minute
	maxScanInterval   = 30 * 24 * time.Hour
	// DefaultScanInterval is the time between two scans of the source of a policy without an interval.
	DefaultScanInterval = time.Hour
)

// normalizeVersionPolicies omits unset fields.
func normalizeVersionPolicies(obj map[string]any) {
	unstructured.DropEmptyList(obj, "image_policies")
	policy, isObject := obj["version_policy"].(map[string]any)
	if isObject {
		dropUnset(policy, "range", "include", "exclude", "min_age", "layer", "action", "strategy", "group", "interval", "suspended")
	}
	if v, ok := obj["version_policy"]; ok && (v == nil || isObject && len(policy) == 0) {
		delete(obj, "version_policy")
	}
	list, _ := obj["image_policies"].([]any)
	for _, item := range list {
		if p, ok := item.(map[string]any); ok {
			dropUnset(p, "min_age", "interval", "suspended", "images", "writes")
		}
	}
}

// dropUnset removes fields that are null, false, an empty string or an empty object.
func dropUnset(obj map[string]any, fields ...string) {
	unstructured.DropEmpty(obj, fields...)
	for _, f := range fields {
		inner, isObject := obj[f].(map[string]any)
		if set, isBool := obj[f].(bool); isBool && !set || isObject && len(inner) == 0 {
			delete(obj, f)
		}
	}
}

// checkVersionPolicies checks the version policy and the image policies of a component.
func checkVersionPolicies(c *checker, p *api.PlatformComponent) {
	if v := p.VersionPolicy; v != nil {
		checkVersionPolicy(c, v)
	}
	c.atMost("/image_policies", len(p.ImagePolicies), maxImagePolicies, "image policies")
	names, images, paths := map[string]bool{}, map[string]bool{}, map[string]json.RawMessage{}
	for i := range p.ImagePolicies {
		if c.full() {
			return
		}
		at, image := jsontext.Pointer("image_policies", i), &p.ImagePolicies[i]
		checkImagePolicy(c, at, image)
		if names[image.Name] {
			c.problem(at+"/name", "%q is the name of an earlier policy", image.Name)
		}
		names[image.Name] = true
		if image.Images != nil {
			if images[image.Images.Name] {
				c.problem(at+"/images/name", "an earlier policy writes the image %q", image.Images.Name)
			}
			images[image.Images.Name] = true
		}
		for _, path := range sortedKeys(image.Writes) {
			if paths[path] != nil {
				c.problem(at+jsontext.Pointer("writes", path), "an earlier policy writes the path %q", path)
			}
			paths[path] = json.RawMessage(`""`)
		}
	}
	for _, problem := range patchProblems(p.Type, paths) { // also if one path contains another
		c.problem("/image_policies", "%s: %s", problem.Pointer, problem.Detail)
	}
}

// checkVersionPolicy checks a version policy.
func checkVersionPolicy(c *checker, v *api.VersionPolicy) {
	const at = "/version_policy"
	if v.Range == "" && (v.Include != "" || v.Exclude != "") {
		c.problem(at+"/range", "is required with include or exclude")
	}
	c.versionRange(at+"/range", v.Range)
	c.expression(at+"/include", v.Include)
	c.expression(at+"/exclude", v.Exclude)
	c.duration(at+"/min_age", v.MinAge, 0, maxMinAge)
	c.scanInterval(at+"/interval", v.Interval)
	c.oneOf(at+"/action", v.Action, "", versionsNotify, versionsPropose, versionsRollout, versionsApply)
	if v.Group != "" {
		c.dnsLabel(at+"/group", v.Group)
	}
	if v.Layer != "" && c.next.docs[KindLayer][v.Layer] == nil {
		c.problem(at+"/layer", "there is no layer %q", v.Layer)
	}
	if v.Strategy != "" && c.next.docs[KindStrategy][v.Strategy] == nil {
		c.problem(at+"/strategy", "there is no strategy %q", v.Strategy)
	}
}

// checkImagePolicy checks an image policy.
func checkImagePolicy(c *checker, at string, p *api.ImagePolicy) {
	c.dnsLabel(at+"/name", p.Name)
	c.imageName(at+"/image", p.Image)
	c.duration(at+"/min_age", p.MinAge, 0, maxMinAge)
	c.scanInterval(at+"/interval", p.Interval)
	switch track := at + "/track"; {
	case (p.Track.Tag == "") == (p.Track.Range == ""):
		c.problem(track, "exactly one of tag and range is required")
	case p.Track.Tag != "" && (p.Track.Include != "" || p.Track.Exclude != ""):
		c.problem(track, "include and exclude need a range")
	case p.Track.Tag != "" && !imageTag.MatchString(p.Track.Tag):
		c.problem(track+"/tag", "must be a tag of at most 128 letters, digits, '_', '.' and '-'")
	}
	c.versionRange(at+"/track/range", p.Track.Range)
	c.expression(at+"/track/include", p.Track.Include)
	c.expression(at+"/track/exclude", p.Track.Exclude)
	if p.Images != nil {
		c.imageName(at+"/images/name", p.Images.Name)
	}
	checkWrites(c, at, p)
}

// checkWrites checks what an image policy writes.
func checkWrites(c *checker, at string, p *api.ImagePolicy) {
	if len(p.Writes) == 0 && p.Images == nil {
		c.problem(at+"/writes", "either writes or images is required")
	}
	needs := placeholderTag
	if p.Track.Tag != "" {
		needs = placeholderDigest
	}
	writesIt := p.Images != nil
	for _, path := range sortedKeys(p.Writes) {
		at, template := at+jsontext.Pointer("writes", path), p.Writes[path]
		c.text(at, template, 1024)
		writesIt = writesIt || strings.Contains(template, needs) || needs == placeholderTag && strings.Contains(template, placeholderSemver)
		for _, placeholder := range braces.FindAllString(template, -1) {
			if !slices.Contains(placeholders, placeholder) {
				c.problem(at, "%s is not one of the placeholders %s", excerpt(placeholder), strings.Join(placeholders, ", "))
			}
		}
		if p.Track.Tag != "" && strings.Contains(template, placeholderSemver) {
			c.problem(at, "%s needs a range", placeholderSemver)
		}
	}
	if len(p.Writes) > 0 && !writesIt {
		c.problem(at+"/writes", "one of the values must contain %s: without it, the policy would not change anything", needs)
	}
}

// The placeholders of the values that image policies write.
const (
	placeholderImage  = "{image}"
	placeholderTag    = "{tag}"
	placeholderDigest = "{digest}"
	placeholderSemver = "{semver}"
)

var placeholders = []string{placeholderTag, placeholderDigest, placeholderImage, placeholderSemver}

var (
	braces    = regexp.MustCompile(`\{[^{}]*\}?|\}`)
	imageTag  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	imagePath = regexp.MustCompile(`^([A-Za-z0-9.-]+(:[0-9]{1,5})?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)
)

// versionRange checks a constraint of semantic versions.
func (c *checker) versionRange(at, text string) {
	if text == "" {
		return
	}
	if c.text(at, text, maxVersionPattern); len(text) > maxVersionPattern {
		return
	}
	if _, err := semver.NewConstraint(text); err != nil {
		c.problem(at, "%q is not a range of semantic versions, such as ~17 or >=1.2.0 <2", text)
	}
}

// expression checks a regular expression.
func (c *checker) expression(at, text string) {
	if c.text(at, text, maxVersionPattern); len(text) > maxVersionPattern {
		return
	}
	if _, err := regexp.Compile(text); err != nil {
		c.problem(at, "is not a regular expression: %v", err)
	}
}

// imageName checks the name of an image, without tag and digest.
func (c *checker) imageName(at, name string) {
	if len(name) > maxImageName || !imagePath.MatchString(name) {
		c.problem(at, "must be the name of an image without tag and digest, such as ghcr.io/stefanprodan/podinfo, of at most %d bytes", maxImageName)
	}
}

// duration checks an optional duration.
func (c *checker) duration(at, text string, shortest, longest time.Duration) {
	if d, err := time.ParseDuration(text); text != "" && (err != nil || d < shortest || d > longest) {
		c.problem(at, "must be a duration such as 48h, from %s to %s", shortest, longest)
	}
}

// scanInterval checks an optional interval of scans.
func (c *checker) scanInterval(at, text string) {
	if d, err := time.ParseDuration(text); err != nil || d != 0 {
		c.duration(at, text, minScanInterval, maxScanInterval)
	}
}

// policyOf returns the version policy of a component, with the default action.
func policyOf(p *api.PlatformComponent) api.VersionPolicy {
	policy := api.VersionPolicy{}
	if p.VersionPolicy != nil {
		policy = *p.VersionPolicy
	}
	policy.Action = cmp.Or(policy.Action, versionsPropose)
	return policy
}

// hasPolicies reports whether any version of a component may move.
func hasPolicies(p *api.PlatformComponent) bool {
	return p.VersionPolicy != nil && p.VersionPolicy.Range != "" || len(p.ImagePolicies) > 0
}

// encodedPolicies returns the policies of a component's document as text; empty: it has none.
func encodedPolicies(d *Document) string {
	if d == nil {
		return ""
	}
	p := d.Component()
	if p.VersionPolicy == nil && len(p.ImagePolicies) == 0 {
		return ""
	}
	text, err := jsontext.Canonical([]any{p.VersionPolicy, p.ImagePolicies})
	if err != nil {
		return ""
	}
	return string(text)
}

// groupMove is the prefix of the names of moves of groups.
const groupMove = "group/"

// VersionMoveOf returns the name of the move that a component belongs to: see [VersionMoves].
func VersionMoveOf(p *api.PlatformComponent) string {
	if group := policyOf(p).Group; group != "" {
		return groupMove + group
	}
	return p.ID
}

// rolloutOfMove returns the id of the rollout that a move proposes.
func rolloutOfMove(move string) string { return "auto-" + strings.TrimPrefix(move, groupMove) }

const maxVersionText = 128 // bytes of a tag

var (
	versionText   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)
	versionDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// parseVersion parses a semantic version, with or without the prefix v; nil: it is none. All three numbers are required, so that a date
// or the hash of a commit is none.
func parseVersion(text string) *semver.Version {
	if len(text) > maxVersionText {
		return nil
	}
	v, err := semver.StrictNewVersion(strings.TrimPrefix(text, "v"))
	if err != nil {
		return nil
	}
	return v
}

// isLower reports whether a version is lower than another one.
func isLower(a, b string) bool {
	one, other := parseVersion(a), parseVersion(b)
	return one != nil && other != nil && one.LessThan(other)
}
