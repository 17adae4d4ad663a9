package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/fluxsettings"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/helmvalues"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// Components on a cluster: its entry, its patches, and the input that both are merged into.

// Upper bounds of the size, in bytes, of parts of an encoded input without their values.
const (
	entryBytes      = len(`{"id":"","enabled":false,"oci_tag":"","oci_digest":"","component_path":"","component_version":"","images":[]},`)
	referenceBytes  = len(`{"kind":"ConfigMap","name":"","values_key":"","optional":false},`)
	targetPathBytes = len(`,"target_path":""`)
	imageBytes      = len(`{"name":"","new_name":"","new_tag":"","digest":""},`)
	dependencyBytes = len(`{"id":"","type":"kustomize"},`)
)

// normalizeAssignment sets the defaults of an entry and omits its unset fields.
func normalizeAssignment(entry map[string]any) {
	unstructured.SetDefault(entry, "enabled", true)
	unstructured.DropEmpty(entry, "oci_tag", "oci_digest", "component_path", "component_version")
	unstructured.DropEmptyList(entry, "values_from")
	unstructured.DropEmptyList(entry, "images")
	normalizeFlux(entry)
}

// isAssigned reports whether a cluster's list contains a component.
func isAssigned(cl *api.Cluster, component string) bool {
	for i := range cl.PlatformComponents {
		if cl.PlatformComponents[i].ID == component {
			return true
		}
	}
	return false
}

// checkComponentsOn checks the entries and patches of components on a cluster.
func checkComponentsOn(c *checker, on *clusterCheck) {
	patched := on.effective.cluster.Patches
	if on.own != nil {
		checkOwnSettings(c, on)
		if on.effective.chain != nil && len(on.own.Patches) > 0 {
			patched = maps.Clone(patched)
			maps.Copy(patched, on.own.Patches)
		}
	} else {
		for _, e := range on.effective.cluster.PlatformComponents {
			checkClusterFlux(c, on.effective, e.ID, e.Flux) // the end of a rollout can change the type of the component
		}
	}
	for _, id := range sortedKeys(patched) {
		if c.full() {
			return
		}
		switch {
		case isAssigned(on.effective.cluster, id):
			checkClusterPatches(c, on.effective, id)
		case on.own != nil:
			c.checkUnassignedPatches(on, id)
		}
	}
	if e := on.effective; e.chain != nil && e.chain.facts != nil { // the names may be results of references
		for _, entry := range e.cluster.PlatformComponents {
			c.valuesFrom(jsontext.Pointer("platform_components", entry.ID, "values_from"), entry.ValuesFrom)
		}
	}
	checkReleases(c, on.effective)
	adviseComponentsOn(c, on.effective)
}

// checkUnassignedPatches checks patches of a component that is not on the cluster. They are allowed if they once had an
// effect, and have one again when the component returns: if a layer or a label removes the component, or if the document is
// restored. A created document may be an export with such patches, if some layer has the component. In all other cases they
// are a mistake.
func (c *checker) checkUnassignedPatches(on *clusterCheck, id string) {
	same := func(was *Document) bool {
		return maps.EqualFunc(was.Cluster().Patches[id], on.own.Patches[id], jsontext.Same)
	}
	c.inactivePatches = true
	switch was := c.before(on.effective.id); {
	case was != nil && same(was) && isAssigned(c.base.configured(was).cluster, id):
		c.warn("the patches of component %q on cluster %q have no effect any more: the component is no longer on it", id, on.effective.id)
	case c.recalled != nil && same(c.recalled), c.base != nil && was == nil && c.next.assignedByLayers(id):
		c.warn("the patches of component %q on cluster %q have no effect: the component is not on it", id, on.effective.id)
	default:
		c.problem(jsontext.Pointer("patches", id), "component %q is not assigned to this cluster", id)
	}
}

// assignedByLayers reports whether some layer has a component in its list.
func (s *State) assignedByLayers(component string) bool {
	a := s.kinds.descriptor(KindComponent)
	for _, d := range s.docs[KindLayer] {
		if slices.Contains(d.layer().assignedIDs(a), component) {
			return true
		}
	}
	return false
}

// before returns a cluster before the change; nil: there was none.
func (c *checker) before(id string) *Document {
	if c.base == nil {
		return nil
	}
	if was, ok := c.base.Get(KindCluster, id); ok && !was.Deleted() {
		return was
	}
	return nil
}

// checkOwnSettings checks the overrides in a cluster's own entries.
func checkOwnSettings(c *checker, on *clusterCheck) {
	for i, e := range on.own.PlatformComponents {
		if c.full() {
			return
		}
		if cmp.Or(e.OCITag, e.OCIDigest, e.ComponentPath, e.ComponentVersion) == "" && len(e.ValuesFrom) == 0 && len(e.Images) == 0 && len(e.Flux) == 0 {
			continue
		}
		at := jsontext.Pointer("platform_components", i)
		c.text(at+"/component_path", e.ComponentPath, 1024)
		c.valuesFrom(at+"/values_from", e.ValuesFrom)
		c.artifact(at, e.ComponentVersion, e.OCITag, e.OCIDigest, e.Images)
		if doc, ok := c.next.definition(on.effective, KindComponent, e.ID); ok {
			c.flux(at+"/flux", doc.Component().Type, e.Flux)
		}
	}
}

// checkClusterPatches checks one component's patches, alone and merged with the catalog's.
func checkClusterPatches(c *checker, has *Effective, id string) {
	at := jsontext.Pointer("patches", id)
	patches := has.cluster.Patches[id]
	doc, ok := c.next.definition(has, KindComponent, id)
	if ok && c.valid.contain(doc, patches) {
		return
	}
	large := helmvalues.Bound(patches) > maxPatchesBytes // otherwise the exact size does not matter
	if large {
		if n := encodedSize(patches); n > maxPatchesBytes {
			c.problem(at, "%d bytes; the patches of one component are at most %d", n, maxPatchesBytes)
		}
	}
	if !ok {
		return // reported at the assignment
	}
	p := doc.Component()
	problems := patchProblems(p.Type, overlayPatches(p.Patches, patches))
	if len(problems) > 0 && len(p.Patches) > 0 { // problems of the cluster's own patches come first
		if own := patchProblems(p.Type, overlayPatches(nil, patches)); len(own) > 0 {
			problems = own
		}
	}
	if has.chain != nil {
		for i, p := range problems {
			problems[i].Detail = has.withSources(id, p)
		}
	}
	c.patches(at, p.Type, patches, problems)
	if len(problems) == 0 && !large && !adviseAgainst(p.Type, patches) {
		c.valid.add(doc, patches)
	}
}

// withSources adds the documents that set a path, and the path that it contradicts, to the problem's detail.
func (e *Effective) withSources(component string, p Problem) string {
	path := strings.NewReplacer("~1", "/", "~0", "~").Replace(strings.TrimPrefix(p.Pointer, "/"))
	out := fmt.Sprintf("%s (%q is set by %s", p.Detail, path, e.setBy(component, path))
	if p.other != "" {
		out += fmt.Sprintf(", %q by %s", p.other, e.setBy(component, p.other))
	}
	return out + ")"
}

// adviseComponentsOn warns of settings that are allowed and probably a mistake.
func adviseComponentsOn(c *checker, has *Effective) {
	cl := has.cluster
	var enabled map[string]bool // of the assigned ones; built for the first dependency
	for _, e := range cl.PlatformComponents {
		doc, ok := c.next.definition(has, KindComponent, e.ID)
		if !ok {
			continue
		}
		p := doc.Component()
		if len(p.DependsOn) > 0 && enabled == nil {
			enabled = make(map[string]bool, len(cl.PlatformComponents))
			for _, e := range cl.PlatformComponents {
				enabled[e.ID] = e.Enabled
			}
		}
		for _, dep := range p.DependsOn {
			if on, assigned := enabled[dep]; !assigned {
				c.warn("component %q depends on %q, which is not assigned to cluster %q", e.ID, dep, cl.ID)
			} else if !on && e.Enabled {
				c.warn("component %q depends on %q, which is disabled on cluster %q", e.ID, dep, cl.ID)
			}
		}
		if flux := fluxsettings.Merge(p.Flux, e.Flux); fluxsettings.IgnoresInstallRemediation(flux) {
			c.warn("install.remediation in flux of component %q has no effect on cluster %q: with a storageNamespace, a failed install could otherwise uninstall a running release; install.strategy RetryOnFailure retries without an uninstall", e.ID, cl.ID)
		}
		if cl.Environment == "prod" && cmp.Or(e.ComponentVersion, p.ComponentVersion) == latest && cmp.Or(e.OCITag, p.OCITag) == latest && digestOver(p.OCIDigest, &e) == "" {
			c.warn("component %q follows \"latest\" on cluster %q, which is prod", e.ID, cl.ID)
		}
		if e.OCIDigest != "" && !strings.HasPrefix(p.OCIURL, "oci://") {
			c.warn("oci_digest of component %q on cluster %q has no effect: its source %s is not an OCI registry", e.ID, cl.ID, p.OCIURL)
		}
		c.adviseGitReferences(p, &e, cl.ID)
		if p.Type == typeKustomize && len(e.ValuesFrom) > 0 {
			c.warn("values_from of component %q on cluster %q has no effect: it is of type kustomize, and has no Helm values", e.ID, cl.ID)
		}
		if p.Type == TypeHelm {
			if pinned := cmp.Or(e.ComponentVersion, p.ComponentVersion); e.OCITag != "" && e.OCITag != pinned && pinned != latest {
				c.warn("oci_tag %q of component %q on cluster %q has no effect: a helm component installs its component_version, here %s; set component_version on the cluster instead", e.OCITag, e.ID, cl.ID, pinned)
			}
		}
	}
}

// checkReleases refuses two components of a cluster that would be one Helm release. Flux finds a release by its name in the storage
// namespace. Two releases of one name in a target namespace would own the same objects.
func checkReleases(c *checker, has *Effective) {
	shared := c.next.catalog().releases
	if len(shared) == 0 {
		return
	}
	releases := map[string]string{} // component by namespace and release name, if several components use the name
	for _, e := range has.cluster.PlatformComponents {
		doc, ok := c.next.definition(has, KindComponent, e.ID)
		if !ok || doc.Component().Type != TypeHelm || !shared[doc.Component().ReleaseName] {
			continue
		}
		p := doc.Component()
		storage := fluxsettings.StorageNamespace(fluxsettings.Merge(p.Flux, e.Flux))
		for _, place := range []string{"storage " + storage, "target " + p.TargetNamespace} {
			release := place + "/" + p.ReleaseName
			if other, taken := releases[release]; taken && other != e.ID {
				c.problem("/platform_components", "components %q and %q are the same Helm release %q: give one of them another release_name, or another target_namespace and flux.storageNamespace", other, e.ID, p.ReleaseName)
				break
			}
			releases[release] = e.ID
		}
	}
}

// releaseChanged reports whether a change of a component may make it the same Helm release as another component.
func releaseChanged(before, after *Document) bool {
	was, is := before.Component(), after.Component()
	return was.Type != is.Type || was.ReleaseName != is.ReleaseName || was.TargetNamespace != is.TargetNamespace ||
		fluxsettings.StorageNamespace(was.Flux) != fluxsettings.StorageNamespace(is.Flux)
}

// patchesInvalidated: the component's type or its own patches have changed, which a cluster's patches are merged over.
func patchesInvalidated(before, after *Document) bool {
	was, is := before.Component(), after.Component()
	return was.Type != is.Type || !maps.EqualFunc(was.Patches, is.Patches, jsontext.Same)
}

// warnReinstall warns of the consequences of a changed component for its installations.
func warnReinstall(c *checker, before, after *Document) {
	was, is := before.Component(), after.Component()
	if was.Type != is.Type {
		c.warn("component %q becomes %s: on every cluster that has it, Flux removes what %s installed and installs it anew", is.ID, is.Type, was.Type)
	}
	if is.OCIDigest != "" && was.OCIDigest == is.OCIDigest && (was.OCITag != is.OCITag || was.ComponentVersion != is.ComponentVersion) {
		c.warn("component %q gets another version and keeps oci_digest %s, which Flux installs whatever the version says", is.ID, is.OCIDigest)
	}
	if fluxsettings.Identity(was.Flux) != fluxsettings.Identity(is.Flux) || fluxsettings.TargetNamespace(was.Flux) != fluxsettings.TargetNamespace(is.Flux) {
		c.warn("component %q changes settings of flux that identify the installed objects: on each of its clusters, Flux uninstalls the release or deletes objects, and installs them again", is.ID)
	}
	switch {
	case was.Type == typeKustomize && is.Type == typeKustomize:
		if was.TargetNamespace != is.TargetNamespace {
			namespace := "where the manifests say"
			if is.TargetNamespace != "" {
				namespace = fmt.Sprintf("in %q, which must exist", is.TargetNamespace)
			}
			c.warn("component %q: on every cluster that has it, Flux deletes its objects in the previous namespaces and creates them %s", is.ID, namespace)
		}
	case was.ReleaseName != is.ReleaseName || was.TargetNamespace != is.TargetNamespace:
		c.warn("component %q gets another release_name or target_namespace: on every cluster that has it, Flux uninstalls the old release and installs a new one", is.ID)
	}
}

// componentInput merges a catalog entry with one cluster's assignment and patches, as described in the API and in
// docs/merge.md. on has the enabled components of the cluster, with their types.
func componentInput(p *api.PlatformComponent, e api.ComponentAssignment, patches api.PatchValues, on *inputContext) (api.FluxPlatformComponent, error) {
	in := api.FluxPlatformComponent{
		ID: e.ID, Enabled: e.Enabled,
		ComponentPath:     cmp.Or(e.ComponentPath, p.ComponentPath),
		ComponentVersion:  cmp.Or(e.ComponentVersion, p.ComponentVersion),
		Source:            api.FluxSource{OCIURL: p.OCIURL, OCITag: cmp.Or(e.OCITag, p.OCITag), OCIDigest: digestOver(p.OCIDigest, &e)},
		ClusterEnvEnabled: p.ClusterEnvEnabled,
		DependsOn:         p.DependsOn,
		Dependencies:      []api.FluxDependency{},
		Type:              p.Type,
		Patches:           overlayPatches(p.Patches, patches),
		ReleaseName:       p.ReleaseName, TargetNamespace: cmp.Or(p.TargetNamespace, p.ID), SecretRef: p.SecretRef,
		OverrideNamespace: p.Type == typeKustomize && p.TargetNamespace != "",
		ValuesFrom:        make([]api.FluxValuesReference, 0, len(p.ValuesFrom)+len(e.ValuesFrom)),
		Images:            replacedImages(imagesOver(p.Images, e.Images)),
		Flux:              fluxsettings.Merge(p.Flux, e.Flux),
	}
	for _, refs := range [][]api.ValuesReference{p.ValuesFrom, e.ValuesFrom} {
		for _, ref := range refs {
			in.ValuesFrom = append(in.ValuesFrom, api.FluxValuesReference(ref))
		}
	}
	for _, id := range p.DependsOn {
		if kind, ok := on.components()[id]; ok {
			in.Dependencies = append(in.Dependencies, api.FluxDependency{ID: id, Type: kind})
		}
	}
	var problems []jsontext.Problem
	if p.Type == typeKustomize {
		var vars map[string]string
		vars, problems = helmvalues.Substitutions(in.Patches)
		in.Values = make(map[string]any, len(vars))
		for name, s := range vars {
			in.Values[name] = s
			raw, err := jsontext.Canonical(s)
			if err != nil {
				return in, err
			}
			in.Patches[name] = raw
		}
	} else {
		in.Values, problems = helmvalues.Expand(in.Patches)
		if len(problems) == 0 && helmvalues.MayHaveNull(in.Patches) {
			text, err := helmvalues.WithNulls(in.Values)
			if err != nil {
				return in, err
			}
			in.ValuesJSON = text
		}
	}
	if len(problems) > 0 {
		return in, fmt.Errorf("component %q: patches%s: %s", e.ID, problems[0].Pointer, problems[0].Detail)
	}
	return in, nil
}

// deploymentOn returns the deployment of a component on a cluster of an environment.
func deploymentOn(p *api.PlatformComponent, e *api.ComponentAssignment, environment string) deployment {
	d := deployment{Type: p.Type, Release: p.ReleaseName, Namespace: p.TargetNamespace, Path: cmp.Or(e.ComponentPath, p.ComponentPath), URL: p.OCIURL}
	return newDeployment(d, fluxsettings.Merge(p.Flux, e.Flux), p.ClusterEnvEnabled, environment)
}

// inputDeployment returns the deployment that an input describes.
func inputDeployment(in api.FluxPlatformComponent) deployment {
	namespace := in.TargetNamespace
	if in.Type == typeKustomize && !in.OverrideNamespace {
		namespace = ""
	}
	d := deployment{Type: in.Type, Release: in.ReleaseName, Namespace: namespace, Path: in.ComponentPath, URL: in.Source.OCIURL}
	return newDeployment(d, in.Flux, in.ClusterEnvEnabled, in.Cluster.Environment)
}

// newDeployment sets the path that Flux builds, which ends with the environment if the component requests that: the same as
// in the templates of the cluster chart.
func newDeployment(d deployment, flux map[string]any, inPath bool, environment string) deployment {
	d.Flux = fluxsettings.Identity(flux)
	d.Namespace = cmp.Or(fluxsettings.TargetNamespace(flux), d.Namespace)
	if d.Type == TypeHelm {
		d.URL = "" // the same chart from another registry
	} else if inPath {
		d.Path = strings.TrimSuffix(d.Path, "/") + "/" + environment
	}
	return d
}

// redeployed reports whether the deployment has changed, on any cluster of any environment.
func redeployed(was, is *api.PlatformComponent) bool {
	return was.ClusterEnvEnabled != is.ClusterEnvEnabled && is.Type != TypeHelm ||
		deploymentOn(was, &api.ComponentAssignment{}, "") != deploymentOn(is, &api.ComponentAssignment{}, "")
}

// componentBound returns an upper bound, in bytes, of the size of a component's input without the cluster's settings.
func componentBound(value any) int {
	p := value.(*api.PlatformComponent)
	in, err := componentInput(p, api.ComponentAssignment{}, nil, &inputContext{})
	if err != nil {
		return 0 // contradicting patches: the answer fails as a whole
	}
	n := encodedSize(in) + len(p.ID) + 2*encodedSize(in.Values) // values_json repeats the values if the cluster sets a null
	for _, id := range p.DependsOn {
		n += dependencyBytes + len(id)
	}
	return n
}

// overridesBound is the sum over the overrides and patches of all assigned components.
func overridesBound(c *api.Cluster) int {
	n := 0
	for _, e := range c.PlatformComponents {
		n += entryBytes
		for _, s := range []string{e.ID, e.OCITag, e.OCIDigest, e.ComponentPath, e.ComponentVersion} {
			if n += len(s); !jsontext.Plain(s) {
				n += encodedSize(s)
			}
		}
	}
	for _, e := range c.PlatformComponents {
		for _, ref := range e.ValuesFrom {
			n += referenceBytes + len(ref.Name) + len(ref.ValuesKey) // neither contains characters that are escaped
			if ref.TargetPath != "" {
				n += targetPathBytes + 2*len(ref.TargetPath) // it may consist of backslashes
			}
		}
	}
	for _, e := range c.PlatformComponents {
		for _, image := range e.Images {
			n += imageBytes + len(image.Name) + len(image.NewName) + len(image.NewTag) + len(image.Digest)
		}
		if len(e.Flux) > 0 {
			n += len(`,"flux":`) + encodedSize(e.Flux)
		}
	}
	for _, patches := range c.Patches {
		n += helmvalues.Bound(patches)
	}
	return n
}
