package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/helmvalues"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// What a cluster says about a component otherwise than the catalog: its entry, its patches, and what becomes of both.

func normalizeAssignment(entry map[string]any) {
	unstructured.SetDefault(entry, "enabled", true)
	unstructured.DropEmpty(entry, "oci_tag", "component_path", "component_version")
	unstructured.DropEmptyList(entry, "values_from")
}

// hasComponent tells whether a component is on a cluster as the Tx sees it, whoever put it there.
func (tx *Tx) hasComponent(cluster *Document, id string) bool {
	return isAssigned(tx.effective(cluster).cluster, id)
}

func isAssigned(cl *api.Cluster, component string) bool {
	for i := range cl.PlatformComponents {
		if cl.PlatformComponents[i].ID == component {
			return true
		}
	}
	return false
}

func checkComponentsOn(c *checker, on *clusterCheck) {
	patched := on.effective.cluster.Patches
	if on.own != nil {
		checkOwnSettings(c, on.own)
		if on.effective.chain != nil && len(on.own.Patches) > 0 {
			patched = maps.Clone(patched)
			maps.Copy(patched, on.own.Patches)
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
	adviseComponentsOn(c, on.effective)
}

// orphaned is about patches of a component that is not on the cluster. They are left where they were for something once: where a
// layer or a label takes the component away, and where the document is put back to what it was. So they are in a document that is
// created, which may be one that was exported, where some layer has the component. They come to life with it. Anything else is a
// mistake.
func (c *checker) checkUnassignedPatches(on *clusterCheck, id string) {
	same := func(was *Document) bool {
		return maps.EqualFunc(was.Cluster().Patches[id], on.own.Patches[id], jsontext.Same)
	}
	switch was := c.before(on.effective.id); {
	case was != nil && same(was) && isAssigned(c.base.Effective(was).cluster, id):
		c.warn("the patches of component %q on cluster %q do nothing by now: the component is not on it any more", id, on.effective.id)
	case c.recalled != nil && same(c.recalled), c.base != nil && was == nil && c.next.assignedByLayers(id):
		c.warn("the patches of component %q on cluster %q do nothing: the component is not on it", id, on.effective.id)
	default:
		c.problem(jsontext.Pointer("patches", id), "component %q is not assigned to this cluster", id)
	}
}

// givenByLayers tells whether some layer has a component in its list.
func (s *State) assignedByLayers(component string) bool {
	a := s.kinds.descriptor(KindComponent)
	for _, d := range s.docs[KindLayer] {
		if slices.Contains(d.layer().assignedIDs(a), component) {
			return true
		}
	}
	return false
}

// before is a cluster as it was before the change; nil: there was none.
func (c *checker) before(id string) *Document {
	if c.base == nil {
		return nil
	}
	if was, ok := c.base.Get(KindCluster, id); ok && !was.Deleted() {
		return was
	}
	return nil
}

func checkOwnSettings(c *checker, cl *api.Cluster) {
	for i, e := range cl.PlatformComponents {
		if c.full() {
			return
		}
		if e.OCITag == "" && e.ComponentPath == "" && e.ComponentVersion == "" && len(e.ValuesFrom) == 0 {
			continue
		}
		at := jsontext.Pointer("platform_components", i)
		c.text(at+"/oci_tag", e.OCITag, 253)
		c.text(at+"/component_path", e.ComponentPath, 1024)
		c.text(at+"/component_version", e.ComponentVersion, 253)
		c.valuesFrom(at+"/values_from", e.ValuesFrom)
	}
}

// checkClusterPatches checks one component's patches, alone and together with the catalog's.
func checkClusterPatches(c *checker, has *Effective, id string) {
	at := jsontext.Pointer("patches", id)
	patches := has.cluster.Patches[id]
	if helmvalues.Bound(patches) > maxPatchesBytes { // or it need not be found out
		if n := encodedSize(patches); n > maxPatchesBytes {
			c.problem(at, "%d bytes; the patches of one component are at most %d", n, maxPatchesBytes)
		}
	}
	doc, ok := c.next.Get(KindComponent, id)
	if !ok {
		return // reported where it is assigned
	}
	p := doc.Component()
	problems := patchProblems(p.Type, overlayPatches(p.Patches, patches))
	if len(problems) > 0 && len(p.Patches) > 0 { // what is wrong with the cluster's own comes first
		if own := patchProblems(p.Type, overlayPatches(nil, patches)); len(own) > 0 {
			problems = own
		}
	}
	if has.chain != nil {
		for i, p := range problems {
			problems[i].Detail = has.withSources(id, p)
		}
	}
	c.patches(at, patches, problems)
}

// places adds to what is wrong with a path who says it, and who says the one that it contradicts.
func (e *Effective) withSources(component string, p Problem) string {
	path := strings.NewReplacer("~1", "/", "~0", "~").Replace(strings.TrimPrefix(p.Pointer, "/"))
	out := fmt.Sprintf("%s (%q is said by %s", p.Detail, path, e.setBy(component, path))
	if p.other != "" {
		out += fmt.Sprintf(", %q by %s", p.other, e.setBy(component, p.other))
	}
	return out + ")"
}

// adviseComponentsOn warns of what is allowed and probably not meant.
func adviseComponentsOn(c *checker, has *Effective) {
	cl := has.cluster
	catalog := c.next.catalog()
	var assigned map[string]bool    // made when something depends on something
	releases := map[string]string{} // those that several components have
	for _, e := range cl.PlatformComponents {
		doc, ok := c.next.Get(KindComponent, e.ID)
		if !ok {
			continue
		}
		p := doc.Component()
		if len(p.DependsOn) > 0 && assigned == nil {
			assigned = make(map[string]bool, len(cl.PlatformComponents))
			for _, e := range cl.PlatformComponents {
				assigned[e.ID] = true
			}
		}
		for _, dep := range p.DependsOn {
			if !assigned[dep] {
				c.warn("component %q depends on %q, which is not assigned to cluster %q", e.ID, dep, cl.ID)
			}
		}
		if cl.Environment == "prod" && cmp.Or(e.ComponentVersion, p.ComponentVersion) == latest && cmp.Or(e.OCITag, p.OCITag) == latest {
			c.warn("component %q follows \"latest\" on cluster %q, which is prod", e.ID, cl.ID)
		}
		if p.Type == typeKustomize && len(e.ValuesFrom) > 0 {
			c.warn("values_from of component %q on cluster %q does nothing: it is of type kustomize, and has no Helm values", e.ID, cl.ID)
		}
		if p.Type == typeHelm {
			if pinned := cmp.Or(e.ComponentVersion, p.ComponentVersion); e.OCITag != "" && e.OCITag != pinned && pinned != latest {
				c.warn("oci_tag %q of component %q on cluster %q does nothing: a helm component installs its component_version, here %s; set component_version on the cluster instead", e.OCITag, e.ID, cl.ID, pinned)
			}
			// Flux keeps a release where the HelmRelease is, whatever namespace it installs into.
			if !catalog.releases[p.ReleaseName] {
				continue
			}
			if other, taken := releases[p.ReleaseName]; taken && other != e.ID {
				c.problem("/platform_components", "components %q and %q are the same Helm release %q: give one of them another release_name", other, e.ID, p.ReleaseName)
			}
			releases[p.ReleaseName] = e.ID
		}
	}
}

// patchesInvalidated: the component became another type, or its own patches, which a cluster's are laid over, are others now.
func patchesInvalidated(was, is *api.PlatformComponent) bool {
	return was.Type != is.Type || !maps.EqualFunc(was.Patches, is.Patches, jsontext.Same)
}

// warnOfReinstall says what a change of a component does to what is installed.
func warnReinstall(c *checker, was, is *api.PlatformComponent) {
	if was.Type != is.Type {
		c.warn("component %q becomes %s: on every cluster that has it, Flux removes what %s installed and installs it anew", is.ID, is.Type, was.Type)
	}
	if was.ReleaseName != is.ReleaseName || was.TargetNamespace != is.TargetNamespace {
		c.warn("component %q gets another release_name or target_namespace: on every cluster that has it, Flux uninstalls the old release and installs a new one", is.ID)
	}
}

// componentInput merges a catalog entry with one cluster's assignment and patches, as contract and docs/merge.md have
// it. on tells which components are assigned and enabled on the cluster, with their type.
func componentInput(p *api.PlatformComponent, e api.ComponentAssignment, patches api.PatchValues, on *inputContext) (api.FluxPlatformComponent, error) {
	in := api.FluxPlatformComponent{
		ID: e.ID, Enabled: e.Enabled,
		ComponentPath:     cmp.Or(e.ComponentPath, p.ComponentPath),
		ComponentVersion:  cmp.Or(e.ComponentVersion, p.ComponentVersion),
		Source:            api.FluxSource{OCIURL: p.OCIURL, OCITag: cmp.Or(e.OCITag, p.OCITag)},
		ClusterEnvEnabled: p.ClusterEnvEnabled,
		DependsOn:         p.DependsOn,
		Dependencies:      []api.FluxDependency{},
		Type:              p.Type,
		Patches:           overlayPatches(p.Patches, patches),
		ReleaseName:       p.ReleaseName, TargetNamespace: p.TargetNamespace, SecretRef: p.SecretRef,
		ValuesFrom: make([]api.FluxValuesReference, 0, len(p.ValuesFrom)+len(e.ValuesFrom)),
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
	}
	if len(problems) > 0 {
		return in, fmt.Errorf("component %q: patches%s: %s", e.ID, problems[0].Pointer, problems[0].Detail)
	}
	return in, nil
}

// deploymentOn is how a component is deployed on a cluster of an environment.
func deploymentOn(p *api.PlatformComponent, e *api.ComponentAssignment, environment string) deployment {
	return newDeployment(deployment{p.Type, p.ReleaseName, p.TargetNamespace, cmp.Or(e.ComponentPath, p.ComponentPath), p.OCIURL}, p.ClusterEnvEnabled, environment)
}

func inputDeployment(in api.FluxPlatformComponent) deployment {
	return newDeployment(deployment{in.Type, in.ReleaseName, in.TargetNamespace, in.ComponentPath, in.Source.OCIURL}, in.ClusterEnvEnabled, in.Cluster.Environment)
}

// newDeployment makes the path the one that Flux builds, which has the environment as its last part if that is asked for:
// as the templates of the cluster chart have it.
func newDeployment(d deployment, inPath bool, environment string) deployment {
	if d.Type == typeHelm {
		d.URL = "" // the same chart from elsewhere
	} else if inPath {
		d.Path = strings.TrimSuffix(d.Path, "/") + "/" + environment
	}
	return d
}

// redeployed: on whatever cluster, of whatever environment.
func redeployed(was, is *api.PlatformComponent) bool {
	return was.ClusterEnvEnabled != is.ClusterEnvEnabled && is.Type != typeHelm ||
		deploymentOn(was, &api.ComponentAssignment{}, "") != deploymentOn(is, &api.ComponentAssignment{}, "")
}

// overlayPatches is the cluster's patches of a component over those of the catalog: per path, the cluster's win.
func overlayPatches(catalog, cluster api.PatchValues) api.PatchValues {
	merged := make(api.PatchValues, len(catalog)+len(cluster))
	maps.Copy(merged, catalog)
	for path, value := range cluster {
		if value == nil { // a layer says that nobody below it says it
			delete(merged, path)
			continue
		}
		merged[path] = value
	}
	return merged
}
