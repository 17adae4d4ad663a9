package fleet

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// assigned is a definition whatever its models are.
type descriptor struct {
	kind           Kind
	field          string
	endpoint       string
	idField        string
	seedAlias      string
	addedLater     bool
	typed          bool
	typeDoc        *Document
	slot           int // of its answers in a cluster's document; -1: they are found by this very value
	rules          kindRules
	idFrom         func(op *api.Operation) string
	normalizeEntry func(entry map[string]any)
	checkEntries   func(c *checker, on *clusterCheck)

	eachID  func(of *Effective) iter.Seq[string] // the ids of a cluster's list, in order
	count   func(of *Effective) int
	missing func(of *Effective) bool // the list is not there
	// entries are the ids of a cluster's list, in order, and whether each is enabled.
	entries func(of *Effective) iter.Seq2[string, bool]
	clear   func(of *Effective) // makes it empty
	// switched is whether an entry is enabled, and whether it is there.
	enabled func(of *Effective, id string) (enabled, there bool)
	merger  listMerger

	// inputs are those of a cluster's list that only names, all when it is nil, made of the list's definitions.
	buildInputs func(on *inputContext, definitions []*Document, only map[string]bool) ([]input, error)
	// apart is what an input is on any cluster, and the cluster.
	splitCluster func(in any) (any, api.FluxCluster)
	// reassigned are the ids of entries that differ, and those that came, went, or were switched on or off.
	changedEntries func(was, is *Effective) (ids, toggled map[string]bool)
	// installs is how many entries a cluster is told to have.
	enabledCount func(of *Effective) int
	// wanted adds what a cluster is told to have.
	appendInstallations func(out []installation, s *State, of *Effective) []installation
	// identical: the list is the same one in memory, or both are empty.
	identical func(a, b *Effective) bool
	// alike: two clusters of one environment are told to have the same, deployed in the same way as far as they say.
	sameDeployments func(a, b *Effective) bool

	dependsOn  func(d *Document) []string
	redeployed func(was, is *Document) bool
	uninstalls func(before, after any) bool
	mayBeKept  bool // Flux may keep one that is taken off
	kept       func(d *Document, now time.Time) bool

	hasOverrides bool // clusters add to the size of an input
	sizeFromType bool
	size         func(cluster *api.Cluster) int
	overriddenOn func(cluster *api.Cluster, id string) bool
	invalidates  func(was, is *Document) bool
	recheck      func(c *checker, on *Effective, id string)
}

// stem is what its verbs end with.
func (a *descriptor) verbSuffix() string { return strings.TrimSuffix(a.idField, "_id") }

// pointer leads to the list in a cluster's document, or to something in it.
func (a *descriptor) pointer(parts ...any) string {
	if a.typed {
		return jsontext.Pointer("resources", a.field) + jsontext.Pointer(parts...)
	}
	return jsontext.Pointer(a.field) + jsontext.Pointer(parts...)
}

// holder is what has the list in a cluster's object; nil when there is no such thing, or it is of a wrong shape.
func (a *descriptor) listParent(obj map[string]any) map[string]any {
	if a.typed {
		obj, _ = obj["resources"].(map[string]any)
	}
	return obj
}

// entriesIn is the list in a cluster's object.
func (a *descriptor) entriesIn(obj map[string]any) []any {
	entries, _ := a.listParent(obj)[a.field].([]any)
	return entries
}

// openEntries is the list in a cluster's opened object. Of its entries that are objects only those are taken apart which may
// have the id: all others stay Text.
func (a *descriptor) openEntries(obj map[string]any, id string) ([]any, error) {
	if a.typed {
		if _, err := unstructured.OpenField(obj, "resources"); err != nil {
			return nil, err
		}
	}
	if holder := a.listParent(obj); holder != nil {
		if _, err := unstructured.OpenField(holder, a.field); err != nil {
			return nil, err
		}
	}
	entries := a.entriesIn(obj)
	quoted, err := jsontext.Canonical(id)
	if err != nil {
		return nil, err
	}
	for i, item := range entries {
		text, ok := item.(jsontext.Text)
		if !ok || !bytes.Contains(text, quoted) && bytes.IndexByte(text, '\\') < 0 {
			continue
		}
		entry, err := jsontext.Open(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.field, err)
		}
		entries[i] = entry
	}
	return entries, nil
}

// setEntries puts a list into a cluster's object.
func (a *descriptor) setEntries(obj map[string]any, entries []any) {
	if a.typed && a.listParent(obj) == nil {
		obj["resources"] = map[string]any{}
	}
	a.listParent(obj)[a.field] = entries
}

// ownBound is what a cluster's own words add at most to its answer.
func (a *descriptor) overrideBound(d *Effective) int {
	switch {
	case !a.hasOverrides:
		return 0
	case a.sizeFromType:
		return a.size(d.cluster)
	}
	return d.bound
}

// ids is each as a list.
func (a *descriptor) ids(c *Effective) []string {
	return slices.AppendSeq(make([]string, 0, a.count(c)), a.eachID(c))
}

// hasAny tells whether a cluster is assigned one of some definitions.
func (a *descriptor) hasAny(c *Effective, ids map[string]bool) bool {
	if len(ids) == 0 {
		return false
	}
	for have := range a.eachID(c) {
		if ids[have] {
			return true
		}
	}
	return false
}

// excludedOn are the ids that a cluster's document refuses of its layers.
func (a *descriptor) excludedIDs(own *Effective) []string {
	switch {
	case own.cluster.Excludes == nil:
		return nil
	case a.typed:
		return own.cluster.Excludes.Resources[a.field]
	case a.merger.excluded != nil:
		return a.merger.excluded(own)
	}
	return nil
}

// forgottenBy takes all that a layer's object says about a definition out of it.
func (a *descriptor) removeFromLayer(obj map[string]any, id string) map[string]any {
	a.setEntries(obj, slices.DeleteFunc(slices.Clone(a.entriesIn(obj)), unstructured.HasID(id)))
	if a.kind == KindComponent {
		for _, field := range []string{"overrides", "patches"} {
			said, _ := obj[field].(map[string]any)
			delete(said, id)
		}
	}
	return obj
}

// layerDiffers reports whether two versions of a layer differ in anything about a definition.
func (a *descriptor) layerDiffers(was, is *Document, id string) bool {
	about := func(d *Document) (all []string) {
		obj, err := ParseObject(d.Body)
		if err != nil {
			return []string{string(d.Body)} // it is only to be shown
		}
		for _, entry := range a.entriesIn(obj) {
			if unstructured.HasID(id)(entry) {
				all = append(all, fmt.Sprint(entry))
			}
		}
		if a.kind == KindComponent {
			for _, field := range []string{"overrides", "patches"} {
				set, _ := obj[field].(map[string]any)
				all = append(all, fmt.Sprint(set[id]))
			}
		}
		return all
	}
	return !slices.Equal(about(was), about(is))
}
