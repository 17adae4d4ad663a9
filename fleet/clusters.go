package fleet

import (
	"slices"
	"strings"

	"github.com/gosimple/slug"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// MaxInputs is how many inputs one answer may have: every provider we ship sets filter.limit to this, and what is
// beyond it Flux cuts off silently and removes.
const MaxInputs = 10_000

// adviseInputs is Flux Operator's own default filter.limit.
const adviseInputs = 100

var clusterKind = kindRules{
	name:      KindCluster,
	noun:      "cluster",
	empty:     func() any { return new(api.Cluster) },
	normalize: normalizeCluster,
	check:     checkCluster,
	bound:     func(v any) int { return clusterBound(v.(*api.Cluster)) },
}

func normalizeCluster(obj map[string]any) {
	dropEmpty(obj, "cluster_name")
	setDefault(obj, "cluster_name", obj["id"])
	setDefault(obj, "labels", map[string]any{})
	setDefault(obj, "platform_components", []any{})
	setDefault(obj, "namespaces", []any{})
	setDefault(obj, "rolebindings", []any{})
	setDefault(obj, "patches", map[string]any{})
	setDefault(obj, "deletion_protection", false)
	if dns, ok := obj["cluster_dns"].(string); ok {
		obj["cluster_dns"] = strings.ToLower(dns)
	}
	entries, _ := obj["platform_components"].([]any)
	for _, e := range entries {
		if entry, ok := e.(map[string]any); ok {
			normalizeAssignment(entry)
		}
	}
	patches, _ := obj["patches"].(map[string]any)
	for id, p := range patches {
		if values, ok := p.(map[string]any); p == nil || ok && len(values) == 0 {
			delete(patches, id)
		}
	}
	if owners, ok := obj["patch_owners"].(map[string]any); ok && len(owners) == 0 {
		delete(obj, "patch_owners")
	}
}

func normalizeAssignment(entry map[string]any) {
	setDefault(entry, "enabled", true)
	dropEmpty(entry, "oci_tag", "component_path", "component_version")
	dropEmptyList(entry, "values_from")
}

// decommissioned is what is kept of a deleted cluster: enough to answer its polls with empty lists.
func decommissioned(c *api.Cluster, at string) map[string]any {
	obj := map[string]any{
		"id": c.ID, "cluster_name": c.ClusterName, "cluster_dns": c.ClusterDNS, "environment": c.Environment,
		"labels": c.Labels, "deleted_at": at,
	}
	normalizeCluster(obj)
	return obj
}

func checkCluster(c *checker, d *Document) {
	cl := d.Cluster()
	// Nothing on a cluster is called by its id, so it may have dots, as long as it can stand in a selector.
	c.dnsSubdomain("/id", cl.ID)
	if len(cl.ID) > 63 {
		c.problem("/id", "must be at most 63 characters")
	}
	if n := len([]rune(cl.ClusterName)); n > 63 || slug.Make(cl.ClusterName) == "" {
		c.problem("/cluster_name", "must be 1 to 63 characters with at least one letter or digit")
	}
	c.text("/cluster_name", cl.ClusterName, 1024)
	c.dnsSubdomain("/cluster_dns", cl.ClusterDNS)
	if envs := c.next.rules.Environments; cl.Environment != "" && len(envs) > 0 && !slices.Contains(envs, cl.Environment) {
		c.problem("/environment", "%q is not an environment here; use one of %s", cl.Environment, strings.Join(envs, ", "))
	}
	c.required("/environment", cl.Environment)
	c.labels("/labels", cl.Labels)
	for _, a := range assignments {
		checkAssignments(c, cl, a)
	}
	for i, e := range cl.PlatformComponents {
		if e.OCITag == "" && e.ComponentPath == "" && e.ComponentVersion == "" && len(e.ValuesFrom) == 0 {
			continue
		}
		at := pointer("platform_components", i)
		c.text(at+"/oci_tag", e.OCITag, 253)
		c.text(at+"/component_path", e.ComponentPath, 1024)
		c.text(at+"/component_version", e.ComponentVersion, 253)
		c.valuesFrom(at+"/values_from", e.ValuesFrom)
	}
	for _, id := range sortedKeys(cl.Patches) {
		checkClusterPatches(c, cl, id)
	}
	adviseCluster(c, cl)
}

func checkAssignments(c *checker, cl *api.Cluster, a assigned) {
	ids := a.ids(cl)
	if len(ids) > MaxInputs {
		c.limitOf(len(ids), pointer(a.field), "cluster %q would have %d %s; at most %d are served", cl.ID, len(ids), a.field, MaxInputs)
	}
	if len(ids) > adviseInputs {
		c.warn("cluster %q has more than %d %s: its provider needs filter.limit, or Flux cuts the list there and removes the rest", cl.ID, adviseInputs, a.field)
	}
	seen := make(map[string]bool, len(ids))
	for i, id := range ids {
		if seen[id] {
			c.problem(pointer(a.field, i, "id"), "%q is listed twice", id)
		}
		seen[id] = true
		if _, ok := c.next.Get(a.kind, id); !ok {
			c.problem(pointer(a.field, i, "id"), "there is no %s %q", nouns[a.kind], id)
		}
	}
}

// checkClusterPatches checks one component's patches, alone and together with the catalog's.
func checkClusterPatches(c *checker, cl *api.Cluster, id string) {
	at := pointer("patches", id)
	if !slices.ContainsFunc(cl.PlatformComponents, func(e api.ComponentAssignment) bool { return e.ID == id }) {
		c.problem(at, "component %q is not assigned to this cluster", id)
		return
	}
	patches := cl.Patches[id]
	if patchesBound(patches) > maxPatchesBytes { // or it need not be found out
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
		if own := patchProblems(p.Type, patches); len(own) > 0 {
			problems = own
		}
	}
	c.patches(at, patches, problems)
}

// adviseCluster warns of what is allowed and probably not meant.
func adviseCluster(c *checker, cl *api.Cluster) {
	assigned := map[string]bool{}
	releases := map[string]string{}
	for _, e := range cl.PlatformComponents {
		assigned[e.ID] = true
	}
	for _, e := range cl.PlatformComponents {
		doc, ok := c.next.Get(KindComponent, e.ID)
		if !ok {
			continue
		}
		p := doc.Component()
		for _, dep := range p.DependsOn {
			if !assigned[dep] {
				c.warn("component %q depends on %q, which is not assigned to cluster %q", e.ID, dep, cl.ID)
			}
		}
		if cl.Environment == "prod" && first(e.ComponentVersion, p.ComponentVersion) == latest && first(e.OCITag, p.OCITag) == latest {
			c.warn("component %q follows \"latest\" on cluster %q, which is prod", e.ID, cl.ID)
		}
		if p.Type == typeKustomize && len(e.ValuesFrom) > 0 {
			c.warn("values_from of component %q on cluster %q does nothing: it is of type kustomize, and has no Helm values", e.ID, cl.ID)
		}
		if p.Type == typeHelm {
			if pinned := first(e.ComponentVersion, p.ComponentVersion); e.OCITag != "" && e.OCITag != pinned && pinned != latest {
				c.warn("oci_tag %q of component %q on cluster %q does nothing: a helm component installs its component_version, here %s; set component_version on the cluster instead", e.OCITag, e.ID, cl.ID, pinned)
			}
			// Flux keeps a release where the HelmRelease is, whatever namespace it installs into.
			if other, taken := releases[p.ReleaseName]; taken && other != e.ID {
				c.problem("/platform_components", "components %q and %q are the same Helm release %q: give one of them another release_name", other, e.ID, p.ReleaseName)
			}
			releases[p.ReleaseName] = e.ID
		}
	}
	for _, ref := range cl.Namespaces {
		// Whoever keeps a namespace that is taken off, or names one of Kubernetes' own, means one that is there already.
		if doc, ok := c.next.Get(KindNamespace, ref.ID); ok && doc.namespace().DeletionPolicy == policyOrphan {
			c.warn("namespace %q is adopted where it exists: Flux removes labels and annotations that kubectl, helm or kustomize set on it and its definition does not list, those of pod security and istio too; list what must stay", ref.ID)
		}
	}
}

// dropOrphanedPatches removes the patches of components that a change took off the cluster. Patches that are new or
// changed stay, for the check to refuse: they were meant for something.
func dropOrphanedPatches(before *api.Cluster, obj map[string]any) error {
	patches, _ := obj["patches"].(map[string]any)
	entries, _ := obj["platform_components"].([]any)
	on := map[string]bool{}
	for _, e := range entries {
		if _, id, ok := entryID(e); ok {
			on[id] = true
		}
	}
	for id, p := range patches {
		old, had := before.Patches[id]
		if on[id] || !had {
			continue
		}
		now, err := canonical(p)
		if err != nil {
			return err
		}
		was, err := canonical(old)
		if err != nil {
			return err
		}
		if string(now) == string(was) {
			delete(patches, id)
		}
	}
	return nil
}
