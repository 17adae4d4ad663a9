package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gosimple/slug"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/helmvalues"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// adviseInputs is Flux Operator's default filter.limit.
const adviseInputs = 100

// normalizeCluster sets defaults, and converts a cluster's object to its stored form.
func (ks *kindSet) normalizeCluster(obj map[string]any) {
	unstructured.DropEmpty(obj, "cluster_name")
	unstructured.SetDefault(obj, "cluster_name", obj["id"])
	unstructured.SetDefault(obj, "labels", map[string]any{})
	unstructured.SetDefault(obj, "patches", map[string]any{})
	unstructured.SetDefault(obj, "deletion_protection", false)
	if pinned, ok := obj["pinned"].(map[string]any); ok {
		unstructured.DropEmpty(pinned, "until")
	}
	if dns, ok := obj["cluster_dns"].(string); ok {
		obj["cluster_dns"] = lowerASCII(dns)
	}
	for _, a := range ks.lists {
		unstructured.SetDefault(obj, a.field, []any{})
		normalizeEntries(a.entriesIn(obj), a.normalizeEntry)
	}
	normalizeResources(obj)
	ks.normalizeExcludes(obj)
	patches, _ := obj["patches"].(map[string]any)
	for id, p := range patches {
		values, ok := p.(map[string]any)
		if helmvalues.NormalizeNulls(values); p == nil || ok && len(values) == 0 {
			delete(patches, id)
		}
	}
	if owners, ok := obj["patch_owners"].(map[string]any); ok && len(owners) == 0 {
		delete(obj, "patch_owners")
	}
}

// normalizeEntries normalizes the entries of a list that are objects.
func normalizeEntries(entries []any, normalize func(map[string]any)) {
	for _, e := range entries {
		if entry, ok := e.(map[string]any); ok && normalize != nil {
			normalize(entry)
		}
	}
}

// normalizeResources omits empty lists of resource types, whether or not the types exist, so that documents of clusters
// without such resources have the same form as before resource types existed.
func normalizeResources(obj map[string]any) {
	resources, ok := obj["resources"].(map[string]any)
	for id := range resources {
		unstructured.DropEmptyList(resources, id)
		entries, _ := resources[id].([]any)
		normalizeEntries(entries, normalizeResourceEntry)
	}
	if obj["resources"] == nil || ok && len(resources) == 0 {
		delete(obj, "resources")
	}
}

// checkCluster checks a cluster's document and its effective configuration.
func checkCluster(c *checker, d *Document) {
	cl, ks := d.Cluster(), c.next.kinds
	on := &clusterCheck{own: cl, effective: c.next.configured(d)}
	// No object on a cluster is named after its id, so the id may have dots, as long as a selector can contain it.
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
	for _, key := range []string{"id", "environment"} {
		if _, has := cl.Labels[key]; has {
			c.problem("/labels/"+key, "selectors read the cluster's field %s by this name, never the label: choose another key", key)
		}
	}
	c.variables(cl.Variables, func(f *freeze) bool { return f.matches(cl) })
	if p := cl.Pinned; p != nil {
		c.required("/pinned/reason", p.Reason)
		c.text("/pinned/reason", p.Reason, 1024)
		if p.Until != nil && !c.next.At().Before(*p.Until) {
			c.warn("cluster %q is unpinned at once: until has passed already, at %s", cl.ID, p.Until.UTC().Format(time.RFC3339))
		}
	}
	if c.alreadyValid {
		return
	}
	for _, id := range sortedKeys(cl.Resources) {
		if ks.descriptor(ResourceKind(id)) == nil {
			c.problem(jsontext.Pointer("resources", id), "there is no resource type %q", id)
		}
	}
	for _, a := range ks.lists {
		checkAmount(c, on.effective, a)
		checkIDs(c, a, a.ids(d.own))
	}
	for _, a := range ks.lists {
		if a.checkEntries != nil {
			a.checkEntries(c, on)
		}
	}
	checkExcludes(c, d)
}

// checkEffective checks the effective configuration of a cluster with an unchanged document.
func checkEffective(c *checker, has *Effective) {
	for _, a := range c.next.kinds.lists {
		checkAmount(c, has, a)
	}
	for _, a := range c.next.kinds.lists {
		if a.checkEntries != nil {
			a.checkEntries(c, &clusterCheck{effective: has})
		}
	}
}

// checkAmount checks the number of inputs in one list against the limit, and warns above Flux Operator's default.
func checkAmount(c *checker, has *Effective, a *descriptor) {
	n := a.count(has)
	if n > MaxInputs {
		c.limitOf(n, a.pointer(), "cluster %q would have %d %s; at most %d are served", has.id, n, a.field, MaxInputs)
	}
	if n > adviseInputs {
		c.warn("cluster %q has more than %d %s: its provider needs filter.limit, or Flux cuts the list there and removes the rest", has.id, adviseInputs, a.field)
	}
}

// checkIDs checks that the definitions of a list exist, and are listed once.
func checkIDs(c *checker, a *descriptor, ids []string) {
	seen := make(map[string]bool, len(ids))
	for i, id := range ids {
		if c.full() {
			return
		}
		if seen[id] {
			c.problem(a.pointer(i, "id"), "%q is listed twice", id)
		}
		seen[id] = true
		if _, ok := c.next.Get(a.kind, id); !ok {
			c.problem(a.pointer(i, "id"), "there is no %s %q", a.rules.noun, id)
		}
	}
}

// warnLayersChanged warns that other layers match a cluster than before: its labels decide on its configuration.
func warnLayersChanged(c *checker, before, after *Document) {
	if c.base == nil || after.Deleted() || before.Deleted() {
		return
	}
	was, is := c.base.configured(before).layerIDs(), c.next.configured(after).layerIDs()
	var moves []string
	for _, m := range []struct {
		verb string
		ids  []string
	}{{"joins", missing(is, was)}, {"leaves", missing(was, is)}} {
		ids := slices.DeleteFunc(m.ids, func(id string) bool { return !c.base.Has(KindLayer, id) || !c.next.Has(KindLayer, id) })
		if len(ids) > 0 {
			moves = append(moves, fmt.Sprintf("%s %s", m.verb, list(ids)))
		}
	}
	if len(moves) > 0 {
		c.warn("cluster %q %s: its configuration changes with its layers", after.ID, strings.Join(moves, " and "))
	}
}

// changedCluster checks the consequences of a change of a cluster's document.
func changedCluster(c *checker, before, after *Document) {
	checkRename(c, before, after)
	warnLayersChanged(c, before, after)
	warnStagesChanged(c, before, after)
}

// checkRename checks clusters that change their name.
func checkRename(c *checker, before, after *Document) {
	if after.Deleted() || before.Deleted() {
		return
	}
	was, is := before.Cluster(), after.Cluster()
	if was.ClusterDNS == is.ClusterDNS {
		return
	}
	if c.base != nil && c.base.configured(before).cluster.DeletionProtection {
		c.problem("/cluster_dns", "deletion_protection is on: clear it in a change of its own before giving the cluster another DNS name")
		return
	}
	if other, ok := c.next.ByDNS(was.ClusterDNS); ok {
		c.warn("cluster %q is now polled as %q; the old name %q is answered with what cluster %q has, and Flux removes there what that one has not", is.ID, is.ClusterDNS, was.ClusterDNS, other.ID)
		return
	}
	c.warn("cluster %q is now polled as %q; the old name %q answers 404 from now on, and what Flux installed under it stays as it is", is.ID, is.ClusterDNS, was.ClusterDNS)
}

// dropOrphanedPatches removes the patches of each component that a change unassigns, unless a layer assigns the component.
// It keeps patches that the same change adds or edits: their author wants them, so the validation must refuse the change
// instead of ignoring them. It also keeps the patches of a component that only a layer assigned: they take effect again as
// soon as a layer assigns the component again.
func dropOrphanedPatches(before *api.Cluster, obj map[string]any, on map[string]bool) error {
	patches, _ := obj["patches"].(map[string]any)
	entries, _ := obj["platform_components"].([]any)
	for _, e := range entries {
		if _, id, ok := unstructured.Entry(e); ok {
			on[id] = true
		}
	}
	for id, p := range patches {
		old, had := before.Patches[id]
		if on[id] || !had || !isAssigned(before, id) {
			continue
		}
		now, err := jsontext.Canonical(p)
		if err != nil {
			return err
		}
		was, err := jsontext.Canonical(old)
		if err != nil {
			return err
		}
		if string(now) == string(was) {
			delete(patches, id)
		}
	}
	return nil
}

// normalizeExcludes removes empty lists, and excludes without lists.
func (ks *kindSet) normalizeExcludes(obj map[string]any) {
	excludes, ok := obj["excludes"].(map[string]any)
	if ok {
		for _, a := range ks.lists[:ks.compiledCount] {
			if a.excluded != nil {
				unstructured.DropEmptyList(excludes, a.field)
			}
		}
		resources, isObject := excludes["resources"].(map[string]any)
		for id := range resources {
			unstructured.DropEmptyList(resources, id)
		}
		if isObject && len(resources) == 0 || excludes["resources"] == nil {
			delete(excludes, "resources")
		}
	}
	if obj["excludes"] == nil || ok && len(excludes) == 0 {
		delete(obj, "excludes")
	}
}

// checkExcludes checks the exclusions of a cluster. Excluded definitions need not exist.
func checkExcludes(c *checker, d *Document) {
	x := d.Cluster().Excludes
	if x == nil {
		return
	}
	for _, a := range c.next.kinds.lists {
		excluded := a.excludedIDs(d.own)
		if c.full() || len(excluded) == 0 {
			continue
		}
		if len(excluded) > MaxInputs {
			c.problem("/excludes"+a.pointer(), "at most %d", MaxInputs)
			continue
		}
		has := map[string]bool{}
		for id := range a.entries(d.own) {
			has[id] = true
		}
		fromLayers := map[string]bool{}
		if st := c.next.configured(d).chain; st != nil {
			for _, doc := range st.layers {
				for _, id := range doc.layer().assignedIDs(a) {
					fromLayers[id] = true
				}
			}
		}
		seen := map[string]bool{}
		for i, id := range excluded {
			at := "/excludes" + a.pointer(i)
			switch {
			case c.full():
				return
			case seen[id]:
				c.problem(at, "%q is listed twice", id)
			case has[id]:
				c.problem(at, "%q is also assigned to this cluster: take it out of one of the two", id)
			case !fromLayers[id]:
				c.warn("cluster %q excludes the %s %q, which no layer assigns to it", d.ID, a.rules.noun, id)
			}
			seen[id] = true
		}
	}
}

// warnStagesChanged warns that a change of a cluster moves it between started and other stages of rollouts.
func warnStagesChanged(c *checker, before, after *Document) {
	if c.base == nil || after.Deleted() || before.Deleted() {
		return
	}
	was, is := c.base.configured(before).rolloutsOn(), c.next.configured(after).rolloutsOn()
	for _, m := range []struct {
		verb string
		ids  []string
	}{{"gets the change", missing(idsOf(is), idsOf(was))}, {"loses the change", missing(idsOf(was), idsOf(is))}} {
		for _, id := range m.ids {
			one, had := c.base.docs[KindRollout][id]
			other, has := c.next.docs[KindRollout][id]
			if had && has {
				c.warn("cluster %q moves from stage %q to stage %q of rollout %q and %s", after.ID,
					one.rollout().stageName(before.Cluster()), other.rollout().stageName(after.Cluster()), id, m.verb)
			}
		}
	}
}

// howToUnprotect returns the request that clears deletion_protection.
func (e *Effective) howToUnprotect() string {
	if e.withoutLayers().cluster.DeletionProtection {
		return fmt.Sprintf("PATCH /clusters/%s {\"deletion_protection\": false}", e.id)
	}
	for _, d := range slices.Backward(e.chain.layers) {
		if d.layer().DeletionProtection != nil {
			return fmt.Sprintf("PATCH /layers/%s {\"deletion_protection\": null}", d.ID)
		}
	}
	return ""
}

// protectedError refuses to delete the cluster.
func (e *Effective) protectedError() *Error {
	return errorf(CodeProtected, "cluster %q has deletion_protection; clear it first: %s", e.id, e.howToUnprotect())
}
