package fleet

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/overlay"
)

// usageIDs is the maximum number of clusters that a usage names for each variant.
const usageIDs = 100

// HasInput reports whether the desired state of a cluster has an input; false for a list that is not visible.
func (s *State) HasInput(cluster *Document, list, id string) bool {
	a := s.kinds.byEndpoint[list]
	if a == nil {
		return false
	}
	for has := range a.entries(s.Effective(cluster)) {
		if has == id {
			return true
		}
	}
	return false
}

// DefinitionsOf yields the definitions that a cluster refers to, which need not exist.
func (s *State) DefinitionsOf(cluster *Document) iter.Seq[DocumentName] {
	return func(yield func(DocumentName) bool) {
		e := s.Effective(cluster)
		for _, a := range s.kinds.lists {
			for id := range a.entries(e) {
				if !yield(DocumentName{a.kind, id}) {
					return
				}
			}
		}
	}
}

// LayerIDs returns the ids of the layers that match a cluster, by rising priority.
func (s *State) LayerIDs(cluster *Document) []string { return s.Effective(cluster).layerIDs() }

// running returns the variant of a component that a cluster runs: the settings of the cluster or a layer, or else of the
// catalog.
func running(p *api.PlatformComponent, e *api.ComponentAssignment) api.ComponentVariant {
	return api.ComponentVariant{
		ComponentVersion: cmp.Or(e.ComponentVersion, p.ComponentVersion),
		OCITag:           cmp.Or(e.OCITag, p.OCITag),
		ComponentPath:    cmp.Or(e.ComponentPath, p.ComponentPath),
	}
}

// Running returns the variant of a component that a cluster runs; not ok if the component is not assigned to it.
func (s *State) Running(cluster *Document, component string) (runs api.ComponentVariant, ok bool) {
	e := s.Effective(cluster)
	doc, present := s.definition(e, KindComponent, component)
	if !present {
		return runs, false
	}
	entries := e.Cluster().PlatformComponents
	at := slices.IndexFunc(entries, func(e api.ComponentAssignment) bool { return e.ID == component })
	if at < 0 {
		return runs, false
	}
	return running(doc.Component(), &entries[at]), true
}

// DeclaresImage reports whether an enabled component of a cluster has an image or artifact: as NAME, NAME:TAG, :TAG, NAME@DIGEST or DIGEST.
// Of a digest the algorithm and seven digits are enough.
func (s *State) DeclaresImage(cluster *Document, image string) bool {
	is := func(name, tag, digest string) bool {
		rest, named := strings.CutPrefix(image, name)
		begins := func(text string) bool { return len(text) >= len("sha256:1234567") && strings.HasPrefix(digest, text) }
		of, at := strings.CutPrefix(rest, "@")
		return named && rest == "" || tag != "" && (named && rest == ":"+tag || image == ":"+tag) || named && at && begins(of) || begins(image)
	}
	e := s.Effective(cluster)
	entries := e.Cluster().PlatformComponents
	for i := range entries {
		doc, present := s.definition(e, KindComponent, entries[i].ID)
		if !present || !entries[i].Enabled {
			continue
		}
		p, runs := doc.Component(), running(doc.Component(), &entries[i])
		_, artifact, _ := strings.Cut(p.OCIURL, "://")
		if digest := digestOver(p.OCIDigest, &entries[i]); is(artifact, runs.ComponentVersion, digest) || is(artifact, runs.OCITag, digest) {
			return true
		}
		for _, one := range imagesOver(p.Images, entries[i].Images) {
			if is(one.Name, one.NewTag, one.Digest) || one.NewName != "" && is(one.NewName, one.NewTag, one.Digest) {
				return true
			}
		}
	}
	return false
}

// ClusterComponent is a component of a cluster's desired state.
type ClusterComponent struct {
	ID, ComponentVersion, OCITag string
	// Deviates: the cluster's own document sets another version or tag than its layers, or else the catalog.
	Deviates bool
}

// Components yields the components of a cluster, in the order of its inputs.
func (s *State) Components(cluster *Document) iter.Seq[ClusterComponent] {
	return func(yield func(ClusterComponent) bool) {
		e := s.Effective(cluster)
		deviating := s.deviatingComponents(s.configured(cluster)) // a pin keeps settings, not who set them
		entries, components := e.Cluster().PlatformComponents, s.docs[KindComponent]
		for i := range entries {
			one := ClusterComponent{ID: entries[i].ID, Deviates: slices.Contains(deviating, entries[i].ID)}
			doc, present := components[one.ID]
			if e.chain != nil && e.chain.overlay != nil { // a rollout may have another one
				doc, present = s.definition(e, KindComponent, one.ID)
			}
			if present {
				runs := running(doc.Component(), &entries[i])
				one.ComponentVersion, one.OCITag = runs.ComponentVersion, runs.OCITag
			}
			if !yield(one) {
				return
			}
		}
	}
}

// deviatingComponents returns the components of which the cluster's own document sets another version or tag than its layers, or else
// the catalog.
func (s *State) deviatingComponents(e *Effective) (ids []string) {
	own := e.withoutLayers().Cluster().PlatformComponents
	for i := range own {
		if own[i].ComponentVersion == "" && own[i].OCITag == "" {
			continue
		}
		doc, present := s.definition(e, KindComponent, own[i].ID)
		if !present {
			continue
		}
		inherited := api.ComponentAssignment{}
		if e.chain != nil {
			if entry, ok := e.chain.lists[KindComponent].(*overlay.Merged[api.ComponentAssignment]).Entry(own[i].ID); ok {
				inherited = entry.Value
			}
		}
		without := running(doc.Component(), &inherited)
		if own[i].ComponentVersion != "" && own[i].ComponentVersion != without.ComponentVersion || own[i].OCITag != "" && own[i].OCITag != without.OCITag {
			ids = append(ids, own[i].ID)
		}
	}
	return ids
}

// InputSources returns the documents that determine an input of a cluster: its definition, the cluster, the layers that match it, and the
// rollouts that reach it.
func (s *State) InputSources(cluster *Document, list, id string) []*Document {
	e := s.Effective(cluster)
	docs := []*Document{cluster}
	if kind, ok := s.PolledAt(list); ok {
		if doc, ok := s.definition(e, kind, id); ok {
			docs = append(docs, doc)
		}
	}
	if e.chain != nil {
		docs = append(docs, e.chain.layers...)
	}
	return append(docs, e.rolloutsOn()...)
}

// Usage returns the clusters that run a component, grouped by variant, the most used first. CodeNotFound if there is no such
// component.
func (s *State) Usage(component string) (api.ComponentUsage, error) {
	if _, err := s.Find(KindComponent, component); err != nil {
		return api.ComponentUsage{}, err
	}
	type variant struct{ version, tag, path string }
	found := map[variant]*api.ComponentVariant{}
	usage := api.ComponentUsage{ID: component, Variants: []api.ComponentVariant{}}
	for _, cluster := range s.All(KindCluster) {
		has := s.Effective(cluster)
		doc, _ := s.definition(has, KindComponent, component)
		c := has.Cluster()
		at := slices.IndexFunc(c.PlatformComponents, func(e api.ComponentAssignment) bool { return e.ID == component })
		if at < 0 {
			continue
		}
		e := &c.PlatformComponents[at]
		runs := running(doc.Component(), e)
		key := variant{runs.ComponentVersion, runs.OCITag, runs.ComponentPath}
		v := found[key]
		if v == nil {
			v = &runs
			v.Environments, v.ClusterIds = map[string]int{}, []string{}
			found[key] = v
		}
		usage.Clusters++
		v.Clusters++
		v.Environments[c.Environment]++
		if !e.Enabled {
			usage.Disabled++
			v.Disabled++
		}
		if e.ComponentVersion != "" || e.OCITag != "" || e.ComponentPath != "" {
			v.Overriding++
		}
		if len(c.Patches[component]) > 0 {
			v.Patched++
		}
		if len(v.ClusterIds) < usageIDs {
			v.ClusterIds = append(v.ClusterIds, c.ID)
		}
	}
	for _, v := range slices.SortedFunc(maps.Values(found), func(a, b *api.ComponentVariant) int {
		return cmp.Or(cmp.Compare(b.Clusters, a.Clusters), cmp.Compare(a.ComponentVersion, b.ComponentVersion), cmp.Compare(a.OCITag, b.OCITag), cmp.Compare(a.ComponentPath, b.ComponentPath))
	}) {
		usage.Variants = append(usage.Variants, *v)
	}
	return usage, nil
}
