package fleet

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/helmvalues"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/internal/variables"
)

// TypeHelm is the type of components that Flux deploys as Helm releases.
const TypeHelm = "helm"

const typeKustomize = "kustomize" // the other type

const (
	latest          = "latest" // a version or tag that is not pinned
	maxPatchesBytes = 256 << 10
)

// patchProblems checks flat patches against the syntax for the component's type.
func patchProblems(kind string, patches api.PatchValues) []Problem {
	if kind == typeKustomize {
		_, problems := helmvalues.Substitutions(patches)
		return problemsOf(problems)
	}
	return problemsOf(helmvalues.Check(patches))
}

// patches reports the problems of patches of a component of some type, and warns of patches that are probably a mistake.
func (c *checker) patches(at, kind string, patches api.PatchValues, problems []Problem) {
	for _, p := range problems {
		c.problem(at+p.Pointer, "%s", p.Detail)
		if c.full() {
			return
		}
	}
	for _, path := range sortedKeys(patches) {
		if secretLike(path, patches[path]) {
			c.warn("the patch %q looks like a secret; patches are stored and served in clear: refer to a Secret on the cluster instead", path)
		}
		if text, is := misread(kind, patches[path]); is {
			c.warn("the variable %q is %q, which YAML reads as another value where the variable is a whole value, as substitution drops quotes: use it only inside longer text", path, text)
		}
	}
}

// adviseAgainst reports whether patches has warnings.
func adviseAgainst(kind string, patches api.PatchValues) bool {
	for path, raw := range patches {
		if _, is := misread(kind, raw); is || secretLike(path, raw) {
			return true
		}
	}
	return false
}

// misread reports whether a patch is a variable whose text YAML reads as another value.
func misread(kind string, raw json.RawMessage) (text string, is bool) {
	if kind != typeKustomize || len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		return "", false
	}
	return text, helmvalues.Misread(text)
}

// maxValidPatches is the number of patches that are kept per component: searching more of them would cost more than checking.
const maxValidPatches = 16

// contain reports whether these patches of a component are known to be valid.
func (v *validPatches) contain(component *Document, patches api.PatchValues) bool {
	if v == nil {
		return false
	}
	v.mu.RLock()
	known := v.patches[component]
	v.mu.RUnlock()
	return slices.ContainsFunc(known, func(p api.PatchValues) bool { return maps.EqualFunc(p, patches, jsontext.Same) })
}

// add adds valid patches of a component.
func (v *validPatches) add(component *Document, patches api.PatchValues) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.patches[component]) < maxValidPatches {
		v.patches[component] = append(v.patches[component], patches)
	}
}

// valuesFrom checks references to objects on the cluster that hold Helm values. The service cannot know whether these
// objects exist.
func (c *checker) valuesFrom(at string, refs []api.ValuesReference) {
	for i, ref := range refs {
		if c.full() {
			return
		}
		at := at + jsontext.Pointer(i)
		c.oneOf(at+"/kind", ref.Kind, "Secret", "ConfigMap")
		c.dnsSubdomain(at+"/name", placeholder(ref.Name))
		if ref.ValuesKey != "" {
			for _, msg := range validation.IsConfigMapKey(ref.ValuesKey) {
				c.problem(at+"/values_key", "%s", msg)
			}
		}
		c.targetPath(at+"/target_path", ref.TargetPath)
	}
}

const maxTargetPath = 250

var targetPath = regexp.MustCompile(`^([a-zA-Z0-9_\-.\\/]|\[[0-9]{1,5}\])+$`)

// targetPath checks a target path by the rules of the HelmRelease CRD, and as the path of a patch: the CRD accepts paths that Helm
// refuses, with which the release would fail.
func (c *checker) targetPath(at, path string) {
	if path == "" {
		return
	}
	if len(path) > maxTargetPath || !targetPath.MatchString(path) {
		c.problem(at, "%q is not a value path of at most %d letters, digits, _, -, ., \\, / and list indices such as [0]", path, maxTargetPath)
	} else if _, err := helmvalues.Keys(path); err != nil {
		c.problem(at, "%v", err)
	}
}

// variables checks the variables of a cluster or a layer. concerns reports whether a freeze concerns it.
func (c *checker) variables(vars api.Variables, concerns func(*freeze) bool) {
	zones := c.next.zoneVariables(vars, concerns)
	for _, name := range sortedKeys(vars) {
		if c.full() {
			return
		}
		at := jsontext.Pointer("variables", name)
		if !variables.IsName(name) {
			c.problem(at, "a name of a variable is a letter or _, and then up to 62 letters, digits and _")
		}
		text, ok := variables.Text(vars[name])
		if freeze, isZone := zones[name]; isZone {
			if err := zoneValue(vars[name]); err != nil {
				c.problem(at, "is the time zone of the windows of freeze %q: %v", freeze, err)
			}
		}
		switch {
		case !ok:
			c.problem(at, "must be a string, a number or a boolean")
		case len(text) > maxVariableBytes:
			c.problem(at, "has %d bytes; a variable has at most %d", len(text), maxVariableBytes)
		case secretLike(name, vars[name]):
			c.warn("the variable %q looks like a secret; variables are stored and served in clear: refer to a Secret on the cluster instead", name)
		}
	}
}
