package fleet

// A few labels create many combinations of layers that clusters match, and each combination is cached in merged form: a
// small change of a layer that all of them contain could fill the memory of every process. These limits prevent that.
const (
	// maxChainEntries limits the entries and patch paths of layers, summed over the combinations that clusters match. Each
	// takes some 300 bytes, twice while a layer changes.
	maxChainEntries = 500_000
	// maxMergedEntries limits the entries that are merged with settings of clusters in the same lists, summed over these
	// clusters. Each takes up to 100 bytes.
	maxMergedEntries = 4_000_000
)

// layerMatch are the layers that match a cluster.
type layerMatch struct {
	layers        []*Document
	key           string // see chainKey; with an overlay, it ends with its rollouts
	mergedEntries int
	overlay       *Overlay
	facts         *facts // nil: the cluster has no references
}

// costCounter computes a layerCost before anything is merged.
type costCounter struct {
	layerCost
	chains map[string][]*Document
}

// add adds the cost of one cluster; key is the chainKey of its layers.
func (s *costCounter) add(layers []*Document, key string, merged int) {
	if len(layers) == 0 {
		return
	}
	s.mergedEntries += merged
	if s.chains[key] != nil {
		return
	}
	s.chains[key] = layers
	for _, d := range layers {
		s.chainEntries += d.layer().entryCount()
	}
}

// check refuses a cost above the limits, unless it was no smaller before. Each rollout that delivers can divide the clusters of a
// combination in two.
func (s *costCounter) check(was layerCost, delivering []*Document) error {
	remedy := "remove entries from it, or let it or other layers match by fewer different labels"
	if len(delivering) > 0 {
		remedy += ", or first complete or abort some of the rollouts " + list(idsOf(delivering)) + ", which multiply the combinations"
	}
	switch {
	case s.chainEntries > maxChainEntries && s.chainEntries > was.chainEntries:
		top, on := s.largest()
		return errorf(CodeLimitExceeded, "clusters match %s of layers, which would have %d entries and patch paths in all (before: %d); at most %d are possible. Most of it is layer %q, with %d in %d of them: %s", plural(len(s.chains), "combination"), s.chainEntries, was.chainEntries, maxChainEntries, top.ID, top.layer().entryCount(), on, remedy)
	case s.mergedEntries > maxMergedEntries && s.mergedEntries > was.mergedEntries:
		return errorf(CodeLimitExceeded, "clusters would have %d entries of layers in lists that have settings of their own (before: %d); at most %d are possible: "+
			"remove entries from layers that match such clusters, or from the clusters", s.mergedEntries, was.mergedEntries, maxMergedEntries)
	}
	return nil
}

// largest returns the layer that contributes most, and the number of chains that contain it.
func (s *costCounter) largest() (most *Document, on int) {
	in := map[*Document]int{}
	for _, layers := range s.chains {
		for _, d := range layers {
			in[d]++
		}
	}
	for d, n := range in {
		if most == nil || n*d.layer().entryCount() > on*most.layer().entryCount() || n*d.layer().entryCount() == on*most.layer().entryCount() && d.ID < most.ID {
			most, on = d, n
		}
	}
	return most, on
}

// entryCount returns the number of entries and patch paths of a layer.
func (l *layer) entryCount() int {
	n := len(l.componentDefaults)
	for _, entries := range l.entryCounts {
		n += entries
	}
	for _, paths := range l.Patches {
		n += len(paths)
	}
	return n
}
