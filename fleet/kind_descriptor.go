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

// descriptor is a kind of definition with its type parameters erased, so that all kinds fit into one list.
type descriptor struct {
	kind           Kind
	field          string
	endpoint       string
	idField        string
	seedAlias      string
	addedLater     bool
	typed          bool
	typeDoc        *Document
	slot           int // index of its answers in a cluster's cache; -1: they are found by this pointer
	rules          kindRules
	idFrom         func(op *api.Operation) string
	normalizeEntry func(entry map[string]any)
	checkEntries   func(c *checker, on *clusterCheck)

	eachID  func(of *Effective) iter.Seq[string] // yields the ids of a cluster's list, in order
	count   func(of *Effective) int
	missing func(of *Effective) bool // the list is nil
	// entries yields the ids of a cluster's list, in order, and whether each is enabled.
	entries func(of *Effective) iter.Seq2[string, bool]
	clear   func(of *Effective) // makes the list empty
	// enabled reports whether an entry is enabled, and whether it is present.
	enabled func(of *Effective, id string) (enabled, present bool)
	merger  listMerger

	// buildInputs builds the inputs of a cluster's list from the list's definitions; with only, just these.
	buildInputs func(on *inputContext, definitions []*Document, only map[string]bool) ([]input, error)
	// splitCluster splits an input into the part that does not depend on the cluster, and the cluster block.
	splitCluster func(in any) (any, api.FluxCluster)
	// changedEntries returns the ids of entries that differ, and of those that were added, removed, enabled or disabled.
	changedEntries func(was, is *Effective) (ids, toggled map[string]bool)
	// enabledCount returns the number of enabled entries.
	enabledCount func(of *Effective) int
	// appendInstallations appends the enabled entries as installations.
	appendInstallations func(out []installation, s *State, of *Effective) []installation
	// identical: both lists share memory, or both are empty.
	identical func(a, b *Effective) bool
	// sameDeployments: two clusters of one environment have the same entries, with the same deployment as far as the entries
	// determine it.
	sameDeployments func(a, b *Effective) bool

	dependsOn  func(d *Document) []string
	redeployed func(was, is *Document) bool
	uninstalls func(before, after any) bool
	mayBeKept  bool // Flux may keep the object of a removed entry
	kept       func(d *Document, now time.Time) bool

	hasOverrides bool // settings of clusters add to the size of an input
	sizeFromType bool
	size         func(cluster *api.Cluster) int
	overriddenOn func(cluster *api.Cluster, id string) bool
	invalidates  func(was, is *Document) bool
	recheck      func(c *checker, on *Effective, id string)
}

// verbSuffix returns the second part of the names of its batch operations: "namespace" in assign_namespace.
func (a *descriptor) verbSuffix() string { return strings.TrimSuffix(a.idField, "_id") }

// pointer returns the JSON pointer to the list in a cluster's document, or to a part of it.
func (a *descriptor) pointer(parts ...any) string {
	if a.typed {
		return jsontext.Pointer("resources", a.field) + jsontext.Pointer(parts...)
	}
	return jsontext.Pointer(a.field) + jsontext.Pointer(parts...)
}

// listParent returns the object that contains the list in a cluster's object; nil if there is none, or it has a wrong type.
func (a *descriptor) listParent(obj map[string]any) map[string]any {
	if a.typed {
		obj, _ = obj["resources"].(map[string]any)
	}
	return obj
}

// entriesIn returns the list in a cluster's object.
func (a *descriptor) entriesIn(obj map[string]any) []any {
	entries, _ := a.listParent(obj)[a.field].([]any)
	return entries
}

// openEntries returns the list in a cluster's opened object. It parses only entries that may have the id: all others stay
// Text.
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

// setEntries replaces the list in a cluster's object.
func (a *descriptor) setEntries(obj map[string]any, entries []any) {
	if a.typed && a.listParent(obj) == nil {
		obj["resources"] = map[string]any{}
	}
	a.listParent(obj)[a.field] = entries
}

// overrideBound returns an upper bound, in bytes, of the size that a cluster's settings add to its answer.
func (a *descriptor) overrideBound(d *Effective) int {
	switch {
	case !a.hasOverrides:
		return 0
	case a.sizeFromType:
		return a.size(d.cluster)
	}
	return d.bound
}

// ids returns the ids of a cluster's list.
func (a *descriptor) ids(c *Effective) []string {
	return slices.AppendSeq(make([]string, 0, a.count(c)), a.eachID(c))
}

// hasAny reports whether a cluster has one of some definitions.
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

// excludedIDs returns the ids that a cluster's document excludes from its layers.
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

// removeFromLayer removes an entry, and all settings of its definition, from a layer's object.
func (a *descriptor) removeFromLayer(obj map[string]any, id string) map[string]any {
	a.setEntries(obj, slices.DeleteFunc(slices.Clone(a.entriesIn(obj)), unstructured.HasID(id)))
	if a.kind == KindComponent {
		for _, field := range []string{"overrides", "patches"} {
			settings, _ := obj[field].(map[string]any)
			delete(settings, id)
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
