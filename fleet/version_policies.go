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
	maxVersionPolicies = 20
	maxImagePolicies   = 20
	maxVersionPattern  = 256 // bytes of a range or a regular expression
	maxImageName       = 512
	maxMinAge          = 365 * 24 * time.Hour
	minScanInterval    = time.Minute
	maxScanInterval    = 30 * 24 * time.Hour
	// DefaultScanInterval is the time between two scans of the source of a policy without an interval.
	DefaultScanInterval = time.Hour
)

// A version policy has a target: the document whose versions it moves, which is the catalog or a layer.
const (
	catalogTarget = "catalog"
	layerTarget   = "layer/" // and the id of the layer
)

// layerOf returns the layer of a target; empty: it is the catalog.
func layerOf(target string) string {
	if layer, ofLayer := strings.CutPrefix(target, layerTarget); ofLayer {
		return layer
	}
	return ""
}

// normalizeVersionPolicies omits unset fields, and a policy of the catalog alone without fields, which is the default.
func normalizeVersionPolicies(obj map[string]any) {
	unstructured.DropEmptyList(obj, "image_policies")
	policies, isObject := obj["version_policies"].(map[string]any)
	for target, v := range policies {
		if policy, ok := v.(map[string]any); ok {
			dropUnset(policy, "range", "include", "exclude", "min_age", "action", "strategy", "group", "interval", "suspended")
		} else if v == nil {
			delete(policies, target)
		}
	}
	catalog, _ := policies[catalogTarget].(map[string]any)
	if v, ok := obj["version_policies"]; ok && (v == nil || isObject && (len(policies) == 0 || len(policies) == 1 && catalog != nil && len(catalog) == 0)) {
		delete(obj, "version_policies")
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

// checkVersionPolicies checks the version policies and the image policies of a component.
func checkVersionPolicies(c *checker, p *api.PlatformComponent) {
	c.atMost("/version_policies", len(p.VersionPolicies), maxVersionPolicies, "version policies")
	for _, target := range sortedKeys(p.VersionPolicies) {
		if c.full() {
			return
		}
		checkVersionPolicy(c, target, p.VersionPolicies[target])
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

// checkVersionPolicy checks the version policy of a target.
func checkVersionPolicy(c *checker, target string, v api.VersionPolicy) {
	at := jsontext.Pointer("version_policies", target)
	switch layer := layerOf(target); {
	case target == catalogTarget:
	case layer == "":
		c.problem(at, "is neither catalog nor layer/ and the id of a layer")
	case c.next.docs[KindLayer][layer] == nil:
		c.problem(at, "there is no layer %q", layer)
	}
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

// policyOf returns the version policy of a target, with the default action.
func policyOf(p *api.PlatformComponent, target string) api.VersionPolicy {
	policy := p.VersionPolicies[target]
	policy.Action = cmp.Or(policy.Action, versionsPropose)
	return policy
}

// policyTargets returns the targets of a component's version policies, sorted by name; the catalog if only its images have policies.
func policyTargets(p *api.PlatformComponent) []string {
	if len(p.VersionPolicies) == 0 && len(p.ImagePolicies) > 0 {
		return []string{catalogTarget}
	}
	return sortedKeys(p.VersionPolicies)
}

// moves reports whether a version of a target may move, by its policy.
func moves(p *api.PlatformComponent, target string) bool {
	policy, found := p.VersionPolicies[target]
	return found && policy.Range != "" || len(p.ImagePolicies) > 0 && (found || len(p.VersionPolicies) == 0 && target == catalogTarget)
}

// movingTargets returns the targets whose versions may move; those of unsuspended policies only, if active.
func movingTargets(p *api.PlatformComponent, active bool) []string {
	return slices.DeleteFunc(policyTargets(p), func(target string) bool { return !moves(p, target) || active && p.VersionPolicies[target].Suspended })
}

// encodedPolicy returns the policies of a target of a component's document as text; empty: it has none.
func encodedPolicy(d *Document, target string) string {
	if d == nil || !slices.Contains(policyTargets(d.Component()), target) {
		return ""
	}
	text, err := jsontext.Canonical([]any{d.Component().VersionPolicies[target], d.Component().ImagePolicies})
	if err != nil {
		return ""
	}
	return string(text)
}

// samePolicies reports whether two versions of a component have the same policies.
func samePolicies(a, b *Document) bool {
	targets := slices.Concat(policyTargets(a.Component()), policyTargets(b.Component()))
	return !slices.ContainsFunc(targets, func(target string) bool { return encodedPolicy(a, target) != encodedPolicy(b, target) })
}

// compareTargets orders targets by their precedence, the lowest first.
func (s *State) compareTargets(a, b string) int {
	precedence := func(target string) int {
		if d := s.docs[KindLayer][layerOf(target)]; d != nil {
			return d.layer().Priority + 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(precedence(a), precedence(b)), strings.Compare(a, b))
}

// groupMove is the prefix of the names of moves of groups.
const groupMove = "group/"

// moveOf returns the name of the move of a target: the id of the component or "group/" and the group, and "@" and the id of the layer.
func moveOf(p *api.PlatformComponent, target string) string {
	name := p.ID
	if group := p.VersionPolicies[target].Group; group != "" {
		name = groupMove + group
	}
	if layer := layerOf(target); layer != "" {
		name += "@" + layer
	}
	return name
}

// targetOfMove returns the target of a move.
func targetOfMove(move string) string {
	if _, layer, ofLayer := strings.Cut(move, "@"); ofLayer {
		return layerTarget + layer
	}
	return catalogTarget
}

// VersionMovesOf returns the names of the moves that a component belongs to: see [VersionMoves].
func VersionMovesOf(p *api.PlatformComponent) (moves []string) {
	for _, target := range movingTargets(p, false) {
		moves = append(moves, moveOf(p, target))
	}
	return moves
}

// rolloutOfMove returns the id of the rollout that a move proposes. No id of a component, a group or a layer has a dot.
func rolloutOfMove(move string) string {
	return "auto-" + strings.Replace(strings.TrimPrefix(move, groupMove), "@", ".", 1)
}

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
