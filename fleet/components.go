package fleet

import (
	"encoding/json"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/helmvalues"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/rendering"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

const maxReleaseName = 53 // Helm's limit

var componentKind = definition[api.PlatformComponent, api.ComponentAssignment, api.FluxPlatformComponent]{
	descriptor: descriptor{
		kind: KindComponent, field: "platform_components", endpoint: "platform-components", idField: "component_id", seedAlias: "components",
		rules: kindRules{
			noun: "platform component", normalize: normalizeComponent, check: checkComponent, changed: warnReinstall, bound: componentBound, complete: completeComponent,
		},
		idFrom:         func(op *api.Operation) string { return op.ComponentID },
		checkEntries:   checkComponentsOn,
		normalizeEntry: normalizeAssignment,
		overrides: &overrideRules{
			size: overridesBound,
			differ: func(was, is *api.Cluster, id string) bool {
				return !maps.EqualFunc(was.Patches[id], is.Patches[id], jsontext.Same)
			},
			overriddenOn: func(c *api.Cluster, id string) bool { return len(c.Patches[id]) > 0 || len(fluxOn(c, id)) > 0 },
			invalidates:  patchesInvalidated,
			recheck: func(c *checker, on *Effective, id string) {
				checkClusterPatches(c, on, id)
				checkClusterFlux(c, on, id, fluxOn(on.cluster, id))
			},
		},
		idOf:       componentOf,
		dependsOn:  func(d *Document) []string { return d.Component().DependsOn },
		redeployed: func(was, is *Document) bool { return redeployed(was.Component(), is.Component()) },
		uninstalls: func(before, after any) bool {
			was, is := before.(api.FluxPlatformComponent), after.(api.FluxPlatformComponent)
			return was.Enabled && (!is.Enabled || inputDeployment(was) != inputDeployment(is))
		},
	},
	list:    func(c *Effective) []api.ComponentAssignment { return c.cluster.PlatformComponents },
	setList: func(c *Effective, entries []api.ComponentAssignment) { c.cluster.PlatformComponents = entries },
	entryID: func(e *api.ComponentAssignment) string { return e.ID },
	setMetadata: func(p *api.PlatformComponent, revision int64, created, updated time.Time) {
		p.Revision, p.CreatedAt, p.UpdatedAt = revision, created, updated
	},
	input: func(on *inputContext, p *api.PlatformComponent, e *api.ComponentAssignment) (api.FluxPlatformComponent, error) {
		c := on.cluster.cluster
		in, err := componentInput(p, *e, c.Patches[e.ID], on)
		if err != nil {
			return in, errorf(CodeUnresolved, "cluster %q: %v", c.ID, err)
		}
		return in, nil
	},
	cluster:    func(in *api.FluxPlatformComponent) *api.FluxCluster { return &in.Cluster },
	merge:      componentMerge,
	isEnabled:  func(e *api.ComponentAssignment) bool { return e.Enabled },
	deployment: deploymentOn,
	// A setting with the value of the template is none, unless the catalog has another one.
	same: func(a, b *api.ComponentAssignment) bool {
		return len(a.Flux)+len(b.Flux) == 0 || reflect.DeepEqual(a.Flux, b.Flux)
	},
}

// componentObjects are the objects that platform-components.yaml of the cluster chart renders for a component, by the prefix
// of their names before the component's id.
var componentObjects = map[string][]string{
	"platform-": {"helm.toolkit.fluxcd.io/HelmRelease", "kustomize.toolkit.fluxcd.io/Kustomization"},
	"charts-":   {"source.toolkit.fluxcd.io/OCIRepository", "source.toolkit.fluxcd.io/HelmRepository", "source.toolkit.fluxcd.io/GitRepository"},
	"gated-":    {"source.toolkit.fluxcd.io/OCIRepository", "source.toolkit.fluxcd.io/HelmRepository", "source.toolkit.fluxcd.io/GitRepository"},
	"gate-":     {rendering.FluxGroup + "/" + rendering.KindResourceSet},
}

// componentOf returns the id of the component that renders an object; empty if none does.
func componentOf(o rendering.Object) string {
	for prefix, kinds := range componentObjects {
		if id, ok := strings.CutPrefix(o.Name, prefix); ok && o.Namespace == rendering.FluxNamespace && slices.Contains(kinds, o.Group+"/"+o.Kind) {
			return id
		}
	}
	return ""
}

// normalizeComponent sets defaults, and converts a component's object to its stored form.
func normalizeComponent(obj map[string]any) {
	unstructured.DropEmpty(obj, "component_version", "oci_tag", "oci_digest", "release_name", "target_namespace", "type")
	unstructured.SetDefault(obj, "component_version", latest)
	unstructured.SetDefault(obj, "oci_tag", latest)
	unstructured.SetDefault(obj, "cluster_env_enabled", false)
	unstructured.SetDefault(obj, "depends_on", []any{})
	unstructured.SetDefault(obj, "patches", map[string]any{})
	if values, ok := obj["patches"].(map[string]any); ok {
		helmvalues.NormalizeNulls(values)
	}
	unstructured.SetDefault(obj, "release_name", obj["id"])
	unstructured.SetDefault(obj, "target_namespace", obj["id"])
	unstructured.SetDefault(obj, "secret_ref", "")
	unstructured.DropEmptyList(obj, "values_from")
	normalizeVersionPolicies(obj)
	unstructured.DropEmptyList(obj, "images")
	normalizeFlux(obj)
	normalizeType(obj)
	switch set, _ := obj[namespaceSetField].(bool); {
	case obj["type"] != typeKustomize:
		delete(obj, namespaceSetField)
	case !set:
		obj["target_namespace"] = obj["id"]
	}
}

// recordNamespace records in an object whether the request that was merged into it sets its target_namespace. The null of a PUT, which
// leaves the field there, changes nothing.
func recordNamespace(obj, request map[string]any) {
	namespace, sent := request["target_namespace"]
	if _, stays := obj["target_namespace"]; !sent || namespace == nil && stays {
		return
	}
	if delete(obj, namespaceSetField); namespace != nil && namespace != "" {
		obj[namespaceSetField] = true
	}
}

// hideDefaultNamespace removes the target_namespace that no request has set from a stored kustomize component, and the record of it, so
// that versions differ where their namespaces do. recordNamespace is its inverse.
func hideDefaultNamespace(obj map[string]any) {
	set, _ := obj[namespaceSetField].(bool)
	if delete(obj, namespaceSetField); obj["type"] == typeKustomize && !set {
		delete(obj, "target_namespace")
	}
}

// completeComponent clears the target_namespace of a stored kustomize component that no request has set.
func completeComponent(value any, body json.RawMessage) error {
	p := value.(*api.PlatformComponent)
	if p.Type != typeKustomize {
		return nil
	}
	var stored struct {
		Set bool `json:"target_namespace_set"`
	}
	if jsontext.MayHaveKey(body, namespaceSetField) {
		if err := json.Unmarshal(body, &stored); err != nil {
			return err
		}
	}
	if !stored.Set {
		p.TargetNamespace = ""
	}
	return nil
}

// normalizeType sets the type if no request has set it.
func normalizeType(obj map[string]any) {
	u, _ := obj["oci_url"].(string)
	unset, _ := obj[typeDefaultField].(bool)
	oci := strings.HasPrefix(u, "oci://")
	switch {
	case obj["type"] == nil && oci:
		obj["type"], obj[typeDefaultField] = typeKustomize, true
	case obj["type"] == nil, unset && obj["type"] == typeKustomize && !oci && !isGitURL(u):
		obj["type"] = TypeHelm
	}
	if obj["type"] != typeKustomize {
		delete(obj, typeDefaultField)
	}
}

// settlesType records that a request itself sets the type that belongs to its URL.
func settlesType(stored, request map[string]any) {
	if kind, _ := request["type"].(string); kind != "" && request["oci_url"] != nil {
		if u, _ := request["oci_url"].(string); !strings.HasPrefix(u, "oci://") {
			delete(stored, typeDefaultField)
		}
	}
}

// checkComponent checks a component's document.
func checkComponent(c *checker, d *Document) {
	p := d.Component()
	c.dnsLabel("/id", p.ID)
	c.releaseName("/id", p.ID)
	for _, other := range c.next.catalog().collapsed[collapse(p.ID)] {
		if other != p.ID {
			c.problem("/id", "%q and %q would render objects of the same name on a cluster", p.ID, other)
		}
		if c.full() {
			break
		}
	}
	c.required("/component_path", p.ComponentPath)
	c.text("/component_path", p.ComponentPath, 1024)
	c.artifact("", p.ComponentVersion, p.OCITag, p.OCIDigest, p.Images)
	c.text("/secret_ref", p.SecretRef, 253)
	c.oneOf("/type", p.Type, TypeHelm, typeKustomize)
	checkSource(c, p)
	c.releaseName("/release_name", p.ReleaseName)
	if p.Type != typeKustomize || p.TargetNamespace != "" {
		c.dnsLabel("/target_namespace", p.TargetNamespace)
	}
	if p.SecretRef != "" {
		c.dnsSubdomain("/secret_ref", p.SecretRef)
	}
	if n := encodedSize(p.Patches); n > maxPatchesBytes {
		c.problem("/patches", "%d bytes; the patches of one component are at most %d", n, maxPatchesBytes)
	}
	c.patches("/patches", p.Type, p.Patches, patchProblems(p.Type, placeholderValues(p.Patches)))
	c.valuesFrom("/values_from", p.ValuesFrom)
	c.flux("/flux", p.Type, p.Flux)
	checkDependencies(c, p)
	checkVersionPolicies(c, p)
	adviseComponent(c, p)
}

// adviseComponent warns of fields without effect: the templates of the cluster chart do not use them for the component's
// type.
func adviseComponent(c *checker, p *api.PlatformComponent) {
	if p.Type != TypeHelm {
		if len(p.ValuesFrom) > 0 {
			c.warn("values_from of component %q has no effect: it is of type %s, and has no Helm values", p.ID, p.Type)
		}
		return
	}
	if p.ComponentVersion != latest && p.OCITag != latest && p.OCITag != p.ComponentVersion {
		c.warn("oci_tag %q of component %q has no effect: a helm component installs its component_version, here %s", p.OCITag, p.ID, p.ComponentVersion)
	}
	if p.ClusterEnvEnabled {
		c.warn("cluster_env_enabled of component %q has no effect: only the path of a kustomize component gets the cluster's environment", p.ID)
	}
}

// checkSource checks the URL, tag and path of a component's artifact or chart.
func checkSource(c *checker, p *api.PlatformComponent) {
	u, err := url.Parse(p.OCIURL)
	switch {
	case err != nil || u.Hostname() == "" || !sourceScheme.MatchString(p.OCIURL):
		c.problem("/oci_url", "must be an oci://, https:// or http:// URL, or that of a Git repository: git+https:// or git+ssh://")
	case u.User != nil && (u.Scheme != "git+ssh" || u.User.String() != u.User.Username()):
		c.problem("/oci_url", "must not contain credentials: name a Secret of the cluster in secret_ref")
	case u.RawQuery != "" || u.Fragment != "":
		c.problem("/oci_url", "must have neither query nor fragment")
	case p.Type == typeKustomize && u.Scheme != "oci" && !isGitURL(p.OCIURL):
		c.problem("/type", "a kustomize component needs an oci:// URL or that of a Git repository")
	case isGitURL(p.OCIURL):
		c.gitRepository(p, u)
	case p.ComponentPath != "":
		c.repository(p, u)
	}
	c.text("/oci_url", p.OCIURL, 2048)
	if p.OCIDigest != "" && !strings.HasPrefix(p.OCIURL, "oci://") {
		c.problem("/oci_digest", "needs an oci:// URL: Flux can install a digest only from an OCI registry")
	}
	c.gitReferences(p)
}

// sourceScheme matches the schemes that the custom resources of Flux accept, after git+ for a GitRepository; they compare case-sensitively.
var sourceScheme = regexp.MustCompile(`^(oci|https?|git\+(https?|ssh))://`)

// releaseName checks the name of a Helm release.
func (c *checker) releaseName(at, name string) {
	if len(name) > maxReleaseName {
		c.problem(at, "must be at most %d characters, as Helm release names are", maxReleaseName)
	}
	if at != "/id" {
		c.dnsSubdomain(at, name)
	}
}
