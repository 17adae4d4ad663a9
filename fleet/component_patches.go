package fleet

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/helmvalues"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// The ways to deploy a component.
const (
	typeHelm      = "helm"
	typeKustomize = "kustomize"
)

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

// patches reports the problems of patches, and patches that look like secrets.
func (c *checker) patches(at string, patches api.PatchValues, problems []Problem) {
	for _, p := range problems {
		c.problem(at+p.Pointer, "%s", p.Detail)
		if c.full() {
			return
		}
	}
	for _, path := range sortedKeys(patches) {
		if secretLike(path) {
			c.warn("the patch %q looks like a secret; patches are stored and served in clear: refer to a Secret on the cluster instead", path)
		}
	}
}

var joiners = strings.NewReplacer("_", "", "-", "")

// secretLike guesses from the last name of a value path.
func secretLike(path string) bool {
	name := path[strings.LastIndexByte(path, '.')+1:]
	name = strings.ToLower(joiners.Replace(name))
	if strings.HasPrefix(name, "existing") {
		return false
	}
	for _, word := range []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "privatekey", "secretkey", "accesskey", "credentials"} {
		if strings.HasSuffix(name, word) {
			return true
		}
	}
	return false
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
		c.dnsSubdomain(at+"/name", ref.Name)
		if ref.ValuesKey == "" {
			continue
		}
		for _, msg := range validation.IsConfigMapKey(ref.ValuesKey) {
			c.problem(at+"/values_key", "%s", msg)
		}
	}
}
